// Divisors and containment of index values, by following their definitions.
#include "ir/analysis/bounds.h"

#include <algorithm>
#include <numeric>

namespace tegula::ir {
namespace {

constexpr int kMaxDepth = 12;

std::int64_t divisor(const Kernel& k, Value v, int depth);

std::int64_t divisor_of_dim(const Kernel& k, const OpData& d) {
  const Type view = k.type(d.operands[0]);
  const auto axis = static_cast<std::size_t>(d.attrs.i(AttrName::axis));
  const ViewFacts& facts = view.view_facts();
  if (d.opcode == Opcode::ViewStride)
    return facts.strides[axis] != kDynamic ? facts.strides[axis] : facts.stride_div[axis];
  return view.shape()[axis] != kDynamic ? view.shape()[axis] : facts.dim_div[axis];
}

/// Of a loop's induction variable: it starts at lo and moves by step.
std::int64_t divisor_of_argument(const Kernel& k, Value v, int depth) {
  const ValueData& d = k[v];
  const OpId owner = d.region ? k[d.region].owner : OpId();
  if (!owner || k[owner].opcode != Opcode::For || d.position != 0) return 1;
  return std::gcd(divisor(k, k[owner].operands[0], depth), divisor(k, k[owner].operands[2], depth));
}

std::int64_t divisor(const Kernel& k, Value v, int depth) {
  if (depth > kMaxDepth) return 1;
  const OpId def = k[v].def;
  if (!def) {
    for (const Param& p : k.params())
      if (p.value == v) return p.attrs.i(AttrName::div, 1);
    return divisor_of_argument(k, v, depth + 1);
  }
  const OpData& d = k[def];
  const auto of = [&](std::size_t i) { return divisor(k, d.operands[i], depth + 1); };
  using enum Opcode;
  if (const auto c = as_constant(k, v)) return std::abs(*c);
  if (d.opcode == ViewDim || d.opcode == ViewStride) return divisor_of_dim(k, d);
  if (d.opcode == Mul) {
    const std::int64_t a = of(0), b = of(1);
    return a > (std::int64_t{1} << 30) || b > (std::int64_t{1} << 30) ? std::max(a, b) : a * b;
  }
  if (d.opcode == Add || d.opcode == Sub || d.opcode == Min || d.opcode == Max)
    return std::gcd(of(0), of(1));
  if (d.opcode == Select) return std::gcd(of(1), of(2));
  if (d.opcode == Cast || d.opcode == Neg) return of(0);
  if (d.opcode == Shl)
    if (const auto c = as_constant(k, d.operands[1]); c && *c >= 0 && *c < 30) return of(0) << *c;
  return 1;
}

}  // namespace

bool is_zero(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def || k[def].opcode != Opcode::Const) return false;
  const AttrValue* value = k[def].attrs.find(AttrName::value);
  return *value == AttrValue(0.0) || *value == AttrValue(std::int64_t{0});
}

std::optional<std::int64_t> as_constant(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def) return std::nullopt;
  const OpData& d = k[def];
  if (d.opcode == Opcode::Cast && is_integer(k.type(v).dtype()))
    return as_constant(k, d.operands[0]);
  if (d.opcode != Opcode::Const || k.type(v).is_pointer()) return std::nullopt;
  const auto* i = std::get_if<std::int64_t>(d.attrs.find(AttrName::value));
  return i ? std::optional(*i) : std::nullopt;
}

std::int64_t divisor_of(const Kernel& k, Value v) { return divisor(k, v, 0); }

bool is_equal_in_cluster(const Kernel& k, Value v, int depth) {
  const OpId def = k[v].def;
  if (!def) return !k[v].region;  // a parameter
  const OpData& d = k[def];
  if (depth > kMaxDepth || d.opcode == Opcode::ClusterRank || d.opcode == Opcode::ProgramId ||
      d.opcode == Opcode::ClusterTile || !info(d.opcode).has(kPure))
    return false;
  return std::ranges::all_of(d.operands,
                             [&](Value o) { return is_equal_in_cluster(k, o, depth + 1); });
}

bool is_same(const Kernel& k, Value a, Value b, int depth) {
  if (a == b) return true;
  const OpId x = k[a].def, y = k[b].def;
  if (!x || !y || depth > kMaxDepth || k.type(a) != k.type(b)) return false;
  const OpData &p = k[x], &q = k[y];
  if (p.opcode != q.opcode || p.attrs != q.attrs || !info(p.opcode).has(kPure) ||
      p.operands.size() != q.operands.size() || !p.regions.empty())
    return false;
  const auto same = [&](std::size_t i, std::size_t j) {
    return is_same(k, p.operands[i], q.operands[j], depth + 1);
  };
  bool in_order = true;
  for (std::size_t i = 0; in_order && i < p.operands.size(); ++i) in_order = same(i, i);
  return in_order || (info(p.opcode).has(kCommutative) && same(0, 1) && same(1, 0));
}

Bounds::Bounds(const Kernel& k) : k_(k) {
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::Assume) return;
    const OpId def = k[k[op].operands[0]].def;
    if (!def || k[def].opcode != Opcode::Cmp) return;
    const Value a = k[def].operands[0], b = k[def].operands[1];
    const std::string_view pred = k[def].attrs.s(AttrName::pred);
    if (pred == "lt") less_than_[a].push_back(b);
    const RegionId home = k[a].def ? k[k[a].def].parent : k[a].region;
    if (pred == "ge" && is_zero(k, b) && k[op].parent == home) at_least_zero_.insert(a);
  });
}

bool Bounds::is_non_negative(Value v, int depth) const {
  if (depth > kMaxDepth) return false;
  // A grid index: the fact that bounds it from above is stated only of what counts from 0.
  if (less_than_.contains(v)) return true;
  if (const auto c = as_constant(k_, v)) return *c >= 0;
  const ValueData& value = k_[v];
  if (!value.def) {
    const OpId owner = value.region ? k_[value.region].owner : OpId();
    const bool is_iv = owner && k_[owner].opcode == Opcode::For && value.position == 0;
    return is_iv && is_non_negative(k_[owner].operands[0], depth + 1);
  }
  const OpData& d = k_[value.def];
  const auto of = [&](std::size_t i) { return is_non_negative(d.operands[i], depth + 1); };
  using enum Opcode;
  if (d.opcode == ViewDim || d.opcode == ProgramId || d.opcode == NumPrograms ||
      d.opcode == ClusterRank || d.opcode == ClusterId || d.opcode == ClusterTile)
    return true;
  if (d.opcode == Cast) return of(0);
  if (d.opcode == Max) return of(0) || of(1);
  if (d.opcode == Select) return of(1) && of(2);
  if (d.opcode == Rem) return of(0);
  if (d.opcode == Add || d.opcode == Mul || d.opcode == Div || d.opcode == Min)
    return of(0) && of(1);
  return false;
}

bool Bounds::is_less(Value a, Value b) const {
  const auto it = less_than_.find(a);
  return it != less_than_.end() && std::ranges::find(it->second, b) != it->second.end();
}

bool Bounds::is_dim(Value v, Value view, int axis) const {
  const OpId def = k_[v].def;
  if (!def) return false;
  const OpData& d = k_[def];
  if (d.opcode == Opcode::ViewDim)
    return d.operands[0] == view && d.attrs.i(AttrName::axis) == axis;
  return d.opcode == Opcode::Cast && is_dim(d.operands[0], view, axis);
}

/// count == (dim + block - 1) / block, as `cdiv` writes it.
bool Bounds::is_tile_count(Value count, std::int64_t block, Value view, int axis) const {
  const OpId def = k_[count].def;
  if (!def) return false;
  const OpData& d = k_[def];
  if (d.opcode == Opcode::Cast) return is_tile_count(d.operands[0], block, view, axis);
  if (block == 1 && is_dim(count, view, axis)) return true;
  if (d.opcode != Opcode::Div || as_constant(k_, d.operands[1]) != block) return false;
  const OpId sum = k_[d.operands[0]].def;
  if (!sum || k_[sum].opcode != Opcode::Add) return false;
  const auto& terms = k_[sum].operands;
  return (is_dim(terms[0], view, axis) && as_constant(k_, terms[1]) == block - 1) ||
         (is_dim(terms[1], view, axis) && as_constant(k_, terms[0]) == block - 1);
}

bool Bounds::loop_inside(Value iv, std::int64_t extent, Value view, int axis) const {
  const ValueData& d = k_[iv];
  const OpId owner = !d.def && d.region ? k_[d.region].owner : OpId();
  if (!owner || k_[owner].opcode != Opcode::For || d.position != 0) return false;
  const auto& operands = k_[owner].operands;
  const auto lo = as_constant(k_, operands[0]), step = as_constant(k_, operands[2]);
  if (!lo || !step || *lo < 0 || *step <= 0 || *lo % extent != 0 || *step % extent != 0)
    return false;
  // iv < hi and extent divides both, so iv + extent <= hi.
  if (is_dim(operands[1], view, axis)) return true;
  const auto hi = as_constant(k_, operands[1]);
  const std::int64_t dim = k_.type(view).shape()[static_cast<std::size_t>(axis)];
  return hi && dim != kDynamic && *hi <= dim && *hi % extent == 0;
}

bool Bounds::is_grid_index(Value index, std::int64_t block, Value view, int axis) const {
  const OpId def = k_[index].def;
  if (def && k_[def].opcode == Opcode::Cast)
    return is_grid_index(k_[def].operands[0], block, view, axis);
  const auto it = less_than_.find(index);
  if (it == less_than_.end()) return false;
  return std::ranges::any_of(it->second,
                             [&](Value count) { return is_tile_count(count, block, view, axis); });
}

/// cluster_rank * constant: the constant.
std::optional<std::int64_t> Bounds::share_of_rank(Value v) const {
  const OpId def = k_[v].def;
  if (!def) return std::nullopt;
  const OpData& d = k_[def];
  if (d.opcode == Opcode::ClusterRank) return 1;
  if (d.opcode == Opcode::Cast) return share_of_rank(d.operands[0]);
  if (d.opcode != Opcode::Mul) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i)
    if (const auto c = as_constant(k_, d.operands[i]))
      if (const auto share = share_of_rank(d.operands[1 - i])) return *share * *c;
  return std::nullopt;
}

/// base + rank * share: inside where the boxes of all ranks are, taken as one.
bool Bounds::is_share_inside(const OpData& sum, std::int64_t extent, Value view, int axis) const {
  for (std::size_t i = 0; i < 2; ++i)
    if (const auto share = share_of_rank(sum.operands[i]); share && *share >= 0)
      return is_inside(sum.operands[1 - i], extent + *share * (k_.info.cluster - 1), view, axis);
  return false;
}

bool Bounds::is_inside(Value offset, std::int64_t extent, Value view, int axis) const {
  const std::int64_t dim = k_.type(view).shape()[static_cast<std::size_t>(axis)];
  if (const auto c = as_constant(k_, offset)) {
    if (*c < 0) return false;
    if (dim != kDynamic) return *c + extent <= dim;
    return false;  // the extent may be zero at run time
  }
  const OpId sum = k_[offset].def;
  if (sum && k_[sum].opcode == Opcode::Add && is_share_inside(k_[sum], extent, view, axis))
    return true;
  const std::int64_t divides =
      dim != kDynamic ? dim : k_.type(view).view_facts().dim_div[static_cast<std::size_t>(axis)];
  if (divides % extent != 0) return false;
  if (loop_inside(offset, extent, view, axis)) return true;
  if (extent == 1 && is_grid_index(offset, 1, view, axis)) return true;
  const OpId def = k_[offset].def;
  if (!def) return false;
  const OpData& d = k_[def];
  if (d.opcode == Opcode::Cast) return is_inside(d.operands[0], extent, view, axis);
  if (d.opcode != Opcode::Mul) return false;
  for (int i = 0; i < 2; ++i)
    if (as_constant(k_, d.operands[1 - i]) == extent &&
        is_grid_index(d.operands[i], extent, view, axis))
      return true;
  return false;
}

}  // namespace tegula::ir
