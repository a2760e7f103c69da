// One program for many tiles: what follows a tile, the loads of the next among it, overlaps what is
// left of it, and the ring of copies never runs empty.
//
// Before:   launch { .. yield total, 1, 1 }   body of tile program_id
// After:    for w in 0 .. waves { body of tile .. }, kernel.info.persistent
// dynamic:  tile = program_id; while tile < total { fetch; body of tile; tile = what was fetched }
// Of a deal made beforehand, tiles go round the programs, there and back, so that where they come
// in order of their work no program gets the heavier one of every wave; or, where two neighbours
// are as much work as any other two (attr pairs of program_id), two at a time (there and back too:
// pairs may differ after all). Right for any number of programs; the launch takes as many as run at
// once. With plan.multicast tiles are dealt to clusters, two neighbours to each.
#include "ir/analysis/bounds.h"
#include "ir/clone_op.h"
#include "ir/passes/tile_scheduler/tile_queue.h"
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

/// Which tiles a program gets. The programs of a cluster get tiles side by side, 2 n and 2 n + 1;
/// an odd last one has no neighbour.
class Deal {
 public:
  Deal(Builder& b, Value total, bool pairs, int cluster)
      : pairs_(pairs),
        cluster_(cluster),
        total_(total),
        place_(program_of(b, Opcode::ProgramId)),
        programs_(program_of(b, Opcode::NumPrograms)),
        round_(pairs ? b.add(programs_, programs_) : programs_),
        full_(b.div(total, round_)),
        rest_(b.rem(total, round_)),
        last_singly_(pairs ? b.cmp("le", rest_, programs_) : Value()) {}

  Value waves(Builder& b) const {
    if (!pairs_)
      return b.add(full_, b.cast(b.cmp("lt", there_and_back(b, full_), rest_), DType::i32));
    const Value place = there_and_back(b, full_);
    const Value left = b.sub(rest_, b.add(place, place));
    const Value of_pairs = b.op(Opcode::Max, {b.op(Opcode::Min, {left, b.i32(2)}), b.i32(0)}),
                single = b.cast(b.cmp("lt", place, rest_), DType::i32);
    return b.add(b.add(full_, full_), b.select(last_singly_, single, of_pairs));
  }

  Value tile(Builder& b, Value wave) const {
    if (!pairs_) return b.add(b.mul(wave, programs_), there_and_back(b, wave));
    const Value round = b.op(Opcode::Shr, {wave, b.i32(1)});
    const Value place = there_and_back(b, round);
    const Value pair = b.add(b.add(place, place), b.op(Opcode::And, {wave, b.i32(1)}));
    const Value alone = b.op(Opcode::And, {last_singly_, b.cmp("eq", round, full_)});
    return b.add(b.mul(round, round_), b.select(alone, place, pair));
  }

 private:
  /// The program's number, counted from the other end in every second wave (of pairs). The programs
  /// of a cluster change places at that end, and so have neighbours in the same order again.
  Value there_and_back(Builder& b, Value wave) const {
    const Value place = cluster_ == 1 ? place_ : b.op(Opcode::Xor, {place_, b.i32(cluster_ - 1)});
    const Value from_end = b.sub(b.sub(programs_, b.i32(1)), place);
    return b.select(b.cmp("eq", b.op(Opcode::And, {wave, b.i32(1)}), b.i32(0)), place_, from_end);
  }

  bool pairs_;
  int cluster_;
  Value total_, place_, programs_, round_, full_, rest_, last_singly_;
};

bool takes_pairs(const Kernel& k) {
  return any_op(k, k.body(), [&](OpId op) {
    return k[op].opcode == Opcode::ProgramId && k[op].attrs.i(AttrName::pairs) == 1;
  });
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

void move_into(Kernel& k, RegionId body, std::span<const OpId> ops) {
  for (OpId op : ops) {
    k.unlink(op);
    k.append(body, op);
  }
}

/// Of plan.multicast two programs get tiles side by side; of plan.alternate a program's warpgroups
/// take its tiles in turn.
void deal(Kernel& k, Builder& b, Value total, std::span<const OpId> ops, const Plan& plan) {
  const int cluster = plan.multicast ? 2 : 1;
  k.info.cluster = cluster;
  const Deal tiles(b, total, takes_pairs(k), cluster);
  const OpId loop = b.make_for(b.i32(0), tiles.waves(b), b.i32(1), {});
  if (plan.alternate) k[loop].attrs.set(AttrName::alternate, std::int64_t{1});
  const RegionId body = k[loop].regions[0];
  Builder head(k, body);
  Value tile = tiles.tile(head, k[body].args[0]);
  if (cluster > 1) tile = head.op(Opcode::ClusterTile, {tile, total});
  TileQueue::assume_counted(head, tile);
  move_into(k, body, ops);
  rename_grid(k, body, tile, total);
  Builder(k, body).yield({});
}

/// The fetch stands at the head and is looked at behind the tile, so that nobody waits for memory.
void fetch_one_by_one(Kernel& k, Builder& b, Value total, std::span<const OpId> ops) {
  const TileFacts facts(k);
  b.loc = k[k.terminator(k.launch())].loc;
  const TileQueue queue(b, total, facts);
  const RingPosition start = TileQueue::first(b);
  const Value first = program_of(b, Opcode::ProgramId);
  std::vector<Value> inits{start.slot, start.phase, first};
  for (Value fact : facts.of(b, first, total)) inits.push_back(fact);
  const OpId loop = b.make_while(inits);
  const RegionId test = k[loop].regions[0], body = k[loop].regions[1];
  Builder condition(k, test), head(k, body), tail(k, body);
  condition.loc = head.loc = tail.loc = b.loc;
  const Value more = condition.cmp("lt", k[test].args[2], total);
  condition.yield(std::span(&more, 1));
  TileQueue::assume_counted(head, k[body].args[2]);
  const Value fetched = queue.fetch(head);
  move_into(k, body, ops);
  const std::vector<Value> args(k[body].args.begin(), k[body].args.end());
  const RingPosition at{args[0], args[1]}, behind = queue.next(tail, at);
  std::vector<Value> carried{behind.slot, behind.phase};
  for (Value v : queue.hand_over(tail, fetched, at)) carried.push_back(v);
  tail.yield(carried);
  facts.replace(k, std::span(args).subspan(3));
  rename_grid(k, body, args[2], total);
}

}  // namespace

bool persist(Kernel& k, PassContext& context) {
  if (!context.plan || !context.plan->persistent || !k.terminator(k.launch())) return false;
  std::vector<OpId> ops;
  for (OpId op : k.ops(k.body())) ops.push_back(op);
  Builder b(k);
  const Value total = total_tiles(k, b);
  if (!total) return false;
  if (context.plan->dynamic)
    fetch_one_by_one(k, b, total, ops);
  else
    deal(k, b, total, ops, *context.plan);
  k.info.persistent = true;
  return true;
}

}  // namespace tegula::ir
