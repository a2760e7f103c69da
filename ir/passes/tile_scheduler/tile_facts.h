#pragma once
// What is known of a tile from its number alone but takes long to find out: elements of tensors
// that the kernel only reads (how many blocks, where a sequence begins), quotients and remainders,
// choices that take several of these (a search).
// Who learns the number early can find it out before others need it.
#include "ir/clone_op.h"

namespace tegula::ir {

class TileFacts {
 public:
  /// Of the kernel's body, for tiles that are program_id of num_programs: scalars (i32) that ops of
  /// it use, a few at most.
  explicit TileFacts(const Kernel& k);

  std::size_t count() const { return facts_.size(); }
  /// Those of tile `number` of `total`, computed at the builder's point.
  std::vector<Value> of(Builder& b, Value number, Value total) const;
  /// From here on `values` stand for them.
  void replace(Kernel& k, std::span<const Value> values) const;

 private:
  bool is_code(Value v);
  bool is_slow(OpId op) const;
  bool is_long_choice(Value v);
  void find(Value used);

  const Kernel* k_;
  std::unordered_map<Value, bool> code_;     ///< computed from scalars alone, in front of all loops
  std::unordered_map<Value, bool> of_tile_;  ///< of those: depends on the tile's number
  std::unordered_map<Value, bool> long_choice_;
  std::vector<Value> facts_;
};

}  // namespace tegula::ir
