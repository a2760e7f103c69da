#include "ir/passes/dot_graph/stored_tiles.h"

#include <algorithm>
#include <utility>

namespace tegula::ir {
namespace {

/// Two consecutive iterations alternate between two slots.
constexpr int kMaxStoredSlots = 2;

}  // namespace

void StoredTiles::allocate(MmaLoop& l, const LoopOrder& order, int stages) {
  Builder b = l.before_all();
  int usual = graph_.first_shared_slots(k_, stages);
  for (const ScheduledOp& scheduled : order.ops)
    for (Value v : k_[scheduled.op].results)
      if (std::ranges::find(graph_.shared, v) != graph_.shared.end())
        add(b, l.loop, v, std::exchange(usual, 1));
  for (Value v : graph_.shared)  // carried by the loop, or defined before it
    if (!k_[v].def || graph_.is_invariant(k_, v)) add(b, l.loop, v, 1);
  if (std::ranges::any_of(stored_, [](const Tile& t) { return t.slots == 2; }))
    turn = l.before(l.loop).i32(0);
}

void StoredTiles::add(Builder& b, OpId loop, Value tile, int usual) {
  const auto requested = graph_.slots.find(tile);
  const int slots =
      requested == graph_.slots.end() ? usual : std::min(requested->second, kMaxStoredSlots);
  const OpId def = k_[tile].def;
  b.loc = k_[def ? def : loop].loc;
  const Value buffer = b.op(Opcode::SmemAlloc, {}, stored_type(k_.type(tile), slots));
  stored_.push_back({tile, buffer, slots, graph_.is_invariant(k_, tile)});
}

void StoredTiles::store_invariants(Builder& b, bool has_barrier) {
  for (const Tile& t : stored_) {
    if (!t.is_invariant) continue;
    if (const OpId def = k_[t.tile].def) b.loc = k_[def].loc;
    b.effect(Opcode::SmemStore, {t.buffer, t.tile, b.i32(0)});
  }
  if (!has_barrier && std::ranges::any_of(stored_, &Tile::is_invariant))
    b.effect(Opcode::CtaBarrier, {}, {{AttrName::generic_proxy, 1}});
}

void StoredTiles::next_turn(Builder& b) {
  if (turn) turn = b.op(Opcode::Xor, {turn, b.i32(1)});
}

void StoredTiles::begin_step() {
  are_synchronized_ = false;
  for (Tile& t : stored_) t.is_stored = t.is_published = t.is_invariant;
}

/// Stores the tile in a free slot. This warpgroup's wgmmas of the previous iteration have retired;
/// those of the other warpgroups may read the only slot until a barrier. With two slots,
/// consecutive iterations use different ones.
void StoredTiles::store(Builder& b, Value tile, Value made) {
  const auto t = std::ranges::find(stored_, tile, &Tile::tile);
  if (t == stored_.end() || t->is_invariant) return;
  if (t->slots == 1 && !std::exchange(are_synchronized_, true)) b.effect(Opcode::CtaBarrier, {});
  b.effect(Opcode::SmemStore, {t->buffer, made, slot(b, *t)});
  t->is_stored = true;
}

Value StoredTiles::read(Builder& b, Value tile, std::vector<Value>& operands) {
  const Tile& wanted = *std::ranges::find(stored_, tile, &Tile::tile);
  if (!wanted.is_published) {
    b.effect(Opcode::CtaBarrier, {}, {{AttrName::generic_proxy, 1}});
    are_synchronized_ = true;
    for (Tile& t : stored_) t.is_published = t.is_published || t.is_stored;
  }
  operands.push_back(slot(b, wanted));
  return wanted.buffer;
}

}  // namespace tegula::ir
