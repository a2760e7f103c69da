#pragma once
// Values that depend only on the tile id but take long to compute: elements of read-only tensors
// (block counts, starts of sequences), quotients and remainders, and selections that take several
// of these (a search). A producer that knows the tile id early can compute them before the
// consumers need them.
#include "ir/clone_op.h"

namespace tegula::ir {

/// Returns the launch's program_id or num_programs, depending on the opcode.
inline Value program_of(Builder& b, Opcode opcode) {
  return b.op(opcode, {}, Type::scalar(DType::i32), {{AttrName::axis, 0}});
}

class TileMetadata {
 public:
  /// Finds the values in the kernel's body, for tiles that are program_id of num_programs: a few
  /// scalars (i32) that its ops use.
  explicit TileMetadata(const Kernel& k);

  std::size_t count() const { return facts_.size(); }
  /// Returns the values of tile `number` of `total`, computed at the insertion point.
  std::vector<Value> of(Builder& b, Value number, Value total) const;
  /// Replaces all uses of the values by `values`.
  void replace(Kernel& k, std::span<const Value> values) const;

 private:
  bool is_code(Value v);
  bool is_slow(OpId op) const;
  bool is_long_choice(Value v);
  void find(Value used);

  const Kernel* k_;
  std::unordered_map<Value, bool> code_;     ///< computed only from scalars, before all loops
  std::unordered_map<Value, bool> of_tile_;  ///< true: depends on the tile id
  std::unordered_map<Value, bool> long_choice_;
  std::vector<Value> facts_;
};

}  // namespace tegula::ir
