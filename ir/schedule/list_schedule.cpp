#include "ir/schedule/list_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "ir/schedule/judging.h"
#include "ir/schedule/node_cost.h"

namespace tegula::ir {
namespace {

/// Number of dots for which both stages are tried; other dots run in stage 0.
constexpr std::size_t kMaxLateDots = 6;

/// A dependence: `from` of iteration i - distance must run before `to` of iteration i.
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

  /// Returns the number of sets of dots that may run one iteration late; 0 unless one role does all
  /// computing and issues no copies.
  std::uint32_t choices() const {
    const auto computes = [&](std::size_t n) {
      return j_.place(n)->role == j_.place(dots_.front())->role;
    };
    const bool applies = !dots_.empty() && std::ranges::all_of(nodes_, computes) &&
                         std::ranges::none_of(copies_, computes);
    return applies ? 1U << std::min(dots_.size(), kMaxLateDots) : 0;
  }

  /// Returns the Schedule with these stages of the dots, in the order that list() finds; nothing if
  /// no order exists or the Schedule is not legal.
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
      const DotForm* form = base_.find_dot(g_[n].label);
      const bool is_async = form && form->engine == Engine::Wgmma;
      loop.steps.push_back({g_[n].label, static_cast<std::uint8_t>(j_.place(n)->role),
                            static_cast<std::int8_t>(stage_[n]), next++,
                            static_cast<std::int8_t>(is_async)});
    }
    return with_needed_slots(k_, g_, std::move(s));
  }

 private:
  void find_edges() {
    const std::vector<Edge> edges = j_.edges_of(loop_);
    for (const Edge& e : edges) {
      if (j_.is_copy(e.from) || j_.is_copy(e.to)) continue;
      before_.push_back({e.from, e.to, e.distance});
      if (e.kind != EdgeKind::Flow || e.distance > 0) continue;
      // Fragments and stored tiles are read before they are written again.
      const Channel* c = j_.channel_of(j_.label(e.from));
      if (c || (g_[e.to].kind == NodeKind::Dot && !j_.adds_to(e)))
        before_.push_back({e.to, e.from, c ? c->slots : 1});
    }
    // Readers of an accumulator run before the MMA that overwrites it.
    for (std::size_t dot : dots_) {
      Before write{dot, dot, 1};
      for (const Edge& e : edges)
        if (e.from == dot && j_.adds_to(e)) write = {dot, e.to, e.distance};
      for (const Edge& e : edges)
        if (e.from == dot && e.kind == EdgeKind::Flow && !j_.adds_to(e) &&
            e.distance <= write.distance)
          before_.push_back({e.to, write.to, write.distance - e.distance});
    }
  }

  double cycles(std::size_t n) const {
    const DotForm* form = base_.find_dot(g_[n].label);
    const int groups = std::max(1, j_.warpgroups(j_.place(n)->role));
    return cost_of(k_, g_[n], form ? form->engine : Engine::Fma, groups, m_).all();
  }
  /// Computes the critical path from each node to the end of its iteration.
  void find_heights() {
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      double& height = height_[nodes_[i]];
      for (const Edge& e : g_.edges())
        if (e.from == nodes_[i] && e.distance == 0) height = std::max(height, height_[e.to]);
      height += cycles(nodes_[i]) + (g_[nodes_[i]].kind == NodeKind::Dot ? m_.mma_latency : 0);
    }
  }

  /// Derives the earliest stage of each other node from the stages of the dots. Returns false if
  /// these stages violate a dependence.
  bool find_stages(std::uint32_t late_dots) {
    stage_.clear();
    for (std::size_t n : nodes_) stage_[n] = 0;
    for (std::size_t i = 0; i < std::min(dots_.size(), kMaxLateDots); ++i)
      stage_[dots_[i]] = late_dots >> i & 1;
    for (std::size_t round = 0; round <= nodes_.size(); ++round)
      for (const Before& b : before_) {
        if (stage_[b.from] - b.distance <= stage_[b.to]) continue;
        if (g_[b.to].kind == NodeKind::Dot || round == nodes_.size()) return false;
        stage_[b.to] = stage_[b.from] - b.distance;
      }
    return true;
  }

  /// Returns the nodes of a step in the order in which they can start. Among nodes that can start
  /// at nearly the same time, the one with the longest critical path comes first. Returns nothing
  /// if the dependences are cyclic.
  std::optional<std::vector<std::size_t>> list() {
    std::vector<std::size_t> remaining = nodes_, order;
    std::map<std::size_t, double> done;
    double now = 0, tensor_free = 0;
    const auto begins = [&](std::size_t n) -> std::optional<double> {
      double begin = now;
      for (const Before& b : before_) {
        if (b.to != n || b.from == n || stage_[b.from] - b.distance != stage_[n]) continue;
        const auto made = done.find(b.from);
        if (made == done.end()) return std::nullopt;
        begin = std::max(begin, made->second);
      }
      return begin;
    };
    while (!remaining.empty()) {
      std::optional<std::tuple<double, double, std::size_t>> best;
      for (std::size_t i = 0; i < remaining.size(); ++i)
        if (const auto begin = begins(remaining[i])) {
          const auto next = std::tuple(std::floor(*begin / m_.issue), -height_[remaining[i]], i);
          best = std::min(best.value_or(next), next);
        }
      if (!best) return std::nullopt;
      const std::size_t i = std::get<2>(*best), n = remaining[i];
      now = *begins(n);
      if (g_[n].kind == NodeKind::Dot) {
        tensor_free = std::max(tensor_free, now) + cycles(n);
        now += m_.issue;
        done[n] = tensor_free + m_.mma_latency;
      } else {
        done[n] = now += cycles(n);
      }
      order.push_back(n);
      remaining.erase(remaining.begin() + static_cast<std::ptrdiff_t>(i));
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
  for (std::size_t loop = 0; loop < base.loops.size(); ++loop) {
    const Schedule before = best;
    ListScheduler scheduler(k, graph, before, loop);
    for (std::uint32_t late = 0; late < scheduler.choices(); ++late) {
      auto s = scheduler.with_stages(late);
      const auto cycles = s ? cycles_of_iteration(k, graph, *s) : std::nullopt;
      if (!cycles || *cycles >= fewest) continue;
      fewest = *cycles;
      best = std::move(*s);
    }
  }
  return best;
}

}  // namespace tegula::ir
