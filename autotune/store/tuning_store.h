#pragma once
// Timings and winners on disk, `tuning.db` in the folder of the kernel cache. Nothing here throws
// for the state of the disk: whatever goes wrong is told once, and from then on results live in
// memory, as long as the process does.
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/store/records.h"
#include "runtime/vfs.h"

namespace tegula::autotune {

class Database;
struct SqliteError;

struct StoreOptions {
  std::filesystem::path folder;  ///< empty: in memory
  bool read_only = false;
  /// Waiting for a lock of another process: a reader is in a hurry, a tuner is not.
  int read_patience_ms = 200, write_patience_ms = 10'000;
  std::function<void(const std::string&)> warn;  ///< is called once at most
  /// Calls by which files are checked and moved; SQLite reads and writes by its own.
  runtime::Vfs* vfs = &runtime::Vfs::posix();
  std::function<std::int64_t()> now;  ///< seconds since 1970; default: the system's clock
};

/// How many lines of a text became rows.
struct ImportCounts {
  int taken = 0;
  int kept = 0;      ///< the store's own row is as good or better
  int rejected = 0;  ///< not a row
};

class TuningStore {
 public:
  explicit TuningStore(StoreOptions options);
  ~TuningStore();
  TuningStore(const TuningStore&) = delete;
  TuningStore& operator=(const TuningStore&) = delete;

  /// The store of this process, in the folder that TEGULA_CACHE_DIR and TEGULA_CACHE say; warnings
  /// are T1901.
  static TuningStore& of_process();

  /// All winners of one family and device class, in order of (problem, numerics).
  std::vector<Winner> winners(const std::string& device, const std::string& family,
                              std::int64_t version);
  std::optional<Winner> winner(const TuningKey& key);
  /// Replaces the winner of its key; `at` is set to now.
  void publish(Winner winner);

  /// Timings of one key and policy, by code.
  std::vector<Timing> timings(const TuningKey& key, const std::string& policy);
  /// Replaces the timing of this code; `at` is set to now. One that is not finite is dropped.
  void record(Timing timing);

  /// Takes a key for this process, so that no two tune it at once; false if a living process has
  /// it. A key of a process that died is taken over.
  bool claim(const TuningKey& key);
  void release(const TuningKey& key);

  /// Every timing and winner, a line of JSON each, sorted. Lines of two stores can be
  /// concatenated.
  std::string export_text();
  /// Takes rows from lines of export_text(). Between two rows of one key the one of more
  /// candidates or samples stays, then the one whose text is smaller: the order of merging does not
  /// matter, and neither does any clock.
  ImportCounts import_text(std::string_view text);

  /// The file's path; results are in memory where is_on_disk() is false.
  std::filesystem::path path() const { return path_; }
  bool is_on_disk();

 private:
  enum class Place : std::uint8_t { unopened, disk, memory, nowhere };

  bool open(bool writes);
  bool open_disk(bool writes);
  bool has_tables(bool may_create);
  void open_memory();
  void degrade(const std::string& why);
  void move_away(const std::string& why);
  void handle(const SqliteError& error);
  void forget_parents_connection();
  void warn(const std::string& text);
  void tell_unsound(int rows);
  std::int64_t now() const;
  template <class F>
  void attempt(bool writes, const F& f);
  template <class R>
  void import_row(Database& db, const R& row, ImportCounts& counts);

  StoreOptions options_;
  std::filesystem::path path_;
  std::unique_ptr<Database> db_;
  Place place_ = Place::unopened;
  bool is_writable_ = false;
  bool has_warned_ = false;
  int pid_ = 0;
  std::mutex mutex_;
};

}  // namespace tegula::autotune
