#pragma once
// A loop whose dots form any graph: what each of them reads, and in which form. The input of the
// expansion to wgmma (expansion.h); read in tile form, where layouts are not known yet, to
// choose a plan, and again in machine form.
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/layout/dims.h"
#include "ir/passes/mma_loop/operand_loads.h"
#include "ir/plan.h"

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

  const DotOperand& a() const { return operands[0]; }
  const DotOperand& b() const { return operands[1]; }
  /// TMA loads B in each iteration, and what of A is loaded.
  bool is_loaded_by_tma() const {
    return b().form == OperandForm::Ring && a().form != OperandForm::Gathered;
  }
};

/// How the loads of a loop share rings, each of which is waited for and released as one.
enum class RingSharing : std::uint8_t {
  Joined,  ///< a ring for what each dot loads; other loads join the one that was waited for before
  One,     ///< all loads share a ring: GEMMs wait once for what they read, those of gathered rows
           ///< where clusters multicast the other operand
  Separate,  ///< of two GEMMs back to back, one late: a ring for what each dot loads, and one for
             ///< all other loads
};

/// Shared memory that the dots of loops need, and registers of a thread.
struct DotNeeds {
  std::int64_t operand_bytes = 0;      ///< that TMA copies for dots in an iteration
  std::int64_t mma1_bytes = 0;         ///< among these, those that the last dot alone reads
  std::int64_t other_bytes = 0;        ///< that are copied in an iteration besides
  std::int64_t stationary_bytes = 0;   ///< of each A that is loaded in front of its loop
  std::int64_t fixed_bytes = 0;        ///< of what TMA copies once and of tiles that threads store
  std::int64_t second_slot_bytes = 0;  ///< of the largest tile that threads store
  std::int64_t accumulators = 0;       ///< registers for those of all dots, 16 rows a warp
  std::int64_t fragments = 0;          ///< the same for each A that threads compute
  std::int64_t live_registers = 0;     ///< for the accumulators and fragments that are live at once
  bool are_gemms = true;  ///< what dots read is loaded by TMA or stays with the threads that
                          ///< make it, and no loop writes memory
  bool are_plain = true;  ///< each loop has one dot, which reads memory
  bool are_row_stacked =
      true;                   ///< a thread's registers of 64 rows come before those of the next 64
  bool can_expand = true;     ///< operands are loaded ahead, if by TMA in counted loops alone
  bool has_channels = false;  ///< TMA copies something, not the threads alone
  bool has_gathers = false;   ///< the threads copy something

  std::int64_t stage_bytes() const { return operand_bytes + other_bytes; }
};

struct DotGraph {
  OpId loop;
  int num_warps = 0;
  std::vector<GraphDot> dots;            ///< in the order of the text
  std::vector<OperandLoad> loads;        ///< of the loop, by TMA: operands and others
  std::vector<OperandLoad> gathers;      ///< of the loop, by cp.async
  std::vector<OperandLoad> stationary;   ///< in front of the loop, by TMA
  std::vector<Value> shared;             ///< tiles of form Shared, each once
  std::unordered_map<Value, int> slots;  ///< of these, where an author's Schedule says so
  RingSharing rings = RingSharing::Joined;
  /// No load of an operand depends on what an iteration computes, or reads what the program writes:
  /// else threads have to make it in its iteration.
  bool runs_ahead = true;

  /// Dots that threads make at most A for, each load being one operand of theirs: the rings are not
  /// Joined.
  bool is_gemm() const { return rings != RingSharing::Joined; }
  const GraphDot* find(OpId dot) const;
  /// The load by TMA in the loop that brings the tile, or none.
  const OperandLoad* ring_load(const Kernel& k, Value tile) const;
  /// The load by cp.async that brings the tile, or none.
  const OperandLoad* gather_of(const Kernel& k, Value tile) const;
  /// One dot that reads memory: a GEMM's, for which GEMMs have a plan of their own.
  bool is_plain() const;
  /// TMA loads something, and says so by a channel: ring positions go through all loops around.
  bool has_channels() const { return !loads.empty() || !stationary.empty(); }
  /// A load of the loop that is copied ahead of its iteration.
  bool is_copied(OpId load) const;

  /// Adds what the loop needs to what others do.
  void add_needs(const Kernel& k, DotNeeds& all) const;
  /// Slots of the tile that is stored first in an iteration: with two, no barrier separates the
  /// reads of one iteration from the stores of the next. In machine form.
  int first_shared_slots(const Kernel& k, int stages) const;
  /// Slots of the ring of gathered operands: an author's, or the plan's stages and, where shared
  /// memory has room, one more: a step begins with the slowest warp's copies. In machine form.
  int gather_slots(const Kernel& k, const Plan& plan) const;

 private:
  /// Shared memory of the loop with so many stages, and of what is staged behind it.
  std::int64_t shared_bytes(const Kernel& k, int stages) const;
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
/// loads of a GEMM's loop than its operands' unless the context's plan says otherwise.
Result<DotGraph> dot_graph(const Kernel& k, OpId loop, int num_warps, PassContext& context);

/// The needs of all dots of a kernel in tile form, as wgmmas of so many warps; or why one of them
/// can be none.
Result<DotNeeds> dot_needs(const Kernel& k, int num_warps);

}  // namespace tegula::ir
