#pragma once
// One connection to SQLite, and its statements.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "autotune/store/sqlite_library.h"

namespace tegula::autotune {

/// A failed call of SQLite's. It stays inside of the store, which never throws.
struct SqliteError {
  int code = 0;  ///< the extended one
  std::string text;
  bool is_damage() const;  ///< the content of the file is to blame
};

class Statement {
 public:
  Statement(const SqliteApi& api, ::sqlite3* connection, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Parameters count from 1 and are copied.
  void bind(int parameter, const std::string& value);
  void bind(int parameter, std::int64_t value);
  void bind(int parameter, double value);
  /// Goes to the next row; false at the end. Throws SqliteError.
  bool step();
  /// Columns count from 0.
  void read(int column, std::string& out) const;
  void read(int column, std::int64_t& out) const;
  void read(int column, double& out) const;

 private:
  void check(int result) const;

  const SqliteApi& api_;
  ::sqlite3* connection_;
  ::sqlite3_stmt* statement_ = nullptr;
};

class Database {
 public:
  /// Opens `path` through the file system of that name; ":memory:" needs none. Throws SqliteError.
  Database(const SqliteApi& api, const std::string& path, const char* vfs, int flags);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Time for which a lock of another process is waited for.
  void set_patience(int milliseconds);
  void exec(const char* sql);
  std::int64_t number(const std::string& sql);
  Statement prepare(const std::string& sql);
  /// Takes the lock for writing at once, so that no two readers wait for each other.
  void begin();
  void commit();
  void rollback() noexcept;
  /// Forgets the connection without closing it: it belongs to the process that forked this one.
  void abandon() { connection_ = nullptr; }

 private:
  const SqliteApi& api_;
  ::sqlite3* connection_ = nullptr;
};

/// A transaction that is undone unless it is committed.
class Transaction {
 public:
  explicit Transaction(Database& db) : db_(db) { db_.begin(); }
  ~Transaction() {
    if (!is_committed_) db_.rollback();
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    db_.commit();
    is_committed_ = true;
  }

 private:
  Database& db_;
  bool is_committed_ = false;
};

}  // namespace tegula::autotune
