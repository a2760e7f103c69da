#pragma once
// Facts about a kernel that the emitter needs before it writes a line: the users of each value, the
// values that are written as part of their user's expression, and the points where the registers of
// a value may be overwritten.
#include <span>
#include <vector>

#include "ir/kernel.h"

namespace tegula::codegen::cuda {

/// Returns true for register arithmetic that the hardware performs on two f16 of a word at once.
bool is_pair_arithmetic(const ir::Kernel& kernel, ir::OpId op);

class Uses {
 public:
  explicit Uses(const ir::Kernel& kernel);

  std::span<const ir::OpId> users(ir::Value v) const { return users_[v.index]; }
  bool is_used(ir::Value v) const { return !users_[v.index].empty(); }
  /// Returns true if the value has no variable: its expression is part of that of its only user.
  bool is_inlined(ir::Value v) const { return inlined_[v.index]; }
  /// Returns true if `v` is not read after `op`, including later iterations. Reads by `op` itself
  /// are ignored.
  bool dies_at(ir::Value v, ir::OpId op) const;
  /// Returns the same, but also ignores reads inside the regions of `op`.
  bool dies_inside(ir::Value v, ir::OpId op) const;
  /// Returns the number of times that `v` is an operand of `op` itself.
  int count_in(ir::Value v, ir::OpId op) const;

 private:
  void number(ir::RegionId region);
  /// Records the uses by ops that are kept: those with effects, and those that they need.
  void find_users();
  bool can_inline(ir::OpId op) const;
  bool takes_scalar(ir::OpId user, ir::Value v) const;
  bool takes_vector(ir::OpId user, ir::OpId def, ir::Value v) const;
  bool only_pure_between(ir::OpId def, ir::OpId user) const;
  bool is_live_after(ir::Value v, ir::OpId op, std::uint32_t end) const;
  bool is_inside(ir::Value v, ir::OpId owner) const;
  bool are_exclusive(ir::OpId a, ir::OpId b) const;
  /// Returns the op at which a read takes place: an inlined op reads where its user does.
  ir::OpId effective(ir::OpId user) const;
  ir::OpId owner_of(ir::OpId op) const;

  const ir::Kernel& kernel_;
  std::vector<std::uint32_t> order_,
      end_;  ///< by op: position in program order, and that of the last op inside
  std::vector<std::vector<ir::OpId>> users_;
  std::vector<bool> inlined_;
  std::vector<int> size_;  ///< number of ops in the expression of a value
  std::uint32_t next_ = 0;
};

}  // namespace tegula::codegen::cuda
