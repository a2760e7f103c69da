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
  std::int64_t mma_rows = 0, most_rows = 0;  ///< rows of that accumulator; maximum rows of all
  /// Greatest common divisors of all accumulators' rows and columns.
  std::int64_t common_rows = 0, common_columns = 0;
  bool has_trip = false;  ///< the last mainloop runs at least once, as an `assume` states
  bool back_to_back =
      false;  ///< a dot's operand depends on another dot: rows must stay within a warp
  std::int64_t accumulator_init_registers = 0;  ///< registers for the accumulators' initial values
  int stages = 0;                               ///< stages that a loop requests; 0: none
  /// Needs of the dots as wgmmas with 16 rows per warp, or why one of them cannot be a wgmma.
  Result<DotNeeds> dots = Result<DotNeeds>::refused("there are none");

  /// Returns true if all dots can be wgmmas of GEMMs, back to back or not.
  bool are_gemms() const { return dots && dots->are_gemms; }
};

KernelSummary summarize(const Kernel& k);

/// Returns the bytes that TMA copies per iteration of GEMMs: operands, and auxiliary loads if the
/// plan has tma_aux_loads.
inline std::int64_t stage_bytes(const DotNeeds& needs, const Plan& plan) {
  return needs.operand_bytes + (plan.tma_aux_loads ? needs.other_bytes : 0);
}

/// Returns the requested fields of the kernel's plan, including preferred ones.
PlanPatch wanted_fields(const Kernel& k, const PassContext& context);
/// Returns true if TMA should execute auxiliary loads, as far as is known before a plan is chosen.
bool prefers_tma_aux_loads(const Kernel& k, const PassContext& context);

/// Returns true for a load_view of a tile in a mainloop that is not an operand of a dot.
bool is_aux_load(const Kernel& k, OpId load);
/// Returns the bytes of the largest staging buffer for TMA stores of a kernel in tile form, for all
/// warpgroups together; 0 if no store qualifies. With an author's Schedule, returns the bytes of
/// all buffers that it requests.
std::int64_t staged_bytes(const Kernel& k, const Plan& plan, const Schedule* requested = nullptr);
/// Returns true if values in memory (lists, tables, lengths) determine trip counts of mainloops.
bool has_data_dependent_trips(const Kernel& k);
/// Returns true if each pair of neighbouring tiles has as much work as any other pair.
bool has_balanced_pairs(const Kernel& k);
/// Returns true if the kernel uses programmatic dependent launch: it may start before the previous
/// kernel, which uses the same tile counter, has ended.
bool uses_pdl(const Kernel& k);

}  // namespace tegula::ir
