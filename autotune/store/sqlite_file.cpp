#include "autotune/store/sqlite_file.h"

#include <cerrno>
#include <cstring>

namespace tegula::autotune {
namespace {

// Offsets of SQLite's file format: bytes that no page may hold, so that locks touch no data.
constexpr ::sqlite3_int64 kPendingByte = 0x40000000;
constexpr ::sqlite3_int64 kReservedByte = kPendingByte + 1;
constexpr ::sqlite3_int64 kSharedBegin = kPendingByte + 2;
constexpr ::sqlite3_int64 kSharedBytes = 510;
constexpr int kSectorBytes = 4096;

SqliteFile& file_of(::sqlite3_file* f) { return *static_cast<SqliteFile*>(f); }

int x_control(::sqlite3_file* f, int op, void* argument) {
  if (op != SQLITE_FCNTL_HAS_MOVED) return SQLITE_NOTFOUND;
  *static_cast<int*>(argument) = file_of(f).has_moved();
  return SQLITE_OK;
}

const ::sqlite3_io_methods& methods() {
  static const ::sqlite3_io_methods table = [] {
    ::sqlite3_io_methods m{};
    m.iVersion = 1;  // no shared memory, no mapping
    m.xClose = [](::sqlite3_file* f) { return file_of(f).close(); };
    m.xRead = [](::sqlite3_file* f, void* to, int bytes, ::sqlite3_int64 at) {
      return file_of(f).read(static_cast<char*>(to), bytes, at);
    };
    m.xWrite = [](::sqlite3_file* f, const void* from, int bytes, ::sqlite3_int64 at) {
      return file_of(f).write(static_cast<const char*>(from), bytes, at);
    };
    m.xTruncate = [](::sqlite3_file* f, ::sqlite3_int64 bytes) {
      SqliteFile& file = file_of(f);
      return file.files.truncate(file.descriptor(), bytes) == 0 ? SQLITE_OK : SQLITE_IOERR_TRUNCATE;
    };
    m.xSync = [](::sqlite3_file* f, int) {
      SqliteFile& file = file_of(f);
      return file.files.sync(file.descriptor()) == 0 ? SQLITE_OK : SQLITE_IOERR_FSYNC;
    };
    m.xFileSize = [](::sqlite3_file* f, ::sqlite3_int64* out) { return file_of(f).size(out); };
    m.xLock = [](::sqlite3_file* f, int level) { return file_of(f).lock(level); };
    m.xUnlock = [](::sqlite3_file* f, int level) { return file_of(f).unlock(level); };
    m.xCheckReservedLock = [](::sqlite3_file* f, int* out) {
      return file_of(f).reserved_by_another(out);
    };
    m.xFileControl = x_control;
    m.xSectorSize = [](::sqlite3_file*) { return kSectorBytes; };
    m.xDeviceCharacteristics = [](::sqlite3_file*) { return 0; };
    return m;
  }();
  return table;
}

}  // namespace

SqliteFile::SqliteFile(runtime::Vfs& vfs, int descriptor, std::string path)
    : ::sqlite3_file{&methods()}, files(vfs), descriptor_(descriptor), path_(std::move(path)) {}

int SqliteFile::close() {
  const int result = files.close(descriptor_) == 0 ? SQLITE_OK : SQLITE_IOERR_CLOSE;
  this->~SqliteFile();
  return result;
}

int SqliteFile::read(char* to, int bytes, ::sqlite3_int64 at) {
  std::size_t done = 0;
  const auto wanted = static_cast<std::size_t>(bytes);
  while (done < wanted) {
    const ssize_t n =
        files.read_at(descriptor_, to + done, wanted - done, at + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SQLITE_IOERR_READ;
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (done == wanted) return SQLITE_OK;
  std::memset(to + done, 0, wanted - done);
  return SQLITE_IOERR_SHORT_READ;
}

int SqliteFile::write(const char* from, int bytes, ::sqlite3_int64 at) {
  std::size_t done = 0;
  const auto wanted = static_cast<std::size_t>(bytes);
  while (done < wanted) {
    const ssize_t n =
        files.write_at(descriptor_, from + done, wanted - done, at + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return errno == ENOSPC || errno == EDQUOT ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    done += static_cast<std::size_t>(n);
  }
  return SQLITE_OK;
}

int SqliteFile::size(::sqlite3_int64* out) {
  struct stat s{};
  if (files.stat_file(descriptor_, &s) != 0) return SQLITE_IOERR_FSTAT;
  *out = s.st_size;
  return SQLITE_OK;
}

bool SqliteFile::has_moved() {
  struct stat open{}, named{};
  return files.stat_file(descriptor_, &open) != 0 || files.stat_path(path_, &named) != 0 ||
         open.st_ino != named.st_ino || open.st_dev != named.st_dev;
}

bool SqliteFile::set(short type, ::sqlite3_int64 begin, ::sqlite3_int64 bytes) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = begin;
  range.l_len = bytes;
  return files.lock(descriptor_, range) == 0;
}

/// A lock that another holds is to be waited for; a file system without locks is not.
static int failed_lock() {
  return errno == EAGAIN || errno == EACCES || errno == EINTR ? SQLITE_BUSY : SQLITE_IOERR_LOCK;
}

/// The pending byte is passed through, so that a waiting writer is not overtaken for ever.
int SqliteFile::lock_shared() {
  if (!set(F_RDLCK, kPendingByte, 1)) return failed_lock();
  const int result = set(F_RDLCK, kSharedBegin, kSharedBytes) ? SQLITE_OK : failed_lock();
  set(F_UNLCK, kPendingByte, 1);
  if (result == SQLITE_OK) level_ = SQLITE_LOCK_SHARED;
  return result;
}

int SqliteFile::lock_exclusive() {
  if (level_ < SQLITE_LOCK_PENDING) {
    if (!set(F_WRLCK, kPendingByte, 1)) return failed_lock();
    level_ = SQLITE_LOCK_PENDING;
  }
  if (!set(F_WRLCK, kSharedBegin, kSharedBytes)) return failed_lock();
  level_ = SQLITE_LOCK_EXCLUSIVE;
  return SQLITE_OK;
}

int SqliteFile::lock(int level) {
  if (level_ >= level) return SQLITE_OK;
  if (level == SQLITE_LOCK_SHARED) return lock_shared();
  if (level != SQLITE_LOCK_RESERVED) return lock_exclusive();
  if (!set(F_WRLCK, kReservedByte, 1)) return failed_lock();
  level_ = SQLITE_LOCK_RESERVED;
  return SQLITE_OK;
}

int SqliteFile::unlock(int level) {
  if (level_ <= level) return SQLITE_OK;
  const bool kept = level == SQLITE_LOCK_NONE || set(F_RDLCK, kSharedBegin, kSharedBytes);
  const bool freed = level == SQLITE_LOCK_NONE ? set(F_UNLCK, kPendingByte, 2 + kSharedBytes)
                                               : set(F_UNLCK, kPendingByte, 2);
  level_ = level;
  return kept && freed ? SQLITE_OK : SQLITE_IOERR_UNLOCK;
}

int SqliteFile::reserved_by_another(int* out) {
  *out = level_ >= SQLITE_LOCK_RESERVED;
  if (*out) return SQLITE_OK;
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = kReservedByte;
  range.l_len = 1;
  if (files.test_lock(descriptor_, range) != 0) return SQLITE_IOERR_CHECKRESERVEDLOCK;
  *out = range.l_type != F_UNLCK;
  return SQLITE_OK;
}

}  // namespace tegula::autotune
