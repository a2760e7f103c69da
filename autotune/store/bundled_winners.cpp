#include "autotune/store/bundled_winners.h"

#include <algorithm>
#include <utility>

#include "autotune/store/store_text.h"
#include "runtime/bundle_lookup.h"

namespace tegula::autotune {
namespace {

runtime::CacheKey winners_key() {
  runtime::CacheKey key;
  key.add("winners", "1");  // format version
  return key;
}

}  // namespace

runtime::BundledKernel winners_entry(std::string lines) {
  runtime::CacheEntry entry;
  entry.meta = std::move(lines);
  return {winners_key(), std::move(entry)};
}

std::vector<Winner> bundled_winners(std::string_view device, std::string_view family,
                                    std::int64_t version) {
  std::vector<Winner> found;
  const auto add = [&](std::string_view line) {
    std::optional<Winner> w = row_of<Winner>(line);
    if (!w || w->key.device != device || w->key.family != family || w->key.version != version)
      return;
    const auto is_same = [&](const Winner& other) { return other.key == w->key; };
    if (std::ranges::none_of(found, is_same)) found.push_back(std::move(*w));
  };
  for (const runtime::CacheEntry& entry : runtime::bundle_layers().find_all(winners_key()))
    for_each_line(entry.meta, add);
  return found;
}

}  // namespace tegula::autotune
