#include "autotune/store/tuning_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "autotune/store/database.h"
#include "autotune/store/process_identity.h"
#include "autotune/store/store_text.h"
#include "autotune/store/tables.h"
#include "runtime/cache.h"
#include "runtime/warnings.h"
#include "support/env.h"
#include "support/warnings.h"

namespace tegula::autotune {
namespace {

constexpr int kSchemaVersion = 1;
constexpr int kMaxKept = 3;  // damaged files

/// The file cannot be used and must not be modified.
struct Unusable {
  std::string why;
};

/// Returns true if the file exists. Throws Unusable unless it is a regular file that only this user
/// can write. Its folder is private, so nobody else can replace it before SQLite opens it.
bool is_present(runtime::Vfs& files, const std::string& path) {
  struct stat s{};
  if (files.stat_path(path, &s) != 0) {
    if (errno == ENOENT) return false;
    throw Unusable{fmt::format("{}: {}", path, std::strerror(errno))};
  }
  if (S_ISLNK(s.st_mode)) throw Unusable{fmt::format("{} is a symbolic link", path)};
  if (!S_ISREG(s.st_mode) || !runtime::is_private(files, s))
    throw Unusable{fmt::format("{} is not a file of this user that others cannot write", path)};
  return true;
}

std::string schema_text(Database& db) {
  std::string all;
  Statement s = db.prepare("SELECT sql FROM sqlite_schema ORDER BY name");
  while (s.step()) {
    std::string sql;
    s.read(0, sql);
    all += sql + "\n";
  }
  return all;
}

std::string own_schema() {
  return create_sql<Pending>() + "\n" + create_sql<Timing>() + "\n" + create_sql<Winner>() + "\n";
}

void create_tables(Database& db) {
  db.exec(create_sql<Timing>().c_str());
  db.exec(create_sql<Winner>().c_str());
  db.exec(create_sql<Pending>().c_str());
  db.exec(fmt::format("PRAGMA user_version = {}", kSchemaVersion).c_str());
}

}  // namespace

TuningStore::TuningStore(StoreOptions options) : options_(std::move(options)) {
  if (!options_.folder.empty()) path_ = options_.folder / "tuning.db";
}

TuningStore::~TuningStore() { forget_parents_connection(); }

TuningStore& TuningStore::of_process() {
  static auto* const store = [] {
    StoreOptions options;
    if (env().cache != "off") options.folder = runtime::default_cache_folder();
    options.read_only = env().cache == "readonly";
    options.warn = [](const std::string& text) {
      const Warning warning = runtime::store_warning(text);
      report_warnings(std::span(&warning, 1));
    };
    return new TuningStore(std::move(options));  // leaked: may be used while statics are destroyed
  }();
  return *store;
}

std::int64_t TuningStore::now() const {
  return options_.now ? options_.now() : static_cast<std::int64_t>(std::time(nullptr));
}

void TuningStore::warn(const std::string& text) {
  if (has_warned_) return;
  has_warned_ = true;
  if (options_.warn) options_.warn(text);
}

void TuningStore::tell_unsound(int rows) {
  if (rows > 0)
    warn(fmt::format("{} contains {} damaged rows, which are ignored", path_.string(), rows));
}

void TuningStore::open_memory() {
  place_ = Place::nowhere;
  try {
    db_ = std::make_unique<Database>(":memory:", SQLITE_OPEN_READWRITE);
    create_tables(*db_);
    place_ = Place::memory;
    is_writable_ = true;
  } catch (const SqliteError&) {
    db_ = nullptr;
  }
}

void TuningStore::degrade(const std::string& why) {
  warn(fmt::format("{}; tuning results are not kept", why));
  db_ = nullptr;
  open_memory();
}

/// Renames the damaged file, so that a new one can take its place. Other processes may have it
/// open: they check for a rename before they write.
void TuningStore::move_away(const std::string& why) {
  db_ = nullptr;
  place_ = Place::unopened;
  const auto kept = [&](int i) {
    return (options_.folder / fmt::format("tuning.bad-{}", i)).string();
  };
  runtime::Vfs& files = *options_.vfs;
  for (int i = kMaxKept - 1; i > 0; --i) files.rename(kept(i - 1), kept(i));
  const bool moved = files.rename(path_.string(), kept(0)) == 0;
  files.rename(path_.string() + "-journal", kept(0) + "-journal");
  if (!moved) return degrade(fmt::format("{} is damaged ({})", path_.string(), why));
  warn(fmt::format("{} is damaged ({}): moved to tuning.bad-0", path_.string(), why));
}

void TuningStore::handle(const SqliteError& error) {
  if (place_ == Place::memory) {
    db_ = nullptr;
    place_ = Place::nowhere;
    return;
  }
  if (error.is_damage() && !options_.read_only) return move_away(error.text);
  degrade(fmt::format("{} cannot be used ({})", path_.string(), error.text));
}

/// A connection must not be used across fork(): the child opens its own.
void TuningStore::forget_parents_connection() {
  if (pid_ == ::getpid() || db_ == nullptr) return;
  if (place_ == Place::disk) {
    (void)db_.release();  // only the parent may close it
    place_ = Place::unopened;
  }
  pid_ = ::getpid();
}

/// Returns false for an empty file that may not be filled: a process died before it wrote anything.
bool TuningStore::has_tables(bool may_create) {
  std::int64_t version = db_->number("PRAGMA user_version");
  if (version == 0) {
    if (schema_text(*db_).empty()) {
      if (!may_create) return false;
      Transaction transaction(*db_);
      if (schema_text(*db_).empty()) create_tables(*db_);
      transaction.commit();
    }
    // Another process may have committed its tables after the version was read.
    version = db_->number("PRAGMA user_version");
  }
  if (version > kSchemaVersion)
    throw Unusable{fmt::format("{} was written by a later version", path_.string())};
  if (version != kSchemaVersion || schema_text(*db_) != own_schema())
    throw SqliteError{SQLITE_CORRUPT, "its tables are not those of this version"};
  return true;
}

bool TuningStore::open_disk(bool writes) {
  runtime::Vfs& files = *options_.vfs;
  struct stat s{};
  const std::string folder = options_.folder.string();
  if (writes) {
    runtime::make_parents(files, folder);
    files.make_folder(folder, 0700);
  }
  if (files.stat_path(folder, &s) != 0) {
    if (errno == ENOENT && !writes) return false;
    throw Unusable{fmt::format("{}: {}", folder, std::strerror(errno))};
  }
  if (!S_ISDIR(s.st_mode) || !runtime::is_private(files, s))
    throw Unusable{
        fmt::format("{} must be a folder of this user that others cannot write", folder)};
  const std::string path = path_.string();
  if (!is_present(files, path)) {
    if (!writes) return false;
    // SQLite would create a file that other users can read, and can therefore lock.
    const int file = files.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0) files.close(file);
  }
  is_present(files, path + "-journal");
  const int flags = options_.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  db_ = std::make_unique<Database>(path, flags);
  db_->set_patience(writes ? options_.write_patience_ms : options_.read_patience_ms);
  db_->exec(
      "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON; PRAGMA synchronous = NORMAL; "
      "PRAGMA mmap_size = 0");
  if (!has_tables(writes)) {
    db_ = nullptr;
    return false;
  }
  place_ = Place::disk;
  is_writable_ = !options_.read_only;
  pid_ = ::getpid();
  return true;
}

/// Returns true if there is a database to work on.
bool TuningStore::open(bool writes) {
  forget_parents_connection();
  if (place_ == Place::disk && writes && is_writable_)
    db_->set_patience(options_.write_patience_ms);
  if (place_ == Place::disk || place_ == Place::memory) return true;
  if (place_ == Place::nowhere) return false;
  if (path_.empty() || (writes && options_.read_only)) {
    open_memory();
    return place_ == Place::memory;
  }
  try {
    return open_disk(writes);
  } catch (const Unusable& u) {
    degrade(u.why);
    return place_ == Place::memory;
  }
}

/// Calls `f(database)`. Replaces a damaged file and calls `f` again; after any other failure `f`
/// works on a database in memory.
template <class F>
void TuningStore::attempt(bool writes, const F& f) {
  const std::lock_guard lock(mutex_);
  for (int tries = 0; tries < 3; ++tries) try {
      if (!open(writes)) return;
      if (writes && !is_writable_) open_memory();
      if (!writes) return f(*db_);
      Transaction transaction(*db_);
      f(*db_);
      return transaction.commit();
    } catch (const SqliteError& e) {
      handle(e);
    }
}

bool TuningStore::is_on_disk() {
  attempt(false, [](Database&) {});
  const std::lock_guard lock(mutex_);
  return place_ == Place::disk;
}

std::vector<Winner> TuningStore::winners(const std::string& device, const std::string& family,
                                         std::int64_t version) {
  Winner like;
  like.key.device = device;
  like.key.family = family;
  like.key.version = version;
  std::vector<Winner> all;
  attempt(false, [&](Database& db) {
    all.clear();
    tell_unsound(select(db, like, 3, [&](Winner w) { all.push_back(std::move(w)); }));
  });
  return all;
}

std::optional<Winner> TuningStore::winner(const TuningKey& key) {
  Winner like;
  like.key = key;
  std::optional<Winner> one;
  attempt(false, [&](Database& db) {
    one.reset();
    tell_unsound(select(db, like, Winner::kKeyFields, [&](Winner w) { one = std::move(w); }));
  });
  return one;
}

void TuningStore::publish(Winner winner) {
  winner.at = now();
  if (can_be_stored(winner)) attempt(true, [&](Database& db) { put(db, winner); });
}

std::vector<Timing> TuningStore::timings(const TuningKey& key, const std::string& policy) {
  Timing like;
  like.key = key;
  like.policy = policy;
  std::vector<Timing> all;
  attempt(false, [&](Database& db) {
    all.clear();
    tell_unsound(
        select(db, like, Timing::kKeyFields - 1, [&](Timing t) { all.push_back(std::move(t)); }));
  });
  return all;
}

void TuningStore::record(Timing timing) {
  timing.at = now();
  if (can_be_stored(timing)) attempt(true, [&](Database& db) { put(db, timing); });
}

bool TuningStore::claim(const TuningKey& key) {
  Pending mine;
  mine.key = key;
  mine.host = host_name();
  mine.pid = ::getpid();
  mine.started = start_of_process(mine.pid).value_or(0);
  mine.at = now();
  bool is_taken = true;  // without a store, there is nothing to agree with
  attempt(true, [&](Database& db) {
    is_taken = true;
    select(db, mine, Pending::kKeyFields, [&](const Pending& other) {
      const bool is_me =
          other.host == mine.host && other.pid == mine.pid && other.started == mine.started;
      is_taken = is_me || !is_alive(other.host, other.pid, other.started);
    });
    if (is_taken) put(db, mine);
  });
  return is_taken;
}

void TuningStore::release(const TuningKey& key) {
  Pending mine;
  mine.key = key;
  attempt(true, [&](Database& db) { erase(db, mine); });
}

std::string TuningStore::export_text() {
  std::string text;
  attempt(false, [&](Database& db) {
    text.clear();
    tell_unsound(select(db, Winner(), 0, [&](const Winner& row) { text += line_of(row) + "\n"; }));
  });
  return text;
}

}  // namespace tegula::autotune
