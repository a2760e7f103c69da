#pragma once
// A loop whose dots form any graph: what each of them reads, and in which form. The input of the
// expansion to wgmma (expand_dot_graph.h); read in tile form, where layouts are not known yet, to
// choose a plan, and again in machine form.
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/layout/dims.h"
#include "ir/passes/mma_loop/operand_loads.h"

namespace tegula::ir {

/// How a wgmma gets an operand.
enum class OperandForm : std::uint8_t {
  Ring,        ///< TMA loads it in each iteration
  Gathered,    ///< the threads copy it by cp.async in each iteration: rows that an index tile
               ///< selects, or a tile of a view that has no tensor map
  Stationary,  ///< TMA loads it once, in front of the loop
  Register,    ///< the threads have computed it, and it lies as A in their registers
  Shared,      ///< the threads have computed it, and store it for all warpgroups
};

struct DotOperand {
  OperandForm form = OperandForm::Register;
  Value tile;                  ///< as it was loaded or computed, before permute and convert_layout
  bool is_transposed = false;  ///< the operand is the tile's transpose
};

struct GraphDot {
  OpId op;
  std::array<DotOperand, 2> operands;
};

/// How the loads of a loop share rings, each of which is waited for and released as one.
enum class RingSharing : std::uint8_t {
  Joined,  ///< a ring for what each dot loads; other loads join the one that was waited for before
  One,     ///< all loads share a ring: GEMMs wait once for what they read, those of gathered rows
           ///< where clusters multicast the other operand
  Separate,  ///< of two GEMMs back to back, one late: a ring for what each dot loads, and one for
             ///< all other loads
};

/// Shared memory of loops.
struct DotGraphNeeds {
  std::int64_t stage_bytes = 0;        ///< that are copied in an iteration
  std::int64_t fixed_bytes = 0;        ///< of what is loaded once, and of tiles that threads store
  std::int64_t second_slot_bytes = 0;  ///< of the largest tile that threads store
};

struct DotGraph {
  OpId loop;
  std::vector<GraphDot> dots;            ///< in the order of the text
  std::vector<OperandLoad> loads;        ///< of the loop, by TMA: operands and others
  std::vector<OperandLoad> gathers;      ///< of the loop, by cp.async
  std::vector<OperandLoad> stationary;   ///< in front of the loop, by TMA
  std::vector<Value> shared;             ///< tiles of form Shared, each once
  std::unordered_map<Value, int> slots;  ///< of these, where an author's Schedule says so
  RingSharing rings = RingSharing::Joined;

  /// Dots that threads make at most A for, each load being one operand of theirs: the rings are not
  /// Joined.
  bool is_gemm() const { return rings != RingSharing::Joined; }
  const GraphDot* find(OpId dot) const;
  /// The load by TMA that brings the tile, or none.
  const OperandLoad* load_of(const Kernel& k, Value tile) const;

  /// The same of those in the loop alone.
  const OperandLoad* ring_load(const Kernel& k, Value tile) const;
  /// The load by cp.async that brings the tile, or none.
  const OperandLoad* gather_of(const Kernel& k, Value tile) const;
  /// One dot that reads memory: a GEMM's, which has a pipeline of its own.
  bool is_plain() const;
  /// TMA loads something, and says so by a channel: ring positions go through all loops around.
  bool has_channels() const { return !loads.empty() || !stationary.empty(); }
  /// A load of the loop that is copied ahead of its iteration.
  bool is_copied(OpId load) const;

  DotGraphNeeds needs(const Kernel& k) const;
  /// Registers of a thread for accumulators and fragments.
  std::int64_t registers(const Kernel& k, int num_warps) const;
  /// Slots of the tile that is stored first in an iteration: with two, no barrier separates the
  /// reads of one iteration from the stores of the next. In machine form.
  int first_shared_slots(const Kernel& k, int stages) const;
};

/// Whether loops or branches within the loop have MMAs: their waits cover all that is in flight,
/// and know nothing of the loop's own accumulators. Or whether the op contains some.
bool has_inner_mma(const Kernel& k, OpId loop);
bool contains_mma(const Kernel& k, OpId op);

/// "ring", "ring^T", .. for remarks.
std::string name(const DotOperand& operand);

/// Shared memory of a tile that the threads store: rows of its last dimension, swizzled.
Type stored_type(Type tile, int slots);

/// The graph of a loop, for so many warps; or why its dots cannot all be wgmmas. TMA makes other
/// loads of a GEMM's loop than its operands' only if the context's plan says so.
Result<DotGraph> dot_graph(const Kernel& k, OpId loop, int num_warps, PassContext& context);

}  // namespace tegula::ir
