#include "ir/passes/mma_loop/product_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/analysis/bounds.h"
#include "ir/analysis/neighbours.h"
#include "ir/analysis/tma_access.h"
#include "ir/layout/shared_layout.h"
#include "ir/loop.h"
#include "ir/matrix_type.h"

namespace tegula::ir {

// ---- legality
bool ProductLoop::analyze() {
  for (OpId op : k.ops(body))
    if (k[op].opcode == Opcode::Dot) dots.push_back(op);
  if (dots.empty() || !find_outer_loops() || writes_memory(k, loop, context_)) return false;
  std::vector<OperandLoad> once;
  for (OperandLoad& load : operand_loads(k, loop, context_))
    if (is_tma(load)) loads_.push_back(std::move(load));
  for (OpId dot : dots)
    if (!is_legal(dot)) {
      context_.remark(
          Remark::Kind::Missed, k[dot].loc,
          "no wgmma: B is not brought by TMA, or the accumulator is not 16 rows a warp");
      return false;
    }
  for (OpId dot : dots)
    if (auto load = invariant_load(k, loop, dot, 0);
        load && load->dots.front() == dot && is_tma(*load))
      once.push_back(std::move(*load));
  if (!once.empty()) once_.emplace(k, plan_.once_stages, std::move(once));
  if (plan_.tma_loads)
    if (auto beside = loads_beside_operands(k, loop, context_); !beside.empty())
      beside_.emplace(Feed{ChannelRing(k, plan_.stages, std::move(beside))});
  return true;
}

/// False where something else than loops that count, or the one over tiles, is around this one.
bool ProductLoop::find_outer_loops() {
  for (RegionId r = k[loop].parent; k[r].owner; r = k[k[r].owner].parent) {
    const OpId owner = k[r].owner;
    const bool is_tile_loop = k.info.persistent && k[owner].opcode == Opcode::While &&
                              k[owner].parent == k.body() && r == body_of(owner);
    if (k[owner].opcode != Opcode::For && !is_tile_loop) return false;
    outer_.insert(outer_.begin(), owner);
  }
  return true;
}

bool ProductLoop::is_tma(const OperandLoad& load) const {
  if (!is_tma_box(k.type(k[load.load].operands[0]), load.axes, load.tile)) return false;
  const SharedLayout& ring = *ring_type(k, load, plan_.stages).shared_layout();
  const MatrixType* type = matrix_type(k, k[load.dots.front()]);
  const int k_dim = k[load.convert].results[0] == k[load.dots.front()].operands[0] ? 1 : 0;
  const bool major = type && (type->any_major() || ring.order()[0] == k_dim + 1);
  const auto& pieces = ring.piece_list();
  return major && pieces.size() == 1 && pieces.front().swizzle != 0;
}

bool ProductLoop::is_legal(OpId dot) const {
  const Type acc = k.type(k[dot].results[0]), a = k.type(k[dot].operands[0]);
  const MatrixType* type = matrix_type(k, k[dot]);
  const std::int64_t rows = kWarpRows * plan_.warps;
  const bool has_rows = acc.shape()[0] == rows || (plan_.alternate && acc.shape()[0] % rows == 0 &&
                                                   is_tma_operand(k[dot].operands[0]));
  return type && has_rows && type->has_columns(acc.shape()[1]) &&
         a.shape()[1] % type->step() == 0 && load_of(k[dot].operands[1]) != nullptr;
}

/// In the ring or in front of the loop: what is in registers has a warp's 16 rows.
bool ProductLoop::is_tma_operand(Value a) const {
  if (load_of(a)) return true;
  for (OpId dot : dots)
    if (k[dot].operands[0] == a)
      if (const auto load = invariant_load(k, loop, dot, 0)) return is_tma(*load);
  return false;
}

// ---- asking
const OperandLoad* ProductLoop::load_of(Value operand) const {
  for (const OperandLoad& load : loads_)
    if (k[load.convert].results[0] == operand) return &load;
  for (const Feed& feed : feeds)
    if (const OperandLoad* load = feed.ring.load_of(operand)) return load;
  return once_ ? once_->load_of(operand) : nullptr;
}

bool ProductLoop::is_load(OpId op) const {
  const auto is_part = [&](const OperandLoad& l) {
    return op == l.load || op == l.permute || op == l.convert;
  };
  const auto has_part = [&](const Feed& feed) {
    return std::ranges::any_of(feed.ring.loads(), is_part);
  };
  return std::ranges::any_of(feeds, has_part) || (beside_ && has_part(*beside_));
}

bool ProductLoop::has_inner_products() const {
  return any_op(k, body, [&](OpId op) {
    return k[op].is(Opcode::Dot, Opcode::DotAsync) && k[op].parent != body;
  });
}

std::vector<Feed*> ProductLoop::all_feeds() {
  std::vector<Feed*> all;
  for (Feed& feed : feeds) all.push_back(&feed);
  if (beside_) all.push_back(&*beside_);
  return all;
}

int ProductLoop::uses(Value v) const {
  int n = 0;
  walk(k, k.body(), [&](OpId op) { n += static_cast<int>(std::ranges::count(k[op].operands, v)); });
  return n;
}

std::unordered_set<OpId> ProductLoop::dependents(Value on) const {
  std::unordered_set<Value> reached{on};
  std::unordered_set<OpId> found;
  const auto needs = [&](OpId op) {
    return std::ranges::any_of(k[op].operands, [&](Value v) { return reached.contains(v); });
  };
  for (OpId op : k.ops(body)) {
    if (!any_op(k, op, needs)) continue;
    found.insert(op);
    reached.insert(k[op].results.begin(), k[op].results.end());
  }
  return found;
}

// ---- rings
void ProductLoop::allocate(bool late) {
  const Value in_step = share_loads();
  if (late) {
    for (std::size_t i = 0; i < dots.size(); ++i) {
      std::vector<OperandLoad> own;
      for (const OperandLoad& load : loads_)
        if (load.dots.front() == dots[i]) own.push_back(load);
      const int slots = i > 0 && plan_.late_stages > 0 ? plan_.late_stages : plan_.stages;
      feeds.push_back({ChannelRing(k, slots, std::move(own), in_step), static_cast<int>(i)});
    }
  } else {
    feeds.push_back({ChannelRing(k, plan_.stages, loads_, in_step)});
  }
  loads_.clear();
  Builder b = before(is_nested() ? outer_.front() : loop);
  for (Feed* feed : all_feeds()) feed->ring.allocate_channels(b);
  if (once_) once_->allocate_channels(b);
  if (once_) once_->allocate_slots(b);
  for (Feed* feed : all_feeds()) feed->ring.allocate_slots(b);
  leader_ = b.op(Opcode::Leader, std::initializer_list<Value>{});
  if (late && takes_turns()) {
    b.effect(Opcode::TurnsStart, {});
    Builder(k, k.body()).effect(Opcode::TurnsEnd, {});
  }
  remark();
  enter_outer_loops();
}

Value ProductLoop::share_loads() {
  if (!plan_.multicast || k.info.cluster != 2 || outer_.size() != 1) return {};
  OpId mine;
  for (OpId op : k.ops(k[loop].parent))
    if (k[op].opcode == Opcode::ClusterTile) mine = op;
  Neighbours neighbours(k, loop);
  if (!mine || !neighbours.have_equal_steps()) return {};
  Builder b = before(loop);
  const Value tile = k[mine].results[0], tiles = k[mine].operands[1];
  const Value next = b.op(Opcode::Xor, {tile, b.i32(1)});
  const Value in_step = b.cmp("lt", next, tiles);
  const Value other = b.select(in_step, next, tile);  // the place of no tile may divide by 0
  bool any = false;
  for (OperandLoad& load : loads_) {
    const Ints axes = load.axes;
    if (!can_be_halved(k.type(k[load.load].operands[0]), axes, load.tile) ||
        !neighbours.may_share(load.load))
      continue;
    load.same = b.op(Opcode::And, {in_step, neighbours.is_same(b, load.load, other)});
    any = true;
  }
  return any ? in_step : Value();
}

void ProductLoop::remark() {
  for (const Feed* feed : all_feeds())
    for (const OperandLoad& load : feed->ring.loads())
      context_.remark(Remark::Kind::Applied, k[load.load].loc, "brought by TMA",
                      {{"stages", fmt::format("{}", feed->ring.slots())},
                       {"ring", k.type(load.ring).str()},
                       {"shared", load.same ? "1" : "0"}});
}

void ProductLoop::enter_outer_loops() {
  Builder b = before(is_nested() ? outer_.front() : loop);
  once_at = ChannelRing::first(b);
  for (Feed* feed : all_feeds()) feed->begin = ChannelRing::first(b);
  for (OpId outer : outer_) {
    for (Feed* feed : all_feeds())
      feed->begin = {add_carry(outer, feed->begin.slot), add_carry(outer, feed->begin.phase)};
    if (once_)
      for (Value* v : once_carries(once_at)) *v = add_carry(outer, *v);
  }
}

void ProductLoop::leave_outer_loops() {
  std::vector<Value*> carried;
  for (Feed* feed : all_feeds()) carried.insert(carried.end(), {&feed->end.slot, &feed->end.phase});
  if (once_) std::ranges::copy(once_carries(once_end), std::back_inserter(carried));
  for (std::size_t i = outer_.size(); i-- > 0;) {
    const OpId yield = k.terminator(body_of(outer_[i]));
    for (Value* v : carried) k[yield].operands.push_back(*v);
    const auto& results = k[outer_[i]].results;
    for (std::size_t n = 0; n < carried.size(); ++n)
      *carried[n] = results[results.size() - carried.size() + n];
  }
}

/// By the leader, and only if the step at `iv` exists. What the loop needs once comes behind the
/// first step's: the turn before may still read it, and the wait for that must not hold up the
/// rest.
void ProductLoop::fill_step(Builder& b, const Feed& feed, Value iv, Value slot, Value free,
                            bool with_once) {
  const Value exists = b.cmp("lt", iv, k[loop].operands[1]);
  const OpId branch = b.make_if(b.op(Opcode::And, {leader_, exists}), {});
  Builder inner(k, k[branch].regions[0]);
  inner.loc = b.loc;
  StepOffsets offsets(k, body, iv);
  feed.ring.fill(inner, offsets, slot, free);
  if (with_once && once_)
    once_->fill(inner, offsets, once_at.slot,
                is_nested() ? inner.op(Opcode::Xor, {once_at.phase, inner.i32(1)}) : Value());
}

void ProductLoop::fill_first(int first) {
  Builder b = before(loop);
  Value iv = k[loop].operands[0];
  const std::vector<Feed*> all = all_feeds();
  std::vector<RingPosition> at;
  for (const Feed* feed : all) at.push_back(feed->begin);
  const auto count = [&](const Feed* f) { return first - f->lag - 1 + f->ring.slots(); };
  const int most = count(*std::ranges::max_element(all, {}, count));
  for (int step = 0; step < most; ++step) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (step >= count(all[i])) continue;
      // What a turn before left in the slot lies a round back.
      const Value free = is_nested() ? b.op(Opcode::Xor, {at[i].phase, b.i32(1)}) : Value();
      fill_step(b, *all[i], iv, at[i].slot, free, step == 0 && i == 0);
      at[i] = all[i]->ring.next(b, at[i]);
    }
    iv = b.add(iv, k[loop].operands[2]);
  }
}

void ProductLoop::fill_ahead(Builder& b, const Feed& feed, RingPosition at) {
  Value ahead = k[body].args[0];
  for (int s = feed.lag + 1; s < feed.ring.slots(); ++s) ahead = b.add(ahead, k[loop].operands[2]);
  const RingPosition read = feed.ring.back(b, at, 1);
  fill_step(b, feed, ahead, read.slot, read.phase, false);
}

void ProductLoop::finish() {
  leave_outer_loops();
  std::vector<const ChannelRing*> rings;
  for (const Feed* feed : all_feeds()) rings.push_back(&feed->ring);
  if (once_) rings.push_back(&*once_);
  for (const ChannelRing* ring : rings)
    for (const OperandLoad& load : ring->loads()) erase_load(k, load);
}

// ---- building
Builder ProductLoop::before(OpId op) {
  Builder b(k, op);
  b.loc = k[loop].loc;
  return b;
}

Value ProductLoop::add_carry(OpId to, Value init) { return ir::add_carry(k, to, init); }

void ProductLoop::advance(const Feed& feed, RingPosition at) {
  const OpId yield = k.terminator(body);
  Builder b = before(yield);
  const RingPosition next = feed.ring.next(b, at);
  k[yield].operands.push_back(next.slot);
  k[yield].operands.push_back(next.phase);
}

void ProductLoop::wait_once(Builder& b) {
  if (once_) once_->wait(b, once_at);
}

void ProductLoop::release_once(Builder& b, Value condition) {
  if (once_ && is_nested()) once_->release(b, once_at.slot, condition);
}

RingPosition ProductLoop::next_once(Builder& b, Value brought) const {
  if (!once_ || !is_nested()) return {};
  if (once_->slots() == 1)
    return {once_at.slot, b.op(Opcode::Xor, {once_at.phase, b.cast(brought, DType::i32)})};
  const RingPosition next = once_->next(b, once_at);
  return {b.select(brought, next.slot, once_at.slot), b.select(brought, next.phase, once_at.phase)};
}

RingPosition ProductLoop::counted_end(Builder& b, const Feed& feed) const {
  const Value first = k[loop].operands[0], last = k[loop].operands[1], step = k[loop].operands[2];
  const Type type = k.type(first);
  const Value extent = b.op(Opcode::Max, {b.sub(last, first), b.constant(type, std::int64_t{0})});
  const Value rounded = b.sub(b.add(extent, step), b.constant(type, std::int64_t{1}));
  return feed.ring.after(b, feed.begin, b.div(rounded, step));
}

void ProductLoop::meet(Builder& b) {
  if (!is_nested()) b.effect(Opcode::CtaBarrier, {});
}

Value ProductLoop::issue(Builder& b, OpId dot, Value acc, Value a, Value scale_d, RingPosition at) {
  std::vector<Value> operands{acc, a, k[dot].operands[1], scale_d};
  for (std::size_t i : {1u, 2u})
    if (const OperandLoad* load = load_of(operands[i])) {
      const bool is_once = once_ && once_->load_of(operands[i]);
      operands[i] = load->ring;
      operands.push_back(is_once ? once_at.slot : at.slot);
    }
  const Type sum = Type::pending(k.type(k[dot].results[0]));
  const AttrList attrs = k[dot].attrs;
  return k[b.create(Opcode::DotAsync, operands, std::span(&sum, 1), attrs)].results[0];
}

std::vector<Value> ProductLoop::wait(Builder& b, std::vector<Value> pending,
                                     std::span<const Type> types, int count, std::vector<Value> a) {
  pending.insert(pending.end(), a.begin(), a.end());
  AttrList attrs;
  attrs.set(AttrName::count, std::int64_t{count});
  const OpId op = b.create(Opcode::DotWait, pending, types, attrs);
  const auto& results = b.kernel()[op].results;
  return {results.begin(), results.end()};
}

Value ProductLoop::wait(Builder& b, Value pending, Type type, int count, Value a) {
  std::vector<Value> kept;
  if (a) kept.push_back(a);
  return wait(b, std::vector{pending}, std::span(&type, 1), count, std::move(kept)).front();
}

Value ProductLoop::complete(Builder& b, OpId dot, Value acc, Value a, RingPosition at) {
  const bool fresh = is_zero(k, acc);
  const Type type = k.type(acc);
  if (fresh) acc = b.op(Opcode::Poison, {}, type);
  const Value sum = issue(b, dot, acc, a, b.flag(!fresh), at);
  return wait(b, sum, type, 0, load_of(a) ? Value() : a);
}

}  // namespace tegula::ir
