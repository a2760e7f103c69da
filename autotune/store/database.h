#pragma once
// A connection to SQLite and its statements.
#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tegula::autotune {

/// A failed SQLite call. The store catches all of them.
struct SqliteError {
  int code = 0;  ///< extended error code
  std::string text;
  bool is_damage() const;  ///< true if the content of the file is damaged
};

class Statement {
 public:
  Statement(::sqlite3* connection, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Parameters count from 1 and are copied.
  void bind(int parameter, const std::string& value);
  void bind(int parameter, std::int64_t value);
  void bind(int parameter, double value);
  /// Advances to the next row; returns false at the end. Throws SqliteError.
  bool step();
  /// Columns count from 0.
  void read(int column, std::string& out) const;
  void read(int column, std::int64_t& out) const;
  void read(int column, double& out) const;

 private:
  void check(int result) const;

  ::sqlite3* connection_;
  ::sqlite3_stmt* statement_ = nullptr;
};

class Database {
 public:
  /// Opens `path` with the flags of sqlite3_open_v2. Throws SqliteError.
  Database(const std::string& path, int flags);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Sets how long to wait for a lock of another process.
  void set_patience(int milliseconds);
  void exec(const char* sql);
  std::int64_t number(const std::string& sql);
  Statement prepare(const std::string& sql);
  /// Acquires the write lock immediately, so that two readers cannot deadlock on upgrading.
  void begin();
  void commit();
  void rollback() noexcept;

 private:
  ::sqlite3* connection_ = nullptr;
};

/// A transaction that rolls back unless it is committed.
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
