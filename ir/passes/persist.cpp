// One program for many tiles: what follows a tile, the loads of the next among it, overlaps what is
// left of it, and the ring of copies never runs empty.
//
// Before:  launch { .. yield total, 1, 1 }   body of tile program_id
// After:   for w in 0 .. waves { body of tile w * programs + place }, kernel.info.persistent
// where `place` is the program's number, counted from the other end in every second wave: where the
// tiles come in order of their work, no program gets the heavier one of every wave. Right for any
// number of programs; the launch takes as many as run at once.
#include "ir/analysis/bounds.h"
#include "ir/clone_op.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// The launch region's first result as i32, computed in the body; none where the grid has other
/// dimensions.
Value total_tiles(Kernel& k, Builder& b) {
  const OpId yield = k.terminator(k.launch());
  if (!yield || as_constant(k, k[yield].operands[1]) != 1 ||
      as_constant(k, k[yield].operands[2]) != 1)
    return {};
  ValueMap map;
  for (OpId op : k.ops(k.launch()))
    if (op != yield) clone_op(b, op, map);
  const Value total = mapped(map, k[yield].operands[0]);
  return k.type(total) == Type::scalar(DType::i32) ? total : Value();
}

Value program_of(Builder& b, Opcode opcode) {
  return b.op(opcode, {}, Type::scalar(DType::i32), {{AttrName::axis, 0}});
}

/// In what follows the loop's head, the launch grid is that of the tiles.
void rename_grid(Kernel& k, RegionId body, Value tile, Value total) {
  std::vector<OpId> stale;
  walk(k, body, [&](OpId op) {
    const bool is_id = k[op].opcode == Opcode::ProgramId;
    if (!is_id && k[op].opcode != Opcode::NumPrograms) return;
    if (k[op].attrs.i(AttrName::axis) != 0) return;
    k.replace_all_uses(k[op].results[0], is_id ? tile : total);
    stale.push_back(op);
  });
  for (OpId op : stale) k.erase(op);
}

}  // namespace

bool persist(Kernel& k, PassContext& context) {
  if (!context.plan || !context.plan->persistent || !k.terminator(k.launch())) return false;
  std::vector<OpId> ops;
  for (OpId op : k.ops(k.body())) ops.push_back(op);
  Builder b(k);
  const Value total = total_tiles(k, b);
  if (!total) return false;
  const Value place = program_of(b, Opcode::ProgramId),
              programs = program_of(b, Opcode::NumPrograms);
  const Value from_end = b.sub(b.sub(programs, b.i32(1)), place);
  const auto place_in = [&](Builder& at, Value wave) {
    return at.select(at.cmp("eq", at.op(Opcode::And, {wave, at.i32(1)}), at.i32(0)), place,
                     from_end);
  };
  const Value full = b.div(total, programs), rest = b.rem(total, programs);
  const Value has_one_more = b.cmp("lt", place_in(b, full), rest);
  const Value waves = b.add(full, b.cast(has_one_more, DType::i32));
  const OpId loop = b.make_for(b.i32(0), waves, b.i32(1), {});
  const RegionId body = k[loop].regions[0];
  Builder head(k, body);
  const Value wave = k[body].args[0];
  const Value tile = head.add(head.mul(wave, programs), place_in(head, wave));
  for (OpId op : ops) {
    k.unlink(op);
    k.append(body, op);
  }
  rename_grid(k, body, tile, total);
  Builder(k, body).yield({});
  k.info.persistent = true;
  return true;
}

}  // namespace tegula::ir
