#pragma once
// The state of a differentiation, and what the rules of ops (vjp_X of ir/vjp.def) use.
#include <initializer_list>
#include <string_view>
#include <unordered_set>

#include "ir/clone_op.h"
#include "ir/differentiate.h"

namespace tegula::ir {

/// An adjoint applies only where `condition` (an i1) has the value `when`.
struct Mask {
  Value condition;
  bool when = true;
  friend bool operator==(const Mask&, const Mask&) = default;
};

/// An adjoint, 0 where one of the masks does not hold. The selects that apply the masks are emitted
/// last, after all products, so that an infinite factor in a masked element does not give 0 * inf.
struct Adjoint {
  Value value;
  std::vector<Mask> masks = {};
};

/// One backward walk from some outputs to values called roots.
class Sweep {
 public:
  /// Where the op of a nested sweep is: roots end it, and captured tensors may be read only outside
  /// of regions.
  enum class Place : std::uint8_t { Top, Unrolled, Region };

  Sweep(Builder& to, DType adjoint_type, std::span<const Value> roots, Place where,
        BeforeLoop before_loop = {});

  /// Gives an output its adjoint. An output may be given several.
  void seed(Value output, Value adjoint);
  /// Propagates the adjoints of the outputs to the roots.
  void run();
  /// Finds what depends on the roots; run() does it first.
  void find_active(std::span<const Value> outputs);
  bool is_active(Value v) const { return active_.contains(v); }

  /// Returns the adjoint with its mask applied; none if there is none.
  Value of(Value v);
  void add(Value to, Adjoint a);
  /// Applies the masks of an adjoint for which `stays` returns false.
  template <class Stays>
  void apply_masks(Adjoint& a, const Stays& stays) {
    for (const Mask& m : a.masks)
      if (!stays(m)) a.value = masked(a.value, m);
    std::erase_if(a.masks, [&](const Mask& m) { return !stays(m); });
  }
  /// Returns true for the mask of a scalar condition, which fits adjoints of any shape.
  bool is_uniform(const Mask& m) const { return b.kernel().type(m.condition).is_scalar(); }
  /// Emits an op with the location and the flags of the op whose rule is running.
  Value emit(Opcode opcode, std::initializer_list<Value> operands, AttrInits attrs = {});
  /// Returns the operands of an op, and the outer values that its regions use, which are active.
  std::vector<Value> active_inputs(OpId op) const;
  [[noreturn]] void refuse(OpId op, std::string_view why) const;

  Builder& b;
  const DType type;
  const Place place;
  std::vector<LoadAdjoint> loads;

 private:
  friend class Vjp;
  void mark(OpId op, std::span<const Value> inputs);
  std::vector<Value> followed_inputs(OpId op) const;
  Value before_loops(Value v) const;
  void apply(OpId op);
  Value masked(Value v, const Mask& m);
  Value summed_to(Value v, Type target);

  BeforeLoop before_loop_;
  std::unordered_set<Value> active_;
  std::unordered_set<Value> sources_;  ///< roots, those that are carries as before their loops
  std::unordered_set<Value> carried_;  ///< arguments of enclosing loops that are active
  bool reassoc_ = false;               ///< flag of the op whose rule is running
  std::unordered_map<Value, Adjoint> adjoints_;
  std::vector<Value> outputs_;
  std::vector<OpId> order_;
};

/// An op whose results have adjoints. Emits ops with the op's location and flags.
class Vjp {
 public:
  Vjp(Sweep& s, OpId op);

  Sweep& sweep;
  Builder& b;
  const OpId id;
  const OpData op;  ///< a copy: creating ops moves the kernel's
  /// Adjoints of the results where they count, none for those without; `g` is the first.
  std::vector<Value> adjoints;
  Value g;

  bool wants(std::size_t i) const { return sweep.is_active(op.operands[i]); }
  /// Returns an operand, or the result, in the type of adjoints.
  Value x(std::size_t i = 0) { return b.cast(op.operands[i], sweep.type); }
  Value y() { return b.cast(op.results[0], sweep.type); }
  Value number(double v) { return b.constant(Type::scalar(sweep.type), v); }

  Value emit(Opcode opcode, std::initializer_list<Value> operands, AttrInits attrs = {}) {
    return sweep.emit(opcode, operands, attrs);
  }
  /// Returns a * c; the other factor if one is the constant 1.
  Value mul(Value a, Value c);
  Value neg(Value a);
  Value div(Value a, Value c);

  /// Adds an adjoint of operand i: a value, a product, or a value that counts only where a
  /// condition has the value `when`.
  void give(std::size_t i, Value adjoint) { add(i, {adjoint, masks_}); }
  /// Adds the adjoint of a value that the op's regions use.
  void give_input(Value to, Value adjoint) { sweep.add(to, {adjoint, masks_}); }
  void give_product(std::size_t i, Value a, Value c);
  void give_where(std::size_t i, Value condition, bool when, Value adjoint);
  /// Returns an adjoint with the masks of the result's adjoint applied.
  Value counted(Value adjoint) const {
    Adjoint a{adjoint, masks_};
    sweep.apply_masks(a, [](const Mask&) { return false; });
    return a.value;
  }
  [[noreturn]] void refuse(std::string_view why) const { sweep.refuse(id, why); }

 private:
  void add(std::size_t i, const Adjoint& a);
  bool is_one(Value v) const;

  bool keeps(const Mask& m) const;

  std::vector<Mask> masks_;  ///< of all adjoints
};

// clang-format off
#define VJP(Name) void vjp_##Name(Vjp&);
#define INACTIVE(Name, why)
#define REFUSED(Name, why)
#include "ir/vjp.def"
// clang-format on

}  // namespace tegula::ir
