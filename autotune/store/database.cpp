#include "autotune/store/database.h"

namespace tegula::autotune {
namespace {

constexpr int kMaxTextBytes = 1 << 20;  // no damaged length makes SQLite allocate more

SqliteError error_of(const SqliteApi& api, ::sqlite3* connection) {
  return {api.extended_errcode(connection), api.errmsg(connection)};
}

}  // namespace

bool SqliteError::is_damage() const {
  const int primary = code & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_FORMAT;
}

Statement::Statement(const SqliteApi& api, ::sqlite3* connection, const std::string& sql)
    : api_(api), connection_(connection) {
  check(
      api_.prepare_v2(connection, sql.c_str(), static_cast<int>(sql.size()), &statement_, nullptr));
}

Statement::~Statement() { api_.finalize(statement_); }

void Statement::check(int result) const {
  if (result != SQLITE_OK) throw error_of(api_, connection_);
}

void Statement::bind(int parameter, const std::string& value) {
  check(api_.bind_text(statement_, parameter, value.data(), static_cast<int>(value.size()),
                       SQLITE_TRANSIENT));
}
void Statement::bind(int parameter, std::int64_t value) {
  check(api_.bind_int64(statement_, parameter, value));
}
void Statement::bind(int parameter, double value) {
  check(api_.bind_double(statement_, parameter, value));
}

bool Statement::step() {
  const int result = api_.step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) throw error_of(api_, connection_);
  return false;
}

void Statement::read(int column, std::string& out) const {
  const auto* text = reinterpret_cast<const char*>(api_.column_text(statement_, column));
  const int bytes = api_.column_bytes(statement_, column);
  out.assign(text != nullptr ? std::string_view(text, static_cast<std::size_t>(bytes))
                             : std::string_view());
}
void Statement::read(int column, std::int64_t& out) const {
  out = api_.column_int64(statement_, column);
}
void Statement::read(int column, double& out) const {
  out = api_.column_double(statement_, column);
}

Database::Database(const SqliteApi& api, const std::string& path, const char* vfs, int flags)
    : api_(api) {
  const int result = api_.open_v2(path.c_str(), &connection_, flags | SQLITE_OPEN_NOMUTEX, vfs);
  if (result != SQLITE_OK) {
    const SqliteError error =
        connection_ != nullptr ? error_of(api_, connection_) : SqliteError{result, "out of memory"};
    api_.close_v2(connection_);
    throw error;
  }
  api_.extended_result_codes(connection_, 1);
  api_.limit(connection_, SQLITE_LIMIT_LENGTH, kMaxTextBytes);
  api_.db_config(connection_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  api_.db_config(connection_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

Database::~Database() { api_.close_v2(connection_); }

void Database::set_patience(int milliseconds) { api_.busy_timeout(connection_, milliseconds); }

void Database::exec(const char* sql) {
  if (api_.exec(connection_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    throw error_of(api_, connection_);
}

std::int64_t Database::number(const std::string& sql) {
  Statement statement = prepare(sql);
  std::int64_t value = 0;
  if (statement.step()) statement.read(0, value);
  return value;
}

Statement Database::prepare(const std::string& sql) { return {api_, connection_, sql}; }

void Database::begin() { exec("BEGIN IMMEDIATE"); }
void Database::commit() { exec("COMMIT"); }
void Database::rollback() noexcept {
  if (api_.get_autocommit(connection_) == 0)
    api_.exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
}

}  // namespace tegula::autotune
