#include "ir/passes/mma_loop/mma_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/analysis/index_facts.h"
#include "ir/analysis/tma_access.h"
#include "ir/loop.h"

namespace tegula::ir {
namespace {

/// An iteration is loaded while another one is read.
constexpr int kMinSlots = 2;

}  // namespace

bool MmaLoop::find_outer_loops() {
  for (RegionId r = k[loop].parent; k[r].owner; r = k[k[r].owner].parent) {
    const OpId owner = k[r].owner;
    const bool is_tile_loop = k.info.persistent && k[owner].opcode == Opcode::While &&
                              k[owner].parent == k.body() && r == body_of(owner);
    if (k[owner].opcode != Opcode::For && !is_tile_loop) return false;
    outer_.insert(outer_.begin(), owner);
  }
  return true;
}

// ---- rings
void MmaLoop::allocate(std::vector<OperandPipeline> rings,
                       std::vector<OperandLoad> stationary_loads) {
  pipelines = std::move(rings);
  const Value in_step = multicast_loads();
  for (OperandPipeline& p : pipelines) {
    const int requested = p.ring_loads.front().slots,
              usual = p.last_stage > 0 && plan_.late_stages > 0 ? plan_.late_stages : plan_.stages,
              slots = requested != 0 ? std::max(requested, kMinSlots) : usual;
    p.ring = ChannelRing(slots, std::move(p.ring_loads), in_step);
  }
  if (!stationary_loads.empty())
    stationary.emplace().ring = ChannelRing(plan_.once_stages, std::move(stationary_loads));
  allocate_rings();
  remark();
  enter_outer_loops();
}

std::vector<OperandPipeline*> MmaLoop::all() {
  std::vector<OperandPipeline*> all;
  for (OperandPipeline& pipeline : pipelines) all.push_back(&pipeline);
  if (stationary) all.push_back(&*stationary);
  return all;
}

std::vector<Value*> MmaLoop::ends() {
  std::vector<Value*> values;
  for (OperandPipeline* pipeline : all())
    std::ranges::copy(pipeline->carries(pipeline->end), std::back_inserter(values));
  return values;
}

Value MmaLoop::ring_of(OpId load) {
  for (const OperandPipeline* pipeline : all())
    for (const OperandLoad& l : pipeline->ring.loads())
      if (l.load == load) return l.ring;
  return {};
}

void MmaLoop::allocate_rings() {
  Builder b = before_all();
  for (OperandPipeline& pipeline : pipelines) pipeline.ring.allocate_channels(b);
  if (stationary) stationary->ring.allocate_channels(b);
  if (stationary) stationary->ring.allocate_slots(b);
  for (OperandPipeline& pipeline : pipelines) pipeline.ring.allocate_slots(b);
  producer_thread_ = b.op(Opcode::ProducerThread, std::initializer_list<Value>{});
}

Value MmaLoop::multicast_loads() {
  if (!plan_.multicast || k.info.cluster != 2 || outer_.size() != 1) return {};
  OpId mine, flags;
  for (OpId op = k[k[loop].parent].first; op != loop; op = k[op].next) {
    if (k[op].opcode == Opcode::ClusterTile) mine = op;
    if (k[op].opcode == Opcode::MulticastFlags) flags = op;
    if (k[op].opcode == Opcode::For) flags = {};  // they belong to that loop
  }
  if (!mine || !flags) return {};
  Builder b = before(loop);
  const Value next = b.op(Opcode::Xor, {k[mine].results[0], b.i32(1)});
  const Value in_step = b.cmp("lt", next, k[mine].operands[1]), word = k[flags].operands[0];
  bool any = false;
  for (OperandPipeline& pipeline : pipelines)
    for (OperandLoad& load : pipeline.ring_loads) {
      const AttrList& attrs = k[load.load].attrs;
      if (load.dots.empty() || load.no_multicast || !attrs.has(AttrName::multicast) ||
          !is_multicast_splittable(k, k[load.load]))
        continue;
      const Value bit = b.i32(std::int64_t{1} << attrs.i(AttrName::multicast));
      const Value has_same_box = b.cmp("ne", b.op(Opcode::And, {word, bit}), b.i32(0));
      load.is_shared = b.op(Opcode::And, {in_step, has_same_box});
      any = true;
    }
  k.erase(flags);
  return any ? in_step : Value();
}

void MmaLoop::remark() {
  for (const OperandPipeline& pipeline : pipelines)
    for (const OperandLoad& load : pipeline.ring.loads())
      context_.remark(Remark::Kind::Applied, k[load.load].loc, "loaded by TMA",
                      {{"stages", fmt::format("{}", pipeline.ring.slots())},
                       {"ring", k.type(load.ring).str()},
                       {"shared", load.is_shared ? "1" : "0"}});
}

void MmaLoop::enter_outer_loops() {
  Builder b = before_all();
  for (OperandPipeline* pipeline : all()) pipeline->begin = ChannelRing::first(b);
  for (OpId outer : outer_)
    for (OperandPipeline* pipeline : all())
      for (Value* v : pipeline->carries(pipeline->begin)) *v = add_carry(k, outer, *v);
}

void MmaLoop::leave_outer_loops() {
  const std::vector<Value*> carried = ends();
  for (std::size_t i = outer_.size(); i-- > 0;) {
    const OpId yield = k.terminator(body_of(outer_[i]));
    for (Value* v : carried) k[yield].operands.push_back(*v);
    const auto& results = k[outer_[i]].results;
    for (std::size_t n = 0; n < carried.size(); ++n)
      *carried[n] = results[results.size() - carried.size() + n];
  }
}

/// Issues the loads of the iteration at `iv` from the producer thread, if that iteration exists.
/// Stationary operands follow the loads of the first iteration: the previous tile may still read
/// them, and waiting for that must not delay the other loads.
void MmaLoop::fill_iteration(Builder& b, const OperandPipeline* pipeline, Value iv, Value slot,
                             Value free, bool with_stationary) {
  const Value exists = has_iteration(b, loop, iv, may_pass_);
  const OpId branch = b.make_if(b.op(Opcode::And, {producer_thread_, exists}), {});
  Builder inner(k, k[branch].regions[0]);
  inner.loc = b.loc;
  IterationOffsets offsets(k, source_body_, iv);
  if (pipeline) pipeline->ring.fill(inner, offsets, slot, free);
  if (with_stationary && stationary)
    stationary->ring.fill(
        inner, offsets, stationary->begin.slot,
        is_nested() ? inner.op(Opcode::Xor, {stationary->begin.phase, inner.i32(1)}) : Value());
}

void MmaLoop::fill_prologue(int first) {
  Builder b = before(loop);
  Value iv = k[loop].operands[0];
  if (pipelines.empty()) {  // threads copy everything else
    if (stationary) fill_iteration(b, nullptr, iv, {}, {}, true);
    return;
  }
  std::vector<RingPosition> positions;
  for (const OperandPipeline& pipeline : pipelines) positions.push_back(pipeline.begin);
  const auto count = [&](const OperandPipeline& f) {
    return first - f.last_stage - 1 + f.ring.slots();
  };
  const int most = count(*std::ranges::max_element(pipelines, {}, count));
  for (int step = 0; step < most; ++step) {
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
      if (step >= count(pipelines[i])) continue;
      // The previous use of the slot was one phase earlier.
      const Value free = is_nested() ? b.op(Opcode::Xor, {positions[i].phase, b.i32(1)}) : Value();
      fill_iteration(b, &pipelines[i], iv, positions[i].slot, free, step == 0 && i == 0);
      positions[i] = pipelines[i].ring.next(b, positions[i]);
    }
    iv = b.add(iv, k[loop].operands[2]);
  }
}

void MmaLoop::prefetch_next(Builder& b, const OperandPipeline& pipeline, RingPosition position) {
  Value ahead = k[body].args[0];
  for (int s = pipeline.last_stage + 1; s < pipeline.ring.slots(); ++s)
    ahead = b.add(ahead, k[loop].operands[2]);
  const RingPosition read = pipeline.ring.back(b, position, 1);
  fill_iteration(b, &pipeline, ahead, read.slot, read.phase, false);
}

void MmaLoop::finish() {
  leave_outer_loops();
  for (const OperandPipeline* pipeline : all())
    for (const OperandLoad& load : pipeline->ring.loads()) erase_load(k, load);
}

// ---- building
Builder MmaLoop::before(OpId op) {
  Builder b(k, op);
  b.loc = k[loop].loc;
  return b;
}

void MmaLoop::wait_stationary(Builder& b) {
  if (stationary) stationary->ring.wait(b, stationary->begin);
}

void MmaLoop::release_stationary(Builder& b, Value condition) {
  if (stationary && is_nested()) stationary->ring.release(b, stationary->begin.slot, condition);
}

void MmaLoop::end_stationary(Builder& b, Value is_loaded) {
  if (!stationary || !is_nested()) return;
  const RingPosition begin = stationary->begin;
  if (stationary->ring.slots() == 1) {
    stationary->end = {begin.slot, b.op(Opcode::Xor, {begin.phase, b.cast(is_loaded, DType::i32)})};
    return;
  }
  const RingPosition next = stationary->ring.next(b, begin);
  stationary->end = {b.select(is_loaded, next.slot, begin.slot),
                     b.select(is_loaded, next.phase, begin.phase)};
}

RingPosition MmaLoop::end_position(Builder& b, const OperandPipeline& pipeline) const {
  const Value first = k[loop].operands[0], last = k[loop].operands[1], step = k[loop].operands[2];
  const Type type = k.type(first);
  if (may_pass_) return pipeline.ring.after(b, pipeline.begin, trip_count(b, first, last, step));
  const Value extent = b.op(Opcode::Max, {b.sub(last, first), b.constant(type, std::int64_t{0})});
  const Value rounded = b.sub(b.add(extent, step), b.constant(type, std::int64_t{1}));
  return pipeline.ring.after(b, pipeline.begin, b.div(rounded, step));
}

Value MmaLoop::second_index(Builder& b) const {
  const Value first = k[loop].operands[0];
  return may_pass_ ? next_index(b, loop, first) : b.add(first, k[loop].operands[2]);
}

Value MmaLoop::is_last_index(Builder& b, OpId over, Value index) const {
  const Value end = k[over].operands[1], step = k[over].operands[2];
  return may_pass_ ? b.cmp("eq", next_index(b, over, index), end)
                   : b.cmp("ge", b.add(index, step), end);
}

std::vector<Value> MmaLoop::wait(Builder& b, std::vector<Value> pending,
                                 std::span<const Type> types, int count, std::vector<Value> a) {
  pending.insert(pending.end(), a.begin(), a.end());
  AttrList attrs;
  attrs.set(AttrName::count, std::int64_t{count});
  const OpId op = b.create(Opcode::DotWait, pending, types, attrs);
  const auto& results = b.kernel()[op].results;
  return {results.begin(), results.end()};
}

}  // namespace tegula::ir
