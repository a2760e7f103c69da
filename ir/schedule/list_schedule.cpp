#include "ir/schedule/list_schedule.h"

#include <algorithm>
#include <limits>
#include <map>

#include "ir/schedule/judging.h"
#include "ir/schedule/node_cost.h"

namespace tegula::ir {
namespace {

/// All assignments of two stages are tried for so many dots; of more, those that differ in one dot
/// from the best so far.
constexpr std::size_t kMaxEnumeratedDots = 6;

/// `from` of iteration i - distance runs before `to` of iteration i.
struct Before {
  std::size_t from, to;
  int distance;
};

class ListScheduler {
 public:
  ListScheduler(const Kernel& k, const Graph& g, const Schedule& base, std::size_t loop)
      : j_(k, g, base), k_(k), g_(g), base_(base), loop_(base.loops[loop]), index_(loop) {
    j_.place_nodes();
    for (std::size_t n : j_.nodes_of(loop_)) {
      if (!j_.place(n)) continue;
      (j_.is_copy(n) ? copies_ : nodes_).push_back(n);
      if (g[n].kind == NodeKind::Dot) dots_.push_back(n);
    }
    find_edges();
    find_heights();
  }

  /// One role computes, others copy.
  bool applies() const {
    const auto role = [&](std::size_t n) { return j_.place(n)->role; };
    return !dots_.empty() && std::ranges::all_of(nodes_, [&](std::size_t n) {
      return role(n) == role(dots_.front());
    }) && std::ranges::none_of(copies_, [&](std::size_t n) {
      return role(n) == role(dots_.front());
    });
  }
  std::size_t dots() const { return dots_.size(); }

  /// The Schedule with these stages of the dots, in the order of the list; nothing if no order has
  /// them.
  std::optional<Schedule> with_stages(std::uint32_t late_dots) {
    if (!find_stages(late_dots)) return std::nullopt;
    const auto order = list();
    if (!order) return std::nullopt;
    Schedule s = base_;
    LoopSchedule& loop = s.loops[index_];
    std::erase_if(loop.steps, [&](const Step& step) {
      return std::ranges::find(copies_, *g_.find(step.op)) == copies_.end();
    });
    std::int16_t next = 0;
    for (std::size_t n : *order) {
      Step step{g_[n].label, static_cast<std::uint8_t>(j_.place(n)->role),
                static_cast<std::int8_t>(stage_[n]), next++};
      const DotForm* form = base_.find_dot(step.op);
      step.in_flight = form && form->engine == Engine::Wgmma ? 1 : 0;
      loop.steps.push_back(step);
    }
    return with_needed_slots(k_, g_, std::move(s));
  }

 private:
  void find_edges() {
    for (const Edge& e : j_.edges_of(loop_)) {
      if (j_.is_copy(e.from) || j_.is_copy(e.to)) continue;
      before_.push_back({e.from, e.to, e.distance});
      const Channel* c = j_.channel_of(j_.label(e.from));
      const bool is_dots = g_[e.to].kind == NodeKind::Dot;
      if (e.kind != EdgeKind::Flow || e.distance > 0) continue;
      // Fragments and stored tiles are read before they are written again.
      const bool reads_tile = is_dots && k_[g_[e.to].ops.front()].operands[2] != e.value;
      if (c || reads_tile) before_.push_back({e.to, e.from, c ? c->slots : 1});
    }
    for (std::size_t dot : dots_) find_overwriting(dot);
  }

  /// Readers of an accumulator run before the MMA that overwrites it.
  void find_overwriting(std::size_t dot) {
    const auto adds_to_it = [&](const Edge& e) {
      return e.from == dot && e.kind == EdgeKind::Flow && g_[e.to].kind == NodeKind::Dot &&
             k_[g_[e.to].ops.front()].operands[2] == e.value;
    };
    const auto edges = j_.edges_of(loop_);
    const auto next = std::ranges::find_if(edges, adds_to_it);
    const Before write =
        next != edges.end() ? Before{dot, next->to, next->distance} : Before{dot, dot, 1};
    for (const Edge& e : edges)
      if (e.from == dot && e.to != write.to && e.kind == EdgeKind::Flow && !adds_to_it(e) &&
          e.distance <= write.distance)
        before_.push_back({e.to, write.to, write.distance - e.distance});
  }

  double cycles(std::size_t n) const {
    const DotForm* form = base_.find_dot(g_[n].label);
    const int groups = std::max(1, j_.warpgroups(j_.place(n)->role));
    return cost_of(k_, g_[n], form ? form->engine : Engine::Fma, groups, m_).all();
  }
  double latency(std::size_t n) const {
    return cycles(n) + (g_[n].kind == NodeKind::Dot ? m_.mma_latency : 0);
  }

  /// The longest way from a node to the end of its iteration.
  void find_heights() {
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      double& height = height_[nodes_[i]];
      for (const Edge& e : g_.edges())
        if (e.from == nodes_[i] && e.distance == 0) height = std::max(height, height_[e.to]);
      height += latency(nodes_[i]);
    }
  }

  /// Stages of what is computed follow from those of the dots: as early as it can.
  bool find_stages(std::uint32_t late_dots) {
    stage_.clear();
    for (std::size_t n : nodes_) stage_[n] = 0;
    for (std::size_t i = 0; i < dots_.size(); ++i) stage_[dots_[i]] = late_dots >> i & 1;
    for (std::size_t round = 0; round <= nodes_.size(); ++round) {
      bool changed = false;
      for (const Before& b : before_) {
        if (stage_[b.from] - b.distance <= stage_[b.to]) continue;
        if (g_[b.to].kind == NodeKind::Dot) return false;
        stage_[b.to] = stage_[b.from] - b.distance;
        changed = true;
      }
      if (!changed) return true;
    }
    return false;
  }

  /// Nodes of a step in the order in which they can begin, those with the longest way before
  /// others.
  std::optional<std::vector<std::size_t>> list() {
    std::vector<std::size_t> left = nodes_, order;
    std::map<std::size_t, double> done;
    double now = 0, tensor_free = 0;
    const auto begins = [&](std::size_t n) -> std::optional<double> {
      double at = now;
      for (const Before& b : before_) {
        if (b.to != n || b.from == n || stage_[b.from] - b.distance != stage_[n]) continue;
        const auto made = done.find(b.from);
        if (made == done.end()) return std::nullopt;
        at = std::max(at, made->second);
      }
      return at;
    };
    while (!left.empty()) {
      std::size_t best = left.size();
      double best_at = std::numeric_limits<double>::max();
      for (std::size_t i = 0; i < left.size(); ++i) {
        const auto at = begins(left[i]);
        const bool is_higher = at && best < left.size() && *at <= best_at + m_.issue &&
                               height_[left[i]] > height_[left[best]];
        if (at && (best == left.size() || *at + m_.issue < best_at || is_higher))
          best = i, best_at = *at;
      }
      if (best == left.size()) return std::nullopt;
      const std::size_t n = left[best];
      now = best_at;
      if (g_[n].kind == NodeKind::Dot) {
        tensor_free = std::max(tensor_free, now) + cycles(n);
        now += m_.issue;
        done[n] = tensor_free + m_.mma_latency;
      } else {
        now += cycles(n);
        done[n] = now;
      }
      order.push_back(n);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
    }
    return order;
  }

  Judging j_;
  const Kernel& k_;
  const Graph& g_;
  const Schedule& base_;
  const LoopSchedule& loop_;
  std::size_t index_;
  SmModel m_ = sm_model(base_.target);
  std::vector<std::size_t> nodes_, copies_, dots_;
  std::vector<Before> before_;
  std::map<std::size_t, double> height_;
  std::map<std::size_t, int> stage_;
};

}  // namespace

std::optional<Schedule> with_needed_slots(const Kernel& k, const Graph& graph, Schedule s) {
  Verdict verdict = judge(k, graph, s);
  const bool has_few =
      std::ranges::all_of(verdict.reasons, [](const Reason& r) { return r.rule == Rule::C4; });
  if (!verdict.is_legal() && has_few) {
    for (std::size_t i = 0; i < s.channels.size(); ++i)
      s.channels[i].slots =
          std::max(s.channels[i].slots, verdict.derived.channels[i].minimal_slots);
    verdict = judge(k, graph, s);
  }
  return verdict.is_legal() ? std::optional(std::move(s)) : std::nullopt;
}

Schedule list_schedule(const Kernel& k, const Graph& graph, const Schedule& base) {
  Schedule best = base;
  double fewest = cycles_of_iteration(k, graph, base).value_or(std::numeric_limits<double>::max());
  const auto offer = [&](std::optional<Schedule> s) {
    const auto cycles = s ? cycles_of_iteration(k, graph, *s) : std::nullopt;
    if (!cycles || *cycles >= fewest) return false;
    fewest = *cycles;
    best = std::move(*s);
    return true;
  };
  for (std::size_t loop = 0; loop < base.loops.size(); ++loop) {
    const Schedule before = best;
    ListScheduler scheduler(k, graph, before, loop);
    if (!scheduler.applies()) continue;
    if (scheduler.dots() <= kMaxEnumeratedDots) {
      for (std::uint32_t late = 0; late < 1U << scheduler.dots(); ++late)
        offer(scheduler.with_stages(late));
      continue;
    }
    offer(scheduler.with_stages(0));
    std::uint32_t late = 0;
    for (std::size_t dot = 0; dot < std::min<std::size_t>(scheduler.dots(), 32); ++dot)
      if (offer(scheduler.with_stages(late | 1U << dot))) late |= 1U << dot;
  }
  return best;
}

}  // namespace tegula::ir
