#include "ir/analysis/channel_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/analysis/bounds.h"
#include "ir/analysis/channel_trace.h"
#include "ir/op.h"

namespace tegula::ir {
namespace {

using Kind = ChannelEvent::Kind;
using Key = std::pair<std::uint32_t, std::int64_t>;

/// An mbarrier: phases that are complete, and what the current one lacks.
struct Barrier {
  int complete = 0;
  std::int64_t missing = 0;
  OpId announced;  ///< the expectation of the current phase
};

/// A slot of a ring: how often it was filled, and which fill the reader has waited for.
struct Slot {
  int fills = 0, seen = 0;
  OpId filled;
  Key channel{};
  int phase = 0;  ///< of the channel, that the fill completes
};

/// Two traces run against each other, the copies always as far ahead as they can: what they could
/// overwrite too early, they do.
class Machine {
 public:
  Machine(std::vector<ChannelEvent> copies, std::vector<ChannelEvent> computes)
      : roles_{std::move(copies), std::move(computes)} {
    learn_guards();
  }

  std::optional<ChannelFault> run() {
    while (!fault_ && (step(0) || step(1)));
    if (fault_) return fault_;
    for (int role : {0, 1})
      if (next_[role] < roles_[role].size()) return deadlock();
    return leftovers();
  }

 private:
  /// Runs a role's next event; false where it waits or has none.
  bool step(int role) {
    if (next_[role] == roles_[role].size()) return false;
    const ChannelEvent& e = roles_[role][next_[role]];
    if (e.kind == Kind::Wait && barrier(e.at).complete % 2 == e.number) return false;
    ++next_[role];
    using Run = void (Machine::*)(const ChannelEvent&);
    static constexpr Run kRun[] = {&Machine::wait, &Machine::release, &Machine::expect,
                                   &Machine::copy, &Machine::product, &Machine::product_wait,
                                   &Machine::read};
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
    ++barrier(e.at).complete;
    for (const auto& [product, reads] : in_flight_)
      for (const SlotRef& read : reads)
        if (read.slot == e.at.slot && guards(e.at.of, read.of))
          fault("a slot is released while a product that reads it is in flight", e.op, product);
  }

  void expect(const ChannelEvent& e) {
    Barrier& b = barrier(e.at);
    if (b.missing != 0) fault("the copies do not bring the announced bytes", b.announced, e.op);
    b.missing = e.number;
    b.announced = e.op;
  }

  void copy(const ChannelEvent& e) {
    Slot& slot = slots_[key(e.at)];
    if (slot.fills != slot.seen)
      fault("a slot is overwritten before what was copied there was waited for", e.op, slot.filled);
    for (const auto& [product, reads] : in_flight_)
      if (std::ranges::find(reads, e.at) != reads.end())
        fault("a slot is overwritten while a product reads it", e.op, product);
    Barrier& b = barrier(e.channel);
    if (b.missing < e.number)
      return fault("more bytes are copied than announced", e.op, b.announced);
    b.missing -= e.number;
    slot = {slot.fills + 1, slot.seen, e.op, key(e.channel), b.complete + 1};
    if (b.missing == 0) ++b.complete;
  }

  void read(const ChannelEvent& e) {
    for (const SlotRef& read : e.reads) {
      const auto it = slots_.find(key(read));
      if (it == slots_.end() || it->second.fills == 0 || it->second.seen != it->second.fills ||
          barriers_[it->second.channel].complete < it->second.phase)
        fault(e.kind == Kind::Read ? "a number of a tile is read that was not waited for"
                                   : "a product reads a slot whose copies were not waited for",
              e.op, it == slots_.end() ? OpId() : it->second.filled);
    }
  }

  void product(const ChannelEvent& e) {
    read(e);
    in_flight_.emplace_back(e.op, e.reads);
  }

  void product_wait(const ChannelEvent& e) {
    while (static_cast<std::int64_t>(in_flight_.size()) > e.number)
      in_flight_.erase(in_flight_.begin());
  }

  std::optional<ChannelFault> deadlock() const {
    const auto blocked = [&](int role) {
      return next_[role] < roles_[role].size() ? roles_[role][next_[role]].op : OpId();
    };
    const OpId copies = blocked(0), computes = blocked(1);
    return ChannelFault{copies && computes
                            ? "deadlock: the copies and the products wait for each other"
                            : "deadlock: nothing completes what is waited for",
                        computes ? computes : copies, computes ? copies : OpId()};
  }

  std::optional<ChannelFault> leftovers() const {
    for (const auto& [place, b] : barriers_)
      if (b.missing != 0)
        return ChannelFault{"the copies do not bring the announced bytes", b.announced, {}};
    for (const auto& [place, slot] : slots_)
      if (slot.fills != slot.seen)
        return ChannelFault{
            "the kernel ends while a copy that nobody waits for is under way", slot.filled, {}};
    return std::nullopt;
  }

  /// A leader's branch waits for a channel and then fills rings.
  void learn_guards() {
    Value waited, expecting;
    for (const ChannelEvent& e : roles_[0]) {
      if (e.kind == Kind::Wait) waited = e.at.of;
      if (e.kind == Kind::Expect) expecting = std::exchange(waited, {});
      if (e.kind == Kind::Copy && expecting) guards_[e.at.of] = expecting;
    }
  }

  /// The releases of `channel` come behind the products that read this ring: it is the one that the
  /// copies into the ring wait for.
  bool guards(Value channel, Value ring) const {
    const auto it = guards_.find(ring);
    return it != guards_.end() && it->second == channel;
  }

  static Key key(const SlotRef& s) { return {s.of.index, s.slot}; }
  Barrier& barrier(const SlotRef& s) { return barriers_[key(s)]; }
  void fault(std::string what, OpId first, OpId second) {
    if (!fault_) fault_ = ChannelFault{std::move(what), first, second};
  }

  std::vector<ChannelEvent> roles_[2];
  std::size_t next_[2] = {0, 0};
  std::map<Key, Barrier> barriers_;
  std::map<Key, Slot> slots_;
  std::unordered_map<Value, Value> guards_;
  std::vector<std::pair<OpId, std::vector<SlotRef>>> in_flight_;
  std::optional<ChannelFault> fault_;
};

/// Slots of the deepest ring, and the step of the loop with products.
struct Rings {
  std::int64_t slots = 0, step = 1;
};
Rings rings_of(const Kernel& k) {
  Rings r;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode == Opcode::CopyTma)
      r.slots = std::max(r.slots, k.type(k[op].operands[0]).shape()[0]);
    if (k[op].opcode != Opcode::For) return;
    for (OpId inner : k.ops(k[op].regions[0]))
      if (k[inner].opcode == Opcode::DotAsync)
        r.step = as_constant(k, k[op].operands[2]).value_or(1);
  });
  return r;
}

}  // namespace

std::optional<ChannelFault> check_channels(const Kernel& machine, bool with_copy_role) {
  const Rings rings = rings_of(machine);
  if (rings.slots == 0) return std::nullopt;
  std::set<std::int64_t> steps{0, 1, 2};
  for (std::int64_t n = rings.slots - 1; n <= rings.slots + 2; ++n) steps.insert(n);
  for (const std::int64_t n : steps) {
    const ChannelExtents extents{n * rings.step, n};
    const auto trace = [&](ChannelRole role) { return channel_trace(machine, role, extents); };
    Machine m = with_copy_role ? Machine(trace(ChannelRole::Copy), trace(ChannelRole::Compute))
                               : Machine(trace(ChannelRole::Both), {});
    if (auto fault = m.run()) return fault;
  }
  return std::nullopt;
}

}  // namespace tegula::ir
