#pragma once
// Plans how a tile changes from one distributed layout to another.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/layout/swizzle.h"

namespace tegula::ir {

enum class ConversionKind : std::uint8_t {
  Identity,   ///< same registers
  Registers,  ///< between registers of the same thread
  Shuffles,   ///< between lanes of the same warp
  Shared,     ///< through shared memory
};

/// Exchange of registers r and r ^ flip, for every r, in lanes in which an odd number of the bits
/// of `lanes` are set.
struct LaneSwap {
  std::uint32_t lanes = 0;
  int flip = 0;
};

/// One 32-bit shuffle: lane l receives registers `from` of lane source(l) ^ lane_flip, packed in
/// one word, and stores them to registers `to`.
struct Shuffle {
  int lane_flip = 0;
  std::vector<int> from;
  std::vector<int> to;
};

/// Conversion within a warp: swaps in the source registers, shuffles into the target registers, and
/// swaps in the target registers. The swaps are needed because a lane provides the same register to
/// all its readers, while the required register depends on the reader.
struct ShufflePlan {
  std::vector<LaneSwap> before;
  /// Lane l reads from the lane that is the XOR of the entries of the set bits of l.
  std::array<int, 5> source_of_bit{};
  std::vector<Shuffle> shuffles;
  std::vector<LaneSwap> after;

  /// Returns true if the source of each lane is the lane itself: each shuffle is then a butterfly,
  /// or, if lane_flip is zero, not a shuffle at all.
  bool is_butterfly() const;
  /// Returns the number of shuffles that cross lanes.
  int crossings() const;
};

struct Conversion {
  ConversionKind kind = ConversionKind::Identity;
  /// For kind Registers: the source register of each target register.
  std::vector<int> registers;
  ShufflePlan shuffle;
  std::optional<SharedExchange> shared;
};

struct ConversionOptions {
  ExchangeOptions exchange;
  /// Forbids kinds that the caller cannot use, for example shared memory in a role without
  /// barriers. Shared is always possible if allowed.
  bool allow_shuffles = true;
  bool allow_shared = true;
  /// Cycles charged to a conversion through shared memory in addition to its wavefronts, for
  /// barriers and latency.
  int shared_overhead = 64;
};

/// Plans the conversion. Padding is copied if both layouts have the same padding; otherwise its
/// content is unspecified. Returns a refusal if the shapes differ, if the conversion needs a kind
/// that `options` forbid, or if neither layout contains every element.
Result<Conversion> plan_conversion(const LinearLayout& from, const LinearLayout& to,
                                   int element_bytes, const ConversionOptions& options = {});

}  // namespace tegula::ir
