#include "ir/schedule/timeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "ir/schedule/judging.h"
#include "ir/schedule/node_cost.h"

namespace tegula::ir {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

/// A tile and an iteration of it; nodes beside loops have iteration 0.
struct Turn {
  int tile = 0, iteration = 0;
  friend auto operator<=>(const Turn&, const Turn&) = default;
};

/// A node that an actor comes to, or the begin and the end of a token's range.
struct Event {
  enum class Kind : std::uint8_t { Node, TakeToken, PassToken, Drain };
  Kind kind = Kind::Node;
  std::size_t index = 0;  ///< of the node, or of the token
  Turn turn;
};

/// An MMA that was issued and not waited for.
struct InFlight {
  std::size_t node;
  Turn turn;
  double done;
};

struct Actor {
  std::size_t role = 0;
  int group = 0;  ///< number among the warpgroups of its role, those of all copies
  std::vector<Event> events;
  std::size_t next = 0;
  double now = 0;
  std::deque<InFlight> in_flight;
  /// Reads of a channel's fill that have still to come.
  std::map<std::pair<std::size_t, std::int64_t>, int> reads_left;
};

/// Slots of a channel: of each fill, when it landed and who has released it.
struct Ring {
  struct Fill {
    int written = 0, released = 0;  ///< payloads that landed, actors that have released
    double landed = 0, free = 0;
    std::size_t drawn = kNone;  ///< index in Timeline::fills
  };
  std::vector<Fill> fills;
  bool is_copied = false;  ///< by TMA or cp.async
  bool is_in_loop = false;
  std::size_t drawn = kNone;  ///< index in Timeline::rings
};

class Simulation {
 public:
  Simulation(const Kernel& k, const Graph& g, const Schedule& s, const TimelineOptions& options)
      : j_(k, g, s), k_(k), g_(g), s_(s), o_(options), m_(sm_model(s.target)) {
    j_.place_nodes();
    for (const LoopSchedule& loop : s.loops)
      for (const Step& step : loop.steps)
        if (s.find_dot(step.op)) consumer_ = step.role;
    make_rings();
    for (std::size_t role = 0; role < s.roles.size(); ++role) make_actors(role);
    turns_of_tokens_.assign(s.tokens.size(), 0);
    passed_.assign(s.tokens.size(), 0);
  }

  std::optional<Timeline> run() {
    while (step());
    for (const Actor& a : actors_)
      if (a.next < a.events.size()) return std::nullopt;
    for (Timeline::Fill& f : out_.fills)
      if (f.released == 0) f.released = out_.end;
    return std::move(out_);
  }

 private:
  // ---- rings
  void make_rings() {
    for (std::size_t c = 0; c < s_.channels.size(); ++c) {
      const Channel& channel = s_.channels[c];
      Ring& ring = rings_.emplace_back();
      ring.is_copied = channel.kind == ChannelKind::Tma || channel.kind == ChannelKind::CpAsync;
      const std::size_t first = *g_.find(channel.payload.front());
      ring.is_in_loop = j_.place(first).has_value();
      if (!ring.is_copied) continue;
      double bytes = 0;
      for (Label l : channel.payload) bytes += bytes_of(k_, g_[*g_.find(l)]);
      ring.drawn = out_.rings.size();
      out_.rings.push_back(
          {c, tensors_of(channel), channel.slots, static_cast<std::int64_t>(bytes)});
    }
  }

  std::string tensors_of(const Channel& channel) const {
    std::vector<std::string> names;
    for (Label l : channel.payload) {
      const OpData& d = k_[j_.op_of(l)];
      const auto view = std::ranges::find(k_.params(), d.operands[0], &Param::value);
      if (view == k_.params().end()) continue;
      const auto arg = static_cast<std::size_t>(view->attrs.i(AttrName::arg));
      const std::string name = arg < o_.names.size() ? o_.names[arg] : view->name;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    return names.empty() ? std::string(channel.name.str())
                         : fmt::format("{}", fmt::join(names, " "));
  }

  std::size_t channel_index(std::size_t node) const {
    const Channel* c = j_.channel_of(j_.label(node));
    return c ? static_cast<std::size_t>(c - s_.channels.data()) : kNone;
  }

  std::int64_t fill_number(std::size_t channel, Turn at) const {
    return rings_[channel].is_in_loop ? std::int64_t{at.tile} * o_.iterations + at.iteration
                                      : at.tile;
  }
  Ring::Fill& fill(std::size_t channel, std::int64_t number) {
    auto& fills = rings_[channel].fills;
    if (fills.size() <= static_cast<std::size_t>(number))
      fills.resize(static_cast<std::size_t>(number) + 1);
    return fills[static_cast<std::size_t>(number)];
  }

  // ---- programs
  int groups(std::size_t role) const { return std::max(1, j_.warpgroups(role)); }

  void make_actors(std::size_t role) {
    const Role& r = s_.roles[role];
    const int count = groups(role) * r.copies;
    for (int g = 0; g < count; ++g) {
      Actor& a = actors_.emplace_back();
      a.role = role, a.group = g;
      const std::string name(r.name.str());
      out_.actors.push_back(
          {count > 1 ? fmt::format("{} {}", name, g) : name, role, {}, {}, {}, {}});
      for (int tile = 0; tile < o_.tiles; ++tile)
        if (r.copies == 1 || tile % r.copies == g / groups(role)) add_tile(a, tile);
    }
  }

  /// What stands beside the scheduled loops, in the order of the text, and these.
  void add_tile(Actor& a, int tile) {
    if (s_.loops.empty()) return;
    const RegionId home = g_[*g_.find(s_.loops.front().loop)].region;
    const auto is_of_role = [&](std::size_t n) {
      return (j_.is_copy(n) ? copying_role() : consumer_) == a.role;
    };
    for (std::size_t n : g_.nodes_of(home)) {
      const auto loop = std::ranges::find(s_.loops, j_.label(n), &LoopSchedule::loop);
      if (loop != s_.loops.end())
        add_loop(a, *loop, tile);
      else if (is_of_role(n))
        a.events.push_back({Event::Kind::Node, n, {tile, 0}});
    }
  }

  /// The role that loads in the first loop, which loads in front of it, too.
  std::size_t copying_role() const {
    for (const Step& step : s_.loops.front().steps)
      if (j_.is_copy(*g_.find(step.op))) return step.role;
    return consumer_;
  }

  void add_loop(Actor& a, const LoopSchedule& loop, int tile) {
    const std::vector<std::size_t> nodes = j_.nodes_in_order(loop, a.role);
    if (nodes.empty()) return;
    int last_stage = 0;
    for (std::size_t n : nodes) last_stage = std::max(last_stage, j_.place(n)->stage);
    const auto token = [&](Event::Kind kind, Label Token::* end, Label label, Turn at) {
      for (std::size_t t = 0; t < s_.tokens.size(); ++t)
        if (s_.tokens[t].role == a.role && s_.tokens[t].*end == label)
          a.events.push_back({kind, t, at});
    };
    token(Event::Kind::TakeToken, &Token::first, loop.loop, {tile, 0});
    for (int t = 0; t < o_.iterations + last_stage; ++t)
      for (std::size_t n : nodes) {
        const int i = t - j_.place(n)->stage;
        // Tokens go round in every step, those of parts in front and behind included.
        token(Event::Kind::TakeToken, &Token::first, j_.label(n), {tile, t});
        if (i >= 0 && i < o_.iterations) a.events.push_back({Event::Kind::Node, n, {tile, i}});
        token(Event::Kind::PassToken, &Token::last, j_.label(n), {tile, t});
      }
    a.events.push_back({Event::Kind::Drain, 0, {tile, 0}});
    token(Event::Kind::PassToken, &Token::last, loop.loop, {tile, 0});
  }

  // ---- running
  /// Runs the next event of the actor that can go on first.
  bool step() {
    std::size_t best = kNone;
    double best_at = 0;
    for (std::size_t i = 0; i < actors_.size(); ++i) {
      if (actors_[i].next == actors_[i].events.size()) continue;
      std::string why;
      const auto at = ready(actors_[i], why);
      if (!at || (best != kNone && std::max(*at, actors_[i].now) >= best_at)) continue;
      best = i, best_at = std::max(*at, actors_[i].now);
    }
    if (best == kNone) return false;
    Actor& a = actors_[best];
    std::string why;
    wait_until(a, *ready(a, why), why);
    perform(a, a.events[a.next++]);
    out_.end = std::max(out_.end, a.now);
    return true;
  }

  /// When the actor can go on with its next event; nothing as long as that is not known.
  std::optional<double> ready(const Actor& a, std::string& why) {
    const Event& e = a.events[a.next];
    if (e.kind == Event::Kind::TakeToken) {
      const int holders = groups(a.role) * s_.roles[a.role].copies;
      why = "token " + std::string(s_.tokens[e.index].name.str());
      if (turns_of_tokens_[e.index] % holders != a.group) return std::nullopt;
      return passed_[e.index];
    }
    if (e.kind != Event::Kind::Node) return a.now;
    double at = a.now;
    const std::size_t filled = channel_index(e.index);
    if (filled != kNone && j_.is_copy(e.index)) {
      const std::int64_t number = fill_number(filled, e.turn);
      const std::int64_t before = number - s_.channels[filled].slots;
      if (before >= 0) {
        const Ring::Fill& freed = fill(filled, before);
        if (freed.released < readers(filled)) return std::nullopt;
        if (freed.free > at) at = freed.free, why = "a free slot of " + ring_name(filled);
      }
    }
    for (const Edge& edge : inputs(e.index)) {
      const auto landed = input_at(a, e, edge, why);
      if (!landed) return std::nullopt;
      at = std::max(at, *landed);
    }
    return at;
  }

  /// When what the edge carries is there, if a channel brings it.
  std::optional<double> input_at(const Actor& a, const Event& e, const Edge& edge,
                                 std::string& why) {
    const std::size_t c = channel_index(edge.from);
    if (c == kNone || s_.channels[c].kind == ChannelKind::Register) return a.now;
    const Turn from{e.turn.tile, e.turn.iteration - edge.distance};
    if (from.iteration < 0) return a.now;
    const Ring::Fill& f = fill(c, fill_number(c, from));
    const Channel& channel = s_.channels[c];
    const int parts = rings_[c].is_copied ? 1 : groups(role_of(edge.from));
    if (f.written < parts * static_cast<int>(channel.payload.size())) return std::nullopt;
    if (f.landed > a.now) why = ring_name(c);
    return f.landed;
  }

  std::size_t role_of(std::size_t node) const {
    return j_.place(node) ? j_.place(node)->role : consumer_;
  }
  std::string ring_name(std::size_t channel) const {
    return rings_[channel].drawn == kNone ? std::string(s_.channels[channel].name.str())
                                          : out_.rings[rings_[channel].drawn].name;
  }

  /// Flow edges into a node: those of its loop, and from what is loaded in front of it.
  const std::vector<Edge>& inputs(std::size_t node) {
    if (const auto known = inputs_.find(node); known != inputs_.end()) return known->second;
    std::vector<Edge>& found = inputs_[node];
    // Nodes of a scheduled loop read for themselves what the loop reads.
    if (s_.find_loop(j_.label(node))) return found;
    for (const Edge& e : g_.edges())
      if (e.to == node && e.kind == EdgeKind::Flow) found.push_back(e);
    if (g_[node].kind == NodeKind::Dot)
      for (std::size_t i : {0U, 1U}) {
        const OperandSource source = source_of(k_, g_[node].ops.front(), i);
        const auto from = source.op ? g_.find(source.op) : std::nullopt;
        if (from && source.kind == OperandSource::Kind::Invariant && channel_index(*from) != kNone)
          found.push_back({*from, node, 0, EdgeKind::Flow, {}});
      }
    return found;
  }

  /// Actors that release a fill of the channel.
  int readers(std::size_t channel) {
    if (const auto known = readers_.find(channel); known != readers_.end()) return known->second;
    std::vector<std::size_t> roles;
    for (std::size_t n = 0; n < g_.nodes().size(); ++n)
      for (const Edge& e : inputs(n))
        if (channel_index(e.from) == channel && std::ranges::find(roles, role_of(n)) == roles.end())
          roles.push_back(role_of(n));
    int count = 0;
    for (std::size_t role : roles) count += groups(role);
    return readers_[channel] = count;
  }

  void wait_until(Actor& a, double at, const std::string& why, std::int64_t number = 0) {
    if (at <= a.now) return;
    if (at - a.now >= 1) drawn(a).waits.push_back({a.now, at, number, "", why});
    a.now = at;
  }
  Timeline::Actor& drawn(const Actor& a) {
    return out_.actors[static_cast<std::size_t>(&a - actors_.data())];
  }

  void perform(Actor& a, const Event& e) {
    switch (e.kind) {
      case Event::Kind::TakeToken:
        break;
      case Event::Kind::PassToken:
        ++turns_of_tokens_[e.index];
        passed_[e.index] = a.now + m_.barrier;
        break;
      case Event::Kind::Drain:
        retire(a, a.in_flight.size());
        break;
      case Event::Kind::Node:
        if (j_.is_copy(e.index))
          copy(a, e);
        else
          node(a, e);
    }
  }

  void copy(Actor& a, const Event& e) {
    const std::size_t c = channel_index(e.index);
    Ring::Fill& f = fill(c, fill_number(c, e.turn));
    // Two CTAs that share a box load half of it each.
    const double share = s_.channels[c].multicast ? 0.5 : 1;
    copy_free_ = std::max(copy_free_, a.now) + share * bytes_of(k_, g_[e.index]) / m_.copied_bytes;
    f.landed = std::max(f.landed, copy_free_ + m_.copy_latency);
    ++f.written;
    if (f.drawn == kNone) {
      f.drawn = out_.fills.size();
      const std::int64_t number = fill_number(c, e.turn);
      out_.fills.push_back({rings_[c].drawn, number % s_.channels[c].slots, number, a.now, 0, 0});
    }
    out_.fills[f.drawn].landed = f.landed;
    a.now += m_.issue;
  }

  void node(Actor& a, const Event& e) {
    const DotForm* form = s_.find_dot(j_.label(e.index));
    for (const Edge& edge : inputs(e.index)) need(a, e, edge);
    expect_reads(a, e);
    const Engine engine = form ? form->engine : Engine::Fma;
    const NodeCost cost = cost_of(k_, g_[e.index], engine, groups(a.role), m_);
    if (form && engine == Engine::Wgmma) return issue(a, e, cost);
    const double begin = a.now;
    for (const auto& [unit, cycles] :
         {std::pair(&tensor_free_, 2 * cost.tensor), std::pair(&lanes_free_, cost.lanes),
          std::pair(&exponentials_free_, cost.exponentials)}) {
      if (cycles == 0) continue;
      *unit = std::max(*unit, a.now) + cycles;
      a.now = *unit;
    }
    if (a.now - begin >= 1)
      drawn(a).computes.push_back({begin, a.now, 0, "", std::string(j_.label(e.index).str())});
    for (const Edge& edge : inputs(e.index)) read(a, edge, e.turn);
    publish(a, e);
  }

  /// A tile that threads have stored, for all warpgroups.
  void publish(Actor& a, const Event& e) {
    const std::size_t c = channel_index(e.index);
    if (c == kNone || s_.channels[c].kind != ChannelKind::Smem) return;
    Ring::Fill& f = fill(c, fill_number(c, e.turn));
    ++f.written;
    f.landed = std::max(f.landed, a.now + m_.barrier);
  }

  void issue(Actor& a, const Event& e, const NodeCost& cost) {
    const double begin = std::max(a.now, tensor_free_);
    tensor_free_ = begin + cost.tensor;
    a.in_flight.push_back({e.index, e.turn, tensor_free_ + m_.mma_latency});
    Timeline::Span span{begin, tensor_free_, 0, std::string(j_.label(e.index).str()),
                        drawn(a).name};
    for (const Edge& edge : inputs(e.index))
      if (const std::size_t c = channel_index(edge.from);
          c != kNone && rings_[c].is_copied && rings_[c].is_in_loop)
        span.number = fill_number(c, {e.turn.tile, e.turn.iteration - edge.distance});
    drawn(a).mmas.push_back(span);
    out_.mmas.push_back(std::move(span));
    a.now += m_.issue;
    // The MMA of this dot `in_flight` iterations before is complete behind this.
    const auto& place = j_.place(e.index);
    retire_up_to(a, e.index, {e.turn.tile, e.turn.iteration - (place ? place->in_flight : 0)});
  }

  /// Waits for an MMA whose result the node reads; another MMA adds to it without waiting.
  void need(Actor& a, const Event& e, const Edge& edge) {
    if (g_[edge.from].kind != NodeKind::Dot) return;
    const OpData& d = k_[g_[e.index].ops.front()];
    if (g_[e.index].kind == NodeKind::Dot && edge.value && d.operands[2] == edge.value) return;
    retire_up_to(a, edge.from, {e.turn.tile, e.turn.iteration - edge.distance});
  }

  void retire_up_to(Actor& a, std::size_t dot, Turn turn) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.in_flight.size(); ++i)
      if (a.in_flight[i].node == dot && a.in_flight[i].turn <= turn) count = i + 1;
    retire(a, count);
  }

  void retire(Actor& a, std::size_t count) {
    for (; count > 0; --count) {
      const InFlight mma = a.in_flight.front();
      a.in_flight.pop_front();
      wait_until(a, mma.done, "wgmma", 1);
      for (const Edge& edge : inputs(mma.node)) read(a, edge, mma.turn);
    }
  }

  /// All that this actor's nodes read of the fills that the node reads, once.
  void expect_reads(Actor& a, const Event& e) {
    for (const Edge& edge : inputs(e.index)) {
      const std::size_t c = channel_index(edge.from);
      const int iteration = e.turn.iteration - edge.distance;
      if (c == kNone || iteration < 0) continue;
      a.reads_left.try_emplace({c, fill_number(c, {e.turn.tile, iteration})}, reads_of(a.role, c));
    }
  }

  int reads_of(std::size_t role, std::size_t channel) {
    int count = 0;
    for (std::size_t n = 0; n < g_.nodes().size(); ++n)
      for (const Edge& e : inputs(n))
        if (role_of(n) == role && channel_index(e.from) == channel)
          count += rings_[channel].is_in_loop || !j_.place(n) ? 1 : o_.iterations;
    return count;
  }

  void read(Actor& a, const Edge& edge, Turn turn) {
    const std::size_t c = channel_index(edge.from);
    const int iteration = turn.iteration - edge.distance;
    if (c == kNone || iteration < 0) return;
    const std::int64_t number = fill_number(c, {turn.tile, iteration});
    const auto left = a.reads_left.find({c, number});
    if (left == a.reads_left.end() || --left->second > 0) return;
    a.reads_left.erase(left);
    Ring::Fill& f = fill(c, number);
    ++f.released;
    f.free = std::max(f.free, a.now + m_.barrier);
    if (f.drawn == kNone) return;
    out_.fills[f.drawn].released = f.free;
    drawn(a).releases.push_back({a.now, a.now, number, out_.rings[rings_[c].drawn].name, ""});
  }

  Judging j_;
  const Kernel& k_;
  const Graph& g_;
  const Schedule& s_;
  const TimelineOptions& o_;
  SmModel m_;
  Timeline out_;
  std::size_t consumer_ = 0;
  std::vector<Ring> rings_;  ///< as Schedule::channels
  std::vector<Actor> actors_;
  std::map<std::size_t, std::vector<Edge>> inputs_;
  std::map<std::size_t, int> readers_;
  std::vector<int> turns_of_tokens_;
  std::vector<double> passed_;
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
  return Simulation(k, graph, s, options).run();
}

std::optional<double> cycles_of_iteration(const Kernel& k, const Graph& graph, const Schedule& s) {
  constexpr int kFew = 6, kMany = 18;
  const auto few = timeline_of(k, graph, s, {.iterations = kFew});
  const auto many = timeline_of(k, graph, s, {.iterations = kMany});
  if (!few || !many) return std::nullopt;
  return (many->end - few->end) / (kMany - kFew);
}

}  // namespace tegula::ir
