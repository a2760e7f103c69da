#include "ir/analysis/memory_hazards.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "ir/analysis/index_facts.h"
#include "ir/analysis/walk_depth.h"
#include "ir/layout/layout_ops.h"
#include "ir/layout/linear_layout.h"
#include "ir/loop.h"
#include "ir/made_view.h"

namespace tegula::ir {
namespace {

/// Collects the parameters that an address derives from, including paths through loops and
/// branches.
class Roots {
 public:
  explicit Roots(const Kernel& k) : k_(k) {}

  bool follow(Value v) {
    if (!seen_.insert(v).second) return true;
    const OpId def = k_[v].def;
    if (k_.type(v).is_view() && !maker_of(k_, v)) return add(v);
    if (const auto merge = merge_of(k_, v))
      return std::ranges::all_of(incoming_values(k_, *merge), [&](Value x) { return follow(x); });
    if (!def) return !k_[k_[v].region].owner && add(v);
    const OpData& d = k_[def];
    // Such pointers are only initial values of loop carries, which no access uses.
    if (d.is(Opcode::Poison, Opcode::Const)) return true;
    bool found = false;
    for (Value operand : d.operands) {
      const Type t = k_.type(operand);
      if (!t.is_view() && !t.is_pointer()) continue;
      found = true;
      if (!follow(operand)) return false;
    }
    return found;
  }

  std::vector<Value> found;

 private:
  bool add(Value v) {
    if (std::ranges::count(found, v) == 0) found.push_back(v);
    return true;
  }

  const Kernel& k_;
  std::unordered_set<Value> seen_;
};

bool is_commuting(std::string_view kind) {
  return kind == "add" || kind == "max" || kind == "min" || kind == "and" || kind == "or" ||
         kind == "xor";
}

std::string_view order_of(const OpData& d) {
  using enum Opcode;
  if (d.is(ArriveAndTestLast, GridBarrier)) return "acq_rel";
  if (d.opcode == WaitUntil) return "acquire";
  return d.is(AtomicRmw, AtomicCas, AtomicLoad, AtomicStore) ? d.attrs.s(AttrName::sem, "relaxed")
                                                             : "relaxed";
}

}  // namespace

std::optional<std::vector<Value>> memory_roots(const Kernel& k, Value addresses) {
  Roots roots(k);
  if (!roots.follow(addresses)) return std::nullopt;
  return std::move(roots.found);
}

bool is_release(const OpData& d) { return order_of(d) == "release" || order_of(d) == "acq_rel"; }
bool is_acquire(const OpData& d) { return order_of(d) == "acquire" || order_of(d) == "acq_rel"; }

bool is_tile_loop(const Kernel& k, OpId loop) {
  return k.info.persistent && k[loop].parent == k.body();
}

bool has_independent_turns(const Kernel& k, OpId loop) {
  return is_tile_loop(k, loop) || k[loop].attrs.s(AttrName::loop) == "independent";
}

bool is_inside(const Kernel& k, OpId op, OpId loop) {
  for (OpId at = op; at;) {
    const OpId owner = k[k[at].parent].owner;
    if (owner == loop) return true;
    at = owner;
  }
  return false;
}

// ---- accesses
const MemoryAccess* MemoryHazards::access(OpId op) {
  auto it = known_.find(op);
  if (it == known_.end()) it = known_.emplace(op, find(op)).first;
  return it->second ? &*it->second : nullptr;
}

std::optional<MemoryAccess> MemoryHazards::find(OpId op) const {
  const OpData& d = k_[op];
  using enum Opcode;
  MemoryAccess a;
  a.op = op;
  std::size_t address = 0, offset = 0;
  if (d.is(LoadView, Load)) {
    a.reads = true, offset = 1, a.tile = k_.type(d.results[0]);
  } else if (d.is(AtomicLoad, WaitUntil)) {
    a.reads = true, a.tile = Type::scalar(k_.type(d.operands[0]).dtype());
  } else if (d.is(StoreView, Store, AtomicStore)) {
    a.writes = true, offset = 2, a.tile = k_.type(d.operands[1]);
    if (d.opcode == StoreView) a.commutes_as = d.attrs.s(AttrName::kind);
    if (d.attrs.i(AttrName::tma) == 1) a.by = MemoryAccess::By::Copies;
  } else if (d.is(AtomicView, AtomicRmw, AtomicCas, ArriveAndTestLast)) {
    a.reads = a.writes = true, offset = 2, a.tile = k_.type(d.results[0]);
    if (is_commuting(d.attrs.s(AttrName::kind)) && order_of(d) == "relaxed" &&
        !is_used(k_, d.results[0]))
      a.commutes_as = d.attrs.s(AttrName::kind);
  } else if (d.is(CopyAsync, CopyTma)) {
    a.reads = true, address = d.opcode == CopyTma ? 3 : 2, offset = address + 1;
    a.by = MemoryAccess::By::Copies;
  } else {
    return std::nullopt;
  }
  a.address = d.operands[address];
  // Pointers have the layout of the values they transfer. A scalar value may be stored through many
  // pointers.
  if (k_.type(a.address).is_tile()) a.tile = k_.type(a.address);
  a.roots = memory_roots(k_, a.address);
  const auto is_in = [&](Value v) {
    return k_.type(v).is_view() && k_.type(v).view_facts().access == Access::In;
  };
  if (!a.writes && a.roots && std::ranges::all_of(*a.roots, is_in)) return std::nullopt;
  if (k_.type(a.address).is_view()) {
    const auto axes = d.attrs.ints(AttrName::axes);
    a.axes.assign(axes.begin(), axes.end());
    const auto first = d.operands.begin() + static_cast<std::ptrdiff_t>(offset);
    a.offsets.assign(first, first + k_.type(a.address).rank());
  }
  return a;
}

bool MemoryHazards::share_memory_by_call(const MemoryAccess& a) const {
  return !a.roots || std::ranges::any_of(k_.params(), [&](const Param& p) {
    return p.attrs.s(AttrName::kind) == kMayAlias && std::ranges::count(*a.roots, p.value) > 0;
  });
}

bool MemoryHazards::may_alias(const MemoryAccess& a, const MemoryAccess& b) const {
  if (!a.roots || !b.roots || (share_memory_by_call(a) && share_memory_by_call(b))) return true;
  return std::ranges::any_of(*a.roots,
                             [&](Value v) { return std::ranges::count(*b.roots, v) > 0; });
}

bool MemoryHazards::may_collide(const MemoryAccess& a, const MemoryAccess& b, OpId carried) {
  if ((!a.writes && !b.writes) || !may_alias(a, b)) return false;
  if (!a.commutes_as.empty() && a.commutes_as == b.commutes_as) return false;
  if (a.op == b.op && carried && moves_with(a, carried)) return false;
  return !disjoint(a, b, carried);
}

bool MemoryHazards::conflict(const MemoryAccess& a, const MemoryAccess& b, OpId carried) {
  return may_collide(a, b, carried) && !same_thread(a, b, carried);
}

bool MemoryHazards::may_pass(OpId a, OpId b) {
  const OpData &first = k_[a], &second = k_[b];
  const MemoryAccess *x = access(a), *y = access(b);
  const bool touches = info(first.opcode).has(kReads | kWrites),
             other_touches = info(second.opcode).has(kReads | kWrites);
  if ((is_release(second) && touches) || (is_acquire(first) && other_touches)) return false;
  return !x || !y || !may_collide(*x, *y);
}

bool MemoryHazards::may_be_read_ahead(OpId load, OpId loop) {
  const MemoryAccess* read = access(load);
  if (!read) return true;
  std::unordered_set<OpId> around;  // loops whose iterations are compared
  for (OpId at = loop; at; at = k_[k_[at].parent].owner)
    if (is_loop(k_[at]) && !is_tile_loop(k_, at)) around.insert(at);
  bool may = true, behind = false;
  const auto look = [&](const auto& self, RegionId region, bool repeated) -> void {
    for (OpId op : k_.ops(region)) {
      const OpData& d = k_[op];
      const MemoryAccess* other = access(op);
      const bool matters = is_acquire(d) || (other && other->writes && may_alias(*read, *other));
      may = may && (!matters || (behind && !repeated));
      for (RegionId r : d.regions) self(self, r, repeated || around.contains(op));
      behind = behind || op == loop;
    }
  };
  look(look, k_.body(), false);
  return may;
}

bool MemoryHazards::may_be_read_early_within(OpId load, OpId loop) {
  const MemoryAccess* read = access(load);
  return !read || !any_op(k_, k_[loop].regions[0], [&](OpId op) {
    const MemoryAccess* other = access(op);
    return is_acquire(k_[op]) || (other && other->writes && may_alias(*read, *other));
  });
}

// ---- scalars
void MemoryHazards::add(Linear& sum, Value v, std::int64_t times, int depth) const {
  if (times == 0) return;
  const auto constant = constant_value(k_, v);
  if (constant) {
    sum.constant += times * *constant;
    return;
  }
  const OpId def = k_[v].def;
  if (def && depth < kMaxWalkDepth) {
    const OpData& d = k_[def];
    using enum Opcode;
    if (d.is(Add, Sub)) {
      add(sum, d.operands[0], times, depth + 1);
      return add(sum, d.operands[1], d.opcode == Add ? times : -times, depth + 1);
    }
    if (d.opcode == Neg) return add(sum, d.operands[0], -times, depth + 1);
    if (d.opcode == Cast && k_.type(d.operands[0]).is_scalar() &&
        is_integer(k_.type(d.operands[0]).dtype()))
      return add(sum, d.operands[0], times, depth + 1);
    if (d.opcode == Mul)
      for (std::size_t i = 0; i < 2; ++i)
        if (const auto c = constant_value(k_, d.operands[i]); c && std::abs(*c) < (1 << 30))
          return add(sum, d.operands[1 - i], times * *c, depth + 1);
  }
  for (auto& [term, factor] : sum.terms)
    if (is_same(k_, term, v)) {
      factor += times;
      return;
    }
  sum.terms.emplace_back(v, times);
}

MemoryHazards::Linear MemoryHazards::linear(Value v) const {
  Linear sum;
  add(sum, v, 1);
  return sum;
}

std::int64_t MemoryHazards::divisor(const Linear& x) const {
  std::int64_t d = std::abs(x.constant);
  for (const auto& [term, factor] : x.terms)
    d = std::gcd(d, std::abs(factor) * std::max<std::int64_t>(1, divisor_of(k_, term)));
  return d;
}

std::optional<std::int64_t> MemoryHazards::distance(const Linear& a, const Linear& b,
                                                    OpId carried) const {
  Linear all = b;
  all.constant -= a.constant;
  for (const auto& [term, factor] : a.terms) add(all, term, -factor, kMaxWalkDepth);
  for (const auto& [term, factor] : all.terms)
    if (factor != 0) return std::nullopt;
  // A term may have another value in another iteration.
  for (const Linear* x : {&a, &b})
    for (const auto& [term, factor] : x->terms)
      if (factor != 0 && carried && !k_.is_visible_from(term, carried)) return std::nullopt;
  return all.constant;
}

// ---- boxes
std::int64_t MemoryHazards::extent(const MemoryAccess& a, std::size_t view_dim) const {
  const auto at = std::ranges::find(a.axes, static_cast<std::int64_t>(view_dim));
  if (at == a.axes.end() || !a.tile) return at == a.axes.end() ? 1 : kDynamic;
  return a.tile.is_tile() ? a.tile.shape()[static_cast<std::size_t>(at - a.axes.begin())] : 1;
}

bool MemoryHazards::is_gathered(const MemoryAccess& a, std::size_t view_dim) const {
  return k_.type(a.offsets[view_dim]).is_tile();
}

bool MemoryHazards::is_same_box(const MemoryAccess& a, const MemoryAccess& b) {
  if (!are_of_one_tensor(a, b, {}) || a.axes != b.axes) return false;
  for (std::size_t d = 0; d < a.offsets.size(); ++d)
    if (extent(a, d) != extent(b, d) ||
        distance(linear(a.offsets[d]), linear(b.offsets[d]), {}) != 0)
      return false;
  return true;
}

bool MemoryHazards::moves_with(const MemoryAccess& box, OpId loop) {
  if (!box.is_box() || k_[loop].opcode != Opcode::For || !are_of_one_tensor(box, box, loop))
    return false;
  const Value iv = k_[k_[loop].regions[0]].args[0];
  const auto step = constant_value(k_, k_[loop].operands[2]);
  for (std::size_t d = 0; step && d < box.offsets.size(); ++d) {
    if (is_gathered(box, d)) continue;
    const std::int64_t size = extent(box, d);
    std::int64_t moves = 0;
    bool is_even = size > 0;
    for (const auto& [term, factor] : linear(box.offsets[d]).terms) {
      if (term == iv) moves = factor;
      is_even = is_even && (term == iv || factor == 0 || k_.is_visible_from(term, loop));
    }
    if (is_even && std::abs(moves * *step) >= size) return true;
  }
  return false;
}

/// Returns true if both accesses are boxes of one view, no two elements of the view share memory,
/// and the view is the same in all iterations of `carried`.
bool MemoryHazards::are_of_one_tensor(const MemoryAccess& a, const MemoryAccess& b,
                                      OpId carried) const {
  return a.is_box() && b.is_box() && a.address == b.address &&
         has_distinct_elements(k_, a.address) &&
         (!maker_of(k_, a.address) || is_same_in_all(carried, a.address));
}

/// Returns true if the accesses are disjoint or one contains the other. Boxes: in each dimension
/// the offsets are equal, differ by a multiple of the smaller extent, or are multiples of it.
bool MemoryHazards::inside_or_disjoint(const MemoryAccess& a, const MemoryAccess& b, OpId carried) {
  if (!a.is_box() && !b.is_box()) {
    const auto x = pointers(a.address), y = pointers(b.address);
    if (!x || !y || x->base != y->base || x->factor != y->factor) return false;
    if (!is_same_in_all(carried, x->base)) return false;
    if (distance(x->at, y->at, carried) == 0) return true;
    // Adjacent elements in aligned runs of `count`.
    const std::int64_t count = k_.type(a.address).count();
    return x->factor == Ints{1} && k_.type(b.address).count() == count &&
           divisor(x->at) % count == 0 && divisor(y->at) % count == 0;
  }
  if (!are_of_one_tensor(a, b, carried) || a.axes != b.axes) return false;
  for (std::size_t d = 0; d < a.offsets.size(); ++d) {
    // An index tile may select the same element for two different threads.
    if (is_gathered(a, d) || is_gathered(b, d)) return false;
    const std::int64_t size = std::min(extent(a, d), extent(b, d));
    if (size <= 0 || std::max(extent(a, d), extent(b, d)) % size != 0) return false;
    const Linear x = linear(a.offsets[d]), y = linear(b.offsets[d]);
    const auto apart = distance(x, y, carried);
    if (apart == 0 || (apart && *apart % size == 0)) continue;
    if (size == 1 || (divisor(x) % size == 0 && divisor(y) % size == 0)) continue;
    return false;
  }
  return true;
}

bool MemoryHazards::disjoint(const MemoryAccess& a, const MemoryAccess& b, OpId carried) {
  if (!a.is_box() && !b.is_box()) {
    const auto x = pointers(a.address), y = pointers(b.address);
    if (!x || !y || x->base != y->base || !is_same_in_all(carried, x->base)) return false;
    const auto apart = distance(x->at, y->at, carried);
    if (!apart) return false;
    const auto range = [&](const Pointers& p, Value v) {
      std::int64_t low = 0, high = 0;
      for (std::size_t i = 0; i < p.factor.size(); ++i) {
        const std::int64_t reach = p.factor[i] * (k_.type(v).shape()[i] - 1);
        (reach < 0 ? low : high) += reach;
      }
      return std::pair(low, high);
    };
    const auto [low_a, high_a] = range(*x, a.address);
    const auto [low_b, high_b] = range(*y, b.address);
    return *apart + low_b > high_a || *apart + high_b < low_a;
  }
  if (!are_of_one_tensor(a, b, carried)) return false;
  for (std::size_t d = 0; d < a.offsets.size(); ++d) {
    const std::int64_t size_a = extent(a, d), size_b = extent(b, d);
    if (size_a <= 0 || size_b <= 0 || is_gathered(a, d) || is_gathered(b, d)) continue;
    const auto apart = distance(linear(a.offsets[d]), linear(b.offsets[d]), carried);
    if (apart && (*apart >= size_a || -*apart >= size_b)) return true;
  }
  return false;
}

// ---- pointers
std::optional<MemoryHazards::Pointers> MemoryHazards::shaped(const OpData& d, Pointers p) const {
  const auto before = k_.type(d.operands[0]).shape(), shape = k_.type(d.results[0]).shape();
  if (d.opcode == Opcode::ExpandDims) {
    p.factor.insert(p.factor.begin() + d.attrs.i(AttrName::axis), 0);
  } else if (d.opcode == Opcode::Broadcast && before.size() == shape.size()) {
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (before[i] == 1) p.factor[i] = 0;
  } else if (d.opcode != Opcode::ConvertLayout) {
    if (!before.empty()) return std::nullopt;
    p.factor.assign(shape.size(), 0);
  }
  return p;
}

std::optional<MemoryHazards::Pointers> MemoryHazards::pointers(Value v, int depth) {
  const OpId def = k_[v].def;
  if (depth > kMaxWalkDepth) return std::nullopt;
  if (!def) return k_.type(v).is_tile() ? std::nullopt : std::optional(Pointers{v, {}, {}});
  const OpData& d = k_[def];
  using enum Opcode;
  if (d.opcode == ViewPtr) return Pointers{d.operands[0], {}, {}};
  if (d.is(Splat, Broadcast, ExpandDims, ConvertLayout)) {
    auto p = pointers(d.operands[0], depth + 1);
    return p ? shaped(d, std::move(*p)) : std::nullopt;
  }
  if (d.opcode != AddPtr) return std::nullopt;
  auto p = pointers(d.operands[0], depth + 1);
  const auto& index = affine_.of(d.operands[1]);
  if (!p || !index) return std::nullopt;
  p->factor.resize(k_.type(v).is_tile() ? k_.type(v).shape().size() : 0);
  for (std::size_t i = 0; i < index->factor.size(); ++i) p->factor[i] += index->factor[i];
  p->at.constant += index->start;
  for (Value term : index->plus) add(p->at, term, 1);
  for (Value term : index->minus) add(p->at, term, -1);
  return p;
}

// ---- threads
/// Returns true if several threads of a program may hold the same element. This includes layouts
/// that do not cover all warps of the CTA.
bool MemoryHazards::is_replicated(const MemoryAccess& a) const {
  const LinearLayout& layout = *a.tile.layout();
  if (layout.free_bits(HwDim::Lane) != 0 || layout.free_bits(HwDim::Warp) != 0) return true;
  for (const Repeat& r : layout.repeats())
    if (r.dim == Repeat::kNoDim && r.in != HwDim::Register) return true;
  return layout.size(HwDim::Lane) != 32 ||
         layout.size(HwDim::Warp) != std::max(1, k_.info.threads / 32);
}

namespace {

/// Returns true if the registers of the threads that `part` assigns hold every block of `whole`
/// with the extents of `part`. Such blocks are the subtiles in which the pass subtile_epilogue
/// stores a tile.
bool is_cut_into(const LinearLayout& whole, const LinearLayout& part) {
  if (whole.rank() != part.rank()) return false;
  for (int d = 0; d < whole.rank(); ++d)
    if (whole.shape()[d] % part.shape()[d] != 0) return false;
  Dims at = part.shape();
  for (int d = 0; d < at.size(); ++d) at[d] = 0;
  for (;;) {
    const auto block = subtile(whole, at, part.shape());
    if (!block || block->layout != part) return false;
    int d = whole.rank() - 1;
    while (d >= 0 && (at[d] += part.shape()[d]) == whole.shape()[d]) at[d--] = 0;
    if (d < 0) return true;
  }
}

/// Returns true if different indices address different elements.
bool is_injective(const Ints& factor, std::span<const std::int64_t> shape) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (std::size_t i = 0; i < factor.size(); ++i)
    if (shape[i] > 1) steps.emplace_back(std::abs(factor[i]), shape[i]);
  std::ranges::sort(steps);
  std::int64_t reach = 0;
  for (const auto& [step, count] : steps) {
    if (step <= reach) return false;
    reach += step * (count - 1);
  }
  return true;
}

}  // namespace

/// Returns true if one box is a block of the other and each thread has the same elements of both.
bool MemoryHazards::share_by_blocks(const MemoryAccess& a, const MemoryAccess& b) const {
  const bool a_is_whole = a.tile.count() > b.tile.count();
  const auto &whole = a_is_whole ? a : b, &part = a_is_whole ? b : a;
  return a.is_box() && b.is_box() && is_cut_into(*whole.tile.layout(), *part.tile.layout());
}

bool MemoryHazards::same_thread(const MemoryAccess& a, const MemoryAccess& b, OpId carried) {
  using enum MemoryAccess::By;
  if (a.by != Threads || b.by != Threads) return false;
  if (!a.tile.is_tile() || !b.tile.is_tile()) return a.is_first_threads() && b.is_first_threads();
  if (!a.tile.layout() || !b.tile.layout()) return false;
  const bool is_equal = *a.tile.layout() == *b.tile.layout();
  if (!is_equal && !share_by_blocks(a, b)) return false;
  // Tensors that a call allows to overlap may overlap in any elements.
  if (share_memory_by_call(a) && (a.is_box() ? !is_same_box(a, b) : a.address != b.address))
    return false;
  if (!inside_or_disjoint(a, b, carried)) return false;
  if (!a.is_box()) {
    const auto p = pointers(a.address);
    if (!p || !is_injective(p->factor, k_.type(a.address).shape())) return false;
  }
  // Only the first replica of an element writes it, but all replicas read it.
  return (is_equal && a.writes && b.writes) || (!is_replicated(a) && !is_replicated(b));
}

}  // namespace tegula::ir
