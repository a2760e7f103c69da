// Reports elements that are read outside of their view and used to make a decision. A single
// element that is read there is 0, which is a valid number. Where it is used as an index, the bound
// of a loop or of a crop, an address, a mask or a condition, the pass inserts an assume that only
// the interpreter and the simulator check.
//
//   n = load_view V, i                    ->  n = load_view V, i
//                                             is_outside = i < 0 or i >= extent of V
//   for 0, n, 1 { .. }                        assume not is_outside [kind = "inside"]
//                                             for 0, n, 1 { .. }
//
// An element is tracked through elementwise ops and shape ops. A `select` uses only the side that
// it takes, and an operand of a conjunction matters only if the other operand does not decide the
// result. Tracking ends at fill_absent, at memory, and at results of branches and loops.
//
// In a kernel with assumes of kind "reads", these are the only uses. Elements that index tiles
// select are tracked too, also through the index of another element, and each assume is replaced by
// checks of what the elements of its condition depend on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/facts.h"
#include "ir/analysis/invariant_load.h"
#include "ir/made_view.h"
#include "ir/pipeline.h"
#include "ir/reduce_kind.h"

namespace tegula::ir {
namespace {

/// An element that a value depends on, and a scalar i1 that is true if it is outside its view (and
/// matters).
struct Origin {
  OpId load;
  Value is_outside;
  friend bool operator==(const Origin&, const Origin&) = default;
};
using Origins = std::vector<Origin>;

/// If a value depends on more elements, only the first ones are tracked.
constexpr std::size_t kMaxOrigins = 8;

bool is_scalar_flag(const Kernel& k, Value v) {
  return k.type(v).is_scalar() && k.type(v).dtype() == DType::i1;
}

class OutsideReads {
 public:
  explicit OutsideReads(Kernel& k)
      : k_(k),
        known_(k),
        follows_gathers_(any_op(k, k.body(), [&](OpId op) { return requires_reads(k, op); })) {}

  static bool requires_reads(const Kernel& k, OpId op) {
    return k[op].opcode == Opcode::Assume && k[op].attrs.s(AttrName::kind) == "reads";
  }

  bool run() {
    region(k_.body());
    return changed_;
  }

 private:
  void region(RegionId r) {
    const std::size_t outer = checked_.size();
    for (const OpId op : k_.ops(r)) {
      if (requires_reads(k_, op)) {
        k_[op].loc = {};  // the use is in the library
        check(op, 0, "part of a mask or a score");
        k_.erase(op);
        changed_ = true;
        continue;
      }
      if (!follows_gathers_) uses(op);
      if (is_fold_by_function(k_[op].opcode)) continue;
      for (const RegionId inner :
           std::vector<RegionId>(k_[op].regions.begin(), k_[op].regions.end()))
        region(inner);
    }
    checked_.resize(outer);
  }

  void uses(OpId op) {
    using enum Opcode;
    const Opcode o = k_[op].opcode;
    if (o == LoadView || o == StoreView || o == AtomicView) {
      const BoxAccess a = access_of(k_, k_[op]);
      for (const AccessAxis& axis : a.axes) check(op, axis.offset, "an index");
      made_view(op, a.view);
    }
    if (const auto mask = mask_operand(o))
      access(op, *mask);
    else if (o == WaitUntil)
      check_all(op, 0, "an address or the value waited for");
    else if (o == For)
      for (std::size_t i = 0; i < 3; ++i) check(op, i, "the bound of a loop");
    else if (o == Crop)
      check_all(op, 1, "the bound of a crop");
    else if (o == Gather)
      gathered(op);
    else if (o == If || is_loop_condition(op))
      check(op, 0, "a condition");
  }

  /// Returns true for the yield of a while loop's condition.
  bool is_loop_condition(OpId op) const {
    const OpId owner = k_[k_[op].parent].owner;
    return k_[op].opcode == Opcode::Yield && owner && k_[owner].opcode == Opcode::While &&
           k_[op].parent == k_[owner].regions[0];
  }

  void access(OpId op, std::size_t mask) {
    check(op, 0, "an address");
    if (mask < k_[op].operands.size()) check(op, mask, "a mask");
  }

  void check_all(OpId op, std::size_t first, std::string_view used_as) {
    for (std::size_t i = first; i < k_[op].operands.size(); ++i) check(op, i, used_as);
  }

  /// Checks the operands of a made view at its access: a view that is not accessed may be made of
  /// anything.
  void made_view(OpId access, Value view) {
    const OpId make = maker_of(k_, view);
    if (!make) return;
    const std::vector<Value> operands(k_[make].operands.begin(), k_[make].operands.end());
    for (std::size_t i = 0; i < operands.size(); ++i)
      check(access, operands[i], i == 0 ? "an address" : "an extent or a stride");
  }

  void check(OpId op, std::size_t operand, std::string_view used_as) {
    check(op, k_[op].operands[operand], used_as);
  }
  void check(OpId op, Value v, std::string_view used_as) {
    for (const Origin& from : origins(v)) {
      if (std::ranges::find(checked_, from) != checked_.end()) continue;
      checked_.push_back(from);
      Builder b(k_);
      b.before(op);
      b.loc = k_[from.load].loc;
      const Value holds = b.op(Opcode::Not, {from.is_outside});
      b.effect(Opcode::Assume, {holds},
               {{AttrName::kind, "inside"}, {AttrName::message, message(op, from, used_as)}});
      changed_ = true;
    }
  }

  /// Checks that each index of a gather selects an element of the tile.
  void gathered(OpId op) {
    const Value index = k_[op].operands[1];
    const auto axis = static_cast<std::size_t>(k_[op].attrs.i(AttrName::axis));
    const std::int64_t extent = k_.type(k_[op].operands[0]).shape()[axis];
    Builder b(k_, op);
    const Type scalar = Type::scalar(k_.type(index).dtype());
    const Value from = b.cmp("ge", index, b.constant(scalar, std::int64_t{0}));
    const Value below = b.cmp("lt", index, b.constant(scalar, extent));
    b.effect(Opcode::Assume, {b.op(Opcode::And, {from, below})},
             {{AttrName::kind, "inside"},
              {AttrName::message,
               fmt::format("an index of a gather is outside of the {} elements along its axis, and "
                           "gives 0",
                           extent)}});
    changed_ = true;
  }

  std::string message(OpId op, const Origin& from, std::string_view used_as) const {
    const auto param = std::ranges::find(k_.params(), loaded_view(k_, from.load), &Param::value);
    const Loc use = k_[op].loc;
    return fmt::format("an element of {} is read outside of it, and the 0 that is read is {}{}",
                       param != k_.params().end() ? param->name : "a view", used_as,
                       use.known() ? fmt::format(" at {}:{}", use.file, use.line) : "");
  }

  Origins origins(Value v) {
    if (const auto it = origins_.find(v); it != origins_.end()) return it->second;
    Origins found = find_origins(v);
    if (found.size() > kMaxOrigins) found.resize(kMaxOrigins);
    return origins_[v] = std::move(found);
  }

  Origins find_origins(Value v) {
    const OpId def = k_[v].def;
    if (!def) return {};
    using enum Opcode;
    const Opcode o = k_[def].opcode;
    if (o == LoadView) return element(def);
    if (o == Load && follows_gathers_) return selected(def);
    if (o == Select) return choice(def);
    if ((o == And || o == Or) && decides(v)) return junction(def, o == And);
    const bool is_shape =
        o == Splat || o == Broadcast || o == ExpandDims || o == Reshape || o == Permute;
    if (is_shape) return reshaped(def);
    if (info(o).family != Family::Elementwise && info(o).family != Family::Math) return {};
    return of_operands(def);
  }

  Origins of_operands(OpId op) {
    Origins all;
    const std::vector<Value> operands(k_[op].operands.begin(), k_[op].operands.end());
    for (const Value operand : operands) add(all, origins(operand));
    return all;
  }

  static void add(Origins& all, const Origins& more) {
    for (const Origin& from : more)
      if (std::ranges::find(all, from) == all.end()) all.push_back(from);
  }

  /// Returns the origin for a load of one element that is not proved to be in bounds.
  Origins element(OpId load) {
    if (k_.type(k_[load].results[0]).is_tile()) return {};
    const BoxAccess a = access_of(k_, k_[load]);
    Builder b = Builder::after(k_, load);
    Value is_outside;
    for (int axis = 0; axis < static_cast<int>(a.axes.size()); ++axis) {
      const Value offset = a.axes[static_cast<std::size_t>(axis)].offset;
      if (known_.is_inside(offset, 1, a.view, axis, load)) continue;
      const Type type = k_.type(offset);
      const Value extent = b.op(Opcode::ViewDim, {a.view}, type, {{AttrName::axis, axis}});
      const DType no_sign = type.dtype() == DType::i64 ? DType::u64 : DType::u32;
      const Value outside = b.cmp("ge", b.cast(offset, no_sign), b.cast(extent, no_sign));
      is_outside = is_outside ? b.op(Opcode::Or, {is_outside, outside}) : outside;
    }
    Origins all;
    if (is_outside) all.push_back({load, is_outside});
    if (follows_gathers_) add(all, of_operands(load));
    return all;
  }

  /// Returns true for a condition whose elements are followed one by one.
  bool decides(Value condition) const {
    return is_scalar_flag(k_, condition) ||
           (follows_gathers_ && k_.type(condition).dtype() == DType::i1);
  }

  /// Returns the origin for elements of a view that index tiles select.
  Origins selected(OpId load) {
    if (k_[load].operands.size() != 3 || !loaded_view(k_, load)) return {};
    const Value inside = k_[load].operands[1];
    Origins all{{load, Builder::after(k_, load).op(Opcode::Not, {inside})}};
    add(all, origins(inside));
    return all;
  }

  Origins reshaped(OpId op) {
    Origins all = of_operands(op);
    for (Origin& from : all) {
      if (!k_.type(from.is_outside).is_tile()) continue;
      const Type type = k_.type(k_[op].results[0]).with_elem({DType::i1, false});
      Builder b = Builder::after(k_, op);
      const OpId copy =
          b.create(k_[op].opcode, std::array{from.is_outside}, std::span(&type, 1), k_[op].attrs);
      from.is_outside = k_[copy].results[0];
    }
    return all;
  }

  /// Returns the conjunction; a scalar holds for each element of a tile.
  Value both(Builder& b, Value x, Value y) {
    const Type type = k_.type(x).is_tile() ? k_.type(x) : k_.type(y);
    if (!type.is_tile()) return b.op(Opcode::And, {x, y});
    for (Value* v : {&x, &y})
      if (!k_.type(*v).is_tile()) *v = b.op(Opcode::Splat, {*v}, type);
    return b.op(Opcode::And, {x, y});
  }

  /// Returns the same elements, restricted to where `condition` (or its opposite) holds.
  Origins where(const Origins& some, OpId op, Value condition, bool holds) {
    Origins all;
    for (const Origin& from : some) {
      Builder b = Builder::after(k_, op);
      const Value counts = holds ? condition : b.op(Opcode::Not, {condition});
      all.push_back({from.load, both(b, from.is_outside, counts)});
    }
    return all;
  }

  /// If a condition varies by element, neither side is known to be taken as a whole.
  Origins choice(OpId op) {
    const Value condition = k_[op].operands[0], yes = k_[op].operands[1], no = k_[op].operands[2];
    Origins all = origins(condition);
    if (!decides(condition)) return all;
    add(all, where(origins(yes), op, condition, true));
    add(all, where(origins(no), op, condition, false));
    return all;
  }

  Origins junction(OpId op, bool is_and) {
    const Value left = k_[op].operands[0], right = k_[op].operands[1];
    const Origins left_origins = origins(left), right_origins = origins(right);
    if (!left_origins.empty() && !right_origins.empty()) {
      if (!follows_gathers_) return of_operands(op);
      Origins all = where(left_origins, op, right, is_and);
      add(all, where(right_origins, op, left, is_and));
      return all;
    }
    return right_origins.empty() ? where(left_origins, op, right, is_and)
                                 : where(right_origins, op, left, is_and);
  }

  Kernel& k_;
  Facts known_;
  const bool follows_gathers_;
  std::unordered_map<Value, Origins> origins_;
  Origins checked_;  ///< in this and enclosing regions, before this op
  bool changed_ = false;
};

/// Returns true if single elements are read or chosen by an index, and there are no checks yet.
bool lacks_checks(const Kernel& kernel) {
  bool reads = false, checks = false;
  walk(kernel, kernel.body(), [&](OpId op) {
    const OpData& d = kernel[op];
    reads = reads || d.opcode == Opcode::Gather || OutsideReads::requires_reads(kernel, op) ||
            (d.opcode == Opcode::LoadView && !kernel.type(d.results[0]).is_tile());
    checks = checks || (d.opcode == Opcode::Assume && d.attrs.s(AttrName::kind) == "inside");
  });
  return reads && !checks;
}

}  // namespace

bool outside_reads(Kernel& kernel, PassContext& context) {
  if (!context.keep_checks || !lacks_checks(kernel)) return false;
  return OutsideReads(kernel).run();
}

}  // namespace tegula::ir
