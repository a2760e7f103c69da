#pragma once
// The file calls of SQLite, passed on to runtime::Vfs, so that one machinery of faults tests them
// all. Every file is opened as those of the kernel cache are: no link is followed, and a file of
// another user, or one that others can write, is refused.
#include <memory>
#include <string>

#include "autotune/store/sqlite_library.h"
#include "runtime/vfs.h"

namespace tegula::autotune {

/// A file system of SQLite's under a name of its own, registered while it lives. Locks are those of
/// open file descriptions, at SQLite's offsets: they hold between processes and between two
/// databases of one process, and against SQLite's own programs.
class SqliteVfs {
 public:
  SqliteVfs(const SqliteApi& api, runtime::Vfs& files);
  ~SqliteVfs();
  SqliteVfs(const SqliteVfs&) = delete;
  SqliteVfs& operator=(const SqliteVfs&) = delete;

  const char* name() const { return name_.c_str(); }
  runtime::Vfs& files() const { return files_; }
  /// Why the last refused file was refused; empty if it was the system that did.
  std::string refusal;

 private:
  const SqliteApi& api_;
  runtime::Vfs& files_;
  std::string name_;
  ::sqlite3_vfs table_{};
};

}  // namespace tegula::autotune
