#pragma once
// File calls of the disk cache and of the tuner's store, which tests replace by failing ones.
// SQLite uses its own file calls.
#include <fcntl.h>

#include <cstddef>
#include <string>

#include <sys/stat.h>
#include <sys/types.h>

namespace tegula::runtime {

/// POSIX calls with their return values and errno. Paths are absolute.
class Vfs {
 public:
  virtual ~Vfs() = default;
  virtual int open(const std::string& path, int flags, mode_t mode);
  virtual int close(int file);
  virtual int stat_file(int file, struct stat* out);
  virtual int stat_path(const std::string& path,
                        struct stat* out);  ///< the link itself, not its target
  virtual ssize_t read(int file, char* to, std::size_t bytes);
  virtual ssize_t write(int file, const char* from, std::size_t bytes);
  virtual int make_folder(const std::string& path, mode_t mode);
  /// Gives an unnamed file (O_TMPFILE) a name; fails with EEXIST instead of replacing.
  virtual int link_open_file(int file, const std::string& path);
  virtual int link(const std::string& from, const std::string& to);
  virtual int rename(const std::string& from, const std::string& to);
  virtual int rename_new(const std::string& from,
                         const std::string& to);  ///< fails with EEXIST instead of replacing
  virtual int unlink(const std::string& path);
  virtual int touch(int file);  ///< sets the modification time to now
  virtual uid_t user();

  static Vfs& posix();
};

/// Returns true if a file or folder belongs to this user and is not writable by others.
bool is_private(Vfs& vfs, const struct stat& s);
/// Creates the missing parent folders of `path`, private as the XDG specification requires.
void make_parents(Vfs& vfs, const std::string& path);

}  // namespace tegula::runtime
