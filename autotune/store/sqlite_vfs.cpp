#include "autotune/store/sqlite_vfs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <random>
#include <thread>

#include "autotune/store/sqlite_file.h"

namespace tegula::autotune {
namespace {

constexpr mode_t kFileMode = 0600;

SqliteVfs& vfs_of(::sqlite3_vfs* table) { return *static_cast<SqliteVfs*>(table->pAppData); }

/// Tells whether an open file is a plain one of this user that nobody else can write.
bool is_trusted(SqliteVfs& vfs, int file, const char* path) {
  struct stat s{};
  if (vfs.files().stat_file(file, &s) != 0) return false;
  if (S_ISREG(s.st_mode) && runtime::is_private(vfs.files(), s)) return true;
  vfs.refusal = fmt::format("{} is not a file of this user that others cannot write", path);
  return false;
}

int open_file(SqliteVfs& vfs, const char* path, int& flags) {
  constexpr int kAlways = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // a planted FIFO would wait
  const bool writes = (flags & SQLITE_OPEN_READWRITE) != 0;
  const int create = (flags & SQLITE_OPEN_CREATE) != 0 ? O_CREAT : 0;
  int file = vfs.files().open(path, (writes ? O_RDWR | create : O_RDONLY) | kAlways, kFileMode);
  if (file < 0 && errno == ELOOP) vfs.refusal = fmt::format("{} is a symbolic link", path);
  if (file < 0 && writes && (errno == EACCES || errno == EROFS || errno == EPERM)) {
    file = vfs.files().open(path, O_RDONLY | kAlways, 0);
    flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
  }
  return file;
}

int x_open(::sqlite3_vfs* table, const char* path, ::sqlite3_file* out, int flags, int* out_flags) {
  out->pMethods = nullptr;
  if (path == nullptr) return SQLITE_CANTOPEN;  // temporary tables live in memory
  SqliteVfs& vfs = vfs_of(table);
  const int file = open_file(vfs, path, flags);
  if (file < 0) return SQLITE_CANTOPEN;
  if (!is_trusted(vfs, file, path)) {
    vfs.files().close(file);
    return SQLITE_CANTOPEN;
  }
  new (out) SqliteFile(vfs.files(), file, path);
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int x_delete(::sqlite3_vfs* table, const char* path, int) {
  if (vfs_of(table).files().unlink(path) == 0) return SQLITE_OK;
  return errno == ENOENT ? SQLITE_IOERR_DELETE_NOENT : SQLITE_IOERR_DELETE;
}

int x_access(::sqlite3_vfs* table, const char* path, int flags, int* result) {
  struct stat s{};
  const bool exists = vfs_of(table).files().stat_path(path, &s) == 0;
  *result = exists && (flags != SQLITE_ACCESS_EXISTS || s.st_size > 0);
  return exists || errno == ENOENT ? SQLITE_OK : SQLITE_IOERR_ACCESS;
}

int x_full_path(::sqlite3_vfs*, const char* path, int bytes, char* out) {
  const std::size_t length = std::strlen(path);
  if (length + 1 > static_cast<std::size_t>(bytes)) return SQLITE_CANTOPEN;
  std::memcpy(out, path, length + 1);
  return SQLITE_OK;
}

void* x_dl_open(::sqlite3_vfs*, const char*) { return nullptr; }
void x_dl_error(::sqlite3_vfs*, int bytes, char* message) {
  if (bytes > 0) *message = 0;
}
void (*x_dl_sym(::sqlite3_vfs*, void*, const char*))(void) { return nullptr; }
void x_dl_close(::sqlite3_vfs*, void*) {}

int x_randomness(::sqlite3_vfs*, int bytes, char* out) {
  std::random_device source;
  std::generate_n(out, bytes, [&] { return static_cast<char>(source()); });
  return bytes;
}

int x_sleep(::sqlite3_vfs*, int microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  return microseconds;
}

/// The Julian day in milliseconds. No row depends on it: rows carry the time of the store's clock.
int x_current_time_ms(::sqlite3_vfs*, ::sqlite3_int64* out) {
  constexpr ::sqlite3_int64 kUnixEpoch = 210'866'760'000'000;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  *out = kUnixEpoch + std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return SQLITE_OK;
}

int x_current_time(::sqlite3_vfs* table, double* out) {
  ::sqlite3_int64 ms = 0;
  x_current_time_ms(table, &ms);
  *out = static_cast<double>(ms) / 86'400'000.0;
  return SQLITE_OK;
}

int x_last_error(::sqlite3_vfs*, int, char*) { return errno; }

}  // namespace

SqliteVfs::SqliteVfs(const SqliteApi& api, runtime::Vfs& files) : api_(api), files_(files) {
  static std::atomic<unsigned> next{0};
  // Another copy of this library in the process has another address.
  name_ = fmt::format("tegula-{:x}-{}", reinterpret_cast<std::uintptr_t>(&next), next++);
  table_.iVersion = 2;
  table_.szOsFile = sizeof(SqliteFile);
  table_.mxPathname = 4096;
  table_.zName = name_.c_str();
  table_.pAppData = this;
  table_.xOpen = x_open;
  table_.xDelete = x_delete;
  table_.xAccess = x_access;
  table_.xFullPathname = x_full_path;
  table_.xDlOpen = x_dl_open;
  table_.xDlError = x_dl_error;
  table_.xDlSym = x_dl_sym;
  table_.xDlClose = x_dl_close;
  table_.xRandomness = x_randomness;
  table_.xSleep = x_sleep;
  table_.xCurrentTime = x_current_time;
  table_.xGetLastError = x_last_error;
  table_.xCurrentTimeInt64 = x_current_time_ms;
  api_.vfs_register(&table_, 0);
}

SqliteVfs::~SqliteVfs() { api_.vfs_unregister(&table_); }

}  // namespace tegula::autotune
