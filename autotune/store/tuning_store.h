#pragma once
// Timings and winners on disk, in `tuning.db` in the folder of the kernel cache. Errors of the disk
// never throw: the first one is reported once, and from then on results are kept in memory for the
// lifetime of the process.
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
  /// Time to wait for a lock of another process; readers wait less than tuners.
  int read_patience_ms = 200, write_patience_ms = 10'000;
  std::function<void(const std::string&)> warn;  ///< called at most once
  /// File operations for checks and renames; SQLite uses its own for reads and writes.
  runtime::Vfs* vfs = &runtime::Vfs::posix();
  std::function<std::int64_t()> now;  ///< seconds since 1970; default: the system clock
};

class TuningStore {
 public:
  explicit TuningStore(StoreOptions options);
  ~TuningStore();
  TuningStore(const TuningStore&) = delete;
  TuningStore& operator=(const TuningStore&) = delete;

  /// Returns the store of this process, in the folder given by TEGULA_CACHE_DIR and TEGULA_CACHE.
  /// Warnings are T1901.
  static TuningStore& of_process();

  /// Returns all winners of a family and device class, sorted by (problem, numerics).
  std::vector<Winner> winners(const std::string& device, const std::string& family,
                              std::int64_t version);
  std::optional<Winner> winner(const TuningKey& key);
  /// Replaces the winner of its key and sets `at` to now.
  void publish(Winner winner);

  /// Returns the timings of a key and policy, sorted by code.
  std::vector<Timing> timings(const TuningKey& key, const std::string& policy);
  /// Replaces the timing of this code and sets `at` to now. Drops timings that are not finite.
  void record(Timing timing);

  /// Claims a key for this process, so that no two processes tune it at once. Returns false if a
  /// live process has claimed it. Claims of dead processes are taken over.
  bool claim(const TuningKey& key);
  void release(const TuningKey& key);

  /// Returns all winners as sorted lines of JSON. The exports of two stores can be concatenated.
  std::string export_text();

  /// Returns the path of the file; results are in memory if is_on_disk() is false.
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
