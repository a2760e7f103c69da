#pragma once
// Operands of matrix products that a loop loads from memory: what every pipelining pass starts
// from.
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "ir/clone_op.h"
#include "ir/pipeline.h"

namespace tegula::ir {

/// All `for` loops of the kernel, outer ones first.
std::vector<OpId> loops_of(const Kernel& k);

/// load_view -> [permute] -> convert_layout -> dots inside a loop body; in tile form none is
/// converted. Or a load_view alone, of what is used in other ways.
struct OperandLoad {
  OpId load, permute, convert;
  std::vector<OpId> dots;          ///< all users; the same operand of each
  Type tile;                       ///< as its users want it, without layout
  Ints axes;                       ///< view dimension of each tile dimension
  Value ring;                      ///< its slots in shared memory, once allocated
  Value same;                      ///< i1: the cluster's other program loads the same box; or none
  std::unordered_set<OpId> slice;  ///< ops of the body that the offsets need
};

/// All of them in the loop whose offsets can be computed for another step.
std::vector<OperandLoad> operand_loads(const Kernel& k, OpId loop, PassContext& context);

/// Tiles that the loop loads for other uses, offsets as above, that TMA can bring.
std::vector<OperandLoad> loads_beside_operands(const Kernel& k, OpId loop, PassContext& context);

/// Operand `operand` of a dot in the loop, where it is loaded in front of the loop and used by
/// nothing else; nothing where it is made another way.
std::optional<OperandLoad> invariant_load(const Kernel& k, OpId loop, OpId dot,
                                          std::size_t operand);

/// A body that writes memory might write what copies read ahead; remarked if it does.
bool writes_memory(const Kernel& k, OpId loop, PassContext& context);

/// Bytes that one access may have along the dimension that is contiguous in memory, 16 at most; 0:
/// none is.
int access_bytes(const Kernel& k, const OperandLoad& load);

/// cp.async can bring it: 4, 8 or 16 bytes at a time.
bool is_copied_by_threads(const Kernel& k, const OperandLoad& load);

/// Of the shared memory, what rings of that many slots take in which threads' copies bring what
/// products of all loops load (pipeline_copies).
std::int64_t copied_ring_bytes(const Kernel& k, int slots);

/// Slots outermost; rows along the dimension that is contiguous in memory, under the widest swizzle
/// that fits.
Type ring_type(const Kernel& k, const OperandLoad& load, int slots);

void erase_load(Kernel& k, const OperandLoad& load);

/// Issues the copies of one step: the offsets of the loads, computed for another value of the
/// induction variable.
class StepOffsets {
 public:
  StepOffsets(Kernel& k, RegionId body, Value iv) : k_(k), body_(body) {
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
