#pragma once
// Checks of wgmma: ops in flight, the registers that they own, and the waits for them.
#include <unordered_map>
#include <vector>

#include "codegen/check/checker.h"

namespace tegula::codegen {

class WgmmaCheck {
 public:
  explicit WgmmaCheck(Checker& c) : c_(c) {}

  void fence(SharedState& state);
  void issue(SharedState& state, ir::OpId op, const ThreadContext& context);
  void commit(SharedState& state, const ThreadContext& context);
  void wait(SharedState& state, ir::OpId op, const ThreadContext& context);

 private:
  using Values = std::vector<ir::Value>;
  const Values& origins(ir::Value v);
  void collect(ir::Value v, Values& into, std::vector<ir::Value>& passed);
  void expect_fenced(ir::OpId op);
  SmemAccess operand(ir::OpId op, std::size_t operand, int group, const Threads& threads);
  void expect_passed(const AccessStatus& s, ir::OpId wait);
  void expect_kept(const AccessStatus& s, ir::OpId wait);
  void expect_over(const SharedState& state, ir::OpId wait);
  bool originates_from(ir::Value v, ir::Value origin);

  Checker& c_;
  std::unordered_map<ir::Value, Values> origins_;
};

}  // namespace tegula::codegen
