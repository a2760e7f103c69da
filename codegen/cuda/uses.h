#pragma once
// Facts about a kernel that the emitter needs before it writes a line: the users of each value, the
// values that are written as part of their user's expression, and the points where the registers of
// a value may be overwritten.
#include <span>
#include <vector>

#include "ir/kernel.h"

namespace tegula::codegen::cuda {

/// Arithmetic of registers that the hardware does on two f16 of a word at once.
bool is_pair_arithmetic(const ir::Kernel& kernel, ir::OpId op);

class Uses {
 public:
  explicit Uses(const ir::Kernel& kernel);

  std::span<const ir::OpId> users(ir::Value v) const { return users_[v.index]; }
  bool is_used(ir::Value v) const { return !users_[v.index].empty(); }
  /// The value has no variable: its expression stands inside that of its only user.
  bool is_inlined(ir::Value v) const { return inlined_[v.index]; }
  /// Nobody reads `v` after `op`, not in a later iteration either. Reads by `op` itself do not
  /// count.
  bool dies_at(ir::Value v, ir::OpId op) const;
  /// The same, where reads inside the regions of `op` do not count either.
  bool dies_inside(ir::Value v, ir::OpId op) const;
  /// How often `v` is an operand of `op` itself.
  int count_in(ir::Value v, ir::OpId op) const;

 private:
  void number(ir::RegionId region);
  /// Counts the uses by ops that are kept: those with effects, and what they need.
  void find_users();
  bool can_inline(ir::OpId op) const;
  bool takes_scalar(ir::OpId user, ir::Value v) const;
  bool takes_vector(ir::OpId user, ir::OpId def, ir::Value v) const;
  bool only_pure_between(ir::OpId def, ir::OpId user) const;
  bool is_live_after(ir::Value v, ir::OpId op, std::uint32_t end) const;
  bool is_inside(ir::Value v, ir::OpId owner) const;
  bool are_exclusive(ir::OpId a, ir::OpId b) const;
  /// The op at which a read really happens: an inlined op reads when its user does.
  ir::OpId effective(ir::OpId user) const;
  ir::OpId owner_of(ir::OpId op) const;

  const ir::Kernel& kernel_;
  std::vector<std::uint32_t> order_,
      end_;  ///< by op: position in program order, and of the last op inside
  std::vector<std::vector<ir::OpId>> users_;
  std::vector<bool> inlined_;
  std::vector<int> size_;  ///< ops in the expression of a value
  std::uint32_t next_ = 0;
};

}  // namespace tegula::codegen::cuda
