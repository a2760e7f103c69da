#include "codegen/sim/memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace tegula::sim {

GlobalMemory::GlobalMemory(const SimOptions& options, std::span<const WatchedRange> watched)
    : arguments_(options.ranges),
      shadow_(watched),
      unstored_(options.detectors.has(Detector::Unstored) ? std::span(options.ranges)
                                                          : std::span<const GlobalRange>()) {
  for (const GlobalRange& r : options.ranges)
    ranges_.emplace_back(reinterpret_cast<std::uintptr_t>(r.begin),
                         reinterpret_cast<std::uintptr_t>(r.end));
  std::sort(ranges_.begin(), ranges_.end());
  // Arguments may overlap. Each range is extended to the end of the earlier ranges that it
  // overlaps, so that the last range that begins before an address decides.
  for (std::size_t i = 1; i < ranges_.size(); ++i)
    if (ranges_[i].first < ranges_[i - 1].second)
      ranges_[i].second = std::max(ranges_[i].second, ranges_[i - 1].second);
}

bool GlobalMemory::contains(std::uint64_t address, std::uint64_t bytes) const {
  if (ranges_.empty()) return true;
  auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), std::pair{address, ~std::uint64_t{0}});
  return after != ranges_.begin() && address + bytes <= (after - 1)->second;
}

std::string GlobalMemory::describe(std::uint64_t address) const {
  for (const GlobalRange& r : arguments_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(r.begin);
    if (r.name.empty() || address < begin || address >= reinterpret_cast<std::uintptr_t>(r.end))
      continue;
    if (r.tensor)
      if (const auto index = ir::index_of_address(*r.tensor, address))
        return fmt::format("{}[{}]", r.name, fmt::join(*index, ", "));
    return fmt::format("{} + {} bytes", r.name, address - begin);
  }
  return fmt::format("global address {:#x}", address);
}

Wavefronts wavefronts(std::span<const std::uint32_t> addresses, int bytes) {
  // A phase consists of the lanes whose bytes fill the 128 bytes of one pass.
  const std::size_t lanes_per_phase = bytes <= 4 ? 32 : static_cast<std::size_t>(128 / bytes);
  Wavefronts w;
  for (std::size_t begin = 0; begin < addresses.size(); begin += lanes_per_phase) {
    const std::size_t end = std::min(addresses.size(), begin + lanes_per_phase);
    std::array<std::array<std::uint32_t, 32>, 32> words;  // distinct words of each bank
    std::array<int, 32> used{};
    for (std::size_t i = begin; i < end; ++i) {
      for (std::uint32_t word = addresses[i] / 4;
           word <= (addresses[i] + static_cast<std::uint32_t>(bytes) - 1) / 4; ++word) {
        auto& list = words[word % 32];
        int& n = used[word % 32];
        if (std::find(list.begin(), list.begin() + n, word) == list.begin() + n && n < 32)
          list[static_cast<std::size_t>(n++)] = word;
      }
    }
    w.taken += *std::max_element(used.begin(), used.end());
    ++w.ideal;
  }
  return w;
}

}  // namespace tegula::sim
