#pragma once
// Creates ops at an insertion point. Result types are inferred if the op's row has a rule for that;
// a mismatch throws InternalError with the builder's current location.
#include <initializer_list>

#include "ir/kernel.h"

namespace tegula::ir {

/// Attributes in the order they are written: `{{AttrName::axis, 1}, {AttrName::kind, "add"}}`.
struct AttrInit {
  AttrName name;
  AttrValue value;
  AttrInit(AttrName n, std::int64_t v) : name(n), value(v) {}
  AttrInit(AttrName n, int v) : name(n), value(std::int64_t{v}) {}
  AttrInit(AttrName n, double v) : name(n), value(v) {}
  AttrInit(AttrName n, const char* v) : name(n), value(intern(v)) {}
  AttrInit(AttrName n, std::string_view v) : name(n), value(intern(v)) {}
  AttrInit(AttrName n, Ints v) : name(n), value(std::move(v)) {}
};
using AttrInits = std::initializer_list<AttrInit>;

class Builder {
 public:
  explicit Builder(Kernel& kernel) : kernel_(kernel), region_(kernel.body()) {}
  Builder(Kernel& kernel, RegionId region) : kernel_(kernel), region_(region) {}
  /// Inserts new ops before `op`, with its location.
  Builder(Kernel& kernel, OpId op)
      : loc(kernel[op].loc), kernel_(kernel), region_(kernel[op].parent), before_(op) {}

  /// Inserts new ops after `op`, with its location.
  static Builder after(Kernel& kernel, OpId op);

  Kernel& kernel() { return kernel_; }
  Loc loc;  ///< given to every op created

  RegionId region() const { return region_; }
  /// Inserts new ops at the end of `region`.
  void at_end(RegionId region) {
    region_ = region;
    before_ = OpId();
  }
  /// Inserts new ops before `op`.
  void before(OpId op) {
    region_ = kernel_[op].parent;
    before_ = op;
  }

  /// Inserts an op that is in no region at the insertion point.
  OpId place(OpId op);
  /// Creates an op whose result types are inferred from its operands.
  OpId create(Opcode opcode, std::span<const Value> operands, AttrList attrs = {});
  /// Creates an op with the given result types.
  OpId create(Opcode opcode, std::span<const Value> operands, std::span<const Type> types,
              AttrList attrs = {});

  /// Creates an op and returns its single result, whose type is inferred.
  Value op(Opcode opcode, std::initializer_list<Value> operands, AttrInits attrs = {});
  Value op(Opcode opcode, std::span<const Value> operands, AttrInits attrs = {});
  /// Creates an op and returns its single result, which has the given type.
  Value op(Opcode opcode, std::initializer_list<Value> operands, Type type, AttrInits attrs = {});
  Value op(Opcode opcode, std::span<const Value> operands, Type type, AttrInits attrs = {});
  /// Creates an op without results.
  OpId effect(Opcode opcode, std::initializer_list<Value> operands, AttrInits attrs = {});
  OpId effect(Opcode opcode, std::span<const Value> operands, AttrInits attrs = {});

  Value constant(Type type, std::int64_t value);
  Value constant(Type type, double value);
  /// Returns zeros, or the null pointer.
  Value zero(Type type);
  Value i32(std::int64_t value) { return constant(Type::scalar(DType::i32), value); }
  Value i64(std::int64_t value) { return constant(Type::scalar(DType::i64), value); }
  Value f32(double value) { return constant(Type::scalar(DType::f32), value); }
  Value flag(bool value) { return constant(Type::scalar(DType::i1), std::int64_t{value}); }

  Value add(Value a, Value b) { return op(Opcode::Add, {a, b}); }
  Value sub(Value a, Value b) { return op(Opcode::Sub, {a, b}); }
  Value mul(Value a, Value b) { return op(Opcode::Mul, {a, b}); }
  Value div(Value a, Value b) { return op(Opcode::Div, {a, b}); }
  Value rem(Value a, Value b) { return op(Opcode::Rem, {a, b}); }
  Value cmp(std::string_view pred, Value a, Value b) {
    return op(Opcode::Cmp, {a, b}, {{AttrName::pred, pred}});
  }
  Value select(Value c, Value a, Value b) { return op(Opcode::Select, {c, a, b}); }
  Value cast(Value v, DType to);
  void yield(std::span<const Value> values) { effect(Opcode::Yield, values); }

  /// Creates a `for` with an empty body region (arguments iv, carries...). The caller fills it and
  /// ends it with a yield.
  OpId make_for(Value lo, Value hi, Value step, std::span<const Value> inits);
  /// Creates a `while` with two empty regions (arguments carries...). The caller ends the first
  /// with a yield of the condition, the second with a yield of the next carries.
  OpId make_while(std::span<const Value> inits);
  /// Creates an `if` with two empty regions.
  OpId make_if(Value condition, std::span<const Type> results);

 private:
  Kernel& kernel_;
  RegionId region_;
  OpId before_;
};

AttrList attr_list(AttrInits attrs);

}  // namespace tegula::ir
