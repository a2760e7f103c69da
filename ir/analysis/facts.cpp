// Comparisons are edges x <= y + c of a graph of values; a query searches for a path.
#include "ir/analysis/facts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/analysis/index_facts.h"
#include "ir/analysis/walk_depth.h"
#include "ir/loop.h"
#include "ir/made_view.h"

namespace tegula::ir {
namespace {

/// Extents that are 32-bit indices are below this, so that a block may extend past them without
/// overflow.
constexpr std::int64_t kMaxExtent = (std::int64_t{1} << 31) - (std::int64_t{1} << 20);

bool is_index(Type t) { return t.is_scalar() && !t.is_pointer() && is_integer(t.dtype()); }

/// Returns the smallest or the largest number of an integer type.
std::int64_t limit_of(DType d, bool largest) {
  const int bits = size_bits(d) - (is_signed(d) ? 1 : 0);
  if (!largest) return is_signed(d) ? static_cast<std::int64_t>(-1ull << bits) : 0;
  return bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
}

/// Returns true if arithmetic in the type wraps before 32-bit indices do.
bool wraps_early(Type t) { return size_bits(t.dtype()) < 32; }

/// Returns dim if `count` is (dim + block - 1) / block, the form that cdiv emits.
Value counted_dim(const Kernel& k, Value count, std::int64_t block) {
  OpId def = k[count].def;
  while (def && k[def].opcode == Opcode::Cast) def = k[k[def].operands[0]].def;
  if (!def || k[def].opcode != Opcode::Div || constant_value(k, k[def].operands[1]) != block)
    return {};
  const OpId sum = k[k[def].operands[0]].def;
  if (!sum || k[sum].opcode != Opcode::Add) return {};
  for (std::size_t i = 0; i < 2; ++i)
    if (constant_value(k, k[sum].operands[1 - i]) == block - 1) return k[sum].operands[i];
  return {};
}

}  // namespace

bool states_fact(const Kernel& k, OpId assume) {
  const std::string_view kind = k[assume].attrs.s(AttrName::kind);
  return kind.empty() || kind == "count";
}

bool counts_from_zero(const Kernel& k, OpId assume) {
  return k[assume].attrs.s(AttrName::kind) == "count";
}

Facts::Facts(const Kernel& k) : k_(k) {
  std::vector<OpId> assumes;
  walk(k, k.body(), [&](OpId op) {
    order_.emplace(op, static_cast<std::uint32_t>(order_.size()));
    if (k[op].opcode == Opcode::Assume && states_fact(k, op)) assumes.push_back(op);
    if (k[op].opcode == Opcode::ViewDim && size_bits(k.type(k[op].results[0]).dtype()) > 32)
      are_indices_wide_ = true;
  });
  for (OpId op : assumes) collect(op, k[op].operands[0]);
}

void Facts::collect(OpId assume, Value condition) {
  const OpId def = k_[condition].def;
  if (!def || !k_.type(condition).is_scalar()) return;
  const OpData& d = k_[def];
  if (d.opcode == Opcode::And) {
    collect(assume, d.operands[0]);
    collect(assume, d.operands[1]);
  }
  if (d.opcode != Opcode::Cmp || !is_index(k_.type(d.operands[0]))) return;
  const Value a = d.operands[0], b = d.operands[1];
  const std::string_view pred = d.attrs.s(AttrName::pred);
  if (pred == "lt") add(assume, a, b, 1);
  if (pred == "gt") add(assume, b, a, 1);
  if (pred == "le" || pred == "eq") add(assume, a, b, 0);
  if (pred == "ge" || pred == "eq") add(assume, b, a, 0);
}

/// Adds the edge less + strict <= more.
void Facts::add(OpId assume, Value less, Value more, std::int64_t strict) {
  const Term x = term(less), y = term(more);
  const std::int64_t plus = y.plus - x.plus - strict;
  const bool is_strict = strict != 0;
  most_[x.node].push_back({{y.node, y.value, plus}, less, more, assume, is_strict});
  least_[y.node].push_back({{x.node, x.value, -plus}, less, more, assume, is_strict});
}

Facts::Term Facts::extent(Value view, int axis) const {
  if (const OpId make = maker_of(k_, view)) return term(made_extent(k_, make, axis));
  const std::int64_t fixed = k_.type(view).shape()[static_cast<std::size_t>(axis)];
  if (fixed != kDynamic) return {{}, {}, fixed};
  return {{view.index, axis}, {}, 0};
}

Facts::Term Facts::term(Value v) const {
  std::int64_t plus = 0;
  for (int steps = 0; steps < kMaxWalkDepth; ++steps) {
    if (const auto c = constant_value(k_, v)) return {{}, {}, plus + *c};
    const OpId def = k_[v].def;
    if (!def) break;
    const OpData& d = k_[def];
    if (const OpId make = d.opcode == Opcode::ViewDim ? maker_of(k_, d.operands[0]) : OpId()) {
      v = made_extent(k_, make, static_cast<int>(d.attrs.i(AttrName::axis)));
      continue;
    }
    if (d.opcode == Opcode::ViewDim) {
      Term t = extent(d.operands[0], static_cast<int>(d.attrs.i(AttrName::axis)));
      t.plus += plus;
      t.value = v;
      return t;
    }
    if (d.opcode == Opcode::Cast && is_index(k_.type(d.operands[0])) &&
        holds_all_of(k_.type(v).dtype(), k_.type(d.operands[0]).dtype())) {
      v = d.operands[0];
      continue;
    }
    if (!d.is(Opcode::Add, Opcode::Sub) || wraps_early(k_.type(v))) break;
    const auto right = constant_value(k_, d.operands[1]);
    const auto left =
        d.opcode == Opcode::Add ? constant_value(k_, d.operands[0]) : std::optional<std::int64_t>();
    if (!right && !left) break;
    plus += right ? (d.opcode == Opcode::Sub ? -*right : *right) : *left;
    v = d.operands[right ? 0 : 1];
  }
  return {{v.index, -1}, v, plus};
}

/// Returns the region in which a value is computed, or none if any region may compute it.
RegionId Facts::home(Value v) const {
  while (k_[v].def && k_[k_[v].def].opcode == Opcode::Cast) v = k_[k_[v].def].operands[0];
  const OpId def = k_[v].def;
  if (!def) return k_[v].region;
  const Opcode o = k_[def].opcode;
  return o == Opcode::ViewDim || o == Opcode::Const ? RegionId() : k_[def].parent;
}

bool Facts::holds(const Edge& e, OpId point) const {
  const RegionId where = k_[e.assume].parent;
  if (home(e.left) == where || home(e.right) == where) return true;
  if (!point) return where == k_.body();
  OpId over = point;
  while (over && k_[over].parent != where) {
    const RegionId parent = k_[over].parent;
    over = parent ? k_[parent].owner : OpId();
  }
  if (!over) return false;
  const auto a = order_.find(e.assume), b = order_.find(over);
  // An op created after the facts were collected is not in `order_`; `point` itself never is such
  // an op.
  return a != order_.end() && b != order_.end() && a->second < b->second;
}

bool Facts::is_less(Value a, Value b, OpId point) const {
  const auto it = most_.find(term(a).node);
  return it != most_.end() && std::ranges::any_of(it->second, [&](const Edge& e) {
           return e.is_strict && e.left == a && e.right == b && holds(e, point);
         });
}

/// Returns true if an `assume` in the region of the value states that it is at least 0.
bool Facts::is_stated_non_negative(Value v) const {
  const auto it = least_.find(term(v).node);
  return it != least_.end() && std::ranges::any_of(it->second, [&](const Edge& e) {
           return e.right == v && is_zero(k_, e.left) && k_[e.assume].parent == home_of(k_, v);
         });
}

bool Facts::is_induction(Value v) const {
  if (!v || k_[v].def || !k_[v].region || k_[v].position != 0) return false;
  const OpId owner = k_[k_[v].region].owner;
  return owner && k_[owner].opcode == Opcode::For;
}

bool Facts::ends_inside(Value offset, std::int64_t extent_of_box, Value view, int axis,
                        OpId point) const {
  Search s{point};
  Term x = term(offset);
  x.plus += extent_of_box;
  if (reaches(x, extent(view, axis), s)) return true;
  // The extent of a made view is the maximum of two values; reaching either of them suffices.
  const OpId make = maker_of(k_, view);
  const OpId floor = make ? k_[made_extent(k_, make, axis)].def : OpId();
  if (!floor || k_[floor].opcode != Opcode::Max) return false;
  return std::ranges::any_of(k_[floor].operands, [&](Value v) {
    Search of_one{point};
    return reaches(x, term(v), of_one);
  });
}

std::optional<std::int64_t> Facts::least(Value v, OpId point) const {
  Search s{point};
  return least(term(v), s);
}

/// Returns true if an integer cast yields at most its operand. Numbers below the range of the
/// result type would be raised.
bool Facts::is_not_raised(const OpData& cast, Search& s) const {
  if (!is_index(k_.type(cast.operands[0]))) return false;
  if (!is_signed(k_.type(cast.operands[0]).dtype())) return true;
  const auto low = least(term(cast.operands[0]), s);
  return low && *low >= limit_of(k_.type(cast.results[0]).dtype(), false);
}
bool Facts::is_not_lowered(const OpData& cast, Search& s) const {
  return is_index(k_.type(cast.operands[0])) &&
         reaches(term(cast.operands[0]), {{}, {}, limit_of(k_.type(cast.results[0]).dtype(), true)},
                 s);
}

/// Returns true if x <= target.
bool Facts::reaches(Term x, const Term& target, Search& s) const {
  if (x.node == target.node) return x.plus <= target.plus;
  if (x.node.index == kZero) {
    const auto low = least(Term{target.node, target.value, 0}, s);
    return low && x.plus <= *low + target.plus;
  }
  if (x.node.axis >= 0 && target.node.index == kZero && !are_indices_wide_ &&
      x.plus + kMaxExtent <= target.plus)
    return true;
  if (s.depth >= kMaxWalkDepth || --s.remaining_steps < 0) return false;
  ++s.depth;
  bool found = false;
  for (const Term& y : above(x, s))
    if ((found = reaches(y, target, s))) break;
  if (const OpId def = !found && x.value ? k_[x.value].def : OpId(); def) {
    const std::span<const Value> all(k_[def].operands.begin(), k_[def].operands.end());
    if (k_[def].opcode == Opcode::Max) found = all_reach(all, x.plus, target, s);
    if (k_[def].opcode == Opcode::Select) found = all_reach(all.subspan(1), x.plus, target, s);
  }
  --s.depth;
  return found;
}

bool Facts::all_reach(std::span<const Value> values, std::int64_t plus, const Term& target,
                      Search& s) const {
  return std::ranges::all_of(values, [&](Value v) {
    Term t = term(v);
    t.plus += plus;
    return reaches(t, target, s);
  });
}

/// Returns terms that are each at least x.
std::vector<Facts::Term> Facts::above(const Term& x, Search& s) const {
  std::vector<Term> all;
  const auto push = [&](Term t, std::int64_t plus) {
    t.plus += x.plus + plus;
    all.push_back(t);
  };
  if (const auto it = most_.find(x.node); it != most_.end())
    for (const Edge& e : it->second)
      if (holds(e, s.at)) push(e.other, 0);
  if (!x.value) return all;
  if (is_induction(x.value)) {
    const auto& d = k_[k_[k_[x.value].region].owner];
    // The gap between the last index and the end is at least the number that divides all three
    // bounds.
    const std::int64_t step =
        std::gcd(std::gcd(divisor_of(k_, d.operands[0]), divisor_of(k_, d.operands[2])),
                 divisor_of(k_, d.operands[1]));
    push(term(d.operands[1]), -std::max<std::int64_t>(step, 1));
    return all;
  }
  const OpId def = k_[x.value].def;
  if (!def) return all;
  const OpData& d = k_[def];
  using enum Opcode;
  if (d.opcode == Cast && is_not_raised(d, s)) push(term(d.operands[0]), 0);
  if (d.opcode == Min)
    for (Value v : d.operands) push(term(v), 0);
  if (wraps_early(k_.type(x.value)) && !d.is(Div, Rem)) return all;
  if (d.opcode == Sub) {
    const auto low = least(term(d.operands[1]), s);
    if (low) push(term(d.operands[0]), -*low);
  }
  if (d.opcode == Add)
    for (std::size_t i = 0; i < 2; ++i)
      if (const auto high = most(d.operands[i])) push(term(d.operands[1 - i]), *high);
  if (d.opcode == Mul) above_product(x, all, s);
  if (d.is(Div, Rem)) {
    const auto by = constant_value(k_, d.operands[1]);
    const auto low = least(term(d.operands[0]), s);
    if (!by || *by < 1 || !low || *low < 0) return all;
    push(d.opcode == Div ? term(d.operands[0]) : Term{{}, {}, *by - 1}, 0);
  }
  return all;
}

/// Handles block * i, where i counts blocks of a dimension: the product ends at the end of the
/// dimension or, if blocks do not divide the dimension, begins before its end.
void Facts::above_product(const Term& x, std::vector<Term>& all, Search& s) const {
  const OpData& d = k_[k_[x.value].def];
  for (std::size_t i = 0; i < 2; ++i) {
    const auto block = constant_value(k_, d.operands[i]);
    if (!block || *block < 1) continue;
    const Term index = term(d.operands[1 - i]);
    for (const Term& y : above(index, s)) {
      // y.plus already contains index.plus.
      if (y.node.index == kZero) {
        all.push_back({{}, {}, x.plus + *block * y.plus});
        continue;
      }
      const Value dim = y.value ? counted_dim(k_, y.value, *block) : Value();
      if (!dim) continue;
      Term t = term(dim);
      const bool divides = divisor_of(k_, dim) % *block == 0;
      t.plus += x.plus + *block * y.plus + (divides ? 0 : *block - 1);
      all.push_back(t);
    }
  }
}

std::optional<std::int64_t> Facts::least(Term x, Search& s) const {
  if (x.node.index == kZero) return x.plus;
  std::optional<std::int64_t> best;
  const auto take = [&](std::optional<std::int64_t> low) {
    if (low && (!best || *low > *best)) best = low;
  };
  if (x.node.axis >= 0) take(0);
  if (s.depth < kMaxWalkDepth && --s.remaining_steps >= 0) {
    ++s.depth;
    if (x.value && x.node.axis < 0) take(min_result(x.value, s));
    if (const auto it = least_.find(x.node); it != least_.end())
      for (const Edge& e : it->second)
        if (holds(e, s.at)) take(least(e.other, s));
    --s.depth;
  }
  if (const auto it = most_.find(x.node); !best && it != most_.end())
    for (const Edge& e : it->second)
      if (counts_from_zero(k_, e.assume) && holds(e, s.at)) take(-term(e.left).plus);
  if (best) *best += x.plus;
  return best;
}

std::optional<std::int64_t> Facts::min_result(Value v, Search& s) const {
  if (is_induction(v)) return least(term(k_[k_[k_[v].region].owner].operands[0]), s);
  const OpId def = k_[v].def;
  if (!def) return std::nullopt;
  const OpData& d = k_[def];
  const auto of = [&](std::size_t i) { return least(term(d.operands[i]), s); };
  using enum Opcode;
  if (d.is(ProgramId, NumPrograms, ClusterRank, ClusterId, ClusterTile, ViewDim)) return 0;
  if (d.opcode == Cast) return is_not_lowered(d, s) ? of(0) : std::nullopt;
  if (wraps_early(k_.type(v)) && d.is(Sub, Add, Mul)) return std::nullopt;
  if (d.opcode == Rem) {
    const auto a = of(0);
    return a && *a >= 0 ? std::optional<std::int64_t>(0) : std::nullopt;
  }
  if (d.opcode == Sub)
    return reaches(term(d.operands[1]), term(d.operands[0]), s) ? std::optional<std::int64_t>(0)
                                                                : std::nullopt;
  const bool is_pair = d.is(Add, Mul, Div, Min, Max, Select);
  if (!is_pair) return std::nullopt;
  const std::size_t first = d.opcode == Select ? 1 : 0;
  const auto a = of(first), b = of(first + 1);
  if (d.opcode == Max) return a && b ? std::max(a, b) : a ? a : b;
  if (!a || !b) return std::nullopt;
  if (d.opcode == Add) return *a + *b;
  if (d.is(Min, Select)) return std::min(*a, *b);
  return *a >= 0 && *b >= 0 ? std::optional<std::int64_t>(0) : std::nullopt;
}

/// Returns an upper bound of the value that holds for all arguments, if one is known.
std::optional<std::int64_t> Facts::most(Value v, int depth) const {
  if (const auto c = constant_value(k_, v)) return c;
  const OpId def = k_[v].def;
  if (!def || depth > kMaxWalkDepth) return std::nullopt;
  const OpData& d = k_[def];
  if (d.opcode == Opcode::ClusterRank) return k_.info.cluster - 1;
  if (d.opcode == Opcode::Cast && is_index(k_.type(d.operands[0])))
    return most(d.operands[0], depth + 1);
  if (d.opcode != Opcode::Mul || wraps_early(k_.type(v))) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i)
    if (const auto by = constant_value(k_, d.operands[i]); by && *by >= 0)
      if (const auto high = most(d.operands[1 - i], depth + 1)) return *by * *high;
  return std::nullopt;
}

}  // namespace tegula::ir
