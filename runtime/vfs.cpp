#include "runtime/vfs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace tegula::runtime {

int Vfs::open(const std::string& path, int flags, mode_t mode) {
  return ::open(path.c_str(), flags, mode);
}
int Vfs::close(int file) { return ::close(file); }
int Vfs::stat_file(int file, struct stat* out) { return ::fstat(file, out); }
int Vfs::stat_path(const std::string& path, struct stat* out) { return ::lstat(path.c_str(), out); }
ssize_t Vfs::read(int file, char* to, std::size_t bytes) { return ::read(file, to, bytes); }
ssize_t Vfs::write(int file, const char* from, std::size_t bytes) {
  return ::write(file, from, bytes);
}
int Vfs::make_folder(const std::string& path, mode_t mode) { return ::mkdir(path.c_str(), mode); }

int Vfs::link_open_file(int file, const std::string& path) {
  const std::string source = "/proc/self/fd/" + std::to_string(file);
  return ::linkat(AT_FDCWD, source.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
}

int Vfs::link(const std::string& from, const std::string& to) {
  return ::link(from.c_str(), to.c_str());
}
int Vfs::rename(const std::string& from, const std::string& to) {
  return ::rename(from.c_str(), to.c_str());
}

int Vfs::rename_new(const std::string& from, const std::string& to) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
}

int Vfs::unlink(const std::string& path) { return ::unlink(path.c_str()); }
int Vfs::touch(int file) { return ::futimens(file, nullptr); }
uid_t Vfs::user() { return ::geteuid(); }

Vfs& Vfs::posix() {
  static Vfs plain;
  return plain;
}

bool is_private(Vfs& vfs, const struct stat& s) {
  return s.st_uid == vfs.user() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void make_parents(Vfs& vfs, const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    vfs.make_folder(path.substr(0, slash), 0700);
}

}  // namespace tegula::runtime
