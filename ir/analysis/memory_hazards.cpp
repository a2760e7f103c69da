#include "ir/analysis/memory_hazards.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis/index_facts.h"
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

bool has_independent_iterations(const Kernel& k, OpId loop) {
  return is_tile_loop(k, loop) || k[loop].attrs.s(AttrName::loop) == "independent";
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
  if (d.is(LoadView, Load)) {
    a.reads = true, a.tile = k_.type(d.results[0]);
  } else if (d.is(AtomicLoad, WaitUntil)) {
    a.reads = true, a.tile = Type::scalar(k_.type(d.operands[0]).dtype());
  } else if (d.is(StoreView, Store, AtomicStore)) {
    a.writes = true, a.tile = k_.type(d.operands[1]);
    if (d.opcode == StoreView) a.commutes_as = d.attrs.s(AttrName::kind);
    if (d.attrs.i(AttrName::tma) == 1) a.by = MemoryAccess::By::Copies;
  } else if (d.is(AtomicView, AtomicRmw, AtomicCas, ArriveAndTestLast)) {
    a.reads = a.writes = true, a.tile = k_.type(d.results[0]);
    if (is_commuting(d.attrs.s(AttrName::kind)) && order_of(d) == "relaxed" &&
        !is_used(k_, d.results[0]))
      a.commutes_as = d.attrs.s(AttrName::kind);
  } else if (d.is(CopyAsync, CopyTma)) {
    a.reads = true, a.by = MemoryAccess::By::Copies;
  } else {
    return std::nullopt;
  }
  const BoxAccess box = is_access(d.opcode) ? access_of(k_, d) : BoxAccess();
  a.address = box.view ? box.view : d.operands[0];
  if (!box.rows) a.axes = box.axes;
  for (AccessAxis& axis : a.axes)
    if (!a.tile && axis.tile_dim >= 0) axis.extent = kDynamic;
  // Pointers have the layout of the values they transfer. A scalar value may be stored through many
  // pointers.
  if (k_.type(a.address).is_tile()) a.tile = k_.type(a.address);
  a.roots = memory_roots(k_, a.address);
  const auto is_in = [&](Value v) {
    return k_.type(v).is_view() && k_.type(v).view_facts().access == Access::In;
  };
  if (!a.writes && a.roots && std::ranges::all_of(*a.roots, is_in)) return std::nullopt;
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
  for (OpId enclosing = loop; enclosing; enclosing = k_[k_[enclosing].parent].owner)
    if (is_loop(k_[enclosing]) && !is_tile_loop(k_, enclosing)) around.insert(enclosing);
  bool may = true, is_after = false;
  const auto look = [&](const auto& self, RegionId region, bool repeated) -> void {
    for (OpId op : k_.ops(region)) {
      const OpData& d = k_[op];
      const MemoryAccess* other = access(op);
      const bool matters = is_acquire(d) || (other && other->writes && may_alias(*read, *other));
      may = may && (!matters || (is_after && !repeated));
      for (RegionId r : d.regions) self(self, r, repeated || around.contains(op));
      is_after = is_after || op == loop;
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
std::optional<std::int64_t> MemoryHazards::distance(const ScalarSum& a, const ScalarSum& b,
                                                    OpId carried) const {
  const auto apart = difference(k_, b, a);
  // A symbol may have another value in another iteration.
  const auto is_fixed = [&](const ScalarSum::Term& t) { return is_same_in_all(carried, t.symbol); };
  const bool is_known = apart && apart->is_number() && std::ranges::all_of(a, is_fixed) &&
                        std::ranges::all_of(b, is_fixed);
  return is_known ? std::optional(apart->constant) : std::nullopt;
}

std::optional<std::int64_t> MemoryHazards::distance(const AccessAxis& a, const AccessAxis& b,
                                                    OpId carried) const {
  return distance(expanded(k_, a.offset), expanded(k_, b.offset), carried);
}

// ---- boxes
bool MemoryHazards::is_same_box(const MemoryAccess& a, const MemoryAccess& b) {
  return are_of_one_tensor(a, b, {}) &&
         std::ranges::equal(a.axes, b.axes, [&](const AccessAxis& x, const AccessAxis& y) {
           return x.tile_dim == y.tile_dim && x.extent == y.extent && distance(x, y, {}) == 0;
         });
}

bool MemoryHazards::moves_with(const MemoryAccess& box, OpId loop) {
  if (!box.is_box() || k_[loop].opcode != Opcode::For || !are_of_one_tensor(box, box, loop))
    return false;
  const Value iv = k_[k_[loop].regions[0]].args[0];
  const auto step = constant_value(k_, k_[loop].operands[2]);
  for (const AccessAxis& axis : box.axes) {
    if (!step || axis.is_gathered()) continue;
    const ScalarSum offset = expanded(k_, axis.offset);
    const bool is_even =
        axis.extent > 0 && std::ranges::all_of(offset, [&](const ScalarSum::Term& t) {
          return t.symbol == iv || k_.is_visible_from(t.symbol, loop);
        });
    if (is_even && std::abs(offset.factor_of(iv) * *step) >= axis.extent) return true;
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
    if (!x || !y || x->base != y->base || x->at.factor != y->at.factor) return false;
    if (!is_same_in_all(carried, x->base)) return false;
    if (distance(x->at.start, y->at.start, carried) == 0) return true;
    // Adjacent elements in aligned runs of `count`.
    const std::int64_t count = k_.type(a.address).count();
    return x->at.factor == Ints{1} && k_.type(b.address).count() == count &&
           divisor_of(k_, x->at.start) % count == 0 && divisor_of(k_, y->at.start) % count == 0;
  }
  return are_of_one_tensor(a, b, carried) &&
         std::ranges::equal(a.axes, b.axes, [&](const AccessAxis& x, const AccessAxis& y) {
           // An index tile may select the same element for two different threads.
           if (x.tile_dim != y.tile_dim || x.is_gathered() || y.is_gathered()) return false;
           const std::int64_t size = std::min(x.extent, y.extent);
           if (size <= 0 || std::max(x.extent, y.extent) % size != 0) return false;
           const auto apart = distance(x, y, carried);
           const auto is_multiple = [&](Value v) {
             return divisor_of(k_, expanded(k_, v)) % size == 0;
           };
           return size == 1 || (apart && *apart % size == 0) ||
                  (is_multiple(x.offset) && is_multiple(y.offset));
         });
}

bool MemoryHazards::disjoint(const MemoryAccess& a, const MemoryAccess& b, OpId carried) {
  if (!a.is_box() && !b.is_box()) {
    const auto x = pointers(a.address), y = pointers(b.address);
    if (!x || !y || x->base != y->base || !is_same_in_all(carried, x->base)) return false;
    const auto apart = distance(x->at.start, y->at.start, carried);
    if (!apart) return false;
    const auto range = [&](const Ints& factor, Value v) {
      std::int64_t low = 0, high = 0;
      for (std::size_t i = 0; i < factor.size(); ++i) {
        const std::int64_t reach = factor[i] * (k_.type(v).shape()[i] - 1);
        (reach < 0 ? low : high) += reach;
      }
      return std::pair(low, high);
    };
    const auto [low_a, high_a] = range(x->at.factor, a.address);
    const auto [low_b, high_b] = range(y->at.factor, b.address);
    return *apart + low_b > high_a || *apart + high_b < low_a;
  }
  if (!are_of_one_tensor(a, b, carried)) return false;
  for (std::size_t d = 0; d < a.axes.size(); ++d) {
    const AccessAxis &x = a.axes[d], &y = b.axes[d];
    if (x.extent <= 0 || y.extent <= 0 || x.is_gathered() || y.is_gathered()) continue;
    const auto apart = distance(x, y, carried);
    if (apart && (*apart >= x.extent || -*apart >= y.extent)) return true;
  }
  return false;
}

// ---- pointers
std::optional<MemoryHazards::Pointers> MemoryHazards::pointers(Value v) {
  const auto& index = affine_.of(v);
  if (!index) return std::nullopt;
  const ScalarSum all = expanded(k_, index->start);
  const auto* base = std::ranges::find_if(all, [&](const ScalarSum::Term& t) {
    return k_.type(t.symbol).is_view() || k_.type(t.symbol).is_pointer();
  });
  if (base == all.end()) return std::nullopt;
  const auto start = add(all, ScalarSum::symbol(base->symbol), -1);
  return Pointers{base->symbol, {index->factor, *start}};
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
  Dims first = part.shape();
  for (int d = 0; d < first.size(); ++d) first[d] = 0;
  for (;;) {
    const auto block = subtile(whole, first, part.shape());
    if (!block || block->layout != part) return false;
    int d = whole.rank() - 1;
    while (d >= 0 && (first[d] += part.shape()[d]) == whole.shape()[d]) first[d--] = 0;
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
    if (!p || !is_injective(p->at.factor, k_.type(a.address).shape())) return false;
  }
  // Only the first replica of an element writes it, but all replicas read it.
  return (is_equal && a.writes && b.writes) || (!is_replicated(a) && !is_replicated(b));
}

}  // namespace tegula::ir
