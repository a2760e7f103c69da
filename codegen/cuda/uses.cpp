// Program order, users, inlining and the ends of live ranges.
#include "codegen/cuda/uses.h"

#include <algorithm>

#include "codegen/cuda/indices.h"
#include "codegen/ptx/instructions.h"
#include "ir/loop.h"

namespace tegula::codegen::cuda {
namespace {

using ir::Family;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::Value;

/// Maximum number of ops in an inlined expression. A name is more readable than more of them.
constexpr int kMaxExpression = 7;

}  // namespace

bool is_pair_arithmetic(const ir::Kernel& kernel, OpId op) {
  const ir::OpData& d = kernel[op];
  if (ir::info(d.opcode).family != Family::Elementwise) return false;
  const Type type = kernel.type(d.results[0]);
  return type.is_vec() && type.count() % 2 == 0 && !type.is_pointer() &&
         !ptx::half_arithmetic(ir::info(d.opcode).mnemonic, type.dtype()).empty();
}

Uses::Uses(const ir::Kernel& kernel)
    : kernel_(kernel),
      order_(kernel.op_count()),
      end_(kernel.op_count()),
      users_(kernel.value_count()),
      inlined_(kernel.value_count()),
      size_(kernel.value_count(), 0) {
  number(kernel.body());
  find_users();
  ir::walk(kernel, kernel.body(), [&](OpId op) {
    if (can_inline(op)) inlined_[kernel_[op].results[0].index] = true;
    if (kernel_[op].results.size() != 1) return;
    int size = 1;
    for (Value v : kernel_[op].operands)
      if (inlined_[v.index]) size += size_[v.index];
    size_[kernel_[op].results[0].index] = size;
    if (size > kMaxExpression) inlined_[kernel_[op].results[0].index] = false;
  });
}

void Uses::number(ir::RegionId region) {
  for (OpId op : kernel_.ops(region)) {
    order_[op.index] = ++next_;
    for (ir::RegionId r : kernel_[op].regions) number(r);
    end_[op.index] = next_;
  }
}

void Uses::find_users() {
  std::vector<OpId> all;
  ir::walk(kernel_, kernel_.body(), [&](OpId op) { all.push_back(op); });
  // In reverse order, so that the users of a value precede its definition.
  std::reverse(all.begin(), all.end());
  for (OpId op : all) {
    const ir::OpData& d = kernel_[op];
    const bool is_unused =
        std::all_of(d.results.begin(), d.results.end(), [&](Value v) { return !is_used(v); });
    if (ir::info(d.opcode).has(ir::kPure) && is_unused) continue;
    for (Value v : d.operands) users_[v.index].push_back(op);
  }
  for (auto& users : users_) std::reverse(users.begin(), users.end());
}

int Uses::count_in(Value v, OpId op) const {
  return static_cast<int>(std::count(kernel_[op].operands.begin(), kernel_[op].operands.end(), v));
}

// ---- inlining

bool Uses::can_inline(OpId op) const {
  const ir::OpData& d = kernel_[op];
  const ir::OpInfo& row = ir::info(d.opcode);
  if (d.results.size() != 1 || !row.has(ir::kPure)) return false;
  const Value v = d.results[0];
  if (users_[v.index].size() != 1) return false;
  const OpId user = users_[v.index].front();
  if (kernel_[user].parent != d.parent) return false;
  // The whole warp must execute convergent ops, so they must not be operands of && or ?:.
  if (row.has(ir::kConvergent)) return false;
  const bool is_expression = row.family == Family::Elementwise || d.opcode == Opcode::Regs;
  if (!is_expression || !only_pure_between(op, user)) return false;
  if (kernel_.type(v).is_scalar()) return takes_scalar(user, v);
  if (d.opcode == Opcode::Regs &&
      (d.operands.size() != 1 || index_pattern(d.attrs.ints(ir::AttrName::indices)).empty()))
    return false;
  return takes_vector(user, op, v);
}

/// Returns true if the user writes the scalar's expression once and evaluates it once.
bool Uses::takes_scalar(OpId user, Value v) const {
  const ir::OpData& u = kernel_[user];
  const Family family = ir::info(u.opcode).family;
  if (family == Family::Elementwise) return kernel_.type(u.results[0]).is_scalar();
  if (u.opcode == Opcode::For)
    return u.operands[0] == v || std::ranges::count(ir::loop_inits(u), v) != 0;
  if (family == Family::Structure) return u.opcode != Opcode::While;
  if (u.is(Opcode::Concat, Opcode::Wgmma) || u.operands[0] == v) return true;
  return !kernel_.type(u.operands[0]).is_vec();
}

bool Uses::takes_vector(OpId user, OpId def, Value v) const {
  const ir::OpData& u = kernel_[user];
  // Such ops are emitted pair by pair on packed words.
  if (is_pair_arithmetic(kernel_, def) || is_pair_arithmetic(kernel_, user)) return false;
  if (ir::info(u.opcode).family == Family::Elementwise)
    return kernel_.type(u.results[0]).count() == kernel_.type(v).count();
  if (u.opcode == Opcode::Repack)
    return kernel_[def].opcode == Opcode::Cast && size_bits(kernel_.type(v).dtype()) < 32 &&
           is_float(kernel_.type(v).dtype()) && is_integer(kernel_.type(u.results[0]).dtype()) &&
           size_bits(kernel_.type(u.results[0]).dtype()) == 32;
  return u.opcode == Opcode::Yield;
}

bool Uses::only_pure_between(OpId def, OpId user) const {
  for (OpId op = kernel_[def].next; op && op != user; op = kernel_[op].next)
    if (!ir::info(kernel_[op].opcode).has(ir::kPure)) return false;
  return true;
}

// ---- live ranges

OpId Uses::effective(OpId user) const {
  while (kernel_[user].results.size() == 1 && is_inlined(kernel_[user].results[0]))
    user = users_[kernel_[user].results[0].index].front();
  return user;
}

OpId Uses::owner_of(OpId op) const { return kernel_[kernel_[op].parent].owner; }

bool Uses::is_inside(Value v, OpId owner) const {
  const ir::ValueData& d = kernel_[v];
  const OpId anchor = d.def ? d.def : d.region ? kernel_[d.region].owner : OpId();
  if (!anchor) return false;
  const std::uint32_t place = order_[anchor.index];
  if (!d.def && anchor == owner) return true;
  return place > order_[owner.index] && place <= end_[owner.index];
}

bool Uses::are_exclusive(OpId a, OpId b) const {
  for (OpId x = a; x; x = owner_of(x)) {
    const OpId branch = owner_of(x);
    if (!branch || kernel_[branch].opcode != Opcode::If) continue;
    for (OpId y = b; y; y = owner_of(y))
      if (owner_of(y) == branch) return kernel_[x].parent != kernel_[y].parent;
  }
  return false;
}

bool Uses::is_live_after(Value v, OpId op, std::uint32_t end) const {
  for (OpId user : users_[v.index]) {
    const OpId place = effective(user);
    if (place == op || are_exclusive(place, op)) continue;
    if (order_[place.index] > end) return true;
  }
  // A loop around `op` reads `v` again unless it redefines it.
  for (OpId loop = owner_of(op); loop; loop = owner_of(loop)) {
    if (!ir::is_loop(kernel_[loop]) || is_inside(v, loop)) continue;
    for (OpId user : users_[v.index]) {
      const std::uint32_t place = order_[user.index];
      if (place > order_[loop.index] && place <= end_[loop.index]) return true;
    }
  }
  return false;
}

bool Uses::dies_at(Value v, OpId op) const {
  const ir::ValueData& d = kernel_[v];
  // The value is not defined yet: it is a result of an op that contains `op`, or of a later op.
  if (d.def && order_[d.def.index] <= order_[op.index] && end_[d.def.index] >= order_[op.index])
    return true;
  if (d.def && order_[d.def.index] >= order_[op.index]) return true;
  return !is_live_after(v, op, order_[op.index]);
}

bool Uses::dies_inside(Value v, OpId op) const { return !is_live_after(v, op, end_[op.index]); }

}  // namespace tegula::codegen::cuda
