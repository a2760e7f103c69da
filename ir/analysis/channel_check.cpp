#include "ir/analysis/channel_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/channel_trace.h"
#include "ir/analysis/index_facts.h"
#include "ir/analysis/pingpong_loop.h"
#include "ir/op.h"

namespace tegula::ir {
namespace {

using Kind = ChannelEvent::Kind;
using SignalScope = ChannelEvent::SignalScope;

/// Number of tiles that are traced in ping-pong mode.
constexpr int kTripsOfPingpong = 5;

/// Identifies a slot of a channel or a ring in the shared memory of a CTA.
struct Key {
  int cta = 0;
  std::uint32_t of = 0;
  std::int64_t slot = 0;
  friend auto operator<=>(const Key&, const Key&) = default;
};

/// State of an mbarrier: completed phases, and what the current phase still needs.
struct Barrier {
  int complete = 0, arrived = 0;
  bool is_announced = false;
  std::int64_t missing = 0;  ///< negative if bytes of the other CTA's loads arrived early
  OpId announced;            ///< the op that expects the bytes of the current phase
};

/// State of a ring slot: number of fills, and the last fill that the reader has waited for.
struct Slot {
  int fills = 0, seen = 0;
  bool is_half = false;  ///< only half of the latest fill has been copied
  OpId filled;
  Key channel{};
  int phase = 0;  ///< phase of the channel that completes with the fill
  int tile = 0;
};

/// A slot that threads write and MMAs read.
struct StoredSlot {
  OpId stored;
  bool is_in_flight = false;  ///< written by a cp.async that has not been waited for
  bool is_published = false;  ///< a fence and a barrier followed the store
  bool is_read = false;       ///< by MMAs after which no barrier has run yet
};

/// The events of a role, and the position of the next one.
struct RoleTrace {
  std::vector<ChannelEvent> events;
  std::size_t next = 0;
  std::vector<std::pair<OpId, std::vector<SlotRef>>> in_flight;  ///< MMAs

  bool is_over() const { return next == events.size(); }
};

/// The events of a CTA by role, starting with the producer.
struct CtaTraces {
  std::vector<RoleTrace> roles;
  std::int64_t next_in_order = 0;        ///< the warpgroup that the order barrier admits next
  std::vector<Key> copies;               ///< cp.async copies of the open commit group
  std::vector<std::vector<Key>> groups;  ///< commit groups in flight
};

/// Simulates the traces of one CTA, or of both CTAs of a cluster, against each other. The producer
/// always runs as far ahead as it can, so that every possible early overwrite of a slot happens.
/// The MMAs of the last CTA run only when nothing else can.
class Machine {
 public:
  explicit Machine(std::vector<CtaTraces> ctas) : ctas_(std::move(ctas)) { learn_guards(); }

  std::optional<ChannelFault> run() {
    while (!fault_ && step_any());
    if (fault_) return fault_;
    for (const CtaTraces& cta : ctas_)
      if (!std::ranges::all_of(cta.roles, &RoleTrace::is_over)) return deadlock(cta);
    return leftovers();
  }

 private:
  bool step_any() {
    for (role_ = 0; role_ < ctas_.front().roles.size(); ++role_)
      for (cta_ = 0; cta_ < static_cast<int>(ctas_.size()); ++cta_)
        if (step()) return true;
    return false;
  }

  /// Runs the role's next event; returns false if it has to wait or there is none.
  bool step() {
    RoleTrace& role = mine();
    if (role.is_over()) return false;
    const ChannelEvent& e = role.events[role.next];
    if (e.kind == Kind::Wait && barriers_[key(e.at)].complete % 2 == e.number) return false;
    if (e.kind == Kind::OrderWait && cta().next_in_order != e.number) return false;
    ++role.next;
    using Run = void (Machine::*)(const ChannelEvent&);
    static constexpr Run kRun[] = {&Machine::wait,         &Machine::release, &Machine::expect,
                                   &Machine::copy,         &Machine::mma,     &Machine::mma_wait,
                                   &Machine::read,         &Machine::store,   &Machine::commit,
                                   &Machine::await_copies, &Machine::barrier, &Machine::order_wait,
                                   &Machine::order_arrive};
    (this->*kRun[static_cast<std::size_t>(e.kind)])(e);
    return true;
  }

  void wait(const ChannelEvent& e) {
    const Key channel = key(e.at);
    for (auto& [place, slot] : slots_)
      if (slot.fills > 0 && slot.channel == channel) {
        // A wait that passes on the parity of an older phase has not seen this fill.
        if (barriers_[channel].complete >= slot.phase) slot.seen = slot.fills;
      }
  }

  void release(const ChannelEvent& e) {
    if (e.signals == SignalScope::BothCtas)
      for (int to = 0; to < static_cast<int>(ctas_.size()); ++to) arrive(key(e.at, to), true);
    else
      for (int n = e.signals == SignalScope::OwnCtaTwice ? 2 : 1; n > 0; --n)
        arrive(key(e.at), e.signals == SignalScope::OwnCtaTwice);
    for (const auto& [mma, reads] : mine().in_flight)
      for (const SlotRef& read : reads)
        if (read.slot == e.at.slot && guards(e.at.of, read.of))
          fault("a slot is released while an MMA that reads it is in flight", e.op, mma);
  }

  void arrive(const Key& channel, bool counts_cluster) {
    Barrier& b = barriers_[channel];
    const int count = counts_cluster ? static_cast<int>(ctas_.size()) : 1;
    if (++b.arrived < count) return;
    b.arrived = 0;
    ++b.complete;
  }

  void expect(const ChannelEvent& e) {
    Barrier& b = barriers_[key(e.at)];
    if (b.is_announced) fault("the copies do not add up to the expected bytes", b.announced, e.op);
    b.is_announced = true;
    b.missing += e.number;
    b.announced = e.op;
    complete_if_all_landed(b);
  }

  void copy(const ChannelEvent& e) {
    if (e.signals != SignalScope::BothCtas) return land(e, cta_, e.number);
    for (int to = 0; to < static_cast<int>(ctas_.size()); ++to) land(e, to, e.number / 2);
  }

  /// Records the bytes of a load that arrive in a CTA: the whole load, or half of the tile if both
  /// CTAs load it together.
  void land(const ChannelEvent& e, int to, std::int64_t bytes) {
    Slot& slot = slots_[key(e.at, to)];
    const bool second = e.signals == SignalScope::BothCtas && slot.is_half;
    if (!second && slot.fills != slot.seen)
      fault("a slot is overwritten before what was copied there was waited for", e.op, slot.filled);
    for (const RoleTrace& role : ctas_[static_cast<std::size_t>(to)].roles)
      for (const auto& [mma, reads] : role.in_flight)
        if (std::ranges::find(reads, e.at) != reads.end())
          fault("a slot is overwritten while an MMA reads it", e.op, mma);
    const Key channel = key(e.channel, to);
    Barrier& b = barriers_[channel];
    if (to == cta_ && b.missing < bytes)
      return fault("more bytes are copied than announced", e.op, b.announced);
    b.missing -= bytes;
    slot = {slot.fills + (second ? 0 : 1),
            slot.seen,
            e.signals == SignalScope::BothCtas && !second,
            e.op,
            channel,
            b.complete + 1,
            e.tile};
    complete_if_all_landed(b);
  }

  static void complete_if_all_landed(Barrier& b) {
    if (!b.is_announced || b.missing != 0) return;
    b.is_announced = false;
    ++b.complete;
  }

  void read(const ChannelEvent& e) {
    for (const SlotRef& read : e.reads) {
      if (const auto found = stored_.find(key(read)); found != stored_.end()) {
        if (!found->second.is_published)
          fault("an MMA reads what threads stored without a fence and a barrier after it", e.op,
                found->second.stored);
        found->second.is_read = true;
        continue;
      }
      const auto it = slots_.find(key(read));
      if (it == slots_.end() || it->second.fills == 0 || it->second.seen != it->second.fills ||
          barriers_[it->second.channel].complete < it->second.phase)
        fault(e.kind == Kind::Read ? "threads read a slot that was not waited for"
                                   : "an MMA reads a slot whose copies were not waited for",
              e.op, it == slots_.end() ? OpId() : it->second.filled);
      else if (it->second.tile != e.tile)
        fault("an MMA reads a slot that was filled for another tile", e.op, it->second.filled);
    }
  }

  void mma(const ChannelEvent& e) {
    read(e);
    mine().in_flight.emplace_back(e.op, e.reads);
  }

  void mma_wait(const ChannelEvent& e) {
    auto& running = mine().in_flight;
    while (static_cast<std::int64_t>(running.size()) > e.number) running.erase(running.begin());
  }

  void store(const ChannelEvent& e) {
    for (const auto& [mma, reads] : mine().in_flight)
      if (std::ranges::find(reads, e.at) != reads.end())
        return fault("threads overwrite a slot while an MMA reads it", e.op, mma);
    StoredSlot& slot = stored_[key(e.at)];
    if (slot.is_read)
      return fault("threads overwrite a slot before all warps have synchronised after its MMAs",
                   e.op, slot.stored);
    slot = {.stored = e.op};
    slot.is_in_flight = e.number == 1;
    if (slot.is_in_flight) cta().copies.push_back(key(e.at));
  }

  // ---- groups of copies by cp.async
  void commit(const ChannelEvent&) { cta().groups.push_back(std::exchange(cta().copies, {})); }
  void await_copies(const ChannelEvent& e) {
    auto& groups = cta().groups;
    for (; static_cast<std::int64_t>(groups.size()) > e.number; groups.erase(groups.begin()))
      for (const Key& place : groups.front()) stored_[place].is_in_flight = false;
  }

  /// Simulates a barrier of all consumer threads of the CTA: it publishes earlier stores if it has
  /// a proxy fence, and frees the slots that no MMA in flight reads.
  void barrier(const ChannelEvent& e) {
    for (auto& [place, slot] : stored_) {
      if (place.cta != cta_) continue;
      if (e.number == 1 && !slot.is_in_flight) slot.is_published = true;
      const bool is_busy = std::ranges::any_of(mine().in_flight, [&](const auto& running) {
        return std::ranges::any_of(running.second,
                                   [&](const SlotRef& read) { return key(read) == place; });
      });
      if (!is_busy) slot.is_read = false;
    }
  }

  void order_wait(const ChannelEvent&) {}
  void order_arrive(const ChannelEvent& e) { cta().next_in_order = e.number; }

  static std::optional<ChannelFault> deadlock(const CtaTraces& cta) {
    const auto blocked = [](const RoleTrace& role) {
      return role.is_over() ? OpId() : role.events[role.next].op;
    };
    const OpId copies = blocked(cta.roles.front());
    OpId computes;
    for (std::size_t role = 1; role < cta.roles.size() && !computes; ++role)
      computes = blocked(cta.roles[role]);
    return ChannelFault{copies && computes ? "deadlock: the copies and the MMAs wait for each other"
                                           : "deadlock: no op completes the awaited phase",
                        computes ? computes : copies, computes ? copies : OpId()};
  }

  std::optional<ChannelFault> leftovers() const {
    for (const auto& [place, b] : barriers_)
      if (b.missing != 0)
        return ChannelFault{"the copies do not add up to the expected bytes", b.announced, {}};
    for (const auto& [place, slot] : slots_)
      if (slot.fills != slot.seen)
        return ChannelFault{
            "the kernel ends while a copy without a wait is in flight", slot.filled, {}};
    return std::nullopt;
  }

  /// Records for each ring the channel that the producer waits for before it fills the ring.
  void learn_guards() {
    Value waited, expecting;
    for (const ChannelEvent& e : ctas_.front().roles.front().events) {
      if (e.kind == Kind::Wait) waited = e.at.of;
      if (e.kind == Kind::Expect) expecting = std::exchange(waited, {});
      if (e.kind == Kind::Copy && expecting) guards_[e.at.of] = expecting;
    }
  }

  /// Returns true if loads into `ring` wait for `channel`, which must then be released only after
  /// the MMAs that read the ring.
  bool guards(Value channel, Value ring) const {
    const auto it = guards_.find(ring);
    return it != guards_.end() && it->second == channel;
  }

  static Key key(const SlotRef& s, int cta) { return {cta, s.of.index, s.slot}; }
  Key key(const SlotRef& s) const { return key(s, cta_); }
  CtaTraces& cta() { return ctas_[static_cast<std::size_t>(cta_)]; }
  RoleTrace& mine() { return cta().roles[role_]; }
  void fault(std::string what, OpId first, OpId second) {
    if (!fault_) fault_ = ChannelFault{std::move(what), first, second};
  }

  std::vector<CtaTraces> ctas_;
  int cta_ = 0;  ///< CTA of the current event
  std::size_t role_ = 0;
  std::map<Key, Barrier> barriers_;
  std::map<Key, Slot> slots_;
  std::map<Key, StoredSlot> stored_;
  std::unordered_map<Value, Value> guards_;
  std::optional<ChannelFault> fault_;
};

/// The number of slots of the deepest ring, the step of the mainloop, the number of CTAs that share
/// channels, and the number of ping-pong warpgroups per CTA.
struct Rings {
  std::int64_t slots = 0, step = 1;
  int programs = 1, groups = 1;
};
Rings rings_of(const Kernel& k) {
  Rings r;
  if (pingpong_loop(k)) r.groups = 2;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode == Opcode::CopyTma)
      r.slots = std::max(r.slots, k.type(filled_tile(k[op])).shape()[0]);
    if (k[op].opcode == Opcode::ChannelInit)
      r.programs = std::max(r.programs, static_cast<int>(k[op].attrs.i(AttrName::cluster_ctas, 1)));
    if (k[op].opcode != Opcode::For) return;
    for (OpId inner : k.ops(k[op].regions[0]))
      if (k[inner].opcode == Opcode::DotAsync)
        r.step = constant_value(k, k[op].operands[2]).value_or(1);
  });
  return r;
}

CtaTraces traces_of(const Kernel& machine, const Rings& rings, std::int64_t steps, int rank,
                    bool with_producer) {
  ChannelExtents extents{.extent = steps * rings.step, .scalar = steps, .rank = rank};
  CtaTraces cta;
  const auto add = [&](ChannelRole role) {
    cta.roles.emplace_back().events = channel_trace(machine, role, extents);
  };
  if (rings.groups > 1) extents.outer_trips = kTripsOfPingpong;
  if (!with_producer) {
    add(ChannelRole::Unified);
    return cta;
  }
  add(ChannelRole::Producer);
  extents.groups = rings.groups;
  for (extents.group = 0; extents.group < rings.groups; ++extents.group) add(ChannelRole::Consumer);
  return cta;
}

}  // namespace

std::optional<ChannelFault> check_channels(const Kernel& machine, bool with_producer) {
  const Rings rings = rings_of(machine);
  if (rings.slots == 0) return std::nullopt;
  std::set<std::int64_t> steps{0, 1, 2};
  for (std::int64_t n = rings.slots - 1; n <= rings.slots + 2; ++n) steps.insert(n);
  // Clusters: also test more tiles than the cluster processes at a time, once an even number and
  // once an odd number, so that only one CTA has a last tile.
  for (std::int64_t more = 2; rings.programs > 1 && more <= 3; ++more)
    steps.insert(2 * rings.slots + more);
  for (const std::int64_t n : steps) {
    std::vector<CtaTraces> ctas;
    for (int rank = 0; rank < rings.programs; ++rank)
      ctas.push_back(traces_of(machine, rings, n, rank, with_producer));
    if (auto fault = Machine(ctas).run()) return fault;
    // Reverses the CTAs and the consumers, so that the others lag.
    if (rings.programs > 1) std::ranges::reverse(ctas);
    for (CtaTraces& cta : ctas)
      if (cta.roles.size() > 2) std::ranges::reverse(std::span(cta.roles).subspan(1));
    if (rings.programs > 1 || rings.groups > 1)
      if (auto fault = Machine(ctas).run()) return fault;
  }
  return std::nullopt;
}

}  // namespace tegula::ir
