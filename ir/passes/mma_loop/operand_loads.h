#pragma once
// Operands of dots that a loop loads from memory: the start of every pipelining pass.
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "ir/clone_op.h"
#include "ir/pipeline.h"

namespace tegula::ir {

/// All `for` loops of the kernel, outer ones first.
std::vector<OpId> loops_of(const Kernel& k);
/// The first dot that stands in the region itself; none if there is none.
OpId first_dot(const Kernel& k, RegionId r);
/// All that stands around the op are counted loops.
bool is_in_counted_loops(const Kernel& k, OpId op);

/// load_view -> [permute] -> convert_layout -> dots inside a loop body; in tile form without
/// conversion. Or a load_view alone, of a tile with other uses.
struct OperandLoad {
  OpId load, permute, convert;
  std::vector<OpId> dots;          ///< all users; the same operand of each
  Type tile;                       ///< as its users want it, without layout
  Ints axes;                       ///< view dimension of each tile dimension
  Value ring;                      ///< its slots in shared memory, once allocated
  Value same;                      ///< i1: the peer CTA of the cluster loads the same box; or none
  std::unordered_set<OpId> slice;  ///< ops of the body that the offsets need
  // As an author's Schedule has it, if there is one.
  int channel = -1;       ///< number of its channel, whose loads share a ring; -1: not said
  int slots = 0;          ///< of that ring; 0: not said
  int order = 0;          ///< among the loads of a step
  bool is_alone = false;  ///< it is not multicast
};

/// All operand loads of the loop whose offsets can be computed for another iteration, for copies by
/// the threads.
std::vector<OperandLoad> operand_loads(const Kernel& k, OpId loop, PassContext& context);

/// All loads of the loop, of tiles or rows, that TMA can make, whoever uses them, with offsets as
/// above.
std::vector<OperandLoad> tile_loads(const Kernel& k, OpId loop, PassContext& context);
/// A load of the loop as one that TMA makes, whatever its offsets are; none where it cannot.
std::optional<OperandLoad> tile_load(const Kernel& k, OpId loop, OpId load);
/// A load in front of the loop as one that TMA makes for all its iterations; none where it cannot.
std::optional<OperandLoad> stationary_load(const Kernel& k, OpId loop, OpId load);

/// A load of the loop that cp.async copies 16 bytes at a time and TMA cannot make: its rows are
/// selected by an index tile from in front of the loop, or its view has no tensor map. None where
/// that cannot be.
std::optional<OperandLoad> copied_load(const Kernel& k, OpId loop, OpId load);

/// Whether the body writes memory, which loads ahead might read.
bool writes_memory(const Kernel& k, OpId loop);

/// Bytes that one access may have along the dimension that is contiguous in memory, 16 at most; 0:
/// none is.
int access_bytes(const Kernel& k, OpId load);

/// Whether index tiles of a load are made in front of the loop: else they would have to be made
/// ahead, too.
bool has_early_indices(const Kernel& k, OpId load, OpId loop);

/// Bytes that cp.async copies at a time at least; else 8 or 16.
inline constexpr int kMinCpAsyncBytes = 4;

/// Shared memory of rings with that many slots for all operands that cp.async loads
/// (pipeline_cp_async).
std::int64_t cp_async_ring_bytes(const Kernel& k, int slots);

/// The tile's dimension that is contiguous in memory.
int contiguous_dim(const Kernel& k, const OperandLoad& load);

/// A tile's slots: outermost; lines along dimension `fast` of the tile, under the widest swizzle
/// that fits.
Type slots_type(Type tile, int fast, int slots);
/// Slots outermost; rows along the dimension that is contiguous in memory, under the widest swizzle
/// that fits.
Type ring_type(const Kernel& k, const OperandLoad& load, int slots);
/// The same for TMA, which fills the rows a segment at a time (`tma_segments`).
Type tma_ring_type(const Kernel& k, const OperandLoad& load, int slots);

/// Erases what is left of a load and of the ops between it and its dots.
void erase_load(Kernel& k, const OperandLoad& load);

/// Offsets of the loads of one iteration, computed for another value of the induction variable.
class IterationOffsets {
 public:
  IterationOffsets(Kernel& k, RegionId body, Value iv) : k_(k), body_(body) {
    map_[k[body].args[0]] = iv;
  }
  /// `opcode` on operands `into`, then view and offsets; attributes of a box.
  void copy(Builder& b, const OperandLoad& load, Opcode opcode, std::span<const Value> into);

 private:
  Kernel& k_;
  RegionId body_;
  ValueMap map_;
};

}  // namespace tegula::ir
