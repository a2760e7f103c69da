// Compares both tiles of a cluster of two while the tile id is still the program id. The dynamic
// tile scheduler treats the result as metadata of the tile, which its producer thread computes
// ahead.
#include "ir/passes/tile_scheduler/multicast_flags.h"

#include <vector>

#include "ir/analysis/multicast_loads.h"
#include "ir/passes/dot_graph/dot_graph.h"
#include "ir/passes/tile_scheduler/tile_metadata.h"

namespace tegula::ir {
namespace {

constexpr int kMaxLoads = 30;  ///< bits of a word

/// Returns the neighbour of this program's tile, or the tile itself if it has none, because
/// computations with an id after the last tile might divide by 0.
Value neighbour(Builder& b) {
  const Value tile = program_of(b, Opcode::ProgramId), next = b.op(Opcode::Xor, {tile, b.i32(1)});
  return b.select(b.cmp("lt", next, program_of(b, Opcode::NumPrograms)), next, tile);
}

void flag_loads(Kernel& k, OpId loop) {
  MulticastLoads loads(k, loop);
  if (!loads.have_equal_trip_counts()) return;
  std::vector<OpId> candidates;
  for (OpId op : k.ops(k[loop].regions[0]))
    if (k[op].opcode == Opcode::LoadView && k.type(k[op].results[0]).is_tile() &&
        loads.may_multicast(op) && candidates.size() < kMaxLoads)
      candidates.push_back(op);
  if (candidates.empty()) return;
  Builder b(k, loop);
  b.loc = k[loop].loc;
  const Value other = neighbour(b);
  loads.equalize_trip_counts(b, other);
  Value flags = b.i32(0);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Value flag =
        b.select(loads.is_same(b, candidates[i], other), b.i32(std::int64_t{1} << i), b.i32(0));
    flags = i == 0 ? flag : b.op(Opcode::Or, {flags, flag});
    k[candidates[i]].attrs.set(AttrName::multicast, static_cast<std::int64_t>(i));
  }
  b.effect(Opcode::MulticastFlags, {flags});
}

}  // namespace

void add_multicast_flags(Kernel& k) {
  for (OpId loop : k.ops(k.body()))
    if (k[loop].opcode == Opcode::For && contains_mma(k, loop)) flag_loads(k, loop);
}

}  // namespace tegula::ir
