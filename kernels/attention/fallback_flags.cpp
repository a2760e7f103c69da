#include "kernels/attention/fallback_flags.h"

#include "tegula/scratch.h"

namespace tegula::kernels {
namespace {

constexpr int kBeforeFlags = 2, kBits = 32,
              kGroups = (Scratch::kFallbackWords - kBeforeFlags) * kBits;

Tile bit_of(const Tile& tile) { return full<u32>(1) << cast<u32>(tile % kBits); }

}  // namespace

Tile FallbackFlags::word_of(const Tile& tile) const {
  return words_ + (tile % kGroups / kBits + kBeforeFlags);
}

void FallbackFlags::mark(const Tile& tile, const Tile& needs_recompute) const {
  const Tile rows = full<i32>(0, needs_recompute.shape()[0]);
  atomic_or(word_of(tile) + rows, bit_of(tile), needs_recompute);
  // Both updates are bitwise ors, which commute: neighbouring tiles need no barrier between them.
  atomic_or(words_ + rows, full<u32>(1u), needs_recompute);
}

Tile FallbackFlags::any() const { return load(words_) != std::uint32_t{0}; }
Tile FallbackFlags::is_flagged(const Tile& tile) const {
  return (load(word_of(tile)) & bit_of(tile)) != std::uint32_t{0};
}

void FallbackFlags::leave(const Tile& programs) const {
  if_(arrive_and_test_last(words_ + 1, programs), [&] {
    store(words_ + arange(Scratch::kFallbackWords), full<u32>(0u, Scratch::kFallbackWords));
  });
}

}  // namespace tegula::kernels
