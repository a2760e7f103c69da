#pragma once
// Look-up of winners. Those of a family are read from the store once, into a sorted array.
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "autotune/store/tuning_store.h"

namespace tegula::autotune {

/// Winners of the store, then those of bundles. Thread-safe. Only the first look-up of a family
/// opens a file.
class WinnerTable {
 public:
  using Family = std::shared_ptr<const std::vector<Winner>>;

  /// Uses the winners of the store; for problems without one, the winners shipped in a folder.
  explicit WinnerTable(TuningStore& store, std::filesystem::path shipped = {})
      : store_(store), shipped_(std::move(shipped)) {}

  /// Returns the table of this process's store and library.
  static WinnerTable& of_process();

  /// Returns the winner of exactly this key.
  std::optional<Winner> find(const TuningKey& key);
  /// Returns all winners of the key's device, family and version, sorted by (problem, numerics).
  /// The array does not change while the pointer is held.
  Family family(const TuningKey& key);
  /// Publishes a winner to the store and to look-ups of this process.
  void publish(const Winner& winner);
  /// Makes the next look-up of each family read the store again. Winners of other processes become
  /// visible only then.
  void refresh();

 private:
  using FamilyKey = std::tuple<std::string, std::string, std::int64_t>;
  Family& loaded(const TuningKey& key);

  TuningStore& store_;
  std::filesystem::path shipped_;
  std::mutex mutex_;
  std::map<FamilyKey, Family> families_;
};

}  // namespace tegula::autotune
