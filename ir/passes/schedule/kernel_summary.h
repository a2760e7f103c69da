#pragma once
// Summary of a kernel that the choice of a plan depends on: its MMAs, and their requirements.
#include <cstdint>
#include <string_view>

#include "ir/pipeline.h"

namespace tegula::ir {

/// The most rows that a product of wgmmas may have.
inline constexpr std::int64_t kMaxMmaRows = 256;

/// Summary of the MMAs, loads and stores of a kernel in tile form.
struct KernelSummary {
  std::int64_t max_tile_elems = 1;  ///< elements of the largest loaded, stored or reduced tile
  std::int64_t max_accumulator_elems = 0;  ///< elements of the largest dot accumulator
  std::int64_t mma_rows = 0;
  /// Greatest common divisors of all accumulators' rows and columns.
  std::int64_t common_rows = 0, common_columns = 0;
  bool has_trip = false;  ///< mainloops run at least once, as some `assume` says
  bool back_to_back =
      false;          ///< a dot's operand depends on another dot: rows must stay within a warp
  bool wgmma = true;  ///< every dot can be one
  std::string_view why_not_wgmma;  ///< reason of the first dot that cannot
  bool is_row_stacked = true;  ///< a thread's registers of 64 rows come before those of the next 64
  std::int64_t accumulators =
      0;                       ///< 32-bit registers a thread needs for all of them, 16 rows a warp
  std::int64_t fragments = 0;  ///< registers a thread needs for computed operands
  std::int64_t accumulator_init_registers = 0;  ///< registers for the accumulators' initial values
  std::int64_t stage_bytes = 0;       ///< bytes of the operands that TMA can load per iteration
  std::int64_t mma1_bytes = 0;        ///< bytes among these of the last MMA
  std::int64_t stationary_bytes = 0;  ///< bytes of stationary operands
  /// Bytes per stage of auxiliary (non-operand) loads that TMA can make; included in `stage_bytes`
  /// if requested.
  std::int64_t aux_bytes = 0;
  int stages = 0;  ///< stages that a loop asks for; 0: none
};

/// Summarizes a kernel. With `tma_aux_loads` auxiliary loads go through a ring, too.
KernelSummary summarize(const Kernel& k, bool tma_aux_loads = false);

/// The fields that the plan of the kernel is to have, preferred ones among them.
PlanPatch wanted_fields(const Kernel& k, const PassContext& context);
/// Whether auxiliary loads go by TMA, as far as is known in front of the plan.
bool wants_tma_aux_loads(const Kernel& k, const PassContext& context);

/// The load of operand `i` by load_view [permute] in the dot's region, or nothing.
OpId load_of(const Kernel& k, OpId dot, std::size_t i);
bool has_mma(const Kernel& k, RegionId r);
/// All that stands around the op are counted loops.
bool is_in_counted_loops(const Kernel& k, OpId op);
/// Whether a load_view of a tile stands in a mainloop, and is no operand of any dot.
bool is_aux_load(const Kernel& k, OpId load);
/// Whether TMA can load the operand under a swizzle, contiguous along a dimension that wgmma takes.
bool is_tma_operand(const Kernel& k, OpId dot, std::size_t i);
/// Bytes of the largest staging buffer for TMA stores of a kernel in tile form, for all warpgroups
/// together; 0 if no store qualifies.
std::int64_t staged_bytes(const Kernel& k, const Plan& plan);
/// Whether lists, tables or lengths in memory determine the trip counts of mainloops.
bool has_data_dependent_trips(const Kernel& k);
/// It may be started before the kernel in front of it has ended, which counts its tiles at the same
/// place.
bool uses_pdl(const Kernel& k);

}  // namespace tegula::ir
