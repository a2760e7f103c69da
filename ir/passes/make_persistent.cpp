// Makes a kernel persistent: one CTA computes many tiles, so that the epilogue of a tile overlaps
// the loads of the next tile and the operand ring never runs empty.
//
// Before:   launch { .. yield total, 1, 1 }   body of tile program_id
// After:    for w in 0 .. waves { body of tile .. }, kernel.info.persistent
// dynamic:  tile = program_id; while tile < total { fetch; body of tile; tile = what was fetched }
// The static scheduler assigns tiles to CTAs in serpentine order: the direction alternates from
// wave to wave, so that no CTA gets the heaviest tile of every wave. If all pairs of neighbouring
// tiles have equal work (an attribute of program_id), tiles are assigned in pairs, also in
// serpentine order, because pairs may differ after all. Any number of CTAs is correct; the launch
// uses the number that is resident at once. With multicast, each cluster gets two neighbouring
// tiles. The dynamic scheduler has no counter then, so that the CTAs of a cluster need not
// communicate.
#include <algorithm>

#include "ir/analysis/index_facts.h"
#include "ir/clone_op.h"
#include "ir/passes/schedule/kernel_summary.h"
#include "ir/passes/tile_scheduler/dynamic_tile_scheduler.h"
#include "ir/passes/tile_scheduler/multicast_flags.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// Returns the launch region's first result as i32, computed in the body; null if the grid has
/// other dimensions.
Value total_tiles(Kernel& k, Builder& b) {
  const OpId yield = k.terminator(k.launch());
  if (!yield || constant_value(k, k[yield].operands[1]) != 1 ||
      constant_value(k, k[yield].operands[2]) != 1)
    return {};
  ValueMap map;
  for (OpId op : k.ops(k.launch()))
    if (op != yield) clone_op(b, op, map);
  const Value total = mapped(map, k[yield].operands[0]);
  return k.type(total) == Type::scalar(DType::i32) ? total : Value();
}

/// Assigns tiles to CTAs. The CTAs of a cluster get neighbouring tiles, 2 n and 2 n + 1; if the
/// number of tiles is odd, the last tile has no neighbour.
class StaticTileScheduler {
 public:
  StaticTileScheduler(Builder& b, Value total, bool pairs, int cluster)
      : pairs_(pairs),
        cluster_(cluster),
        total_(total),
        position_(program_of(b, Opcode::ProgramId)),
        programs_(program_of(b, Opcode::NumPrograms)),
        tiles_per_pass_(pairs ? b.add(programs_, programs_) : programs_),
        full_(b.div(total, tiles_per_pass_)),
        rest_(b.rem(total, tiles_per_pass_)),
        last_wave_is_single_(pairs ? b.cmp("le", rest_, programs_) : Value()) {}

  Value waves(Builder& b) const {
    if (!pairs_) return b.add(full_, b.cast(b.cmp("lt", serpentine(b, full_), rest_), DType::i32));
    const Value position = serpentine(b, full_);
    const Value remaining = b.sub(rest_, b.add(position, position));
    const Value of_pairs = b.op(Opcode::Max, {b.op(Opcode::Min, {remaining, b.i32(2)}), b.i32(0)}),
                single = b.cast(b.cmp("lt", position, rest_), DType::i32);
    return b.add(b.add(full_, full_), b.select(last_wave_is_single_, single, of_pairs));
  }

  Value tile(Builder& b, Value wave) const {
    if (!pairs_) return b.add(b.mul(wave, programs_), serpentine(b, wave));
    const Value wave_pair = b.op(Opcode::Shr, {wave, b.i32(1)});
    const Value position = serpentine(b, wave_pair);
    const Value pair = b.add(b.add(position, position), b.op(Opcode::And, {wave, b.i32(1)}));
    const Value alone = b.op(Opcode::And, {last_wave_is_single_, b.cmp("eq", wave_pair, full_)});
    return b.add(b.mul(wave_pair, tiles_per_pass_), b.select(alone, position, pair));
  }

 private:
  /// Returns the CTA's number, counted from the other end in every second wave (of pairs). The CTAs
  /// of a cluster swap places when counting from that end, so that neighbours are in the same order
  /// again.
  Value serpentine(Builder& b, Value wave) const {
    const Value position =
        cluster_ == 1 ? position_ : b.op(Opcode::Xor, {position_, b.i32(cluster_ - 1)});
    const Value from_end = b.sub(b.sub(programs_, b.i32(1)), position);
    return b.select(b.cmp("eq", b.op(Opcode::And, {wave, b.i32(1)}), b.i32(0)), position_,
                    from_end);
  }

  bool pairs_;
  int cluster_;
  Value total_, position_, programs_, tiles_per_pass_, full_, rest_, last_wave_is_single_;
};

/// Replaces the launch grid by that of the tiles in the ops of `body`.
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

/// Removes the ops that start a dependent launch from `ops`: the first tile's metadata may be read
/// from memory that the previous kernel has written.
std::vector<OpId> take_launch_ops(Kernel& k, std::vector<OpId>& ops) {
  const auto stays = std::ranges::stable_partition(ops, [&](OpId op) {
    return !k[op].is(Opcode::GridLaunchDependents, Opcode::GridDependencyWait);
  });
  std::vector<OpId> taken(stays.begin(), stays.end());
  ops.erase(stays.begin(), stays.end());
  return taken;
}

/// Builds the static tile scheduler. With multicast, both CTAs of a cluster get neighbouring tiles;
/// with ping-pong, the two warpgroups of a CTA take its tiles alternately.
void add_static_scheduler(Kernel& k, Builder& b, Value total, std::span<const OpId> ops,
                          const Plan& plan) {
  const int cluster = plan.multicast ? 2 : 1;
  k.info.cluster = cluster;
  const StaticTileScheduler tiles(b, total, has_balanced_pairs(k), cluster);
  const OpId loop = b.make_for(b.i32(0), tiles.waves(b), b.i32(1), {});
  if (plan.pingpong) k[loop].attrs.set(AttrName::pingpong, std::int64_t{1});
  const RegionId body = k[loop].regions[0];
  Builder head(k, body);
  Value tile = tiles.tile(head, k[body].args[0]);
  if (cluster > 1) tile = head.op(Opcode::ClusterTile, {tile, total});
  DynamicTileScheduler::assume_counted(head, tile);
  move_into(k, body, ops);
  rename_grid(k, body, tile, total);
  Builder(k, body).yield({});
}

/// Builds the dynamic tile scheduler. The fetch is at the start of the body and its result is used
/// after the tile, so that no thread waits for memory. With multicast, the first tiles of a cluster
/// are its program ids, and each following tile is num_programs further on.
void add_dynamic_scheduler(Kernel& k, Builder& b, Value total, std::vector<OpId> ops,
                           bool multicast) {
  if (multicast) k.info.cluster = 2;
  move_into(k, k.body(), take_launch_ops(k, ops));
  const TileMetadata facts(k);
  b.loc = k[k.terminator(k.launch())].loc;
  const DynamicTileScheduler queue(b, total, facts, multicast);
  const RingPosition start = ChannelRing::first(b);
  const Value first = program_of(b, Opcode::ProgramId);
  std::vector<Value> inits{start.slot, start.phase, first};
  // A cluster may have one more program than there are tiles.
  const Value known = multicast ? b.op(Opcode::Min, {first, b.sub(total, b.i32(1))}) : first;
  for (Value fact : facts.of(b, known, total)) inits.push_back(fact);
  const OpId loop = b.make_while(inits);
  const RegionId test = k[loop].regions[0], body = k[loop].regions[1];
  Builder condition(k, test), head(k, body), tail(k, body);
  condition.loc = head.loc = tail.loc = b.loc;
  const Value more = condition.cmp("lt", k[test].args[2], total);
  condition.yield(std::span(&more, 1));
  Value tile = k[body].args[2];
  if (multicast) tile = head.op(Opcode::ClusterTile, {tile, total});
  DynamicTileScheduler::assume_counted(head, tile);
  const Value fetched = queue.fetch(head, tile);
  move_into(k, body, ops);
  const std::vector<Value> args(k[body].args.begin(), k[body].args.end());
  const RingPosition position{args[0], args[1]}, following = queue.next(tail, position);
  std::vector<Value> carried{following.slot, following.phase};
  for (Value v : queue.broadcast_tile(tail, fetched, position)) carried.push_back(v);
  tail.yield(carried);
  facts.replace(k, std::span(args).subspan(3));
  rename_grid(k, body, tile, total);
}

}  // namespace

bool make_persistent(Kernel& k, PassContext& context) {
  if (!context.plan || !context.plan->persistent || !k.terminator(k.launch())) return false;
  if (context.plan->multicast) add_multicast_flags(k);
  std::vector<OpId> ops;
  for (OpId op : k.ops(k.body())) ops.push_back(op);
  Builder b(k);
  const Value total = total_tiles(k, b);
  if (!total) return false;
  if (context.plan->dynamic_scheduler)
    add_dynamic_scheduler(k, b, total, ops, context.plan->multicast);
  else
    add_static_scheduler(k, b, total, ops, *context.plan);
  k.info.persistent = true;
  return true;
}

}  // namespace tegula::ir
