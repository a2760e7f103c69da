#pragma once
// Winners as they are looked up: a family's are read from the store once, into a sorted array.
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

/// The store's own, then those of bundles. Thread-safe. No look-up after a family's first opens a
/// file.
class WinnerTable {
 public:
  using Family = std::shared_ptr<const std::vector<Winner>>;

  /// Winners of the store, and for problems without one those that are shipped in a folder.
  explicit WinnerTable(TuningStore& store, std::filesystem::path shipped = {})
      : store_(store), shipped_(std::move(shipped)) {}

  /// The winners of this process's store and library.
  static WinnerTable& of_process();

  /// The winner of exactly this key.
  std::optional<Winner> find(const TuningKey& key);
  /// All winners of the key's device, family and version, sorted by (problem, numerics). They stay
  /// as they are while the pointer is held.
  Family family(const TuningKey& key);
  /// Publishes to the store and to look-ups of this process.
  void publish(const Winner& winner);
  /// Lets the next look-up of each family read the store again: winners of other processes become
  /// visible at this call alone.
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
