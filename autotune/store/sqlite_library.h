#pragma once
// SQLite, opened at run time: a machine without it has a library that tunes and keeps nothing.
#include <sqlite3.h>

#include <string>

namespace tegula::autotune {

/// The functions of SQLite that are used, by their names without the prefix.
struct SqliteApi {
#define TEGULA_SQLITE(name) decltype(&::sqlite3_##name) name = nullptr;
#include "autotune/store/sqlite.def"
#undef TEGULA_SQLITE
};

/// The machine's SQLite, opened at the first call and kept; null where there is none of version
/// 3.34 or later, with the reason in `why`.
const SqliteApi* sqlite_library(std::string* why = nullptr);

}  // namespace tegula::autotune
