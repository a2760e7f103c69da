#include "ir/schedule/timeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "ir/schedule/judging.h"
#include "ir/schedule/node_cost.h"

namespace tegula::ir {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

/// A tile and an iteration within it. Nodes outside of loops have iteration 0.
struct IterationIndex {
  int tile = 0, iteration = 0;
  IterationIndex before(int distance) const { return {tile, iteration - distance}; }
  friend auto operator<=>(const IterationIndex&, const IterationIndex&) = default;
};

/// A node that an actor runs, the start or the end of a token's range, or the end of a loop.
struct ActorEvent {
  enum class Kind : std::uint8_t { Node, TakeToken, PassToken, Drain };
  Kind kind = Kind::Node;
  std::size_t index = 0;  ///< of the node, or of the token
  IterationIndex turn;
};

/// An MMA that was issued and not waited for.
struct InFlight {
  std::size_t node;
  IterationIndex turn;
  double done;
};

struct Actor {
  Timeline::Actor drawn;
  int group = 0;  ///< index among the warpgroups of all copies of its role
  std::vector<ActorEvent> events;
  std::size_t next = 0;
  double now = 0;
  std::deque<InFlight> in_flight;
  std::map<std::pair<std::size_t, std::int64_t>, int> reads;  ///< so far, per channel and fill
};

struct Ring {
  struct Fill {
    Timeline::Fill drawn;
    int written = 0, released = 0;  ///< parts that landed, actors that have released
  };
  std::map<std::int64_t, Fill> fills;  ///< by number
  bool is_in_loop = false;
  std::size_t drawn = kNone;         ///< index in Timeline::rings; kNone unless filled by copies
  int parts = 1;                     ///< per fill
  std::map<std::size_t, int> reads;  ///< per fill, by one actor of each role
  int readers = 0;                   ///< actors that release a fill
};

class TimelineModel {
 public:
  TimelineModel(const Kernel& k, const Graph& g, const Schedule& s, const TimelineOptions& options)
      : j_(k, g, s),
        k_(k),
        g_(g),
        s_(s),
        o_(options),
        m_(sm_model(s.target)),
        consumer_(j_.role_of_dots()),
        producer_(consumer_) {
    j_.place_nodes();
    for (const LoopSchedule& loop : s.loops)
      for (const Step& step : loop.steps)
        if (j_.is_copy(*g.find(step.op))) producer_ = step.role;
    for (std::size_t n = 0; n < g.nodes().size(); ++n) {
      const Channel* c = j_.channel_of(j_.label(n));
      channels_.push_back(c ? static_cast<std::size_t>(c - s.channels.data()) : kNone);
    }
    for (std::size_t n = 0; n < g.nodes().size(); ++n) inputs_.push_back(inputs(n));
    for (std::size_t c = 0; c < s.channels.size(); ++c) rings_.push_back(ring(c));
    for (std::size_t role = 0; role < s.roles.size(); ++role) make_actors(role);
    tokens_.resize(s.tokens.size());
  }

  std::optional<Timeline> run() {
    while (step());
    for (Actor& a : actors_) {
      if (a.next < a.events.size()) return std::nullopt;
      out_.actors.push_back(std::move(a.drawn));
    }
    for (Ring& ring : rings_)
      for (auto& [number, fill] : ring.fills) {
        if (ring.drawn == kNone) continue;
        if (fill.released < ring.readers) fill.drawn.released = out_.end;
        out_.fills.push_back(fill.drawn);
      }
    return std::move(out_);
  }

 private:
  // ---- inputs and rings
  int groups(std::size_t role) const { return std::max(1, j_.warpgroups(role)); }
  std::size_t role_of(std::size_t node) const {
    return j_.place(node) ? j_.place(node)->role : j_.is_copy(node) ? producer_ : consumer_;
  }

  /// Returns the flow edges into a node, including those from operands that are loaded before its
  /// loop.
  std::vector<Edge> inputs(std::size_t node) const {
    std::vector<Edge> found;
    // A scheduled loop has no inputs itself: its nodes read what the loop reads.
    if (s_.find_loop(j_.label(node))) return found;
    for (const Edge& e : g_.edges())
      if (e.to == node && e.kind == EdgeKind::Flow) found.push_back(e);
    if (g_[node].kind != NodeKind::Dot) return found;
    for (std::size_t i : {0U, 1U}) {
      const OperandSource source = source_of(k_, g_[node].ops.front(), i);
      const auto from = source.op ? g_.find(source.op) : std::nullopt;
      if (from && source.kind == OperandSource::Kind::Invariant && channels_[*from] != kNone)
        found.push_back({*from, node, 0, EdgeKind::Flow, {}});
    }
    return found;
  }

  Ring ring(std::size_t c) {
    const Channel& channel = s_.channels[c];
    const std::size_t first = *g_.find(channel.payload.front());
    Ring ring;
    ring.is_in_loop = j_.place(first).has_value();
    ring.parts = static_cast<int>(channel.payload.size());
    for (std::size_t n = 0; n < inputs_.size(); ++n)
      for (const Edge& e : inputs_[n])
        if (channels_[e.from] == c)
          ring.reads[role_of(n)] += ring.is_in_loop || !j_.place(n) ? 1 : o_.iterations;
    for (const auto& [role, reads] : ring.reads) ring.readers += groups(role);
    if (!j_.is_copy(first)) {
      ring.parts *= groups(role_of(first));
      return ring;
    }
    double bytes = 0;
    for (Label l : channel.payload) bytes += bytes_of(k_, g_[*g_.find(l)]);
    ring.drawn = out_.rings.size();
    out_.rings.push_back({c, tensors_of(channel), channel.slots, static_cast<std::int64_t>(bytes)});
    return ring;
  }

  std::string tensors_of(const Channel& channel) const {
    std::vector<std::string> names;
    for (Label l : channel.payload) {
      const auto view = std::ranges::find(k_.params(), k_[j_.op_of(l)].operands[0], &Param::value);
      if (view == k_.params().end()) continue;
      const auto arg = static_cast<std::size_t>(view->attrs.i(AttrName::arg));
      const std::string name = arg < o_.names.size() ? o_.names[arg] : view->name;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    return names.empty() ? std::string(channel.name.str())
                         : fmt::format("{}", fmt::join(names, " "));
  }

  // ---- events of actors
  void make_actors(std::size_t role) {
    const Role& r = s_.roles[role];
    const int count = groups(role) * r.copies;
    for (int g = 0; g < count; ++g) {
      Actor& a = actors_.emplace_back();
      a.group = g;
      a.drawn.role = role;
      a.drawn.name = count > 1 ? fmt::format("{} {}", r.name.str(), g) : std::string(r.name.str());
      for (int tile = 0; tile < o_.tiles; ++tile)
        if (tile % r.copies == g / groups(role)) add_tile(a, tile);
    }
  }

  /// Adds the scheduled loops and the nodes around them, in text order.
  void add_tile(Actor& a, int tile) {
    if (s_.loops.empty()) return;
    for (std::size_t n : g_.nodes_of(g_[*g_.find(s_.loops.front().loop)].region)) {
      if (const LoopSchedule* loop = s_.find_loop(j_.label(n)))
        add_loop(a, *loop, tile);
      else if (role_of(n) == a.drawn.role)
        a.events.push_back({ActorEvent::Kind::Node, n, {tile, 0}});
    }
  }

  void add_loop(Actor& a, const LoopSchedule& loop, int tile) {
    const std::vector<std::size_t> nodes = j_.nodes_in_order(loop, a.drawn.role);
    if (nodes.empty()) return;
    int last_stage = 0;
    for (std::size_t n : nodes) last_stage = std::max(last_stage, j_.place(n)->stage);
    const auto token = [&](ActorEvent::Kind kind, Label Token::* end, Label label,
                           IterationIndex iteration) {
      for (std::size_t t = 0; t < s_.tokens.size(); ++t)
        if (s_.tokens[t].role == a.drawn.role && s_.tokens[t].*end == label)
          a.events.push_back({kind, t, iteration});
    };
    token(ActorEvent::Kind::TakeToken, &Token::first, loop.loop, {tile, 0});
    for (int t = 0; t < o_.iterations + last_stage; ++t)
      for (std::size_t n : nodes) {
        const int i = t - j_.place(n)->stage;
        // Tokens are passed in every step, including those of the prologue and the epilogue.
        token(ActorEvent::Kind::TakeToken, &Token::first, j_.label(n), {tile, t});
        if (i >= 0 && i < o_.iterations) a.events.push_back({ActorEvent::Kind::Node, n, {tile, i}});
        token(ActorEvent::Kind::PassToken, &Token::last, j_.label(n), {tile, t});
      }
    a.events.push_back({ActorEvent::Kind::Drain, 0, {tile, 0}});
    token(ActorEvent::Kind::PassToken, &Token::last, loop.loop, {tile, 0});
  }

  // ---- simulation
  /// Time at which an actor can continue, and the event that it waits for until then.
  struct Ready {
    double at;
    std::string_view what = {}, of = {};

    void wait_for(double time, std::string_view awaited, std::string_view owner) {
      if (time > at) *this = {time, awaited, owner};
    }
  };

  /// Runs the next event of the actor that can continue first. Returns false if no actor can.
  bool step() {
    Actor* first = nullptr;
    Ready when{0};
    for (Actor& a : actors_) {
      const auto next = a.next < a.events.size() ? ready(a) : std::nullopt;
      if (!next || (first && next->at >= when.at)) continue;
      first = &a, when = *next;
    }
    if (!first) return false;
    wait_until(*first, when);
    perform(*first, first->events[first->next++]);
    out_.end = std::max(out_.end, first->now);
    return true;
  }

  /// Returns when the next event of the actor can run, or nothing if this is not known yet.
  std::optional<Ready> ready(const Actor& a) const {
    const ActorEvent& e = a.events[a.next];
    Ready ready{a.now};
    if (e.kind == ActorEvent::Kind::TakeToken) {
      const int holders = groups(a.drawn.role) * s_.roles[a.drawn.role].copies;
      const auto& [turn, passed] = tokens_[e.index];
      if (turn % holders != a.group) return std::nullopt;
      ready.wait_for(passed, "token ", s_.tokens[e.index].name.str());
    }
    if (e.kind != ActorEvent::Kind::Node) return ready;
    if (j_.is_copy(e.index)) {
      const std::size_t c = channels_[e.index];
      const std::int64_t before = number(c, e.turn) - s_.channels[c].slots;
      const auto freed = rings_[c].fills.find(before);
      if (before >= 0) {
        if (freed == rings_[c].fills.end() || freed->second.released < rings_[c].readers)
          return std::nullopt;
        ready.wait_for(freed->second.drawn.released, "a free slot of ", name(c));
      }
    }
    for (const Edge& edge : inputs_[e.index]) {
      const std::size_t c = channels_[edge.from];
      if (c == kNone || s_.channels[c].kind == ChannelKind::Register) continue;
      if (e.turn.iteration < edge.distance) continue;
      const auto landed = rings_[c].fills.find(number(c, e.turn.before(edge.distance)));
      if (landed == rings_[c].fills.end() || landed->second.written < rings_[c].parts)
        return std::nullopt;
      ready.wait_for(landed->second.drawn.landed, "", name(c));
    }
    return ready;
  }

  std::string_view name(std::size_t c) const {
    const std::size_t drawn = rings_[c].drawn;
    return drawn == kNone ? s_.channels[c].name.str() : std::string_view(out_.rings[drawn].name);
  }
  /// Returns the number of the channel's fill for a turn.
  std::int64_t number(std::size_t c, IterationIndex iteration) const {
    return rings_[c].is_in_loop ? std::int64_t{iteration.tile} * o_.iterations + iteration.iteration
                                : iteration.tile;
  }

  static void wait_until(Actor& a, const Ready& ready, std::int64_t number = 0) {
    if (ready.at - a.now >= 1)
      a.drawn.waits.push_back(
          {a.now, ready.at, number, "", fmt::format("{}{}", ready.what, ready.of)});
    a.now = std::max(a.now, ready.at);
  }

  void perform(Actor& a, const ActorEvent& e) {
    if (e.kind == ActorEvent::Kind::PassToken)
      tokens_[e.index] = {tokens_[e.index].first + 1, a.now + m_.barrier};
    if (e.kind == ActorEvent::Kind::Drain) retire(a, a.in_flight.size());
    if (e.kind == ActorEvent::Kind::Node) j_.is_copy(e.index) ? copy(a, e) : compute(a, e);
  }

  /// Occupies a unit of the SM, which serves one user at a time, and returns when it is free again.
  static double use(double& free, double from, double cycles) {
    return free = std::max(free, from) + cycles;
  }

  void copy(Actor& a, const ActorEvent& e) {
    const std::size_t c = channels_[e.index];
    const std::int64_t n = number(c, e.turn);
    Ring::Fill& f = rings_[c].fills[n];
    if (f.written++ == 0) f.drawn = {rings_[c].drawn, n % s_.channels[c].slots, n, a.now, 0, 0};
    // Two CTAs that share a box load half of it each.
    const double bytes = bytes_of(k_, g_[e.index]) * (s_.channels[c].multicast ? 0.5 : 1);
    f.drawn.landed =
        std::max(f.drawn.landed, use(copy_free_, a.now, bytes / m_.copied_bytes) + m_.copy_latency);
    a.now += m_.issue;
  }

  void compute(Actor& a, const ActorEvent& e) {
    // An MMA adds to the result of another one without waiting for it.
    const Value added =
        g_[e.index].kind == NodeKind::Dot ? k_[g_[e.index].ops.front()].operands[2] : Value();
    for (const Edge& edge : inputs_[e.index])
      if (!edge.value || edge.value != added)
        retire_up_to(a, edge.from, e.turn.before(edge.distance));
    const DotForm* form = s_.find_dot(j_.label(e.index));
    const Engine engine = form ? form->engine : Engine::Fma;
    const NodeCost cost = cost_of(k_, g_[e.index], engine, groups(a.drawn.role), m_);
    if (form && engine == Engine::Wgmma) return issue(a, e, cost);
    const double begin = a.now;
    if (cost.tensor > 0) a.now = use(tensor_free_, a.now, 2 * cost.tensor);
    if (cost.lanes > 0) a.now = use(lanes_free_, a.now, cost.lanes);
    if (cost.exponentials > 0) a.now = use(exponentials_free_, a.now, cost.exponentials);
    if (a.now - begin >= 1)
      a.drawn.computes.push_back({begin, a.now, 0, "", std::string(j_.label(e.index).str())});
    read_inputs(a, e.index, e.turn);
    const std::size_t c = channels_[e.index];
    if (c == kNone || s_.channels[c].kind != ChannelKind::Smem) return;
    Ring::Fill& f = rings_[c].fills[number(c, e.turn)];
    ++f.written;
    f.drawn.landed = std::max(f.drawn.landed, a.now + m_.barrier);
  }

  void issue(Actor& a, const ActorEvent& e, const NodeCost& cost) {
    const double begin = std::max(a.now, tensor_free_), end = use(tensor_free_, begin, cost.tensor);
    a.in_flight.push_back({e.index, e.turn, end + m_.mma_latency});
    Timeline::Span span{begin, end, 0, std::string(j_.label(e.index).str()), a.drawn.name};
    for (const Edge& edge : inputs_[e.index])
      if (const std::size_t c = channels_[edge.from];
          c != kNone && rings_[c].drawn != kNone && rings_[c].is_in_loop)
        span.number = number(c, e.turn.before(edge.distance));
    a.drawn.mmas.push_back(span);
    out_.mmas.push_back(std::move(span));
    a.now += m_.issue;
    // The MMA of this dot from `in_flight` iterations ago is complete after this.
    const auto& place = j_.place(e.index);
    retire_up_to(a, e.index, e.turn.before(place ? place->in_flight : 0));
  }

  void retire_up_to(Actor& a, std::size_t dot, IterationIndex turn) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.in_flight.size(); ++i)
      if (a.in_flight[i].node == dot && a.in_flight[i].turn <= turn) count = i + 1;
    retire(a, count);
  }

  void retire(Actor& a, std::size_t count) {
    for (; count > 0; --count) {
      const InFlight mma = a.in_flight.front();
      a.in_flight.pop_front();
      wait_until(a, {mma.done, "wgmma"}, 1);
      read_inputs(a, mma.node, mma.turn);
    }
  }

  /// Records that the node has read its inputs. The last read of a fill by an actor releases the
  /// slot.
  void read_inputs(Actor& a, std::size_t node, IterationIndex turn) {
    for (const Edge& edge : inputs_[node]) {
      const std::size_t c = channels_[edge.from];
      if (c == kNone || turn.iteration < edge.distance) continue;
      const std::int64_t n = number(c, turn.before(edge.distance));
      if (++a.reads[{c, n}] < rings_[c].reads.at(a.drawn.role)) continue;
      Ring::Fill& f = rings_[c].fills[n];
      ++f.released;
      f.drawn.released = std::max(f.drawn.released, a.now + m_.barrier);
      if (rings_[c].drawn != kNone)
        a.drawn.releases.push_back({a.now, a.now, n, std::string(name(c)), ""});
    }
  }

  Judging j_;
  const Kernel& k_;
  const Graph& g_;
  const Schedule& s_;
  const TimelineOptions& o_;
  SmModel m_;
  Timeline out_;
  std::size_t consumer_, producer_;        ///< roles
  std::vector<std::size_t> channels_;      ///< channel of each node's tile; kNone if it has none
  std::vector<std::vector<Edge>> inputs_;  ///< of each node
  std::vector<Ring> rings_;                ///< indexed like Schedule::channels
  std::vector<Actor> actors_;
  std::vector<std::pair<int, double>> tokens_;  ///< number of passes, time of the last one
  double copy_free_ = 0, tensor_free_ = 0, lanes_free_ = 0, exponentials_free_ = 0;
};

}  // namespace

SmModel sm_model(Target target) {
  SmModel m;
  if (!target->has_wgmma) m.multiply_adds /= 2;
  return m;
}

std::optional<Timeline> timeline_of(const Kernel& k, const Graph& graph, const Schedule& s,
                                    const TimelineOptions& options) {
  return TimelineModel(k, graph, s, options).run();
}

std::optional<double> cycles_of_iteration(const Kernel& k, const Graph& graph, const Schedule& s) {
  constexpr int kFew = 6, kMany = 18;
  const auto few = timeline_of(k, graph, s, {.iterations = kFew});
  const auto many = timeline_of(k, graph, s, {.iterations = kMany});
  if (!few || !many) return std::nullopt;
  return (many->end - few->end) / (kMany - kFew);
}

}  // namespace tegula::ir
