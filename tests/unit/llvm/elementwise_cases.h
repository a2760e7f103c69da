#pragma once
// Every elementwise op on every element type, as one simt kernel a type: the unit test assembles
// them, the GPU test runs them and compares each element with the oracle.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/op.h"

namespace tegula::emit_cases {

/// How far from the oracle a result may be.
enum class Closeness { Exact, Ulps, Absolute };

struct ElementwiseCase {
  ir::Opcode op;
  ir::AttrList attrs;
  int operands = 1;
  DType out = DType::f32;
  Closeness closeness = Closeness::Exact;
  std::string name;
};

inline bool is_f8(DType d) { return is_float(d) && size_bits(d) == 8; }

class CaseList {
 public:
  CaseList(DType type, int arch) : type_(type), arch_(arch) {
    if (is_float(type))
      floats();
    else
      integers();
    compares();
    casts();
  }
  std::vector<ElementwiseCase> cases;

 private:
  void add(ir::Opcode op, int operands, ir::AttrInits attrs = {},
           Closeness closeness = Closeness::Exact) {
    push(op, operands, attrs, type_, closeness);
  }
  void push(ir::Opcode op, int operands, ir::AttrInits attrs, DType out, Closeness closeness) {
    ElementwiseCase c{op, ir::attr_list(attrs), operands, out, closeness, ""};
    c.name =
        fmt::format("{}_{}_{}_{}", ir::info(op).mnemonic, name(type_), name(out), cases.size());
    cases.push_back(std::move(c));
  }

  void floats() {
    using ir::AttrName;
    using ir::Opcode;
    for (Opcode op : {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div}) add(op, 2);
    add(Opcode::Fma, 3);
    for (Opcode op : {Opcode::Min, Opcode::Max}) {
      add(op, 2);
      add(op, 2, {{AttrName::nan, "propagate"}});
    }
    for (Opcode op : {Opcode::Neg, Opcode::Abs, Opcode::Sqrt, Opcode::Rcp, Opcode::Floor,
                      Opcode::Ceil, Opcode::Round, Opcode::Trunc})
      add(op, 1);
    if (type_ == DType::f64) return;
    add(Opcode::Div, 2, {{AttrName::approx, 1}}, Closeness::Ulps);
    for (Opcode op : {Opcode::Sqrt, Opcode::Rcp})
      add(op, 1, {{AttrName::approx, 1}}, Closeness::Ulps);
    for (Opcode op : {Opcode::Exp2, Opcode::Rsqrt}) add(op, 1, {}, Closeness::Ulps);
    for (Opcode op : {Opcode::Log2, Opcode::TanhApprox, Opcode::SinApprox, Opcode::CosApprox})
      add(op, 1, {}, Closeness::Absolute);
  }

  void integers() {
    using ir::Opcode;
    for (Opcode op : {Opcode::And, Opcode::Or, Opcode::Xor}) add(op, 2);
    add(Opcode::Not, 1);
    if (is_bool(type_)) return;
    for (Opcode op : {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div, Opcode::Rem,
                      Opcode::MulHi, Opcode::Min, Opcode::Max, Opcode::Shl, Opcode::Shr})
      add(op, 2);
    add(Opcode::Fma, 3);
    for (Opcode op : {Opcode::Neg, Opcode::Abs, Opcode::Popc, Opcode::Clz}) add(op, 1);
  }

  void compares() {
    if (is_bool(type_)) return;
    for (const char* pred : {"eq", "ne", "lt", "le", "gt", "ge"})
      push(ir::Opcode::Cmp, 2, {{ir::AttrName::pred, pred}}, DType::i1, Closeness::Exact);
    add(ir::Opcode::Select, 3);
  }

  void casts() {
    using ir::AttrName;
    for (const DTypeInfo& to : kDTypeInfo) {
      const bool f8 = is_f8(type_) || is_f8(to.dtype);
      if (f8 && arch_ < 90) continue;
      push(ir::Opcode::Cast, 1, {}, to.dtype, Closeness::Exact);
      if (to.bits == size_bits(type_) && to.dtype != type_)
        push(ir::Opcode::Bitcast, 1, {}, to.dtype, Closeness::Exact);
      push(ir::Opcode::Cast, 1, {{AttrName::sat, 1}}, to.dtype, Closeness::Exact);
      if (is_f8(to.dtype)) continue;
      push(ir::Opcode::Cast, 1, {{AttrName::round, "rz"}}, to.dtype, Closeness::Exact);
    }
  }

  DType type_;
  int arch_;
};

inline constexpr int kThreads = 128;
inline constexpr int kPerThread = 5;  ///< four elements as a vector, one as a scalar

/// Thread t works on elements 5t .. 5t+4 of each operand. Parameters: three operands, then one
/// result a case.
inline ir::Kernel elementwise_kernel(DType type, const std::vector<ElementwiseCase>& cases,
                                     std::string_view target) {
  using ir::AttrName;
  using ir::Opcode;
  ir::Kernel k(fmt::format("elementwise_{}", name(type)), ir::Form::Simt);
  k.info.target = ir::Target::find(target).value();
  k.info.threads = kThreads;
  ir::Builder b(k);
  std::vector<ir::Value> inputs, outputs;
  for (const char* n : {"a", "b", "c"}) inputs.push_back(k.add_param(n, ir::Type::pointer(type)));
  for (const ElementwiseCase& c : cases)
    outputs.push_back(k.add_param(c.name, ir::Type::pointer(c.out)));

  const ir::Value cta = b.op(Opcode::CtaId, {}, {{AttrName::axis, 0}});
  const ir::Value thread = b.add(b.mul(cta, b.i32(kThreads)), b.op(Opcode::Tid, {}));
  const ir::Value first = b.mul(thread, b.i32(kPerThread));
  const ir::Value indices = [&] {
    std::vector<ir::Value> all;
    for (int i = 0; i < 4; ++i) all.push_back(b.add(first, b.i32(i)));
    return b.op(Opcode::Concat, all);
  }();
  const ir::Value last = b.add(first, b.i32(4));
  const auto load = [&](ir::Value p, bool vector) {
    const ir::Elem e{type, false};
    return b.op(Opcode::LdGlobal, {b.op(Opcode::AddPtr, {p, vector ? indices : last})},
                vector ? ir::Type::vec(e, 4) : ir::Type::of(e), {{AttrName::width, 1}});
  };
  for (const bool vector : {true, false}) {
    std::vector<ir::Value> x;
    for (ir::Value p : inputs) x.push_back(load(p, vector));
    const ir::Value less = is_bool(type) ? ir::Value() : b.cmp("lt", x[0], x[1]);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      std::vector<ir::Value> operands(x.begin(), x.begin() + cases[i].operands);
      if (cases[i].op == Opcode::Select) operands = {less, x[1], x[2]};
      const ir::Elem out{cases[i].out, false};
      const ir::Type result = vector ? ir::Type::vec(out, 4) : ir::Type::of(out);
      const ir::OpId op = b.create(cases[i].op, operands, std::array{result}, cases[i].attrs);
      b.effect(Opcode::StGlobal,
               {b.op(Opcode::AddPtr, {outputs[i], vector ? indices : last}), k[op].results[0]},
               {{AttrName::width, 1}});
    }
  }
  return k;
}

}  // namespace tegula::emit_cases
