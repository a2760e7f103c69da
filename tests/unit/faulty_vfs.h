#pragma once
// File systems that fail, or throw, at a chosen call.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include "runtime/vfs.h"

namespace tegula::runtime {

struct OtherUser : Vfs {
  uid_t user() override { return Vfs::user() + 1; }
};

/// Fails (or throws Killed at) the n-th call.
struct Faulty : Vfs {
  struct Killed {};

  int countdown = 0;
  int code = 0;                      ///< errno; 0: throw Killed
  bool fails_from_there_on = false;  ///< all calls after the n-th fail, too
  bool no_unnamed_files = false;
  bool no_links = false;
  std::size_t chunk = SIZE_MAX;

  bool fails() {
    if (countdown == 0 || --countdown != 0) return false;
    if (code == 0) throw Killed{};
    if (fails_from_there_on) countdown = 1;
    errno = code;
    return true;
  }
  int open(const std::string& path, int flags, mode_t mode) override {
    if (no_unnamed_files && (flags & O_TMPFILE) == O_TMPFILE) {
      errno = EOPNOTSUPP;
      return -1;
    }
    return fails() ? -1 : Vfs::open(path, flags, mode);
  }
  ssize_t read(int file, char* to, std::size_t n) override {
    return fails() ? -1 : Vfs::read(file, to, std::min(n, chunk));
  }
  ssize_t write(int file, const char* from, std::size_t n) override {
    return fails() ? -1 : Vfs::write(file, from, std::min(n, chunk));
  }
  int stat_file(int file, struct stat* s) override {
    return fails() ? -1 : Vfs::stat_file(file, s);
  }
  int stat_path(const std::string& path, struct stat* s) override {
    return fails() ? -1 : Vfs::stat_path(path, s);
  }
  int make_folder(const std::string& path, mode_t mode) override {
    return fails() ? -1 : Vfs::make_folder(path, mode);
  }
  int link_open_file(int file, const std::string& path) override {
    return fails() ? -1 : Vfs::link_open_file(file, path);
  }
  int link(const std::string& a, const std::string& b) override {
    if (no_links) {
      errno = EPERM;
      return -1;
    }
    return fails() ? -1 : Vfs::link(a, b);
  }
  int rename(const std::string& a, const std::string& b) override {
    return fails() ? -1 : Vfs::rename(a, b);
  }
  int rename_new(const std::string& a, const std::string& b) override {
    return fails() ? -1 : Vfs::rename_new(a, b);
  }
  int unlink(const std::string& path) override { return fails() ? -1 : Vfs::unlink(path); }
};

}  // namespace tegula::runtime
