// Lowering of layout conversions: other registers of the same thread, shuffles within the warp, or
// an exchange through shared memory.
#include <algorithm>
#include <bit>
#include <map>

#include "codegen/lower/linear_exchange.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/shared.h"
#include "ir/layout/conversion.h"

namespace tegula::codegen {

using namespace ir;

namespace {

Value through_shared(Lowering& l, Value v, const LinearLayout& from, const LinearLayout& to,
                     const SharedExchange& exchange) {
  const Value data = as_stored(l, v);
  const Elem elem = l.type(data).elem();
  const Value base = l.scratch(exchange.layout.bytes(), std::max(16, exchange.layout.alignment()));
  l.barrier();
  store_shared(l, base, exchange.layout, from, data, exchange.write != AccessForm::Vector);
  l.barrier();
  const Value loaded =
      load_shared(l, base, exchange.layout, to, elem, exchange.read != AccessForm::Vector);
  return as_before(l, loaded, l.type(v).elem());
}

// ---- shuffles
/// Converts a plan for elements to a plan for 32-bit words of `per_word` elements; nothing if the
/// elements of a word move to different places.
std::optional<ShufflePlan> in_words(ShufflePlan plan, int per_word) {
  const auto is_word = [&](const std::vector<int>& registers) {
    for (std::size_t i = 0; i < registers.size(); ++i)
      if (registers[i] != registers[0] + static_cast<int>(i)) return false;
    return static_cast<int>(registers.size()) == per_word && registers[0] % per_word == 0;
  };
  for (Shuffle& s : plan.shuffles) {
    if (!is_word(s.from) || !is_word(s.to)) return std::nullopt;
    s.from = {s.from[0] / per_word};
    s.to = {s.to[0] / per_word};
  }
  for (auto* swaps : {&plan.before, &plan.after})
    for (LaneSwap& s : *swaps) {
      if (s.flip % per_word != 0) return std::nullopt;
      s.flip /= per_word;
    }
  return plan;
}

Value with_lanes_swapped(Lowering& l, Value words, const std::vector<LaneSwap>& swaps) {
  for (const LaneSwap& s : swaps) {
    Value bits = l.b.op(Opcode::And, {l.coordinate(HwDim::Lane), l.b.i32(s.lanes)});
    if (!std::has_single_bit(s.lanes))
      bits = l.b.op(Opcode::And, {l.b.op(Opcode::Popc, {bits}), l.b.i32(1)});
    std::vector<std::int64_t> others;
    for (std::int64_t r = 0; r < l.type(words).count(); ++r) others.push_back(r ^ s.flip);
    words = l.b.select(l.b.cmp("ne", bits, l.b.i32(0)), l.regs(words, std::move(others)), words);
  }
  return words;
}

/// Returns the lane from which each lane reads, before a shuffle's flip is applied.
Value source_lane(Lowering& l, const ShufflePlan& plan) {
  Value source = l.b.i32(0);
  for (std::size_t bit = 0; bit < plan.source_of_bit.size(); ++bit) {
    const Value has =
        l.b.op(Opcode::And,
               {l.b.op(Opcode::Shr, {l.coordinate(HwDim::Lane), l.b.i32(static_cast<int>(bit))}),
                l.b.i32(1)});
    source = l.b.op(Opcode::Xor, {source, l.b.mul(has, l.b.i32(plan.source_of_bit[bit]))});
  }
  return source;
}

/// Moves all words that have the same lane flip by one op.
Value shuffled_words(Lowering& l, Value words, const ShufflePlan& plan, int target_words) {
  std::map<int, std::vector<const Shuffle*>> by_flip;
  for (const Shuffle& s : plan.shuffles) by_flip[s.lane_flip].push_back(&s);
  const Value source = plan.is_butterfly() ? Value() : source_lane(l, plan);
  std::vector<Value> parts;
  std::vector<std::int64_t> place(static_cast<std::size_t>(target_words));
  std::int64_t next = 0;
  for (const auto& [flip, shuffles] : by_flip) {
    std::vector<std::int64_t> from;
    for (const Shuffle* s : shuffles) {
      from.push_back(s->from[0]);
      place[static_cast<std::size_t>(s->to[0])] = next++;
    }
    Value part = l.regs(words, std::move(from));
    if (source)
      part = l.b.op(Opcode::Shfl, {part, l.b.op(Opcode::Xor, {source, l.b.i32(flip)})},
                    {{AttrName::mode, "idx"}});
    else if (flip != 0)
      part = l.b.op(Opcode::Shfl, {part, l.b.i32(flip)}, {{AttrName::mode, "xor"}});
    parts.push_back(part);
  }
  return l.regs(l.concat(parts), std::move(place));
}

/// Returns the number of elements per 32-bit word; 0 for types that shuffles do not support.
int elements_of_word(Type t) {
  if (t.is_pointer() || !t.is_vec()) return 0;
  const int bits = size_bits(t.dtype());
  return bits == 16 || bits == 32 ? 32 / bits : 0;
}

Value through_shuffles(Lowering& l, Value v, const ShufflePlan& plan, int per_word,
                       int target_registers) {
  const Type type = l.type(v);
  const Type words = Type::vec({DType::i32, false}, type.count() / per_word);
  Value moved = l.b.op(Opcode::Repack, {v}, words);
  moved = with_lanes_swapped(l, moved, plan.before);
  moved = with_lanes_swapped(l, shuffled_words(l, moved, plan, target_registers / per_word),
                             plan.after);
  return l.b.op(Opcode::Repack, {moved}, Type::vec(type.elem(), target_registers));
}

}  // namespace

void lower_ConvertLayout(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type type = l.from.type(d.results[0]);
  const LinearLayout& from = layout_of(l.from.type(d.operands[0]));
  const LinearLayout& to = layout_of(type);
  const Value v = l.get(d.operands[0]);
  const int bytes = type.is_pointer() ? 8 : size_bytes(type.dtype());
  const int per_word = elements_of_word(l.type(v));
  ConversionOptions options;
  options.allow_shuffles = per_word != 0;
  options.exchange.stmatrix = l.from.info.target->has_stmatrix;
  // In a persistent kernel the rings are never empty, so no shared memory is left for an exchange.
  if (l.from.info.persistent) options.shared_overhead = 1 << 20;
  auto plan = plan_conversion(from, to, bytes, options);
  std::optional<ShufflePlan> shuffles;
  if (plan && plan->kind == ConversionKind::Shuffles) {
    shuffles = in_words(plan->shuffle, per_word);
    options.allow_shuffles = false;
    if (!shuffles) plan = plan_conversion(from, to, bytes, options);
  }
  const auto say = [&](const char* how) {
    l.context.remark(Remark::Kind::Analysis, d.loc, how,
                     {{"tile", l.from.type(d.operands[0]).str()}});
  };
  // An exchange also stores the padding of the layouts, which may exceed the shared memory.
  const bool is_too_large =
      plan && plan->kind == ConversionKind::Shared &&
      plan->shared->layout.bytes() > l.from.info.target->shared_bytes_per_cta / 2 &&
      from.shape().product() * bytes <= plan->shared->layout.bytes() / 2;
  if (!plan || is_too_large) {
    say("layout converted through shared memory, element by element");
    return l.set(d.results[0], through_linear_memory(l, v, from, to));
  }
  if (plan->kind == ConversionKind::Identity) return l.set(d.results[0], v);
  if (plan->kind == ConversionKind::Registers)
    return l.set(d.results[0], l.regs(v, plan->registers));
  say(shuffles ? "layout converted by shuffles" : "layout converted through shared memory");
  l.set(d.results[0], shuffles ? through_shuffles(l, v, *shuffles, per_word, to.registers())
                               : through_shared(l, v, from, to, *plan->shared));
}

}  // namespace tegula::codegen
