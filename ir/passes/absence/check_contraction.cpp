#include "ir/passes/absence/check_contraction.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ir/analysis/index_facts.h"
#include "ir/builder.h"
#include "ir/loop.h"

namespace tegula::ir {
namespace {

class ContractionCheck {
 public:
  ContractionCheck(Kernel& k, TilePresence& presence) : k_(k), presence_(presence) {}

  bool run(OpId op) {
    if (k_[op].opcode == Opcode::Dot) contraction(op);
    if (k_[op].opcode == Opcode::Reduce) sum_of_products(op);
    return changed_;
  }

 private:
  void contraction(OpId dot) {
    const auto rank = static_cast<std::size_t>(k_.type(k_[dot].operands[0]).rank());
    const PresentLines a = presence_.of(k_[dot].operands[0]), b = presence_.of(k_[dot].operands[1]);
    if (!a.is_known || !b.is_known) return;
    contraction(dot, a.dims[rank - 1], b.dims[rank - 2],
                k_.type(k_[dot].operands[0]).shape()[rank - 1]);
  }

  /// sum(a(m, k) * x(k)) contracts as a dot does.
  void sum_of_products(OpId sum) {
    OpId mul = k_[k_[sum].operands[0]].def;
    while (mul && k_[mul].opcode == Opcode::Cast) mul = k_[k_[mul].operands[0]].def;
    if (k_[sum].attrs.s(AttrName::kind) != "sum" || !mul || k_[mul].opcode != Opcode::Mul) return;
    const auto axis = static_cast<std::size_t>(k_[sum].attrs.i(AttrName::axis));
    const PresentLines a = presence_.of(k_[mul].operands[0]), b = presence_.of(k_[mul].operands[1]);
    if (!a.is_known || !b.is_known || a.dims.size() <= axis || b.dims.size() <= axis) return;
    contraction(sum, a.dims[axis], b.dims[axis], k_.type(k_[mul].results[0]).shape()[axis]);
  }

  void contraction(OpId op, const PresentLine& left, const PresentLine& right,
                   std::int64_t extent) {
    const auto is_kept = [](const LoadedInterval& i) { return i.is_kept; };
    if (std::ranges::any_of(left.all, is_kept) || std::ranges::any_of(right.all, is_kept)) return;
    for (const LoadedInterval& x : left.all)
      for (const LoadedInterval& y : right.all)
        if (is_same(k_, x.offset, y.offset) && (x.view != y.view || x.axis != y.axis))
          ends_differ(op, x, y, extent);
  }

  void ends_differ(OpId dot, const LoadedInterval& x, const LoadedInterval& y,
                   std::int64_t extent) {
    const Type type = k_.type(x.offset);
    const OpId cast = k_[x.offset].def;
    const Value index = cast && k_[cast].opcode == Opcode::Cast ? k_[cast].operands[0] : x.offset;
    const RegionId home = k_[index].region;
    const OpId loop = !k_[index].def && home ? k_[home].owner : OpId();
    const bool is_step = loop && k_[loop].opcode == Opcode::For && k_[home].args[0] == index;
    const auto fixed = constant_value(k_, x.offset);
    if (!is_step && !fixed) return;  // each program may sum only its own block
    std::vector<Value> needed{x.view, y.view};
    if (is_step)
      needed.insert(needed.end(), k_[loop].operands.begin(), k_[loop].operands.begin() + 3);
    const auto is_visible_at = [&](OpId op) {
      return std::ranges::all_of(needed, [&](Value v) { return k_.is_visible_from(v, op); });
    };
    OpId place = is_step ? loop : dot;
    if (!is_visible_at(place)) return;
    for (OpId outer = k_[k_[place].parent].owner;
         outer && k_[outer].opcode == Opcode::For && is_visible_at(outer);
         outer = k_[k_[place].parent].owner)
      place = outer;
    if (!is_step && is_inside_loop(place)) return;  // a check in a loop would change its schedule
    Builder b(k_, place);
    b.loc = k_[dot].loc;
    Value first, runs;
    if (!is_step) {
      first = b.constant(type, *fixed);
    } else {
      const Value lo = b.cast(needed[2], type.dtype()), hi = b.cast(needed[3], type.dtype()),
                  one = b.constant(type, std::int64_t{1}),
                  step = b.op(Opcode::Max, {b.cast(needed[4], type.dtype()), one});
      const Value last = b.sub(b.sub(hi, lo), one);
      first = b.add(lo, b.mul(b.div(last, step), step));
      runs = b.cmp("lt", lo, hi);
    }
    const Value end = b.add(first, b.constant(type, extent));
    const auto read_of = [&](const LoadedInterval& i) {
      const Value limit = b.op(Opcode::ViewDim, {i.view}, type, {{AttrName::axis, i.axis}});
      return b.op(Opcode::Min, {limit, end});
    };
    const Value left = read_of(x), right = read_of(y);
    Value holds = b.cmp("eq", left, right);
    if (runs) holds = b.op(Opcode::Or, {holds, b.op(Opcode::Not, {runs})});
    const std::string message = fmt::format(
        "{} sums over {}.dim({}) and {}.dim({}), which differ, and the elements that one of them "
        "lacks count as 0",
        k_[dot].opcode == Opcode::Dot ? "a dot" : "a sum of products", view_name(k_, x.view),
        x.axis, view_name(k_, y.view), y.axis);
    b.effect(Opcode::Assume, {holds},
             {{AttrName::kind, "contraction"}, {AttrName::message, std::string_view(message)}});
    changed_ = true;
  }

  bool is_inside_loop(OpId op) const {
    for (OpId outer = k_[k_[op].parent].owner; outer; outer = k_[k_[outer].parent].owner)
      if (is_loop(k_[outer])) return true;
    return false;
  }

  Kernel& k_;
  TilePresence& presence_;
  bool changed_ = false;
};

}  // namespace

bool check_contraction(Kernel& k, TilePresence& presence, OpId op) {
  return ContractionCheck(k, presence).run(op);
}

std::string view_name(const Kernel& k, Value view) {
  const auto param = std::ranges::find(k.params(), view, &Param::value);
  return param == k.params().end() ? "a view" : param->name;
}

}  // namespace tegula::ir
