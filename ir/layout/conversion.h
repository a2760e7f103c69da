#pragma once
// How a tile changes from one distributed layout to another.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/layout/swizzle.h"

namespace tegula::ir {

enum class ConversionKind : std::uint8_t {
  Identity,   ///< same registers
  Registers,  ///< the same thread holds every element, elsewhere
  Shuffles,   ///< the same warp does
  Shared,     ///< through shared memory
};

/// Exchange of registers r and r ^ flip, for every r, in lanes with an odd number of the bits
/// `lanes` set.
struct LaneSwap {
  std::uint32_t lanes = 0;
  int flip = 0;
};

/// One 32-bit shuffle: lane l receives, packed in one word, what lane source(l) ^ lane_flip has in
/// registers `from` and puts it into `to`.
struct Shuffle {
  int lane_flip = 0;
  std::vector<int> from;
  std::vector<int> to;
};

/// Conversion within a warp: swaps in the source registers, shuffles into the target registers,
/// swaps in these. The swaps exist because a lane gives the same register to whoever reads it,
/// while the reader's wish depends on the reader.
struct ShufflePlan {
  std::vector<LaneSwap> before;
  /// Lane l takes from the lane that is the XOR of the entries of l's set bits.
  std::array<int, 5> source_of_bit{};
  std::vector<Shuffle> shuffles;
  std::vector<LaneSwap> after;

  /// Lanes take from themselves: each shuffle is a butterfly, or, with lane_flip zero, no shuffle
  /// at all.
  bool is_butterfly() const;
  /// Shuffles that cross lanes.
  int crossings() const;
};

struct Conversion {
  ConversionKind kind = ConversionKind::Identity;
  /// Registers: the source register of each target register.
  std::vector<int> registers;
  ShufflePlan shuffle;
  std::optional<SharedExchange> shared;
};

struct ConversionOptions {
  ExchangeOptions exchange;
  /// Forbids the ways a caller cannot use (a role without barriers, say). Shared is always
  /// possible.
  bool allow_shuffles = true;
  bool allow_shared = true;
  /// Cycles charged to a conversion through shared memory beyond its wavefronts: barriers and
  /// latency.
  int shared_overhead = 64;
};

/// Padding is carried along where both pad alike, else its content is unspecified. Refused only if
/// shuffles would do but are forbidden, or shared memory is needed and forbidden, or neither layout
/// holds every element.
Result<Conversion> plan_conversion(const LinearLayout& from, const LinearLayout& to,
                                   int element_bytes, const ConversionOptions& options = {});

}  // namespace tegula::ir
