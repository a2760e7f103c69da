#include "autotune/store/sqlite_library.h"

#include "runtime/shared_library.h"

namespace tegula::autotune {
namespace {

constexpr int kOldestVersion = 3'034'000;

struct OpenedSqlite {
  SqliteApi api;
  std::string why;  ///< empty: usable

  OpenedSqlite() {
    const auto library = runtime::SharedLibrary::open({"libsqlite3.so.0", "libsqlite3.so"});
    if (!library) {
      why = "libsqlite3.so.0 is not on this machine (package libsqlite3-0)";
      return;
    }
#define TEGULA_SQLITE(name)                                                          \
  api.name = reinterpret_cast<decltype(api.name)>(library.symbol("sqlite3_" #name)); \
  if (api.name == nullptr) why = library.path() + " lacks sqlite3_" #name;
#include "autotune/store/sqlite.def"
#undef TEGULA_SQLITE
    if (why.empty() && api.libversion_number() < kOldestVersion)
      why = library.path() + " is older than SQLite 3.34";
  }
};

}  // namespace

const SqliteApi* sqlite_library(std::string* why) {
  static const OpenedSqlite* const opened = new OpenedSqlite;
  if (why) *why = opened->why;
  return opened->why.empty() ? &opened->api : nullptr;
}

}  // namespace tegula::autotune
