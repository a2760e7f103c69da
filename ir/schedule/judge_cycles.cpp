// Rule G10 and minimum slots: the roles of a loop do not wait for each other in a cycle.
//
// The events of the steady state are the verbs of channels (acquire, commit, wait, release), in the
// order of their roles. An edge of weight k from x to y means that x precedes the y of k steps
// later. Edges represent the order within each role, a commit before the wait for the same
// iteration, and a release before the acquire `slots` iterations later. A cycle of weight 0 or less
// is a deadlock.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "ir/schedule/judging.h"

namespace tegula::ir {
namespace {

/// Largest number of slots that is tried for a channel that has too few.
constexpr int kMaxSlots = 64;

enum class Verb : std::uint8_t { Acquire, Commit, Wait, Release };

/// In step t, the verb runs for iteration t - key.
struct ChannelEvent {
  Verb verb;
  std::size_t role, channel;
  double order;
  int key;
};

class Cycles {
 public:
  Cycles(Judging& j, const LoopSchedule& loop) : j_(j), loop_(loop) { find_events(); }

  void run() {
    std::vector<int> slots;
    for (const Channel& c : j_.s.channels) slots.push_back(c.slots);
    if (!has_cycle(slots)) return minimal_slots(slots);
    for (std::size_t c = 0; c < slots.size(); ++c) {
      std::vector<int> more = slots;
      more[c] = kMaxSlots;
      if (is_ring(c) && !has_cycle(more)) return minimal_slots(slots);
    }
    const std::vector<int> most(slots.size(), kMaxSlots);
    if (!has_cycle(most)) return minimal_slots(slots);
    j_.refuse(Rule::G10, {loop_.loop},
              "deadlock in {}: roles wait for each other however many slots there are", loop_.loop);
  }

 private:
  bool is_ring(std::size_t c) const {
    return std::ranges::any_of(events_, [&](const ChannelEvent& e) { return e.channel == c; });
  }

  /// Computes the minimum slots of each channel while all others have kMaxSlots.
  void minimal_slots(const std::vector<int>& slots) {
    for (std::size_t c = 0; c < slots.size(); ++c) {
      if (!is_ring(c)) continue;
      std::vector<int> tried(slots.size(), kMaxSlots);
      for (tried[c] = 1; tried[c] < kMaxSlots && has_cycle(tried);) ++tried[c];
      int& least = j_.verdict.derived.channels[c].minimal_slots;
      least = std::max(least, tried[c]);
    }
  }

  ChannelEvent retirement(std::size_t dot, ChannelEvent event) const {
    std::tie(event.key, event.order) = j_.retired(loop_, dot);
    return event;
  }

  void find_events() {
    for (std::size_t c = 0; c < j_.s.channels.size(); ++c) {
      const Channel& channel = j_.s.channels[c];
      if (channel.kind == ChannelKind::Register || channel.kind == ChannelKind::Store) continue;
      std::map<std::size_t, std::vector<ChannelEvent>> fills, reads;
      const auto in_loop = j_.nodes_of(loop_);
      for (Label l : channel.payload) {
        const std::size_t node = *j_.g.find(l);
        if (std::ranges::find(in_loop, node) == in_loop.end() || !j_.place(node)) continue;
        const Place& place = *j_.place(node);
        fills[place.role].push_back({Verb::Acquire, place.role, c, place.order, place.stage});
        for (const Edge& e : j_.edges_of(loop_)) {
          if (e.from != node || e.kind != EdgeKind::Flow) continue;
          const Place& to = *j_.place(e.to);
          const ChannelEvent wait{Verb::Wait, to.role, c, to.order, to.stage + e.distance};
          reads[to.role].push_back(wait);
          ChannelEvent release = j_.g[e.to].kind == NodeKind::Dot ? retirement(e.to, wait) : wait;
          release.verb = Verb::Release;
          reads[to.role].push_back(release);
        }
      }
      add_ends(fills, Verb::Acquire, Verb::Commit);
      add_ends(reads, Verb::Wait, Verb::Release);
    }
    // Sort by order within a role. At one node, acquires and waits precede what they allow.
    std::ranges::stable_sort(
        events_, {}, [](const ChannelEvent& e) { return std::tuple(e.role, e.order, e.verb); });
  }

  /// A role acquires or waits once per iteration, before its first access, and commits or releases
  /// after its last one.
  void add_ends(const std::map<std::size_t, std::vector<ChannelEvent>>& of_roles, Verb first,
                Verb last) {
    const auto place = [](const ChannelEvent& e) { return std::pair(e.key, e.order); };
    for (const auto& [role, events] : of_roles) {
      ChannelEvent begin = *std::ranges::min_element(events, {}, place);
      ChannelEvent end = *std::ranges::max_element(events, {}, place);
      begin.verb = first;
      end.verb = last;
      events_.push_back(begin);
      events_.push_back(end);
    }
  }

  struct Before {
    std::size_t from, to;
    std::int64_t weight;
  };

  std::vector<Before> edges(const std::vector<int>& slots) const {
    std::vector<Before> found;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const ChannelEvent& e = events_[i];
      const bool is_last = i + 1 == events_.size() || events_[i + 1].role != e.role;
      if (!is_last) found.push_back({i, i + 1, 0});
      for (std::size_t to = 0; to < events_.size(); ++to) {
        const ChannelEvent& other = events_[to];
        if (is_last && other.role == e.role && (to == 0 || events_[to - 1].role != e.role))
          found.push_back({i, to, 1});
        if (other.channel != e.channel) continue;
        if (e.verb == Verb::Commit && other.verb == Verb::Wait)
          found.push_back({i, to, other.key - e.key});
        if (e.verb == Verb::Release && other.verb == Verb::Acquire)
          found.push_back({i, to, slots[e.channel] + other.key - e.key});
      }
    }
    return found;
  }

  /// Returns true if there is a cycle of weight 0 or less, by the Bellman-Ford algorithm. Scaled
  /// weights are reduced by 1 so that a cycle of weight 0 becomes negative.
  bool has_cycle(const std::vector<int>& slots) const {
    const auto count = static_cast<std::int64_t>(events_.size());
    const std::vector<Before> all = edges(slots);
    std::vector<std::int64_t> distance(events_.size(), 0);
    for (std::int64_t round = 0; round <= count; ++round) {
      bool changed = false;
      for (const Before& e : all) {
        const std::int64_t weight = e.weight * (count + 1) - 1;
        if (distance[e.from] + weight >= distance[e.to]) continue;
        distance[e.to] = distance[e.from] + weight;
        changed = true;
      }
      if (!changed) return false;
    }
    return true;
  }

  Judging& j_;
  const LoopSchedule& loop_;
  std::vector<ChannelEvent> events_;
};

}  // namespace

void judge_cycles(Judging& j) {
  j.verdict.derived.channels.resize(j.s.channels.size());
  for (const LoopSchedule& loop : j.s.loops) Cycles(j, loop).run();
}

}  // namespace tegula::ir
