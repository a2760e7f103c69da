// Expressions of values, variables and assignments.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/emitter.h"
#include "codegen/cuda/indices.h"
#include "ir/text.h"
#include "tegula/error.h"

namespace tegula::codegen::cuda {
namespace {

/// "const int", but "float* const".
std::string constant_of(const std::string& type) {
  return type.back() == '*' ? type + " const" : "const " + type;
}

}  // namespace

ir::Type Emitter::type(Value v) const {
  const ir::Type t = kernel.type(v);
  if (!t.is(ir::TypeKind::Pending)) return t;
  const ir::Type inner = t.inner();
  // Two f16 accumulators share a register, which only wgmma may access while it is pending.
  if (size_bits(inner.dtype()) == 16) return ir::Type::vec({DType::u32, false}, inner.count() / 2);
  return inner;
}

const ir::OpData* Emitter::constant_op(Value v) const {
  const ir::OpId def = kernel[v].def;
  return def && kernel[def].opcode == Opcode::Const ? &kernel[def] : nullptr;
}

std::optional<std::int64_t> Emitter::constant(Value v) const {
  const ir::OpData* op = constant_op(v);
  const ir::AttrValue* value = op == nullptr ? nullptr : op->attrs.find(ir::AttrName::value);
  const auto* i = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
  return i == nullptr ? std::nullopt : std::optional(*i);
}

bool Emitter::is_poison(Value v) const {
  const ir::OpId def = kernel[v].def;
  return def && kernel[def].opcode == Opcode::Poison;
}

// ---- expressions

Text Emitter::text(Value v, std::string_view index) {
  if (const ir::OpData* op = constant_op(v)) return literal(type(v).elem(), op->attrs);
  if (is_poison(v))
    return type(v).is_pointer() ? Text("nullptr") : float_literal(0, type(v).dtype());
  const ir::OpId def = kernel[v].def;
  if (uses.is_inlined(v)) {
    if (kernel[def].opcode == Opcode::Regs) return regs_element(*this, def, index);
    return element_fn(kernel[def].opcode)({*this, def, index});
  }
  if (!has_variable(v))
    throw InternalError(
        fmt::format("CUDA emitter: a value of type {} has no variable", kernel.type(v).str()));
  const Variable& found = variable(v);
  if (kernel.type(v).is(ir::TypeKind::TensorMap)) return {"&" + found.name, Prec::Unary};
  return found.count == 0 ? found.name : fmt::format("{}[{}]", found.name, index);
}

Text Emitter::exact(Value v, std::string_view index) {
  const Text t = text(v, index);
  return t.exact ? t : Text(fmt::format("{}({})", c_type(type(v)), t.s));
}

std::string Emitter::array(Value v) {
  if (has_variable(v)) return variable(v).name;
  const ir::Type t = type(v);
  const std::string name = names.fresh(constant_op(v) != nullptr ? "constant" : "temp");
  line(fmt::format("{} {}[{}];", c_type(t), name, t.count()));
  if (!is_poison(v)) for_registers(t.count(), fmt::format("{}[r] = {};", name, text(v, "r").s));
  return name;
}

// ---- variables

std::size_t Emitter::new_variable(Value v, std::string_view hint, bool is_declared) {
  const ir::Type t = type(v);
  Variable made;
  made.name = names.fresh(hint.empty() ? name_hint(kernel, v, uses.users(v)) : std::string(hint));
  if (!t.is(ir::TypeKind::TensorMap)) made.type = c_type(t);
  made.count = t.is_vec() ? t.count() : 0;
  variables_.push_back(std::move(made));
  bind(v, variables_.size() - 1);
  if (is_declared && variables_.back().count != 0)
    line(fmt::format("{} {}[{}];", variables_.back().type, variables_.back().name,
                     variables_.back().count));
  return variables_.size() - 1;
}

Variable& Emitter::entry_variable(Value v) {
  variables_.push_back({"", "int", 0, {}});
  bind(v, variables_.size() - 1);
  return variables_.back();
}

void Emitter::bind(Value v, std::size_t variable) {
  variable_[v.index] = static_cast<int>(variable);
  variables_[variable].holders.push_back(v);
}

void Emitter::share(Value v, Value other) { bind(v, variable_index(other)); }

std::string Emitter::declare(Value v, const Text& initial) {
  const Variable made = variables_[new_variable(v, "")];
  if (initial.s.empty())
    line(fmt::format("{} {};", made.type, made.name));
  else
    line(fmt::format("{} {} = {};", constant_of(made.type), made.name, initial.s));
  return made.name;
}

std::string Emitter::declare_array(Value v) { return variables_[new_variable(v, "")].name; }

bool Emitter::is_free_at(Value v, ir::OpId point) const {
  const auto& holders = variables_[static_cast<std::size_t>(variable_[v.index])].holders;
  return std::all_of(holders.begin(), holders.end(),
                     [&](Value h) { return uses.dies_at(h, point); });
}

std::string Emitter::take_over(Value result, Value tied, ir::OpId point) {
  if (has_variable(tied) && variable(tied).count == count(result) &&
      uses.count_in(tied, point) == 1 && is_free_at(tied, point)) {
    share(result, tied);
    return variable(result).name;
  }
  const std::string name = declare_array(result);
  if (!is_poison(tied))
    for_registers(count(result), fmt::format("{}[r] = {};", name, text(tied, "r").s));
  return name;
}

// ---- assignments

Emitter::Reads Emitter::reads(Value v) const {
  Reads out;
  if (!uses.is_inlined(v)) {
    if (variable_[v.index] >= 0)
      out.same_index.insert(static_cast<std::size_t>(variable_[v.index]));
    return out;
  }
  const ir::OpData& d = kernel[kernel[v].def];
  for (Value x : d.operands) {
    const Reads inner = reads(x);
    auto& reads = d.opcode == Opcode::Regs ? out.other_index : out.same_index;
    reads.insert(inner.same_index.begin(), inner.same_index.end());
    out.other_index.insert(inner.other_index.begin(), inner.other_index.end());
  }
  return out;
}

namespace {

struct Move {
  std::size_t to;
  Value target, from;
  Emitter::Reads reads;
  std::string temporary;
};

bool is_blocked(const std::vector<Move>& moves, const Move& m) {
  return m.reads.other_index.contains(m.to) ||
         std::any_of(moves.begin(), moves.end(),
                     [&](const Move& o) { return &o != &m && o.reads.any(m.to); });
}

/// Saves a move's value in a temporary, so that the other moves may change the variables it reads.
void evaluate(Emitter& e, Move& m) {
  const bool is_array = e.is_array(m.target);
  m.temporary = e.names.fresh("next");
  const std::string type = e.c_type(e.type(m.target));
  if (!is_array) {
    e.line(fmt::format("{} {} = {};", constant_of(type), m.temporary, e.text(m.from).s));
  } else {
    e.line(fmt::format("{} {}[{}];", type, m.temporary, e.count(m.target)));
    e.for_registers(e.count(m.target),
                    fmt::format("{}[r] = {};", m.temporary, e.text(m.from, "r").s));
  }
  m.reads = {};
}

void carry_out(Emitter& e, const Move& m) {
  const std::string& name = e.variable(m.target).name;
  if (!e.is_array(m.target))
    e.line(fmt::format("{} = {};", name, m.temporary.empty() ? e.text(m.from).s : m.temporary));
  else
    e.for_registers(e.count(m.target),
                    fmt::format("{}[r] = {};", name,
                                m.temporary.empty() ? e.text(m.from, "r").s : m.temporary + "[r]"));
}

}  // namespace

void Emitter::assign(const std::vector<Value>& to, const std::vector<Value>& from) {
  std::vector<Move> moves;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool is_in_place =
        has_variable(from[i]) && variable_index(from[i]) == variable_index(to[i]);
    if (!is_in_place && !is_poison(from[i]))
      moves.push_back({variable_index(to[i]), to[i], from[i], reads(from[i]), ""});
  }
  while (!moves.empty()) {
    const auto next = std::find_if(moves.begin(), moves.end(),
                                   [&](const Move& m) { return !is_blocked(moves, m); });
    if (next == moves.end()) {
      // A cycle: save one value first, so that no move waits for the variables that it reads.
      evaluate(*this, *std::find_if(moves.begin(), moves.end(),
                                    [](const Move& m) { return m.temporary.empty(); }));
      continue;
    }
    carry_out(*this, *next);
    moves.erase(next);
  }
}

}  // namespace tegula::codegen::cuda
