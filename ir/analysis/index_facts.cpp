// Derives divisors and containment of index values from their definitions.
#include "ir/analysis/index_facts.h"

#include <algorithm>
#include <numeric>

#include "ir/analysis/walk_depth.h"
#include "ir/eval/cell.h"

namespace tegula::ir {
namespace {

std::int64_t divisor(const Kernel& k, Value v, int depth);

std::int64_t divisor_of_dim(const Kernel& k, const OpData& d) {
  const auto axis = static_cast<std::size_t>(d.attrs.i(AttrName::axis));
  return (d.is(Opcode::ViewDim) ? extent_divisor : stride_divisor)(k.type(d.operands[0]), axis);
}

/// Returns a divisor of a loop's induction variable, which starts at lo and advances by step.
std::int64_t divisor_of_argument(const Kernel& k, Value v, int depth) {
  const ValueData& d = k[v];
  const OpId owner = d.region ? k[d.region].owner : OpId();
  if (!owner || k[owner].opcode != Opcode::For || d.position != 0) return 1;
  return std::gcd(divisor(k, k[owner].operands[0], depth), divisor(k, k[owner].operands[2], depth));
}

/// Returns the factor that remains when a number wraps around.
std::int64_t power_of_two_in(std::int64_t divisor) { return divisor & -divisor; }

std::int64_t divisor(const Kernel& k, Value v, int depth) {
  if (depth > kMaxWalkDepth) return 1;
  const OpId def = k[v].def;
  if (!def) {
    for (const Param& p : k.params())
      if (p.value == v) return p.attrs.i(AttrName::divisibility, 1);
    return divisor_of_argument(k, v, depth + 1);
  }
  const OpData& d = k[def];
  const auto of = [&](std::size_t i) { return divisor(k, d.operands[i], depth + 1); };
  using enum Opcode;
  if (const auto c = constant_value(k, v)) return std::abs(*c);
  if (d.is(ViewDim, ViewStride)) return divisor_of_dim(k, d);
  if (d.opcode == Mul) {
    const std::int64_t a = of(0), b = of(1);
    return a > (std::int64_t{1} << 30) || b > (std::int64_t{1} << 30) ? std::max(a, b) : a * b;
  }
  if (d.is(Add, Sub, Min, Max)) return std::gcd(of(0), of(1));
  if (d.opcode == Select) return std::gcd(of(1), of(2));
  if (d.opcode == Neg) return of(0);
  if (d.opcode == Cast) {
    const DType from = k.type(d.operands[0]).dtype();
    if (is_integer(from) && holds_all_of(k.type(v).dtype(), from)) return of(0);
    return is_integer(from) && !d.attrs.has(AttrName::sat) ? power_of_two_in(of(0)) : 1;
  }
  if (d.opcode == Shl)
    if (const auto c = constant_value(k, d.operands[1]); c && *c >= 0 && *c < 30)
      return of(0) << *c;
  return 1;
}

}  // namespace

bool holds_all_of(DType type, DType of) {
  const int more = size_bits(type) - size_bits(of);
  return is_signed(type) == is_signed(of) ? more >= 0 : is_signed(type) && more > 0;
}

bool is_zero(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def || k[def].opcode != Opcode::Const) return false;
  const AttrValue* value = k[def].attrs.find(AttrName::value);
  return *value == AttrValue(0.0) || *value == AttrValue(std::int64_t{0});
}

std::optional<std::int64_t> constant_value(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def) return std::nullopt;
  const OpData& d = k[def];
  if (d.opcode == Opcode::Cast && is_integer(k.type(v).dtype())) {
    const auto number = constant_value(k, d.operands[0]);
    if (!number || d.attrs.has(AttrName::sat)) return std::nullopt;
    return canonical(Cell{.i = *number}, k.type(v).dtype()).i;
  }
  if (d.opcode != Opcode::Const || k.type(v).is_pointer()) return std::nullopt;
  const auto* i = std::get_if<std::int64_t>(d.attrs.find(AttrName::value));
  return i ? std::optional(*i) : std::nullopt;
}

std::int64_t extent_divisor(Type view, std::size_t axis) {
  const std::int64_t extent = view.shape()[axis];
  return extent != kDynamic ? extent : view.view_facts().dim_div[axis];
}

std::int64_t stride_divisor(Type view, std::size_t axis) {
  const std::int64_t stride = view.view_facts().strides[axis];
  return stride != kDynamic ? stride : view.view_facts().stride_div[axis];
}

std::int64_t divisor_of(const Kernel& k, Value v) { return divisor(k, v, 0); }

bool is_cluster_uniform(const Kernel& k, Value v, int depth) {
  const OpId def = k[v].def;
  if (!def) return !k[v].region;  // a parameter
  const OpData& d = k[def];
  if (depth > kMaxWalkDepth || d.is(Opcode::ClusterRank, Opcode::ProgramId, Opcode::ClusterTile) ||
      !info(d.opcode).has(kPure))
    return false;
  return std::ranges::all_of(d.operands,
                             [&](Value o) { return is_cluster_uniform(k, o, depth + 1); });
}

bool is_same(const Kernel& k, Value a, Value b, int depth) {
  if (a == b) return true;
  const OpId x = k[a].def, y = k[b].def;
  if (!x || !y || depth > kMaxWalkDepth || k.type(a) != k.type(b)) return false;
  const OpData &p = k[x], &q = k[y];
  if (p.opcode != q.opcode || p.attrs != q.attrs || !info(p.opcode).has(kPure) ||
      p.operands.size() != q.operands.size() || !p.regions.empty())
    return false;
  const auto is_equal = [&](std::size_t i, std::size_t j) {
    return is_same(k, p.operands[i], q.operands[j], depth + 1);
  };
  bool in_order = true;
  for (std::size_t i = 0; in_order && i < p.operands.size(); ++i) in_order = is_equal(i, i);
  return in_order || (info(p.opcode).has(kCommutative) && is_equal(0, 1) && is_equal(1, 0));
}

}  // namespace tegula::ir
