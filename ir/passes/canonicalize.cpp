// Folds constants and identities, merges equal pure ops, hoists loop-invariant pure ops, removes
// dead ops. Before and after: any form. Ops that must be executed by a whole warp are not moved.
#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/analysis/invariant_load.h"
#include "ir/clone_op.h"
#include "ir/erase_unused.h"
#include "ir/eval/cell.h"
#include "ir/eval/evaluate.h"
#include "ir/made_view.h"
#include "ir/pipeline.h"
#include "ir/reduce_kind.h"

namespace tegula::ir {
namespace {

std::optional<Cell> constant_of(const Kernel& k, Value v) {
  const OpId def = k[v].def;
  if (!def || k[def].opcode != Opcode::Const) return std::nullopt;
  const DType t = k.type(v).dtype();
  Cell c;
  if (is_float(t))
    c.f = k[def].attrs.f(AttrName::value);
  else if (const auto* i = std::get_if<std::int64_t>(k[def].attrs.find(AttrName::value)))
    c.i = *i;
  else
    return std::nullopt;
  return canonical(c, t);
}

bool is_int_constant(const Kernel& k, Value v, std::int64_t wanted) {
  const Type t = k.type(v);
  if (t.is_pointer() || is_float(t.dtype())) return false;
  const auto c = constant_of(k, v);
  return c && c->i == wanted;
}

class Canonicalizer {
 public:
  explicit Canonicalizer(Kernel& k) : k_(k) {}

  bool run() {
    for (RegionId root : {k_.launch(), k_.body()}) {
      simplify(root);
      hoist(root);
      merged_.clear();
      merge(root);
    }
    remove_dead();
    return changed_;
  }

 private:
  // ---- folding ----------------------------------------------------------------------------------
  Value resolved(Value v) {
    for (auto it = replaced_.find(v); it != replaced_.end(); it = replaced_.find(v)) v = it->second;
    return v;
  }
  void replace(Value from, Value to) {
    replaced_[from] = to;
    changed_ = true;
  }

  void simplify(RegionId region) {
    for (OpId op : k_.ops(region)) {
      for (Value& v : k_[op].operands) v = resolved(v);
      for (RegionId r : k_[op].regions) simplify(r);
      if (const auto folded = fold(op))
        replace(k_[op].results[0], *folded);
      else if (const auto operand = identity(op))
        replace(k_[op].results[0], *operand);
      else if (const auto wide = select_before_cast(op))
        replace(k_[op].results[0], *wide);
      else if (const auto minus = negation(op))
        replace(k_[op].results[0], *minus);
    }
  }

  /// Returns the result of an op on constants.
  std::optional<Value> fold(OpId op) {
    const OpData& d = k_[op];
    const Type type = d.results.size() == 1 ? k_.type(d.results[0]) : Type();
    if (!type.is_scalar() || type.is_pointer()) return std::nullopt;
    const auto result = evaluate_scalar(k_, d, [&](Value v) { return constant_of(k_, v); });
    if (!result) return std::nullopt;
    Builder b(k_, op);
    return is_float(type.dtype()) ? b.constant(type, result->f) : b.constant(type, result->i);
  }

  /// Returns an operand that the result equals. Float identities are not applied because of -0 and
  /// NaN.
  std::optional<Value> identity(OpId op) {
    const OpData& d = k_[op];
    if (d.results.size() != 1) return std::nullopt;
    const Type type = k_.type(d.results[0]);
    const auto keep = [&](std::size_t i) -> std::optional<Value> {
      return k_.type(d.operands[i]) == type ? std::optional(d.operands[i]) : std::nullopt;
    };
    const auto right = [&](std::int64_t v) { return is_int_constant(k_, d.operands[1], v); };
    const auto left = [&](std::int64_t v) { return is_int_constant(k_, d.operands[0], v); };
    using enum Opcode;
    const bool sum = d.is(Add, Or, Xor);
    if ((sum || d.is(Sub, Shl, Shr, AddPtr)) && right(0)) return keep(0);
    if (sum && left(0)) return keep(1);
    if (d.is(Mul, Div) && right(1)) return keep(0);
    if (d.opcode == Mul && left(1)) return keep(1);
    // A tile's elements may be absent, and the product is absent there, too.
    const bool may_lack = type.is_tile() && k_.info.form == Form::Tile;
    if (d.opcode == Mul && right(0) && !may_lack) return keep(1);
    if (d.opcode == Mul && left(0) && !may_lack) return keep(0);
    if (type.dtype() == DType::i1 && d.opcode == And && right(1)) return keep(0);
    if (type.dtype() == DType::i1 && d.opcode == And && left(1)) return keep(1);
    if (d.opcode == Cast && k_.type(d.operands[0]) == type) return keep(0);
    if (d.opcode == Bitcast && k_.type(d.operands[0]) == type) return keep(0);
    if (d.is(ViewDim, ViewStride))
      if (const OpId make = maker_of(k_, d.operands[0])) {
        const auto axis = static_cast<int>(d.attrs.i(AttrName::axis));
        const Value part =
            d.opcode == ViewDim ? made_extent(k_, make, axis) : made_stride(k_, make, axis);
        return k_.type(part) == type ? std::optional(part) : std::nullopt;
      }
    if (d.opcode == Repack)
      if (const OpId inner = k_[d.operands[0]].def; inner && k_[inner].opcode == Repack)
        if (const Value back = resolved(k_[inner].operands[0]); k_.type(back) == type) return back;
    if (d.opcode == Select && is_int_constant(k_, d.operands[0], 1)) return keep(1);
    if (d.opcode == Select && is_int_constant(k_, d.operands[0], 0)) return keep(2);
    return std::nullopt;
  }

  /// Rewrites `select(c, cast(x), constant)` from f32 to a narrower float as `cast(select(c, x,
  /// constant))`. Narrow elements share registers, which a select would unpack and pack again; and
  /// the wide select often exists already, for a sum of the same elements.
  std::optional<Value> select_before_cast(OpId op) {
    const OpData& d = k_[op];
    if (d.opcode != Opcode::Select || k_.info.form != Form::Simt) return std::nullopt;
    const Type type = k_.type(d.results[0]);
    if (!type.is_vec() || type.is_pointer() || !is_float(type.dtype()) ||
        size_bits(type.dtype()) >= 32)
      return std::nullopt;
    const OpId cast = k_[d.operands[1]].def;
    const auto constant = constant_of(k_, d.operands[2]);
    if (!cast || k_[cast].opcode != Opcode::Cast || !k_[cast].attrs.all().empty() || !constant ||
        constant->f != constant->f)
      return std::nullopt;
    const Value x = resolved(k_[cast].operands[0]);
    if (!k_.type(x).is_vec() || k_.type(x).dtype() != DType::f32) return std::nullopt;
    Builder b(k_, op);
    const Value condition = d.operands[0];
    return b.cast(b.select(condition, x, b.f32(constant->f)), type.dtype());
  }

  /// Rewrites `0 - x`, `a - (a + x)`, products by -2^n and quotients by a negative constant as the
  /// negation that later compilers make of them, so that it is emitted in the one form that ptxas
  /// compiles correctly (ptx::int_neg). This happens late, because analyses of indices handle
  /// products better.
  std::optional<Value> negation(OpId op) {
    const OpData& d = k_[op];
    if (k_.info.form != Form::Simt || d.results.size() != 1) return std::nullopt;
    const Type type = k_.type(d.results[0]);
    if (type.is_pointer() || !is_integer(type.dtype())) return std::nullopt;
    Builder b(k_, op);
    const auto minus = [&](Value x) { return std::optional(b.op(Opcode::Neg, {x})); };
    if (d.opcode == Opcode::Sub) {
      const auto x = subtracted(d.operands[0], d.operands[1]);
      return x && k_.type(*x) == type ? minus(*x) : std::nullopt;
    }
    if (!d.is(Opcode::Mul, Opcode::Div)) return std::nullopt;
    const bool is_left = d.opcode == Opcode::Mul && constant_of(k_, d.operands[0]);
    const Value x = d.operands[is_left ? 1 : 0];
    const auto by = opposite(d.operands[is_left ? 0 : 1]);
    if (!by || k_.type(x) != type) return std::nullopt;
    const bool makes_minus = d.opcode == Opcode::Mul
                                 ? std::has_single_bit(static_cast<std::uint64_t>(*by))
                                 : is_signed(type.dtype());
    if (!makes_minus) return std::nullopt;
    if (*by == 1) return minus(x);
    const Opcode opcode = d.opcode;
    return minus(b.op(opcode, {x, b.constant(Type::scalar(type.dtype()), *by)}));
  }

  /// Returns x of `0 - x` and of `a - (a + x)`.
  std::optional<Value> subtracted(Value a, Value b) {
    if (is_int_constant(k_, a, 0)) return b;
    const OpId sum = k_[b].def;
    if (!sum || k_[sum].opcode != Opcode::Add) return std::nullopt;
    const Value x = resolved(k_[sum].operands[0]), y = resolved(k_[sum].operands[1]);
    return x == a ? std::optional(y) : y == a ? std::optional(x) : std::nullopt;
  }

  /// Returns the negation of a negative constant.
  std::optional<std::int64_t> opposite(Value v) const {
    const auto c = constant_of(k_, v);
    if (!c) return std::nullopt;
    const int unused = 64 - size_bits(k_.type(v).dtype());
    const auto value =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(c->i) << unused) >> unused;
    const std::int64_t lowest = std::int64_t{-1} << (63 - unused);
    return value < 0 && value != lowest ? std::optional(-value) : std::nullopt;
  }

  // ---- hoisting ---------------------------------------------------------------------------------
  void hoist(RegionId region) {
    for (OpId op : k_.ops(region)) {
      for (RegionId r : k_[op].regions) hoist(r);
      if (k_[op].opcode == Opcode::For) hoist_from_loop(op);
    }
  }

  /// Hoists scalars always. Tiles and vectors would occupy registers throughout the loop, so in
  /// machine and SIMT form they are not hoisted.
  void hoist_from_loop(OpId loop) {
    const RegionId body = k_[loop].regions[0];
    std::unordered_set<Value> inside(k_[body].args.begin(), k_[body].args.end());
    std::vector<OpId> in_branches;
    for (OpId op : k_.ops(body)) {
      const OpData& d = k_[op];
      const bool scalar = std::ranges::all_of(
          d.results, [&](Value v) { return k_.type(v).is_scalar() || k_.info.form == Form::Tile; });
      if (is_invariant(op, inside) && scalar) {
        move_before(op, loop);
      } else {
        inside.insert(d.results.begin(), d.results.end());
        if (k_.info.form == Form::Tile) collect_invariants(op, inside, in_branches);
      }
    }
    for (OpId op : reads_and_operands(in_branches)) move_before(op, loop);
  }
  void move_before(OpId op, OpId loop) {
    k_.unlink(op);
    k_.insert_before(loop, op);
    changed_ = true;
  }
  /// Returns true if the op depends on nothing that is `inside`, and may run where it would not be
  /// reached.
  bool is_invariant(OpId op, const std::unordered_set<Value>& inside) const {
    const OpData& d = k_[op];
    return (is_movable(d) || is_same_before_loop(op)) && !may_trap(d) &&
           std::ranges::none_of(d.operands, [&](Value v) { return inside.contains(v); });
  }
  /// Collects the invariant ops of an `if`'s branches, in order. Varying values are added to
  /// `inside`.
  void collect_invariants(OpId branch, std::unordered_set<Value>& inside,
                          std::vector<OpId>& found) const {
    if (k_[branch].opcode != Opcode::If) return;
    for (RegionId r : k_[branch].regions)
      for (OpId op : k_.ops(r)) {
        if (is_invariant(op, inside)) {
          found.push_back(op);
          continue;
        }
        inside.insert(k_[op].results.begin(), k_[op].results.end());
        collect_invariants(op, inside, found);
      }
  }
  /// Returns the loads, with the ops that compute their addresses: every iteration that takes the
  /// branch would wait for a chain of loads in it. Arithmetic stays, because it costs less than
  /// registers throughout the loop.
  std::vector<OpId> reads_and_operands(const std::vector<OpId>& ops) const {
    std::unordered_set<Value> needed;
    std::vector<OpId> kept;
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      const OpData& d = k_[*op];
      const bool is_needed =
          std::ranges::any_of(d.results, [&](Value v) { return needed.contains(v); });
      if (!is_needed && !is_same_before_loop(*op)) continue;
      needed.insert(d.operands.begin(), d.operands.end());
      kept.push_back(*op);
    }
    std::ranges::reverse(kept);
    return kept;
  }
  /// Returns true for a read that the loop repeats. It is guarded, so it may also be one that the
  /// loop never reaches.
  bool is_same_before_loop(OpId op) const {
    return k_.info.form == Form::Tile &&
           (is_invariant_scalar_load(k_, op) || is_invariant_row_load(k_, op));
  }
  bool may_trap(const OpData& d) const {
    return d.is(Opcode::Div, Opcode::Rem) && !is_float(k_.type(d.results[0]).dtype());
  }

  // ---- merging ----------------------------------------------------------------------------------
  std::size_t hash(const OpData& d) const {
    std::size_t h = static_cast<std::size_t>(d.opcode);
    for (Value v : d.operands) h = h * 1000003 + v.index;
    for (Value v : d.results)
      h = h * 31 + std::hash<std::string_view>()(k_.type(v).is_scalar() ? "s" : "t");
    return h * 31 + d.attrs.all().size();
  }
  bool equal(const OpData& a, const OpData& b) const {
    if (a.opcode != b.opcode || a.results.size() != b.results.size() || !(a.attrs == b.attrs))
      return false;
    for (std::size_t i = 0; i < a.results.size(); ++i)
      if (k_.type(a.results[i]) != k_.type(b.results[i])) return false;
    return std::ranges::equal(a.operands, b.operands);
  }

  void merge(RegionId region) {
    std::vector<std::size_t> added;
    for (OpId op : k_.ops(region)) {
      for (Value& v : k_[op].operands) v = resolved(v);
      const OpData& d = k_[op];
      // A pending value has one use: two accumulators that start as poison stay separate.
      const bool linear = !d.results.empty() && k_.type(d.results[0]).is(TypeKind::Pending);
      if (is_movable(d) && !d.results.empty() && !linear && !merge_one(op)) {
        const std::size_t h = hash(d);
        merged_[h].push_back(op);
        added.push_back(h);
      }
      for (RegionId r : k_[op].regions) merge(r);
    }
    for (std::size_t h : added) merged_[h].pop_back();
  }

  bool merge_one(OpId op) {
    const OpData& d = k_[op];
    const auto it = merged_.find(hash(d));
    if (it == merged_.end()) return false;
    for (OpId earlier : it->second) {
      if (!equal(k_[earlier], d)) continue;
      for (std::size_t i = 0; i < d.results.size(); ++i)
        replace(d.results[i], k_[earlier].results[i]);
      return true;
    }
    return false;
  }

  // ---- dead ops ---------------------------------------------------------------------------------
  void remove_dead() {
    std::unordered_map<Value, int> uses;
    const auto count = [&](OpId op) {
      for (Value& v : k_[op].operands) ++uses[v = resolved(v)];
    };
    walk(k_, k_.launch(), count);
    walk(k_, k_.body(), count);
    for (RegionId root : {k_.launch(), k_.body()}) remove_dead(root, uses);
  }

  void remove_dead(RegionId region, std::unordered_map<Value, int>& uses) {
    for (OpId op = k_[region].last; op;) {
      const OpId before = k_[op].prev;
      for (RegionId r : k_[op].regions) remove_dead(r, uses);
      if (k_[op].opcode == Opcode::While && drop_carries(op, uses))
        remove_dead(k_[op].regions[1], uses);
      const OpData& d = k_[op];
      const bool unused = std::ranges::all_of(d.results, [&](Value v) { return uses[v] == 0; });
      if (unused && removable_op(d)) {
        release(op, uses);
        k_.erase(op);
        changed_ = true;
      }
      op = before;
    }
  }

  /// Removes unused carries of a while loop: one role may need fewer than another.
  bool drop_carries(OpId loop, std::unordered_map<Value, int>& uses) {
    const RegionId test = k_[loop].regions[0], body = k_[loop].regions[1];
    const OpId yield = k_.terminator(body);
    bool dropped = false;
    for (std::size_t i = k_[loop].results.size(); i-- > 0;) {
      const Value carried[] = {k_[loop].results[i], k_[test].args[i], k_[body].args[i]};
      if (std::ranges::any_of(carried, [&](Value v) { return uses[v] != 0; })) continue;
      --uses[k_[loop].operands[i]];
      --uses[k_[yield].operands[i]];
      remove_at(k_[loop].operands, i);
      remove_at(k_[yield].operands, i);
      remove_at(k_[loop].results, i);
      remove_at(k_[test].args, i);
      remove_at(k_[body].args, i);
      dropped = true;
    }
    for (const auto* list : {&k_[loop].results, &k_[test].args, &k_[body].args}) renumber(*list);
    changed_ = changed_ || dropped;
    return dropped;
  }
  template <class List>
  static void remove_at(List& list, std::size_t i) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
  }
  template <class List>
  void renumber(const List& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      k_[values[i]].position = static_cast<std::uint32_t>(i);
  }

  /// Returns true if the op can be removed. A loop or branch without used results can if nothing in
  /// it has an effect.
  bool removable_op(const OpData& d) const {
    if (d.regions.empty()) return is_removable(info(d.opcode));
    if (d.is(Opcode::While, Opcode::Roles)) return false;
    if (is_fold_by_function(d.opcode)) return true;
    const auto stays = [&](OpId op) {
      return !k_[op].is(Opcode::Yield, Opcode::If, Opcode::For) &&
             !is_removable(info(k_[op].opcode));
    };
    return std::ranges::none_of(d.regions, [&](RegionId r) { return any_op(k_, r, stays); });
  }

  void release(OpId op, std::unordered_map<Value, int>& uses) {
    for (Value v : k_[op].operands) --uses[v];
    for (RegionId r : k_[op].regions)
      walk(k_, r, [&](OpId inner) {
        for (Value v : k_[inner].operands) --uses[v];
      });
  }

  Kernel& k_;
  bool changed_ = false;
  std::unordered_map<Value, Value> replaced_;
  std::unordered_map<std::size_t, std::vector<OpId>> merged_;
};

}  // namespace

bool canonicalize(Kernel& kernel, PassContext&) { return Canonicalizer(kernel).run(); }

}  // namespace tegula::ir
