// Indices, register lists, repacking and ops between lanes.
#include <fmt/format.h>

#include <array>

#include "codegen/cuda/bits.h"
#include "codegen/cuda/indices.h"

namespace tegula::codegen::cuda {
namespace {

/// Returns true for element types that are stored in a C++ integer.
bool is_integer_like(DType d) { return is_integer(d) || (is_float(d) && size_bits(d) < 32); }

/// Returns an element for a braced list, with a cast if it may be an int: C++ forbids narrowing
/// conversions in such a list.
Text listed(Emitter& e, Value v, std::int64_t index) {
  const Text t = e.exact(v, std::to_string(index));
  const ir::Type type = e.type(v);
  const bool may_narrow = e.uses.is_inlined(v) && !type.is_pointer() &&
                          is_integer_like(type.dtype()) && type.dtype() != DType::i32;
  return may_narrow ? Text(fmt::format("{}({})", e.c_type(type), t.s)) : t;
}

/// Returns register `index` of the concatenation of the operands.
Text concatenated(Emitter& e, OpId id, std::int64_t index) {
  for (Value v : e.op(id).operands) {
    if (index < e.count(v)) return listed(e, v, index);
    index -= e.count(v);
  }
  e.refuse(id, "names a register beyond its operands");
}

std::string list_of(Emitter& e, OpId id, std::span<const std::int64_t> indices) {
  std::string s;
  for (std::int64_t i : indices) s += (s.empty() ? "" : ", ") + concatenated(e, id, i).s;
  return s;
}

/// Declares an array with a list of its elements.
void declare_list(Emitter& e, Value v, const std::string& elements) {
  const Variable& made = e.variables(e.new_variable(v, "", false));
  e.line(fmt::format("{} {}[{}] = {{{}}};", made.type, made.name, e.count(v), elements));
}

bool all_scalars(const Emitter& e, OpId id) {
  for (Value v : e.op(id).operands)
    if (e.is_array(v)) return false;
  return true;
}

void alias(Emitter& e, Value v, const std::string& entry_value) {
  Variable& made = e.entry_variable(v);
  made.name = entry_value;
}

struct Exchange {
  std::string_view mode;
  const char* intrinsic;
};

}  // namespace

void cuda_Tid(Emitter& e, OpId id) { alias(e, e.result(id), e.tid()); }
void cuda_LaneId(Emitter& e, OpId id) { alias(e, e.result(id), e.lane()); }
void cuda_WarpId(Emitter& e, OpId id) { alias(e, e.result(id), e.warp()); }
void cuda_CtaId(Emitter& e, OpId id) {
  alias(e, e.result(id), e.grid_register(false, e.attrs(id).i(AttrName::axis)));
}
void cuda_NumCtas(Emitter& e, OpId id) {
  alias(e, e.result(id), e.grid_register(true, e.attrs(id).i(AttrName::axis)));
}
void cuda_SmemBase(Emitter& e, OpId id) { alias(e, e.result(id), e.smem()); }

void cuda_Concat(Emitter& e, OpId id) {
  const Value v = e.result(id);
  if (all_scalars(e, id)) {
    std::string elements;
    for (Value x : e.op(id).operands)
      elements += (elements.empty() ? "" : ", ") + listed(e, x, 0).s;
    return declare_list(e, v, elements);
  }
  const std::string name = e.declare_array(v);
  std::int64_t element = 0;
  for (Value x : e.op(id).operands) {
    if (!e.is_array(x))
      e.line(fmt::format("{}[{}] = {};", name, element, e.text(x).s));
    else
      e.for_registers(e.count(x), fmt::format("{}[{}] = {};", name,
                                              element == 0 ? "r" : fmt::format("r + {}", element),
                                              e.text(x, "r").s));
    element += e.count(x);
  }
}

Text regs_element(Emitter& e, OpId id, std::string_view index) {
  const auto indices = e.attrs(id).ints(AttrName::indices);
  if (indices.size() == 1) return concatenated(e, id, indices[0]);
  return e.text(e.operand(id, 0), at_index(index_pattern(indices), index));
}

void cuda_Regs(Emitter& e, OpId id) {
  const Value v = e.result(id);
  const auto indices = e.attrs(id).ints(AttrName::indices);
  if (!e.is_array(v)) {
    e.declare(v, concatenated(e, id, indices[0]));
    return;
  }
  if (e.operand_count(id) != 1 || index_pattern(indices).empty())
    return declare_list(e, v, list_of(e, id, indices));
  const std::string element = regs_element(e, id, "r").s;
  e.for_registers(e.count(v), fmt::format("{}[r] = {};", e.declare_array(v), element));
}

void cuda_Repack(Emitter& e, OpId id) {
  const Value v = e.result(id), x = e.operand(id, 0);
  const ir::Elem from = e.type(x).elem(), to = e.type(v).elem();
  const auto word = [&](const std::string& index) -> std::string {
    const int have = element_bits(from), want = element_bits(to);
    if (e.uses.is_inlined(x))
      return packed_cast(e, e.kernel[x].def,
                         index == "0" ? "0" : fmt::format("{} * r", want / have));
    if (have == want) return from_bits(e, to, to_bits(e, from, e.exact(x, index).s));
    if (have > want) {
      const int parts = have / want;
      const std::string source =
          e.exact(x, index == "0" ? "0" : fmt::format("r / {}", parts)).within(Prec::Unary);
      return from_bits(e, to,
                       fmt::format("{} >> {} * (r % {})", to_bits(e, from, source), want, parts));
    }
    std::string joined;
    for (int n = 0; n < want / have; ++n) {
      const std::string position = index == "0" ? std::to_string(n)
                                   : n == 0     ? fmt::format("{} * r", want / have)
                                                : fmt::format("{} * r + {}", want / have, n);
      const std::string part =
          fmt::format("{}({})", word_type(e, want), to_bits(e, from, e.exact(x, position).s));
      joined += n == 0 ? part : fmt::format(" | {} << {}", part, n * have);
    }
    return from_bits(e, to, joined);
  };
  if (!e.is_array(v))
    e.declare(v, word("0"));
  else
    e.for_registers(e.count(v), fmt::format("{}[r] = {};", e.declare_array(v), word("r")));
}

void cuda_Shfl(Emitter& e, OpId id) {
  static constexpr std::array kModes{
      Exchange{"idx", "__shfl_sync"}, Exchange{"xor", "__shfl_xor_sync"},
      Exchange{"up", "__shfl_up_sync"}, Exchange{"down", "__shfl_down_sync"}};
  const Value v = e.result(id), x = e.operand(id, 0);
  for (const Exchange& m : kModes) {
    if (m.mode != e.attrs(id).s(AttrName::mode)) continue;
    const auto call = [&](std::string_view index) {
      return fmt::format("{}(0xffffffff, {}, {})", m.intrinsic, e.argument(x, index),
                         e.argument(e.operand(id, 1)));
    };
    if (!e.is_array(v))
      e.declare(v, call("0"));
    else
      e.for_registers(e.count(v), fmt::format("{}[r] = {};", e.declare_array(v), call("r")));
    return;
  }
  e.refuse(id, "has an unknown mode");
}

void cuda_Vote(Emitter& e, OpId id) {
  e.declare(e.result(id), fmt::format("__{}_sync(0xffffffff, {})", e.attrs(id).s(AttrName::kind),
                                      e.argument(e.operand(id, 0))));
}

}  // namespace tegula::codegen::cuda
