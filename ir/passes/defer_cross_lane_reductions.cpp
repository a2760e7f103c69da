// Defers cross-lane and cross-warp reductions of loop-carried values until after the loop.
//
// Before:  for l = l0 { .. l = l * f + reduce p }                  p: [m, n], l, f: [m]
// After:   for l = l0 in thread 0, else 0 { .. l = l * f + reduce (p as [m, threads, regs]) }
//          l = reduce l                                            l: [m, threads]
// The inner reduce combines the registers of one thread, so that an iteration has no shuffles and
// no barriers. The order of additions changes. (FlashAttention-2 keeps row_sum this way; Dao,
// 2023.) The same is done for products, maxima and other reductions, and if absent elements of the
// result are replaced by the identity first: l = l * f + select m, reduce p, 0.
//
// An infinite factor would turn partials of 0 into NaN where the sum is infinite. The factor must
// therefore be known to be finite, or the sum must be `reassoc`.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "ir/analysis/float_facts.h"
#include "ir/analysis/index_facts.h"
#include "ir/layout/axis_segments.h"
#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"
#include "ir/loop.h"
#include "ir/passes/mma_loop/operand_loads.h"
#include "ir/pipeline.h"
#include "ir/reduce_kind.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

/// A carry of the loop that each iteration combines with a reduce and that nothing else reads.
struct CarriedReduction {
  OpId loop = {};
  std::size_t carry = 0;
  OpId update = {}, reduce = {};
  OpId scaling = {}, masking = {}, convert = {};  ///< or null
  Value factor = {};                              ///< factor of the carry, or none
  int axis = 0;
};

/// Partition of the reduced tile over threads, and the part that is reduced within a thread.
struct ReductionShapes {
  Ints digits;         ///< shape of the tile with the axis cut into its runs
  Ints order;          ///< order of these, with the registers' segments last
  Ints shape;          ///< [.., threads, .., registers]
  Type cut, permuted;  ///< tiles of these shapes
  Type tile;           ///< the same as [.., threads, .., registers]
  Type partials;       ///< [.., threads, ..]
};

const LinearLayout* interned(const Result<LinearLayout>& layout) {
  return layout ? intern_layout(*layout) : nullptr;
}

/// Returns the partition of a tile along `axis`; nothing if the axis is within single threads or
/// the layout cannot be partitioned.
std::optional<ReductionShapes> parts_of(Type t, int axis) {
  const auto runs = axis_segments(*t.layout(), axis);
  if (!runs || std::ranges::all_of(*runs, &AxisSegment::is_in_registers)) return std::nullopt;
  const auto rank = static_cast<std::size_t>(t.rank()), reduced = static_cast<std::size_t>(axis);
  if (rank + std::max<std::size_t>(runs->size(), 2) - 1 > kMaxRank) return std::nullopt;
  ReductionShapes p;
  Ints in_registers;
  std::int64_t threads = 1, registers = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    if (d != reduced) {
      p.order.push_back(static_cast<std::int64_t>(p.digits.size()));
      p.digits.push_back(t.shape()[d]);
      p.shape.push_back(t.shape()[d]);
      continue;
    }
    for (const AxisSegment& run : *runs) {
      (run.is_in_registers ? in_registers : p.order)
          .push_back(static_cast<std::int64_t>(p.digits.size()));
      (run.is_in_registers ? registers : threads) *= run.extent;
      p.digits.push_back(run.extent);
    }
    p.shape.push_back(threads);
  }
  p.order.insert(p.order.end(), in_registers.begin(), in_registers.end());
  p.shape.push_back(registers);
  Ints permuted;
  for (const std::int64_t i : p.order) permuted.push_back(p.digits[static_cast<std::size_t>(i)]);
  const LinearLayout* cut = interned(reshape(*t.layout(), dims_of(p.digits)));
  if (!cut) return std::nullopt;
  const LinearLayout* turned = intern_layout(permute(*cut, dims_of(p.order)));
  const LinearLayout* tile = interned(reshape(*turned, dims_of(p.shape)));
  if (!tile) return std::nullopt;
  p.cut = Type::tile(t.elem(), p.digits, cut);
  p.permuted = Type::tile(t.elem(), permuted, turned);
  p.tile = Type::tile(t.elem(), p.shape, tile);
  const Ints partials(p.shape.begin(), p.shape.end() - 1);
  p.partials = Type::tile(t.elem(), partials, intern_layout(slice(*tile, static_cast<int>(rank))));
  return p;
}

/// Returns true if combining a value with itself changes nothing.
bool is_idempotent(Opcode o) {
  using enum Opcode;
  return o == Max || o == Min || o == And || o == Or;
}

class DeferReductions {
 public:
  DeferReductions(Kernel& k, PassContext& context)
      : k_(k), context_(context), facts_(k), uses_(k) {}

  bool run() {
    bool changed = false;
    for (OpId loop : loops_of(k_))
      for (std::size_t i = 0; i < k_[loop].results.size(); ++i) {
        const auto fold = find(loop, i);
        if (!fold || !rewrite(*fold)) continue;
        changed = true;
        uses_ = Uses(k_);  // a factor may be the sum of another loop
      }
    return changed;
  }

 private:
  // ---- finding
  bool is_used_once(Value v) const { return uses_.count(v) == 1; }

  /// Returns the op of the loop's body that makes the value, if it has a single user.
  OpId maker(Value v, RegionId body) const {
    const OpId def = k_[v].def;
    return def && k_[def].parent == body && is_used_once(v) ? def : OpId();
  }

  std::optional<CarriedReduction> find(OpId loop, std::size_t carry) const {
    const RegionId body = k_[loop].regions[0];
    const Value before = body_carries(k_, loop)[carry];
    const OpId update = maker(k_[k_.terminator(body)].operands[carry], body);
    if (!update || !is_used_once(before)) return std::nullopt;
    for (const auto& [sum, fold] : updates(update, before, body)) {
      CarriedReduction found = fold;
      found.loop = loop, found.carry = carry;
      if (with_reduce(found, sum, body) && is_legal(found)) return found;
    }
    return std::nullopt;
  }

  /// Returns values that may be the reduce's result, each with the rest of the update.
  std::vector<std::pair<Value, CarriedReduction>> updates(OpId update, Value before,
                                                          RegionId body) const {
    const auto& of = k_[update].operands;
    std::vector<std::pair<Value, CarriedReduction>> found;
    if (k_[update].opcode == Opcode::Fma) {
      for (const std::size_t i : {0u, 1u})
        if (of[i] == before) found.push_back({of[2], {.update = update, .factor = of[1 - i]}});
      return found;
    }
    if (of.size() != 2) return found;
    for (const std::size_t i : {0u, 1u}) {
      if (of[i] == before) found.push_back({of[1 - i], {.update = update}});
      const OpId scaling = maker(of[i], body);
      if (!scaling || k_[scaling].opcode != Opcode::Mul) continue;
      for (const std::size_t j : {0u, 1u})
        if (k_[scaling].operands[j] == before)
          found.push_back(
              {of[1 - i],
               {.update = update, .scaling = scaling, .factor = k_[scaling].operands[1 - j]}});
    }
    return found;
  }

  bool with_reduce(CarriedReduction& f, Value sum, RegionId body) const {
    OpId def = maker(sum, body);
    if (def && k_[def].opcode == Opcode::Select) {
      f.masking = def;
      def = maker(k_[def].operands[1], body);
    }
    if (def && k_[def].opcode == Opcode::ConvertLayout) {
      f.convert = def;
      def = maker(k_[def].operands[0], body);
    }
    if (!def || k_[def].opcode != Opcode::Reduce) return false;
    f.reduce = def;
    f.axis = static_cast<int>(k_[def].attrs.i(AttrName::axis));
    return true;
  }

  bool is_legal(const CarriedReduction& f) const {
    const OpData &update = k_[f.update], &reduce = k_[f.reduce];
    const ReduceKind& kind = reduce_kind(reduce.attrs.s(AttrName::kind));
    const bool is_sum = kind.op == Opcode::Add;
    if (update.opcode != kind.op && !(is_sum && update.opcode == Opcode::Fma)) return false;
    // A NaN mode is not supported: it would have to be that of the reduce.
    if (!update.attrs.s(AttrName::nan).empty() || !reduce.attrs.s(AttrName::nan).empty())
      return false;
    if (f.masking && !kind.is_identity(k_, k_[f.masking].operands[2])) return false;
    const DType t = k_.type(update.results[0]).dtype();
    if (is_float(t) && size_bits(t) < 32) return false;  // partial sums would be rounded, too
    if (!f.factor) return true;
    const bool is_relaxed = update.attrs.i(AttrName::reassoc) == 1;
    return is_sum && (!is_float(t) || is_relaxed || facts_.is_never_infinite(f.factor));
  }

  // ---- rewriting
  /// Returns true if every thread that holds partials of a row can hold the row's value.
  bool can_widen(Value v, const ReductionShapes& p, int axis) const {
    const Type t = k_.type(v);
    return !t.is_tile() ||
           broadcast_registers(expand_dim(*t.layout(), axis), *p.partials.layout()).operator bool();
  }

  /// Returns the value of each row, repeated for the partials of the row.
  Value widen(Builder& b, Value v, const ReductionShapes& p, int axis) const {
    const Type t = k_.type(v), wanted = p.partials.with_elem(t.elem());
    if (!t.is_tile()) return b.op(Opcode::Splat, {v}, wanted);
    Ints shape(t.shape().begin(), t.shape().end());
    shape.insert(shape.begin() + axis, 1);
    const Type expanded = Type::tile(t.elem(), shape, intern_layout(expand_dim(*t.layout(), axis)));
    const Value column = b.op(Opcode::ExpandDims, {v}, expanded, {{AttrName::axis, axis}});
    return b.op(Opcode::Broadcast, {column}, wanted);
  }

  /// Returns an i1 tile that is true in the partials of one thread of each row.
  Value is_first_part(Builder& b, const ReductionShapes& p, int axis) const {
    LinearLayout of_parts = *p.partials.layout();
    for (int d = static_cast<int>(p.partials.rank()); d-- > 0;)
      if (d != axis) of_parts = slice(of_parts, d);
    const Type numbers =
        Type::tile({DType::i32, false}, Ints{p.partials.shape()[axis]}, intern_layout(of_parts));
    const Value number = b.op(Opcode::Arange, {}, numbers, {{AttrName::start, 0}});
    Value first = b.cmp("eq", number, b.constant(numbers, std::int64_t{0}));
    for (int d = 0; d < p.partials.rank(); ++d) {
      if (d == axis) continue;
      const Type t = k_.type(first);
      Ints shape(t.shape().begin(), t.shape().end());
      shape.insert(shape.begin() + d, 1);
      const Type expanded = Type::tile(t.elem(), shape, intern_layout(expand_dim(*t.layout(), d)));
      first = b.op(Opcode::ExpandDims, {first}, expanded, {{AttrName::axis, d}});
    }
    return p.partials.rank() == 1
               ? first
               : b.op(Opcode::Broadcast, {first}, p.partials.with_elem({DType::i1, false}));
  }

  Value identity_partials(Builder& b, const CarriedReduction& f, const ReductionShapes& p) const {
    const ReduceKind& kind = reduce_kind(k_[f.reduce].attrs.s(AttrName::kind));
    return b.op(Opcode::Splat, {kind.identity(b, p.partials.dtype())}, p.partials);
  }

  Value initial_partials(Builder& b, Value init, const ReductionShapes& p,
                         const CarriedReduction& f) const {
    const ReduceKind& kind = reduce_kind(k_[f.reduce].attrs.s(AttrName::kind));
    if (is_idempotent(kind.op)) return widen(b, init, p, f.axis);
    const Value neutral = identity_partials(b, f, p);
    if (kind.op == Opcode::Add && is_zero(k_, init)) return neutral;
    return b.select(is_first_part(b, p, f.axis), widen(b, init, p, f.axis), neutral);
  }

  /// Reduces within a thread.
  Value thread_partials(Builder& b, const CarriedReduction& f, const ReductionShapes& p) const {
    const Value tile = k_[f.reduce].operands[0];
    const Value cut = b.op(Opcode::Reshape, {tile}, p.cut),
                permuted = b.op(Opcode::Permute, {cut}, p.permuted, {{AttrName::order, p.order}}),
                parts = b.op(Opcode::Reshape, {permuted}, p.tile);
    AttrList attrs = k_[f.reduce].attrs;
    attrs.set(AttrName::axis, p.tile.rank() - 1);
    return k_[b.create(Opcode::Reduce, std::array{parts}, std::array{p.partials}, attrs)]
        .results[0];
  }

  bool rewrite(const CarriedReduction& f) {
    const auto p = parts_of(k_.type(k_[f.reduce].operands[0]), f.axis);
    const Value init = loop_inits(k_[f.loop])[f.carry];
    if (!p || !can_widen(init, *p, f.axis) || (f.factor && !can_widen(f.factor, *p, f.axis)) ||
        (f.masking && !can_widen(k_[f.masking].operands[0], *p, f.axis)))
      return false;
    context_.remark(Remark::Kind::Applied, k_[f.update].loc, "reduced across lanes after the loop",
                    {{"sums", p->partials.with_layout(nullptr).str()}});
    const Value before = body_carries(k_, f.loop)[f.carry], after = k_[f.update].results[0],
                result = k_[f.loop].results[f.carry];
    const Type whole = k_.type(result);
    const AttrList folding = k_[f.reduce].attrs;

    Builder outside(k_, f.loop);
    loop_inits(k_[f.loop])[f.carry] = initial_partials(outside, init, *p, f);
    k_.set_type(before, p->partials);
    k_.set_type(result, p->partials);

    Builder inside(k_, f.update);
    Value partials = thread_partials(inside, f, *p);
    if (f.masking)
      partials = inside.select(widen(inside, k_[f.masking].operands[0], *p, f.axis), partials,
                               identity_partials(inside, f, *p));
    k_.replace_all_uses(after, update(inside, f, before, partials, *p));
    k_.erase(f.update);
    for (const OpId op : {f.scaling, f.masking, f.convert, f.reduce})
      if (op) k_.erase(op);

    finish(f.loop, folding, *p, result, whole);
    return true;
  }

  Value update(Builder& b, const CarriedReduction& f, Value before, Value partials,
               const ReductionShapes& p) const {
    const auto again = [&](OpId like, std::initializer_list<Value> operands) {
      const AttrList attrs = k_[like].attrs;
      return k_[b.create(k_[like].opcode, operands, std::array{p.partials}, attrs)].results[0];
    };
    if (!f.factor) return again(f.update, {before, partials});
    const Value factor = widen(b, f.factor, p, f.axis);
    if (!f.scaling) return again(f.update, {before, factor, partials});
    return again(f.update, {again(f.scaling, {before, factor}), partials});
  }

  /// Reduces over lanes and warps after the loop.
  void finish(OpId loop, const AttrList& folding, const ReductionShapes& p, Value result,
              Type whole) const {
    Builder b = Builder::after(k_, loop);
    const Value placeholder = b.op(Opcode::Poison, {}, whole);
    k_.replace_all_uses(result, placeholder);
    const int axis = static_cast<int>(folding.i(AttrName::axis));
    Type left = whole;
    if (whole.is_tile()) left = whole.with_layout(intern_layout(slice(*p.partials.layout(), axis)));
    Value all =
        k_[b.create(Opcode::Reduce, std::array{result}, std::array{left}, folding)].results[0];
    if (left != whole) all = b.op(Opcode::ConvertLayout, {all}, whole);
    k_.replace_all_uses(placeholder, all);
    k_.erase(k_[placeholder].def);
  }

  Kernel& k_;
  PassContext& context_;
  FloatFacts facts_;
  Uses uses_;
};

}  // namespace

bool defer_cross_lane_reductions(Kernel& kernel, PassContext& context) {
  if (!context.plan || !context.plan->defer_cross_lane_reductions) return false;
  return DeferReductions(kernel, context).run();
}

}  // namespace tegula::ir
