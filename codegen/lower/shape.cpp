// Lowering of tile creation and shape ops: mostly a choice of registers.
#include <fmt/format.h>

#include "codegen/lower/linear_exchange.h"
#include "codegen/lower/lowering.h"
#include "ir/layout/layout_ops.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

void lower_Arange(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type type = l.from.type(d.results[0]);
  IndexParts parts = l.index_parts(layout_of(type), 0);
  for (std::int64_t& c : parts.constant) c += d.attrs.i(AttrName::start);
  const Value c = l.constants(type.dtype(), parts.constant);
  l.set(d.results[0], parts.thread ? l.b.add(c, l.b.cast(parts.thread, type.dtype())) : c);
}

void lower_FillAbsent(Lowering&, OpId) {
  throw InternalError("fill_absent should have been removed by materialize_absence");
}

void lower_Crop(Lowering&, OpId) {
  throw InternalError("crop should have been removed by materialize_absence");
}

void lower_Splat(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  l.set(d.results[0],
        l.splat(l.get(d.operands[0]), layout_of(l.from.type(d.results[0])).registers()));
}

void lower_Broadcast(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const auto registers = broadcast_registers(layout_of(l.from.type(d.operands[0])),
                                             layout_of(l.from.type(d.results[0])));
  if (!registers) throw InternalError("broadcast: " + registers.reason());
  l.set(d.results[0], l.regs(l.get(d.operands[0]), *registers));
}

// The layouts of operand and result agree register by register: the pass assign_layouts ensures
// this, except for reshapes that no layout can follow.
void lower_ExpandDims(Lowering& l, OpId op) {
  l.set(l.from[op].results[0], l.get(l.from[op].operands[0]));
}
void lower_Permute(Lowering& l, OpId op) {
  l.set(l.from[op].results[0], l.get(l.from[op].operands[0]));
}

namespace {

/// Returns true if each register's element has the same row-major number in both layouts.
bool agree(const LinearLayout& before, const LinearLayout& after) {
  if (const auto moved = reshape(before, after.shape()); moved && *moved == after) return true;
  const auto back = reshape(after, before.shape());
  return back && *back == before;
}

}  // namespace

void lower_Reshape(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Value v = l.get(d.operands[0]);
  const LinearLayout& before = layout_of(l.from.type(d.operands[0]));
  const LinearLayout& after = layout_of(l.from.type(d.results[0]));
  if (agree(before, after)) return l.set(d.results[0], v);
  l.context.remark(Remark::Kind::Analysis, d.loc, "reshaped through shared memory",
                   {{"tile", l.from.type(d.operands[0]).str()}});
  l.set(d.results[0], through_linear_memory(l, v, before, after));
}

void lower_AsmElementwise(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  std::vector<Value> operands;
  for (Value v : d.operands) operands.push_back(l.get(v));
  const std::int64_t count = l.type(operands.front()).count();
  std::vector<std::vector<Value>> results(d.results.size());
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<Value> elements;
    for (Value v : operands)
      elements.push_back(l.b.op(Opcode::Regs, {v}, {{AttrName::indices, Ints{i}}}));
    std::vector<Type> types;
    for (Value v : d.results) types.push_back(Type::of(l.from.type(v).elem()));
    const OpId one = l.b.create(Opcode::Asm, elements, types, d.attrs);
    for (std::size_t r = 0; r < results.size(); ++r) results[r].push_back(l.to[one].results[r]);
  }
  for (std::size_t r = 0; r < results.size(); ++r)
    l.set(d.results[r],
          l.from.type(d.results[r]).is_tile() ? l.concat(results[r]) : results[r].front());
}

}  // namespace tegula::codegen
