// Swap A/B: computes GEMMs as their transposes.
//
// Before:  s = for .. (acc: 16x128) { yield dot a, b, acc }
// After:   t = for .. (acc: 128x16) { yield dot (permute b), (permute a), acc }; s = permute t
//
// A wgmma computes 64 rows of a product and any multiple of 8 columns, so a tile of few rows wastes
// most of its work, and the transpose wastes none. Ops after the loop still see the original shape.
// An operand of several dots is transposed once, so that the dots remain the only users of its
// load.
#include "ir/passes/schedule/swap_ab.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/erase_unused.h"
#include "ir/loop.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

/// A loop carry that accumulates dots, and these dots.
struct CarriedDots {
  OpId loop;
  std::size_t carry;
  std::vector<OpId> dots;
};

class Swap {
 public:
  explicit Swap(Kernel& k) : k_(k), uses_(k) {}

  bool run() {
    std::vector<CarriedDots> all;
    std::size_t dots = 0, found = 0;
    walk(k_, k_.body(), [&](OpId op) {
      if (k_[op].opcode == Opcode::Dot) ++dots;
      if (k_[op].opcode != Opcode::For) return;
      for (std::size_t i = 0; i < k_[op].results.size(); ++i)
        if (auto chain = carried_accumulators(op, i))
          found += chain->dots.size(), all.push_back(std::move(*chain));
    });
    if (dots == 0 || found != dots) return false;
    for (const CarriedDots& chain : all) turn(chain);
    for (Value v : unused_) erase_unused(k_, v);
    return true;
  }

 private:
  /// Follows a carry from one dot to the next, up to the end of the loop's body.
  std::optional<CarriedDots> carried_accumulators(OpId loop, std::size_t carry) const {
    const RegionId body = k_[loop].regions[0];
    CarriedDots chain{loop, carry, {}};
    Value v = body_carries(k_, loop)[carry];
    for (auto use = uses_.only(v); use; use = uses_.only(v)) {
      const OpData& d = k_[use->op];
      if (d.parent != body) return std::nullopt;
      if (d.opcode == Opcode::Yield && use->operand == carry && !chain.dots.empty()) return chain;
      if (d.opcode != Opcode::Dot || use->operand != 2) return std::nullopt;
      chain.dots.push_back(use->op);
      v = d.results[0];
    }
    return std::nullopt;
  }

  static Type transposed(Type t) {
    return Type::tile(t.elem(), std::vector<std::int64_t>{t.shape()[1], t.shape()[0]});
  }

  Value transposed(Builder& b, Value v) {
    Value& made = turned_[v];
    if (!made) made = make_transposed(b, v);
    return made;
  }

  Value make_transposed(Builder& b, Value v) {
    const OpId def = k_[v].def;
    const bool is_turned = def && k_[def].opcode == Opcode::Permute &&
                           std::ranges::equal(k_[def].attrs.ints(AttrName::order), Ints{1, 0});
    if (is_turned) return k_[def].operands[0];
    if (def && k_[def].opcode == Opcode::Const) {
      const AttrList attrs = k_[def].attrs;
      const Type type = transposed(k_.type(v));
      return k_[b.create(Opcode::Const, {}, std::span(&type, 1), attrs)].results[0];
    }
    Builder after(k_);
    const bool has_place = def && k_[def].next;
    if (has_place) after.before(k_[def].next);
    after.loc = b.loc;
    return (has_place ? after : b).op(Opcode::Permute, {v}, {{AttrName::order, Ints{1, 0}}});
  }

  void turn(const CarriedDots& chain) {
    Builder b(k_, chain.loop);
    const Value init = loop_inits(k_[chain.loop])[chain.carry];
    const Value turned_init = transposed(b, init);
    loop_inits(k_[chain.loop])[chain.carry] = turned_init;
    unused_.push_back(init);
    transpose_type(body_carries(k_, chain.loop)[chain.carry]);
    for (OpId dot : chain.dots) transpose_dot(dot);
    transpose_result(chain);
  }

  void transpose_type(Value v) { k_.set_type(v, transposed(k_.type(v))); }

  void transpose_dot(OpId dot) {
    Builder b(k_, dot);
    const Value first = k_[dot].operands[0], second = k_[dot].operands[1];
    const Value a = transposed(b, second), c = transposed(b, first);
    k_[dot].operands[0] = a;
    k_[dot].operands[1] = c;
    transpose_type(k_[dot].results[0]);
    unused_.insert(unused_.end(), {first, second});
  }

  void transpose_result(const CarriedDots& chain) {
    const Value result = k_[chain.loop].results[chain.carry];
    transpose_type(result);
    Builder b = Builder::after(k_, chain.loop);
    const Value back = b.op(Opcode::Permute, {result}, {{AttrName::order, Ints{1, 0}}});
    k_.replace_all_uses(result, back);
    k_[k_[back].def].operands[0] = result;
  }

  Kernel& k_;
  Uses uses_;
  std::unordered_map<Value, Value> turned_;
  std::vector<Value> unused_;
};

}  // namespace

bool swap_ab(Kernel& k) { return k.info.cluster == 1 && Swap(k).run(); }

}  // namespace tegula::ir
