#include "ir/analysis/channel_trace.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/access.h"
#include "ir/analysis/invariant_load.h"
#include "ir/analysis/producer_thread.h"
#include "ir/analysis/tma_access.h"
#include "ir/eval/cell.h"
#include "ir/eval/evaluate.h"
#include "ir/loop.h"
#include "ir/op_table.h"

namespace tegula::ir {
namespace {

class ChannelTracer {
 public:
  ChannelTracer(const Kernel& k, ChannelRole role, const ChannelExtents& extents)
      : k_(k), role_(role), extents_(extents), numbers_(k.value_count()), known_(k.value_count()) {
    walk(k, k.body(), [&](OpId op) {
      if (info(k[op].opcode).has(kReads))
        reads_.try_emplace(op, static_cast<std::int64_t>(reads_.size()));
      if (!visit_of(k[op].opcode).touches) return;
      for (RegionId r = k[op].parent; k[r].owner; r = k[k[r].owner].parent)
        with_channels_.insert(k[r].owner);
    });
  }

  std::vector<ChannelEvent> run() {
    for (const Param& p : k_.params()) set(p.value, extents_.scalar);
    region(k_.body());
    return std::move(events_);
  }

 private:
  using Run = void (ChannelTracer::*)(OpId);
  struct Visit {
    Run run = nullptr;     ///< null: elementwise evaluation
    bool touches = false;  ///< accesses channels or rings
  };
  static const Visit& visit_of(Opcode opcode) {
    using enum Opcode;
    static constexpr auto kVisits = op_table<Visit>({
        {For, {&ChannelTracer::loop, false}},
        {While, {&ChannelTracer::tile_loop, false}},
        {If, {&ChannelTracer::branch, false}},
        {Yield, {&ChannelTracer::nothing, false}},
        {ViewDim, {&ChannelTracer::view_dim, false}},
        {NumPrograms, {&ChannelTracer::programs, false}},
        {ProducerThread, {&ChannelTracer::one, false}},
        {ProgramId, {&ChannelTracer::rank, false}},
        {ClusterId, {&ChannelTracer::zero, false}},
        {ClusterRank, {&ChannelTracer::rank, false}},
        {ClusterTile, {&ChannelTracer::cluster_tile, false}},
        {Const, {&ChannelTracer::constant, false}},
        {ChannelWait, {&ChannelTracer::channel_wait, true}},
        {ChannelRelease, {&ChannelTracer::channel_release, true}},
        {ChannelExpectTx, {&ChannelTracer::channel_expect_tx, true}},
        {CopyTma, {&ChannelTracer::copy, true}},
        {PublishTile, {&ChannelTracer::put, true}},
        {ReceiveTile, {&ChannelTracer::take, true}},
        {SmemLoad, {&ChannelTracer::load, true}},
        {SmemStore, {&ChannelTracer::store, true}},
        {CopyAsync, {&ChannelTracer::copy_async, true}},
        {AsyncCommit, {&ChannelTracer::async_commit, false}},
        {AsyncWait, {&ChannelTracer::async_wait, false}},
        {CtaBarrier, {&ChannelTracer::barrier, false}},
        {DotAsync, {&ChannelTracer::mma, true}},
        {DotWait, {&ChannelTracer::mma_wait, true}},
        {OrderWait, {&ChannelTracer::order_wait, false}},
        {OrderArrive, {&ChannelTracer::order_arrive, false}},
    });
    return kVisits[static_cast<std::size_t>(opcode)];
  }

  // ---- numbers
  static constexpr std::int64_t kPlaces = 16;  ///< number of distinct entries of a table

  void set(Value v, std::int64_t number) { put(v, Cell{.i = number}); }
  void put(Value v, const std::optional<Cell>& cell) {
    known_[v.index] = cell.has_value();
    if (cell) numbers_[v.index] = *cell;
  }
  std::optional<Cell> cell(Value v) const {
    return is_known(v) ? std::optional(numbers_[v.index]) : std::nullopt;
  }
  std::int64_t number(Value v) const { return is_known(v) ? numbers_[v.index].i : extents_.scalar; }
  bool is_known(Value v) const { return known_[v.index]; }
  bool is_number(Value v) const {
    const Type t = k_.type(v);
    return t.is_scalar() && !t.is_pointer() && !is_float(t.dtype());
  }

  void elementwise(OpId op) {
    const OpData& d = k_[op];
    if (d.results.size() != 1 || !is_number(d.results[0])) return unknown(op);
    const auto result = evaluate_scalar(k_, d, [&](Value v) { return cell(v); });
    result ? put(d.results[0], *result) : unknown(op);
  }

  /// Invents results for an op that cannot be evaluated. Numbers loaded from memory ascend in
  /// program order, so that a range whose end is loaded after its begin is not empty. In clusters,
  /// table entries depend only on their index, because both CTAs have to read the same numbers. An
  /// index that is itself a table entry may be large, so entries repeat after kPlaces. i1 results
  /// stay unknown.
  void unknown(OpId op) {
    const auto read = reads_.find(op);
    const bool is_entry =
        k_.info.cluster > 1 && is_invariant_scalar_load(k_, op) && k_[op].operands.size() == 2;
    const std::int64_t rank = is_entry               ? number(k_[op].operands[1]) % kPlaces
                              : read == reads_.end() ? 0
                                                     : read->second;
    for (Value v : k_[op].results)
      if (is_number(v) && k_.type(v).dtype() != DType::i1)
        set(v, extents_.scalar + rank * extents_.extent);
  }
  void nothing(OpId) {}
  void one(OpId op) { set(k_[op].results[0], 1); }
  void zero(OpId op) { set(k_[op].results[0], 0); }
  void rank(OpId op) { set(k_[op].results[0], extents_.rank); }
  void programs(OpId op) { set(k_[op].results[0], k_.info.cluster); }
  void cluster_tile(OpId op) { put(k_[op].results[0], cell(k_[op].operands[0])); }
  void constant(OpId op) {
    const Value v = k_[op].results[0];
    if (is_number(v)) set(v, k_[op].attrs.i(AttrName::value));
  }
  void view_dim(OpId op) {
    const auto axis = static_cast<std::size_t>(k_[op].attrs.i(AttrName::axis));
    const std::int64_t known = k_.type(k_[op].operands[0]).shape()[axis];
    set(k_[op].results[0], known == kDynamic ? extents_.extent : known);
  }

  // ---- structure
  void region(RegionId r) {
    for (OpId op : k_.ops(r)) {
      const Run run = visit_of(k_[op].opcode).run;
      if (run)
        (this->*run)(op);
      else
        elementwise(op);
    }
  }

  void loop(OpId op) {
    if (!with_channels_.contains(op)) return unknown(op);
    const OpData& d = k_[op];
    const RegionId body = d.regions[0];
    const std::int64_t end = number(d.operands[1]), step = number(d.operands[2]);
    const bool has_mma = has(body, Opcode::DotAsync) && !has(body, Opcode::For);
    std::vector<Value> carried(loop_inits(d).begin(), loop_inits(d).end());
    const bool is_pingpong = d.attrs.i(AttrName::pingpong) == 1;
    int outer_trips = 0;
    for (std::int64_t value = number(d.operands[0]); value < end && step > 0; value += step) {
      if (is_pingpong) {
        tile_ = outer_trips;
        is_mine_ = outer_trips % extents_.groups == extents_.group;
      }
      if (!has_mma && outer_trips++ == extents_.outer_trips) break;
      set(k_[body].args[0], value);
      const std::vector<std::optional<Cell>> now = cells(carried);
      for (std::size_t i = 0; i < carried.size(); ++i) put(body_carries(k_, op)[i], now[i]);
      region(body);
      const auto& yielded = k_[k_.terminator(body)].operands;
      carried.assign(yielded.begin(), yielded.end());
    }
    is_mine_ = is_mine_ || is_pingpong;
    const std::vector<std::optional<Cell>> last = cells(carried);
    for (std::size_t i = 0; i < carried.size(); ++i) put(d.results[i], last[i]);
  }

  /// Runs the loop as often as any outer loop, because channels do not depend on the tile's
  /// coordinates. In a cluster, a CTA without a tile (the neighbour has the last one) skips it.
  void tile_loop(OpId op) {
    if (!with_channels_.contains(op)) return unknown(op);
    const OpData& d = k_[op];
    const RegionId body = d.regions[1];
    std::vector<Value> carried(d.operands.begin(), d.operands.end());
    const auto hand_to = [&](const auto& to) {
      const std::vector<std::optional<Cell>> now = cells(carried);
      for (std::size_t i = 0; i < carried.size(); ++i) put(to[i], now[i]);
    };
    hand_to(k_[d.regions[0]].args);
    region(d.regions[0]);
    const Value has_tile = k_[k_.terminator(d.regions[0])].operands[0];
    const bool is_idle = k_.info.cluster > 1 && is_known(has_tile) && number(has_tile) == 0;
    for (int trip = 0; trip < extents_.outer_trips && !is_idle; ++trip) {
      hand_to(k_[body].args);
      region(body);
      const auto& yielded = k_[k_.terminator(body)].operands;
      // Keeps the first tile in place of received ones, so that all tiles have equal work.
      for (std::size_t i = 0; i < carried.size(); ++i)
        if (const OpId def = k_[yielded[i]].def; !def || k_[def].opcode != Opcode::ReceiveTile)
          carried[i] = yielded[i];
    }
    hand_to(d.results);
  }

  bool has(RegionId r, Opcode opcode) const {
    for (OpId op : k_.ops(r))
      if (k_[op].opcode == opcode) return true;
    return false;
  }

  std::vector<std::optional<Cell>> cells(const std::vector<Value>& values) const {
    std::vector<std::optional<Cell>> out;
    for (Value v : values) out.push_back(cell(v));
    return out;
  }

  void branch(OpId op) {
    const OpData& d = k_[op];
    const bool is_producers = is_producer_condition(k_, d.operands[0]);
    if (is_producers && role_ == ChannelRole::Consumer) return;
    if (!with_channels_.contains(op) || !is_known(d.operands[0])) return unknown(op);
    const RegionId taken = d.regions[number(d.operands[0]) != 0 ? 0 : 1];
    const bool before = copies_;
    copies_ = copies_ || is_producers;
    region(taken);
    copies_ = before;
    const OpId yield = k_.terminator(taken);
    for (std::size_t i = 0; i < d.results.size(); ++i)
      put(d.results[i], cell(k_[yield].operands[i]));
  }

  // ---- events
  SlotRef at(OpId op, std::size_t of, std::size_t slot) const {
    return {k_[op].operands[of], number(k_[op].operands[slot])};
  }
  void add(ChannelEvent e) {
    if (role_ == ChannelRole::Producer ? !copies_ : !is_mine_) return;
    e.tile = tile_;
    events_.push_back(std::move(e));
  }
  void channel_wait(OpId op) {
    add({ChannelEvent::Kind::Wait, op, at(op, 0, 1), {}, number(k_[op].operands[2])});
  }
  void channel_release(OpId op) {
    if (number(k_[op].operands[2]) == 0) return;
    ChannelEvent e{ChannelEvent::Kind::Release, op, at(op, 0, 1)};
    using enum ChannelEvent::SignalScope;
    if (k_[op].operands.size() == 4)
      e.signals = number(k_[op].operands[3]) != 0 ? BothCtas : OwnCtaTwice;
    add(std::move(e));
  }
  void channel_expect_tx(OpId op) {
    add({ChannelEvent::Kind::Expect, op, at(op, 0, 1), {}, k_[op].attrs.i(AttrName::bytes)});
  }
  void copy(OpId op) {
    const std::int64_t bytes = slot_bytes(k_.type(k_[op].operands[0]));
    ChannelEvent e{ChannelEvent::Kind::Copy, op, at(op, 0, 1), at(op, 2, 1), bytes};
    if (const Value flag = access_of(k_, k_[op]).multicast; flag && number(flag) != 0)
      e.signals = ChannelEvent::SignalScope::BothCtas;
    add(std::move(e));
  }
  /// Adds the events of an op that both announces and writes a tile id.
  void put(OpId op) {
    const std::int64_t bytes = size_bytes(DType::i32);
    const SlotRef channel = at(op, 2, 1);
    add({ChannelEvent::Kind::Expect, op, channel, {}, bytes});
    add({ChannelEvent::Kind::Copy, op, at(op, 0, 1), channel, bytes});
  }
  void take(OpId op) {
    add({ChannelEvent::Kind::Read, op, {}, {}, 0, {at(op, 0, 1)}});
    unknown(op);
  }
  void load(OpId op) {
    if (k_[op].operands.size() == 2) add({ChannelEvent::Kind::Read, op, {}, {}, 0, {at(op, 0, 1)}});
  }
  void store(OpId op) {
    if (k_[op].operands.size() == 3) add({ChannelEvent::Kind::Store, op, at(op, 0, 2)});
  }
  void copy_async(OpId op) { add({ChannelEvent::Kind::Store, op, at(op, 0, 1), {}, 1}); }
  void async_commit(OpId op) { add({ChannelEvent::Kind::AsyncCommit, op}); }
  void async_wait(OpId op) {
    add({ChannelEvent::Kind::AsyncWait, op, {}, {}, k_[op].attrs.i(AttrName::count)});
  }
  void barrier(OpId op) {
    add({ChannelEvent::Kind::Barrier, op, {}, {}, k_[op].attrs.i(AttrName::generic_proxy)});
  }
  void mma(OpId op) {
    ChannelEvent e{ChannelEvent::Kind::Mma, op};
    const auto& operands = k_[op].operands;
    std::size_t slot = 4;
    for (std::size_t i : {1U, 2U})
      if (k_.type(operands[i]).is(TypeKind::Shared)) e.reads.push_back(at(op, i, slot++));
    add(std::move(e));
  }
  void order_wait(OpId op) { order(op, ChannelEvent::Kind::OrderWait, extents_.group); }
  void order_arrive(OpId op) {
    order(op, ChannelEvent::Kind::OrderArrive, (extents_.group + 1) % extents_.groups);
  }
  void order(OpId op, ChannelEvent::Kind kind, int whose) {
    if (extents_.groups > 1) add({kind, op, {}, {}, whose});
  }
  void mma_wait(OpId op) {
    add({ChannelEvent::Kind::MmaWait, op, {}, {}, k_[op].attrs.i(AttrName::count)});
  }

  const Kernel& k_;
  ChannelRole role_;
  ChannelExtents extents_;
  bool copies_ = false;  ///< inside a branch of the producer thread
  bool is_mine_ = true;  ///< true if this warpgroup computes the current tile (ping-pong)
  int tile_ = 0;         ///< number of the current tile
  std::unordered_set<OpId> with_channels_;
  std::unordered_map<OpId, std::int64_t> reads_;  ///< order of the ops that read memory
  std::vector<Cell> numbers_;                     ///< by value; valid where `known_` is set
  std::vector<bool> known_;
  std::vector<ChannelEvent> events_;
};

}  // namespace

std::vector<ChannelEvent> channel_trace(const Kernel& machine, ChannelRole role,
                                        const ChannelExtents& extents) {
  return ChannelTracer(machine, role, extents).run();
}

}  // namespace tegula::ir
