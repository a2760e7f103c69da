#pragma once
// A loop whose dots form any graph: what each dot reads, and in which form. It is the input of the
// expansion to wgmma (expansion.h). It is built in tile form, before layouts are known, to choose a
// plan, and again in machine form.
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/layout/dims.h"
#include "ir/passes/mma_loop/operand_loads.h"
#include "ir/plan.h"

namespace tegula::ir {

/// Where a wgmma gets an operand from.
enum class OperandForm : std::uint8_t {
  Ring,        ///< TMA loads it in each iteration
  Gathered,    ///< the threads copy it by cp.async in each iteration: rows that an index tile
               ///< selects, or a tile of a view that has no tensor map
  Stationary,  ///< TMA loads it once, before the loop
  Register,    ///< threads compute it, in registers in the layout of A
  Shared,      ///< threads compute or load it and store it for all warpgroups: in each iteration,
               ///< or before the loop if it does not depend on the iteration
};

struct DotOperand {
  OperandForm form = OperandForm::Register;
  Value tile;                  ///< as it was loaded or computed, before permute and convert_layout
  bool is_transposed = false;  ///< the operand is the tile's transpose
};

struct GraphDot {
  OpId op;
  std::array<DotOperand, 2> operands;

  const DotOperand& a() const { return operands[0]; }
  const DotOperand& b() const { return operands[1]; }
  /// Returns true if TMA loads B in each iteration, and threads do not copy A by cp.async.
  bool is_loaded_by_tma() const {
    return b().form == OperandForm::Ring && a().form != OperandForm::Gathered;
  }
};

/// How the loads of a loop share rings. The loads of a ring are waited for and released together.
enum class RingGrouping : std::uint8_t {
  PerDot,  ///< a ring for the loads of each dot; others join the ring that was waited for before
  Single,  ///< all loads share a ring: GEMMs, which wait once for their operands; with gathered
           ///< rows only if clusters multicast the other operand
  Skewed,  ///< two back-to-back GEMMs, one late: a ring for the loads of each dot, and one for
           ///< all other loads
};

/// Shared memory and registers of a thread that the dots of loops need.
struct DotNeeds {
  std::int64_t operand_bytes = 0;      ///< that TMA loads for dots in an iteration
  std::int64_t mma1_bytes = 0;         ///< the part of these that only the last dot reads
  std::int64_t other_bytes = 0;        ///< of all other copies in an iteration
  std::int64_t stationary_bytes = 0;   ///< of each A that is loaded before its loop
  std::int64_t fixed_bytes = 0;        ///< of tiles that TMA loads once or that threads store
  std::int64_t second_slot_bytes = 0;  ///< of the largest tile that threads store
  std::int64_t accumulators = 0;       ///< registers of all accumulators, with 16 rows per warp
  std::int64_t fragments = 0;          ///< the same for each A that threads compute
  std::int64_t live_registers = 0;     ///< for the accumulators and fragments that are live at once
  bool are_gemms = true;  ///< each B is loaded by TMA in each iteration, no A is copied by
                          ///< cp.async, and no loop writes memory
  bool are_plain = true;  ///< each loop has one dot, which reads memory
  bool are_row_stacked =
      true;                   ///< a thread's registers of 64 rows come before those of the next 64
  bool can_expand = true;     ///< operands are loaded ahead, by TMA only in counted loops
  bool has_channels = false;  ///< TMA loads something
  bool has_gathers = false;   ///< threads copy something by cp.async

  std::int64_t stage_bytes() const { return operand_bytes + other_bytes; }
};

struct DotGraph {
  OpId loop;
  int num_warps = 0;
  std::vector<GraphDot> dots;            ///< in the order of the text
  std::vector<OperandLoad> loads;        ///< of the loop, by TMA: operands and others
  std::vector<OperandLoad> gathers;      ///< of the loop, by cp.async
  std::vector<OperandLoad> stationary;   ///< before the loop, by TMA
  std::vector<Value> shared;             ///< tiles of form Shared, each once
  std::unordered_map<Value, int> slots;  ///< of these, if an author's Schedule sets them
  RingGrouping rings = RingGrouping::PerDot;
  /// No operand load depends on values that an iteration computes or reads memory that the program
  /// writes. Otherwise threads have to load it in its iteration.
  bool runs_ahead = true;

  /// Returns true if threads make at most operand A of each dot and each load is one operand. The
  /// rings are not PerDot then.
  bool is_gemm() const { return rings != RingGrouping::PerDot; }
  const GraphDot* find(OpId dot) const;
  /// Returns the TMA load in the loop that loads the tile, or null.
  const OperandLoad* ring_load(const Kernel& k, Value tile) const;
  /// Returns the cp.async load that loads the tile, or null.
  const OperandLoad* gather_of(const Kernel& k, Value tile) const;
  /// Returns true if there is a single dot that reads memory, as in a GEMM, which has its own kind
  /// of plan.
  bool is_plain() const;
  /// Returns true if TMA loads something, so that all enclosing loops carry ring positions.
  bool has_channels() const { return !loads.empty() || !stationary.empty(); }
  /// Returns true if the tile is defined before the loop.
  bool is_invariant(const Kernel& k, Value tile) const;
  /// Returns true if the load is copied ahead of its iteration.
  bool is_copied(OpId load) const;
  /// Returns true if a copy by cp.async needs the op for an index tile that the loop computes.
  bool computes_indices(const Kernel& k, OpId op) const;

  /// Adds the needs of this loop to `all`.
  void add_needs(const Kernel& k, DotNeeds& all) const;
  /// Returns the slots of the tile that is stored first in an iteration. With two slots, no barrier
  /// separates the reads of one iteration from the stores of the next. Requires machine form.
  int first_shared_slots(const Kernel& k, int stages) const;
  /// Returns the slots of the ring of gathered operands: those of an author's Schedule, or the
  /// plan's stages plus one if shared memory has room, because a step starts only after the slowest
  /// warp's copies. Requires machine form.
  int gather_slots(const Kernel& k, const Plan& plan) const;

 private:
  /// Returns the bytes of shared memory of the loop with `stages` stages, including those that are
  /// reserved for stores and for Toeplitz tiles.
  std::int64_t shared_bytes(const Kernel& k, int stages) const;
};

/// Return true if loops or branches within the loop, or regions of the op, contain MMAs. Waits for
/// these cover everything in flight and do not account for the loop's own accumulators.
bool has_inner_mma(const Kernel& k, OpId loop);
bool contains_mma(const Kernel& k, OpId op);

/// Returns "ring", "ring^T", .. for remarks.
std::string name(const DotOperand& operand);

/// Returns the shared-memory type of a tile that threads store: swizzled rows of its last
/// dimension.
Type stored_type(Type tile, int slots);

/// Returns the graph of a loop for `num_warps` warps, or why its dots cannot all be wgmmas. In a
/// GEMM's loop, TMA also performs loads other than those of operands unless the context's plan
/// forbids it.
Result<DotGraph> dot_graph(const Kernel& k, OpId loop, int num_warps, PassContext& context);

/// Returns the needs of all dots of a kernel in tile form as wgmmas of `num_warps` warps, or why
/// one of them cannot be a wgmma.
Result<DotNeeds> dot_needs(const Kernel& k, int num_warps);

}  // namespace tegula::ir
