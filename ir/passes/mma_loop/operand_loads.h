#pragma once
// Operands of dots that a loop loads from memory. Every pipelining pass starts from these.
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/page_boxes.h"
#include "ir/clone_op.h"
#include "ir/pipeline.h"

namespace tegula::ir {

/// Returns all `for` loops of the kernel, outer loops first.
std::vector<OpId> loops_of(const Kernel& k);
/// Returns the first dot directly in the region, or a null op.
OpId first_dot(const Kernel& k, RegionId r);
/// Returns true if only counted loops enclose the op.
bool is_in_counted_loops(const Kernel& k, OpId op);

/// A chain load_view -> [permute] -> convert_layout -> dots in a loop body (without convert_layout
/// in tile form), or only a load_view of a tile with other uses.
struct OperandLoad {
  OpId load, permute, convert;
  std::vector<OpId> dots;  ///< all users; the same operand of each
  Type tile;               ///< as its users read it, without layout
  Ints axes;               ///< view dimension of each tile dimension
  Value ring;              ///< its slots in shared memory, once allocated
  Value is_shared;         ///< i1: the peer CTA of the cluster loads the same box; or none
  std::unordered_set<OpId> offset_ops;  ///< ops of the body that the offsets need
  /// Layout of index tiles that the body computes, once their ring is allocated, and tiles from
  /// outside of the loop in that layout.
  const LinearLayout* lines = nullptr;
  ValueMap placed = {};
  // Set by an author's Schedule, if there is one.
  int channel = -1;  ///< index of its channel, whose loads share a ring; -1: unspecified
  int slots = 0;     ///< of that ring; 0: unspecified
  int order = 0;     ///< among the loads of a step
  bool no_multicast = false;
};

/// Returns the operand loads of the loop that threads can copy ahead, because their offsets can be
/// computed for another iteration.
std::vector<OperandLoad> operand_loads(const Kernel& k, OpId loop, PassContext& context);

/// Returns all loads of tiles or rows in the loop that TMA can perform, whatever uses them, and
/// whose offsets can be computed for another iteration.
std::vector<OperandLoad> tile_loads(const Kernel& k, OpId loop, PassContext& context);
/// Returns a load of the loop as a TMA load, whatever its offsets are, or nothing if TMA cannot
/// perform it.
std::optional<OperandLoad> tile_load(const Kernel& k, OpId loop, OpId load);
/// Returns a load before the loop as a TMA load for all iterations, or nothing if TMA cannot
/// perform it.
std::optional<OperandLoad> stationary_load(const Kernel& k, OpId loop, OpId load);

/// Returns a load of the loop that cp.async copies 16 bytes at a time and TMA cannot perform,
/// because an index tile selects its rows or its view has no tensor map.
/// Returns nothing for other loads.
std::optional<OperandLoad> copied_load(const Kernel& k, OpId loop, OpId load);

/// Returns true if the body writes memory, which loads ahead might read.
bool writes_memory(const Kernel& k, OpId loop);

/// Returns the bytes that one access may have along the dimension that is contiguous in memory, at
/// most 16; 0 if no dimension is contiguous.
int access_bytes(const Kernel& k, OpId load);

/// Smallest copy by cp.async in bytes; the other sizes are 8 and 16.
inline constexpr int kMinCpAsyncBytes = 4;

/// Returns the bytes of shared memory of rings with `slots` slots for all operands that cp.async
/// loads (pipeline_cp_async).
std::int64_t cp_async_ring_bytes(const Kernel& k, int slots);

/// Returns the tile's dimension that is contiguous in memory, or -1.
int contiguous_dim(const Kernel& k, const OperandLoad& load);

/// Returns the type of a tile's slots. Slots are the outermost dimension; lines are along dimension
/// `fast` of the tile, with the widest swizzle that fits.
Type slots_type(Type tile, int fast, int slots);
/// Returns the type of a load's slots. Slots are the outermost dimension; rows are along the
/// dimension that is contiguous in memory, with the widest swizzle that fits.
Type ring_type(const Kernel& k, const OperandLoad& load, int slots);
/// Returns the same for TMA, which fills the rows one segment at a time (`tma_segments`).
Type tma_ring_type(const Kernel& k, const OperandLoad& load, int slots);

/// Erases what remains of a load and of the ops between it and its dots.
void erase_load(Kernel& k, const OperandLoad& load);

/// Computes the offsets of the loads of one iteration for another value of the induction variable.
class IterationOffsets {
 public:
  IterationOffsets(Kernel& k, RegionId body, Value iv) : k_(k), body_(body), iv_(iv) {}
  /// Reads the table entries of a TMA load from pages, so that they arrive while the producer waits
  /// for a slot. Does nothing for other loads.
  void read_entries(Builder& b, const OperandLoad& load);
  /// Creates an op `opcode` on the operands `into`, then the view and offsets of the load, with the
  /// attributes of its box.
  void copy(Builder& b, const OperandLoad& load, Opcode opcode, std::span<const Value> into);
  /// Returns the result of an op of the load's slice in this iteration.
  Value read(Builder& b, const OperandLoad& load, OpId op);
  /// Makes `made` the value of `v`, of the load's slice, in this iteration.
  void define(const OperandLoad& load, Value v, Value made) { maps_[load.lines][v] = made; }

 private:
  ValueMap& copy_slice(Builder& b, const OperandLoad& load);
  Value element(Builder& b, Value v, std::int64_t index);
  std::optional<PageBoxes> page_boxes_of(const OperandLoad& load, Opcode opcode) const;
  void set_boxes(Builder& b, BoxAccess& a, const PageBoxes& pages, std::int64_t tile_rows);

  Kernel& k_;
  RegionId body_;
  Value iv_;
  std::unordered_map<const LinearLayout*, ValueMap> maps_;  ///< by layout of the index tiles
  std::unordered_map<std::int64_t, ValueMap> elements_;     ///< elements of tiles, by index
};

}  // namespace tegula::ir
