// Decoding: walks the structured kernel once and lays out slots and instructions.
#include "codegen/sim/program.h"

#include <fmt/format.h>

#include <array>
#include <unordered_map>

#include "ir/loop.h"
#include "tegula/error.h"

namespace tegula::sim {

using ir::AttrName;
using ir::Opcode;
using ir::OpId;
using ir::RegionId;
using ir::Type;
using ir::TypeKind;
using ir::Value;

namespace {

/// Executor of every simt op, by opcode; null for other ops.
constexpr std::array<ExecFn, ir::kOpCount> kExecutors{
#define ROW(...) nullptr,
#define SIMT_OP(Name, ...) sim_##Name,
#include "ir/op_rows.h"
};

}  // namespace

class Decoder {
 public:
  Decoder(DecodedKernel& p, const ir::Kernel& k) : p_(p), k_(k) {}

  void run() {
    for (const ir::Param& param : k_.params()) p_.params_.push_back(slot_of(param.value));
    region(k_.body());
    emit(control_exit, OpId());
    for (std::uint32_t i = 0; i < p_.code_.size(); ++i) p_.code_[i].index = i;
  }

 private:
  std::uint32_t here() const { return static_cast<std::uint32_t>(p_.code_.size()); }

  Slot slot_of(Value v) {
    if (const auto it = slot_of_.find(v.index); it != slot_of_.end()) return it->second;
    Type t = k_.type(v);
    SlotInfo info;
    info.first = p_.registers_;
    info.pending = t.is(TypeKind::Pending);
    if (info.pending || t.is(TypeKind::TensorMap) || t.is(TypeKind::Token)) {
      info.elem = {DType::i64, false};
    } else if (t.is_scalar() || t.is_vec()) {
      info.regs = static_cast<std::uint32_t>(t.count());
      info.elem = t.elem();
    } else {
      throw InternalError(fmt::format("sim: a value of type {} in simt form", t.str()));
    }
    p_.registers_ += info.regs;
    p_.slots_.push_back(info);
    const Slot s = static_cast<Slot>(p_.slots_.size() - 1);
    slot_of_.emplace(v.index, s);
    return s;
  }

  void alias(Value v, Slot s) { slot_of_.emplace(v.index, s); }

  template <class Values>
  std::span<const Slot> slots_of(const Values& values) {
    auto list = std::make_unique<Slot[]>(values.size());
    std::size_t n = 0;
    for (Value v : values) list[n++] = slot_of(v);
    p_.slot_lists_.push_back(std::move(list));
    return {p_.slot_lists_.back().get(), n};
  }

  Instr& emit(ExecFn exec, OpId id) {
    Instr i;
    i.exec = exec;
    i.id = id;
    if (id) i.op = &k_[id];
    p_.code_.push_back(i);
    return p_.code_.back();
  }

  void region(RegionId r) {
    for (OpId id : k_.ops(r))
      if (k_[id].opcode != Opcode::Yield) op(id);
  }

  std::span<const Slot> yielded(RegionId r) {
    const OpId y = k_.terminator(r);
    return y ? slots_of(k_[y].operands) : std::span<const Slot>();
  }

  void op(OpId id) {
    using Handler = void (Decoder::*)(OpId);
    static const std::unordered_map<int, Handler> kStructure = {
        {int(Opcode::Const), &Decoder::constant}, {int(Opcode::Poison), &Decoder::constant},
        {int(Opcode::For), &Decoder::for_loop},   {int(Opcode::While), &Decoder::while_loop},
        {int(Opcode::If), &Decoder::branch},      {int(Opcode::Roles), &Decoder::roles},
        {int(Opcode::Pin), &Decoder::nothing}};
    const ir::OpData& op = k_[id];
    if (const auto it = kStructure.find(int(op.opcode)); it != kStructure.end())
      return (this->*it->second)(id);
    const ir::ElementwiseFn fn = ir::elementwise_fn(op.opcode);
    const ExecFn exec = fn ? control_elementwise : kExecutors[static_cast<std::size_t>(op.opcode)];
    if (!exec)
      throw InternalError(
          fmt::format("sim: op {} is not in simt form", ir::info(op.opcode).mnemonic));
    const auto in = slots_of(op.operands);
    const auto out = slots_of(op.results);
    Instr& i = emit(exec, id);
    i.in = in;
    i.out = out;
    i.convergent = ir::info(op.opcode).has(ir::kConvergent);
    if (!fn) return;
    i.elementwise = fn;
    auto elems = std::make_unique<ir::Elem[]>(in.size());
    for (std::size_t n = 0; n < in.size(); ++n) elems[n] = p_.slots_[in[n]].elem;
    i.in_elems = {elems.get(), in.size()};
    p_.elem_lists_.push_back(std::move(elems));
  }

  void nothing(OpId) {}

  void constant(OpId id) { p_.constants_.emplace_back(slot_of(k_[id].results[0]), id); }

  void copy(std::span<const Slot> from, std::span<const Slot> to, OpId id) {
    if (from.empty()) return;
    Instr& i = emit(control_copy, id);
    i.in = from;
    i.out = to;
  }

  // if:  [if -> else]  then  [copy] [else -> leave]  else  [copy] [leave]
  void branch(OpId id) {
    const ir::OpData& op = k_[id];
    const auto results = slots_of(op.results);
    const auto condition = slots_of(op.operands);
    const std::uint32_t test = here();
    emit(control_if, id).in = condition;
    region(op.regions[0]);
    copy(yielded(op.regions[0]), results, id);
    const std::uint32_t middle = here();
    emit(control_else, id);
    p_.code_[test].target = here();
    region(op.regions[1]);
    copy(yielded(op.regions[1]), results, id);
    p_.code_[middle].target = here();
    emit(control_leave, id);
  }

  /// Results share the slots of the carried values: after the loop these hold the final values.
  std::span<const Slot> carries(const ir::OpData& op, std::span<const Value> args) {
    for (std::size_t n = 0; n < args.size(); ++n) alias(op.results[n], slot_of(args[n]));
    return slots_of(args);
  }

  // for: [enter: iv = lo, carries = initial]  [test -> leave]  body  [next: carries = yielded, iv
  // += step -> test]  [leave]
  void for_loop(OpId id) {
    const ir::OpData& op = k_[id];
    const auto& args = k_[op.regions[0]].args;
    const auto all = slots_of(args);
    carries(op, ir::body_carries(k_, id));
    const auto operands = slots_of(op.operands);
    Instr& enter = emit(control_enter_loop, id);
    enter.in = with_first(operands[0], slots_of(ir::loop_inits(op)));
    enter.out = all;
    const std::uint32_t test = here();
    Instr& t = emit(control_for_test, id);
    t.in = operands;
    t.out = all;
    region(op.regions[0]);
    const auto next = yielded(op.regions[0]);
    Instr& n = emit(control_for_next, id);
    n.in = with_first(operands[2], next);
    n.out = all;
    n.target = test;
    p_.code_[test].target = here();
    emit(control_leave, id);
  }

  std::span<const Slot> with_first(Slot front, std::span<const Slot> rest) {
    auto list = std::make_unique<Slot[]>(rest.size() + 1);
    list[0] = front;
    std::copy(rest.begin(), rest.end(), list.get() + 1);
    p_.slot_lists_.push_back(std::move(list));
    return {p_.slot_lists_.back().get(), rest.size() + 1};
  }

  // while: [enter]  condition  [test -> leave]  body  [copy] [jump -> condition]  [leave]
  void while_loop(OpId id) {
    const ir::OpData& op = k_[id];
    const auto& args = k_[op.regions[0]].args;
    const auto slots = carries(op, args);
    const auto& body_args = k_[op.regions[1]].args;
    for (std::size_t n = 0; n < body_args.size(); ++n) alias(body_args[n], slots[n]);
    const auto initial = slots_of(op.operands);
    Instr& enter = emit(control_enter_loop, id);
    enter.in = initial;
    enter.out = slots;
    const std::uint32_t head = here();
    region(op.regions[0]);
    const auto condition = yielded(op.regions[0]);
    std::vector<Value> deciding;
    for (const std::size_t n : ir::condition_carries(k_, id)) deciding.push_back(args[n]);
    const auto tested = slots_of(deciding);
    const std::uint32_t test = here();
    Instr& t = emit(control_while_test, id);
    t.in = condition;
    t.out = tested;
    region(op.regions[1]);
    copy(yielded(op.regions[1]), slots, id);
    emit(control_jump, id).target = head;
    p_.code_[test].target = here();
    emit(control_leave, id);
  }

  // roles: [role 0 -> next role]  region 0  [jump -> end]  [role 1 -> next]  region 1  [jump ->
  // end] ...
  void roles(OpId id) {
    const ir::OpData& op = k_[id];
    std::vector<std::uint32_t> ends;
    for (RegionId r : op.regions) {
      const std::uint32_t test = here();
      emit(control_role, id).role = static_cast<std::uint32_t>(ends.size());
      region(r);
      ends.push_back(here());
      emit(control_jump, id);
      p_.code_[test].target = here();
    }
    for (std::uint32_t e : ends) p_.code_[e].target = here();
  }

  DecodedKernel& p_;
  const ir::Kernel& k_;
  std::unordered_map<std::uint32_t, Slot> slot_of_;
};

DecodedKernel::DecodedKernel(const ir::Kernel& kernel) : kernel_(kernel) {
  if (kernel.info.form != ir::Form::Simt)
    throw InternalError(fmt::format("sim: kernel {} is in {} form, not simt", kernel.info.name,
                                    ir::name(kernel.info.form)));
  Decoder(*this, kernel).run();
}

}  // namespace tegula::sim
