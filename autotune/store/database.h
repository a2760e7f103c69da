#pragma once
// One connection to SQLite, and its statements.
#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tegula::autotune {

/// A failed call of SQLite. The store catches all of them.
struct SqliteError {
  int code = 0;  ///< the extended one
  std::string text;
  bool is_damage() const;  ///< the content of the file is to blame
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
  /// Goes to the next row; false at the end. Throws SqliteError.
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

  /// Time for which a lock of another process is waited for.
  void set_patience(int milliseconds);
  void exec(const char* sql);
  std::int64_t number(const std::string& sql);
  Statement prepare(const std::string& sql);
  /// Takes the lock for writing at once, so that no two readers wait for each other.
  void begin();
  void commit();
  void rollback() noexcept;

 private:
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
