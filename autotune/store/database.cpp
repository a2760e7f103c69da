#include "autotune/store/database.h"

namespace tegula::autotune {
namespace {

constexpr int kMaxTextBytes = 1 << 20;  // limits what SQLite allocates for a damaged length

SqliteError error_of(::sqlite3* connection) {
  return {sqlite3_extended_errcode(connection), sqlite3_errmsg(connection)};
}

}  // namespace

bool SqliteError::is_damage() const {
  const int primary = code & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_FORMAT;
}

Statement::Statement(::sqlite3* connection, const std::string& sql) : connection_(connection) {
  check(sqlite3_prepare_v2(connection, sql.c_str(), static_cast<int>(sql.size()), &statement_,
                           nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::check(int result) const {
  if (result != SQLITE_OK) throw error_of(connection_);
}

void Statement::bind(int parameter, const std::string& value) {
  check(sqlite3_bind_text(statement_, parameter, value.data(), static_cast<int>(value.size()),
                          SQLITE_TRANSIENT));
}
void Statement::bind(int parameter, std::int64_t value) {
  check(sqlite3_bind_int64(statement_, parameter, value));
}
void Statement::bind(int parameter, double value) {
  check(sqlite3_bind_double(statement_, parameter, value));
}

bool Statement::step() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) throw error_of(connection_);
  return false;
}

void Statement::read(int column, std::string& out) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  const int bytes = sqlite3_column_bytes(statement_, column);
  out.assign(text != nullptr ? std::string_view(text, static_cast<std::size_t>(bytes))
                             : std::string_view());
}
void Statement::read(int column, std::int64_t& out) const {
  out = sqlite3_column_int64(statement_, column);
}
void Statement::read(int column, double& out) const {
  out = sqlite3_column_double(statement_, column);
}

Database::Database(const std::string& path, int flags) {
  const int result =
      sqlite3_open_v2(path.c_str(), &connection_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (result != SQLITE_OK) {
    const SqliteError error =
        connection_ != nullptr ? error_of(connection_) : SqliteError{result, "out of memory"};
    sqlite3_close_v2(connection_);
    throw error;
  }
  sqlite3_extended_result_codes(connection_, 1);
  sqlite3_limit(connection_, SQLITE_LIMIT_LENGTH, kMaxTextBytes);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

Database::~Database() { sqlite3_close_v2(connection_); }

void Database::set_patience(int milliseconds) { sqlite3_busy_timeout(connection_, milliseconds); }

void Database::exec(const char* sql) {
  if (sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    throw error_of(connection_);
}

std::int64_t Database::number(const std::string& sql) {
  Statement statement = prepare(sql);
  std::int64_t value = 0;
  if (statement.step()) statement.read(0, value);
  return value;
}

Statement Database::prepare(const std::string& sql) { return {connection_, sql}; }

void Database::begin() { exec("BEGIN IMMEDIATE"); }
void Database::commit() { exec("COMMIT"); }
void Database::rollback() noexcept {
  if (sqlite3_get_autocommit(connection_) == 0)
    sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
}

}  // namespace tegula::autotune
