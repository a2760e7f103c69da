#include "autotune/store/winner_table.h"

#include <algorithm>
#include <tuple>

#include "autotune/store/bundled_winners.h"
#include "autotune/store/shipped_winners.h"

namespace tegula::autotune {
namespace {

auto order_of(const Winner& w) { return std::tie(w.key.problem, w.key.numerics); }

}  // namespace

WinnerTable& WinnerTable::of_process() {
  static auto* const table = new WinnerTable(TuningStore::of_process(), shipped_folder());
  return *table;
}

WinnerTable::Family& WinnerTable::loaded(const TuningKey& key) {
  Family& known = families_[FamilyKey{key.device, key.family, key.version}];
  if (known) return known;
  std::vector<Winner> all = store_.winners(key.device, key.family, key.version);
  // Winners of the user and of bundles take precedence over shipped ones.
  const auto add_absent = [&all](std::vector<Winner> more) {
    for (Winner& w : more) {
      const auto at = std::ranges::lower_bound(all, order_of(w), {}, order_of);
      if (at == all.end() || at->key != w.key) all.insert(at, std::move(w));
    }
  };
  add_absent(bundled_winners(key.device, key.family, key.version));
  if (!shipped_.empty()) add_absent(shipped_winners(shipped_, key.device, key.family, key.version));
  known = std::make_shared<const std::vector<Winner>>(std::move(all));
  return known;
}

WinnerTable::Family WinnerTable::family(const TuningKey& key) {
  const std::lock_guard lock(mutex_);
  return loaded(key);
}

std::optional<Winner> WinnerTable::find(const TuningKey& key) {
  const auto all = family(key);
  const auto at = std::ranges::lower_bound(*all, std::tie(key.problem, key.numerics), {}, order_of);
  if (at == all->end() || at->key != key) return std::nullopt;
  return *at;
}

void WinnerTable::publish(const Winner& winner) {
  const std::lock_guard lock(mutex_);
  Family& known = loaded(winner.key);
  store_.publish(winner);
  auto after = std::make_shared<std::vector<Winner>>(*known);
  const auto at = std::ranges::lower_bound(*after, order_of(winner), {}, order_of);
  if (at != after->end() && at->key == winner.key)
    *at = winner;
  else
    after->insert(at, winner);
  known = std::move(after);
}

void WinnerTable::refresh() {
  const std::lock_guard lock(mutex_);
  families_.clear();
}

}  // namespace tegula::autotune
