#pragma once
// One open file of SQLite's: reading, writing and its five levels of locks.
#include <string>

#include "autotune/store/sqlite_library.h"
#include "runtime/vfs.h"

namespace tegula::autotune {

/// Lives in memory of SQLite's, which calls xClose instead of the destructor.
struct SqliteFile : ::sqlite3_file {
  SqliteFile(runtime::Vfs& files, int descriptor, std::string path);

  int close();
  int read(char* to, int bytes, ::sqlite3_int64 at);
  int write(const char* from, int bytes, ::sqlite3_int64 at);
  int size(::sqlite3_int64* out);
  int lock(int level);
  int unlock(int level);
  int reserved_by_another(int* out);
  /// Tells whether the path names another file by now, as after the database was moved away.
  bool has_moved();

  runtime::Vfs& files;

 private:
  bool set(short type, ::sqlite3_int64 begin, ::sqlite3_int64 bytes);
  int lock_shared();
  int lock_exclusive();

  int descriptor_;
  int level_ = SQLITE_LOCK_NONE;
  std::string path_;

 public:
  int descriptor() const { return descriptor_; }
};

}  // namespace tegula::autotune
