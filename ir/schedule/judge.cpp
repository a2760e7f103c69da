#include "ir/schedule/judge.h"

#include <algorithm>
#include <ranges>

#include "ir/schedule/judging.h"

namespace tegula::ir {

void Judging::add(Reason reason) {
  const auto loc = [&](std::size_t i) {
    const auto node = i < reason.labels.size() ? g.find(reason.labels[i]) : std::nullopt;
    return node ? k[g[*node].ops.front()].loc : Loc();
  };
  reason.at = loc(0);
  reason.other = loc(1);
  verdict.reasons.push_back(std::move(reason));
}

int Judging::total_warps() const {
  int warps = 0;
  for (const Role& r : s.roles) warps += r.warps * r.copies;
  return warps;
}

Judging::Operand Judging::operand(OpId dot, std::size_t operand) const {
  Operand found{source_of(k, dot, operand), {}, nullptr};
  for (OpId maker = k[k[dot].operands[operand]].def; maker; maker = k[k[maker].operands[0]].def) {
    const auto node = g.find(maker);
    if (node && (found.nodes.empty() || found.nodes.front() != *node))
      found.nodes.insert(found.nodes.begin(), *node);
    if (maker == found.source.op) break;
  }
  for (std::size_t n : found.nodes)
    if (const Channel* c = channel_of(label(n)); c && c->kind != ChannelKind::Register)
      found.shared = c;
  return found;
}

bool Judging::adds_to(const Edge& e) const {
  return e.kind == EdgeKind::Flow && g[e.to].kind == NodeKind::Dot &&
         k[g[e.to].ops.front()].operands[2] == e.value;
}

std::size_t Judging::role_of_dots() const {
  for (const LoopSchedule& loop : s.loops)
    for (const Step& step : loop.steps)
      if (s.find_dot(step.op)) return step.role;
  return s.roles.size() - 1;
}

/// Returns the moment of the first wait for this MMA itself: `in_flight` iterations later, or
/// before the first node of its role that reads the result.
Judging::Moment Judging::waited_for(std::size_t dot) const {
  const Place& own = *place(dot);
  Moment first(own.stage + own.in_flight, own.order);
  for (const Edge& e : reads_of(dot)) {
    if (e.to == dot || !place(e.to) || adds_to(e)) continue;
    const Place& reader = *place(e.to);
    // The reader of the result of iteration i runs in step i + stage + distance.
    if (reader.role == own.role)
      first = std::min(first, Moment(reader.stage + e.distance, reader.order));
  }
  return first;
}

Judging::Moment Judging::retired(const LoopSchedule& loop, std::size_t dot) const {
  const Place& own = *place(dot);
  Moment first = waited_for(dot);
  for (std::size_t later : nodes_in_order(loop, own.role)) {
    const DotForm* form = s.find_dot(label(later));
    if (later == dot || !form || form->engine != Engine::Wgmma) continue;
    const Place& issued = *place(later);
    const int next = issued.order > own.order ? 0 : 1;
    const auto [key, order] = waited_for(later);
    first = std::min(first, Moment(own.stage + next + key - issued.stage, order));
  }
  return first;
}

bool Judging::is_copy(std::size_t node) const {
  const Channel* c = channel_of(label(node));
  return g[node].kind == NodeKind::Load && c &&
         (c->kind == ChannelKind::Tma || c->kind == ChannelKind::CpAsync);
}

std::vector<std::size_t> Judging::nodes_of(const LoopSchedule& loop) const {
  return g.nodes_of(k[op_of(loop.loop)].regions.back());
}

std::vector<std::size_t> Judging::nodes_in_order(const LoopSchedule& loop, std::size_t role) const {
  std::vector<std::size_t> nodes = nodes_of(loop);
  std::erase_if(nodes, [&](std::size_t n) { return !place(n) || place(n)->role != role; });
  std::ranges::stable_sort(nodes, {}, [&](std::size_t n) { return place(n)->order; });
  return nodes;
}

std::vector<Edge> Judging::edges_of(const LoopSchedule& loop) const {
  const RegionId body = k[op_of(loop.loop)].regions.back();
  std::vector<Edge> found;
  for (const Edge& e : g.edges())
    if (g[e.from].region == body && g[e.to].region == body && place(e.from) && place(e.to))
      found.push_back(e);
  return found;
}

void Judging::place_nodes() {
  places_.assign(g.nodes().size(), std::nullopt);
  for (const LoopSchedule& loop : s.loops) {
    for (const Step& step : loop.steps)
      places_[*g.find(step.op)] =
          Place{step.role, step.stage, static_cast<double>(step.order), step.in_flight};
    std::vector<std::size_t> nodes = nodes_of(loop);
    for (std::size_t n : nodes | std::views::reverse)
      if (!places_[n]) places_[n] = default_place(n);
  }
}

std::optional<Place> Judging::default_place(std::size_t node) const {
  std::optional<Place> first;
  for (const Edge& e : g.edges()) {
    if (e.from != node || e.distance != 0 || !places_[e.to]) continue;
    const Place& to = *places_[e.to];
    if (!first || std::pair(to.stage, to.order) < std::pair(first->stage, first->order)) first = to;
  }
  if (!first) return first;
  // Nodes are placed in reverse text order, each immediately before its first consumer.
  constexpr double kNext = 1.0 / 4096;
  first->order -= kNext;
  first->in_flight = 0;
  return first;
}

Verdict judge(const Kernel& k, const Graph& graph, const Schedule& schedule) {
  Judging j(k, graph, schedule);
  judge_labels(j);
  if (!j.is_legal()) return std::move(j.verdict);
  j.place_nodes();
  constexpr void (*kGroups[])(Judging&) = {
      judge_order,      judge_memory_order, judge_scalars, judge_cycles,    judge_dots,
      judge_conditions, judge_channels,     judge_slots,   judge_resources, judge_tiles};
  for (const auto group : kGroups) {
    group(j);
    if (!j.is_legal()) break;
  }
  return std::move(j.verdict);
}

}  // namespace tegula::ir
