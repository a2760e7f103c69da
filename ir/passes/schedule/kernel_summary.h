#pragma once
// Summary of a kernel that the choice of a plan depends on: its MMAs, and their requirements.
#include <cstdint>

#include "ir/passes/dot_graph/dot_graph.h"
#include "ir/pipeline.h"

namespace tegula::ir {

/// Summary of the MMAs, loads and stores of a kernel in tile form.
struct KernelSummary {
  std::int64_t max_tile_elems = 1;  ///< elements of the largest loaded, stored or reduced tile
  std::int64_t max_accumulator_elems = 0;    ///< elements of the largest dot accumulator
  std::int64_t mma_rows = 0, most_rows = 0;  ///< rows of that one, and of the dots with the most
  /// Greatest common divisors of all accumulators' rows and columns.
  std::int64_t common_rows = 0, common_columns = 0;
  bool has_trip = false;  ///< mainloops run at least once, as some `assume` says
  bool back_to_back =
      false;  ///< a dot's operand depends on another dot: rows must stay within a warp
  std::int64_t accumulator_init_registers = 0;  ///< registers for the accumulators' initial values
  int stages = 0;                               ///< stages that a loop asks for; 0: none
  /// The needs of the dots as wgmmas of 16 rows a warp; or why one of them can be none.
  Result<DotNeeds> dots = Result<DotNeeds>::refused("there are none");

  /// All dots are wgmmas of GEMMs, back to back or not.
  bool are_gemms() const { return dots && dots->are_gemms; }
};

KernelSummary summarize(const Kernel& k);

/// Bytes that TMA copies in an iteration of GEMMs: operands, and if the plan says so all others.
inline std::int64_t stage_bytes(const DotNeeds& needs, const Plan& plan) {
  return needs.operand_bytes + (plan.tma_aux_loads ? needs.other_bytes : 0);
}

/// The fields that the plan of the kernel is to have, preferred ones among them.
PlanPatch wanted_fields(const Kernel& k, const PassContext& context);
/// Whether auxiliary loads go by TMA, as far as is known in front of the plan.
bool wants_tma_aux_loads(const Kernel& k, const PassContext& context);

/// Whether a load_view of a tile stands in a mainloop, and is no operand of any dot.
bool is_aux_load(const Kernel& k, OpId load);
/// Bytes of the largest staging buffer for TMA stores of a kernel in tile form, for all warpgroups
/// together; 0 if no store qualifies. Of an author's Schedule, bytes of all the buffers that it
/// asks for.
std::int64_t staged_bytes(const Kernel& k, const Plan& plan, const Schedule* asked = nullptr);
/// Whether lists, tables or lengths in memory determine the trip counts of mainloops.
bool has_data_dependent_trips(const Kernel& k);
/// Whether two neighbouring tiles are as much work as any other two.
bool has_balanced_pairs(const Kernel& k);
/// It may be started before the kernel in front of it has ended, which counts its tiles at the same
/// place.
bool uses_pdl(const Kernel& k);

}  // namespace tegula::ir
