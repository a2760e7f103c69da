#pragma once
// What the choice of a plan depends on: the products of a kernel, and what they need.
#include <cstdint>
#include <string_view>

#include "ir/pipeline.h"

namespace tegula::ir {

/// The most rows that a product of wgmmas may have.
inline constexpr std::int64_t kMostRows = 256;

/// Of a kernel in tile form.
struct Survey {
  std::int64_t largest_tile = 1;     ///< elements of the largest loaded, stored or reduced tile
  std::int64_t largest_product = 0;  ///< elements of the largest dot accumulator
  std::int64_t product_rows = 0;
  /// Greatest common divisors of all products' rows and columns.
  std::int64_t common_rows = 0, common_columns = 0;
  bool has_steps = false;  ///< loops with products run at least once, as some `assume` says
  bool chained = false;    ///< a dot's operand depends on another dot: rows must stay within a warp
  bool wgmma = true;       ///< every dot can be one
  std::string_view why_not_wgmma;  ///< of the first one that cannot
  bool stacks = true;  ///< and a thread's registers of 64 rows come before those of the next 64
  std::int64_t accumulators =
      0;                        ///< 32-bit registers a thread needs for all of them, 16 rows a warp
  std::int64_t fragments = 0;   ///< registers a thread needs for computed operands
  std::int64_t first_sums = 0;  ///< those for what sums begin with in each turn of their loop
  std::int64_t step_bytes = 0;  ///< of the operands that TMA can bring for one step of a loop
  std::int64_t last_bytes = 0;  ///< of those, its last product's
  std::int64_t once_bytes = 0;  ///< that it brings before
  /// Of what one step loads beside operands, those that TMA can bring; part of `step_bytes` if
  /// asked.
  std::int64_t beside_bytes = 0;
  int stages = 0;  ///< what a loop asks for; 0: nothing
};

/// With `tma_loads` what a step loads beside operands goes through the ring, too.
Survey survey(const Kernel& k, bool tma_loads = false);

/// The grid asks for it: for multicast (in another order than that of `pairs`), to alternate, for
/// stores or loads by TMA.
bool asks_for(const Kernel& k, AttrName what);
/// For loads by TMA, as far as is known in front of the plan: the grid asks, or the changes do.
bool wants_tma_loads(const Kernel& k, const PassContext& context);

/// load_view [permute] in the dot's region gives operand `i`: the load, or nothing.
OpId load_of(const Kernel& k, const OpData& dot, int i);
bool has_products(const Kernel& k, RegionId r);
/// A load_view of a tile that stands beside products in their loop, and is no operand of any.
bool is_beside_operands(const Kernel& k, OpId load);
/// TMA can bring the operand under a swizzle, contiguous along a dimension that wgmma takes.
bool is_tma_operand(const Kernel& k, const OpData& dot, int i);
/// Lists, tables and lengths in memory say how many products a tile needs.
bool is_work_read(const Kernel& k);
/// It may be started before the kernel in front of it has ended, which counts its tiles at the same
/// place.
bool starts_early(const Kernel& k);

}  // namespace tegula::ir
