#pragma once
// SQL of the records: one table per record type. Each row has a checksum of all its fields, because
// SQLite has none.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <concepts>

#include "autotune/store/database.h"
#include "autotune/store/records.h"
#include "support/hash.h"

namespace tegula::autotune {

/// Adds a field to a hash; only bitwise equal values hash equally.
inline void hash_field(Hasher& h, const std::string& v) { h.add(v); }
inline void hash_field(Hasher& h, std::int64_t v) { h.add(v); }
inline void hash_field(Hasher& h, double v) { h.add(std::bit_cast<std::uint64_t>(v)); }

template <class R>
std::int64_t checksum_of(const R& record) {
  Hasher h;
  h.add(std::string_view(R::kTable));
  R::each_field(record, [&](const char*, const auto& v) { hash_field(h, v); });
  return static_cast<std::int64_t>(h.digest().low);
}

/// Returns true if SQLite reproduces all numbers of the record exactly.
template <class R>
bool can_be_stored(const R& record) {
  bool can = true;
  R::each_field(record, [&](const char*, const auto& v) {
    if constexpr (std::same_as<std::remove_cvref_t<decltype(v)>, double>)
      can = can && std::isfinite(v) && !(v == 0 && std::signbit(v));
  });
  return can;
}

inline const char* sql_type(const std::string&) { return "TEXT"; }
inline const char* sql_type(std::int64_t) { return "INTEGER"; }
inline const char* sql_type(double) { return "REAL"; }

/// Returns the names of the first `count` columns joined by `between`, each with a suffix.
template <class R>
std::string column_names(const char* between, int count = 1000, const char* behind = "") {
  std::string text;
  const R record;
  int i = 0;
  R::each_field(record, [&](const char* name, const auto&) {
    if (i++ < count) text += fmt::format("{}{}{}", text.empty() ? "" : between, name, behind);
  });
  return text;
}

template <class R>
std::string create_sql() {
  std::string text;
  const R record;
  R::each_field(record, [&](const char* name, const auto& v) {
    text += fmt::format("{} {} NOT NULL, ", name, sql_type(v));
  });
  return fmt::format("CREATE TABLE {}({}checksum INTEGER NOT NULL, PRIMARY KEY({})) WITHOUT ROWID",
                     R::kTable, text, column_names<R>(", ", R::kKeyFields));
}

template <class R>
void put(Database& db, const R& record) {
  std::string marks;
  R::each_field(record, [&](const char*, const auto&) { marks += "?, "; });
  Statement s = db.prepare(fmt::format("INSERT OR REPLACE INTO {} VALUES({}?)", R::kTable, marks));
  int i = 0;
  R::each_field(record, [&](const char*, const auto& v) { s.bind(++i, v); });
  s.bind(++i, checksum_of(record));
  s.step();
}

/// Binds the first `fields` fields of the record to parameters 1, 2, ..
template <class R>
void bind_key(Statement& s, const R& record, int fields) {
  int i = 0;
  R::each_field(record, [&](const char*, const auto& v) {
    if (i++ < fields) s.bind(i, v);
  });
}

/// Calls `found` for each valid row whose first `fields` fields equal those of `like`, in key
/// order. Returns the number of rows with a wrong checksum.
template <class R, class Found>
int select(Database& db, const R& like, int fields, const Found& found) {
  std::string sql = fmt::format("SELECT {}, checksum FROM {}", column_names<R>(", "), R::kTable);
  if (fields > 0) sql += " WHERE " + column_names<R>(" AND ", fields, " = ?");
  Statement s = db.prepare(sql + " ORDER BY " + column_names<R>(", ", R::kKeyFields));
  bind_key(s, like, fields);
  int unsound = 0;
  while (s.step()) {
    R record;
    int i = 0;
    R::each_field(record, [&](const char*, auto& v) { s.read(i++, v); });
    std::int64_t checksum = 0;
    s.read(i, checksum);
    if (checksum == checksum_of(record))
      found(std::move(record));
    else
      ++unsound;
  }
  return unsound;
}

template <class R>
void erase(Database& db, const R& record) {
  Statement s = db.prepare(fmt::format("DELETE FROM {} WHERE {}", R::kTable,
                                       column_names<R>(" AND ", R::kKeyFields, " = ?")));
  bind_key(s, record, R::kKeyFields);
  s.step();
}

}  // namespace tegula::autotune
