#include "tools/timeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ir/analysis/channel_trace.h"
#include "ir/op.h"
#include "ir/op_table.h"
#include "tegula/error.h"

namespace tegula::tools {
namespace {

using ir::ChannelEvent;
using Kind = ir::ChannelEvent::Kind;

/// Step of the loop with MMAs.
std::int64_t k_step(const ir::Kernel& k) {
  std::int64_t step = 1;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (k[op].opcode != ir::Opcode::For) return;
    for (ir::OpId inner : k.ops(k[op].regions[0]))
      if (k[inner].opcode == ir::Opcode::DotAsync) {
        const ir::OpId def = k[k[op].operands[2]].def;
        if (def && k[def].opcode == ir::Opcode::Const) step = k[def].attrs.i(ir::AttrName::value);
      }
  });
  return step;
}

/// The unit that an op keeps busy: one lane a cycle and element, unless the table says more.
enum class Unit : std::uint8_t { Lanes, LanesTwice, Exponentials };

Unit unit_of(ir::Opcode op) {
  using enum ir::Opcode;
  static constexpr auto kUnits = ir::op_table<Unit>({{Exp2, Unit::Exponentials},
                                                     {Log2, Unit::Exponentials},
                                                     {Rsqrt, Unit::Exponentials},
                                                     {Rcp, Unit::Exponentials},
                                                     {StoreView, Unit::LanesTwice},
                                                     {LoadView, Unit::LanesTwice},
                                                     {Reduce, Unit::LanesTwice},
                                                     {ConvertLayout, Unit::LanesTwice}});
  return kUnits[static_cast<std::size_t>(op)];
}

/// Cycles that a warpgroup's share of a tile op takes.
double cycles_of(const ir::Kernel& k, ir::OpId op, int warpgroups, const CycleModel& m) {
  const ir::OpData& d = k[op];
  const ir::Value tile = d.opcode == ir::Opcode::StoreView ? d.operands[1]
                         : d.opcode == ir::Opcode::Reduce  ? d.operands[0]
                         : d.results.empty()               ? ir::Value()
                                                           : d.results[0];
  if (!tile || !k.type(tile).is(ir::TypeKind::Tile)) return 0;
  const double elements = static_cast<double>(k.type(tile).count()) / warpgroups;
  const Unit unit = unit_of(d.opcode);
  if (unit == Unit::Exponentials) return elements / m.exponentials;
  if (unit == Unit::LanesTwice) return 2 * elements / m.lanes;
  return ir::info(d.opcode).family == ir::Family::Elementwise ? elements / m.lanes : 0;
}

/// An mbarrier: phases that are complete.
struct Barrier {
  int complete = 0, arrived = 0;
  std::int64_t missing = 0;
  bool is_announced = false;
  double completed_at = 0;  ///< the latest phase
};

/// A role at its next event.
struct Actor {
  std::vector<ChannelEvent> events;
  std::size_t next = 0;
  double now = 0;
  std::optional<double> blocked;  ///< since when
  std::vector<double> in_flight;  ///< ends of MMAs
  bool is_over() const { return next == events.size(); }
};

class Simulation {
 public:
  Simulation(const ir::Kernel& k, const ir::Plan& plan, const std::vector<std::string>& names,
             const CycleModel& model)
      : k_(k),
        plan_(plan),
        names_(names),
        m_(model),
        warpgroups_(std::max(1, plan.consumer_warps() / 4)) {}

  Timeline run(int k_iterations, int tiles) {
    find_rings();
    trace(k_iterations, tiles);
    while (step());
    for (Timeline::Fill& f : out_.fills)
      if (f.released == 0) f.released = out_.end;
    return std::move(out_);
  }

 private:
  void find_rings() {
    ir::walk(k_, k_.body(), [&](ir::OpId op) {
      if (k_[op].opcode != ir::Opcode::CopyTma) return;
      const auto& operands = k_[op].operands;
      if (ring_index(operands[0]) < out_.rings.size()) return;
      const ir::Type type = k_.type(operands[0]);
      const std::int64_t slots = type.shape()[0];
      const auto view = std::ranges::find(k_.params(), operands[3], &ir::Param::value);
      const bool is_param = view != k_.params().end();
      const std::int64_t arg = is_param ? view->attrs.i(ir::AttrName::arg) : -1;
      const bool has_name = arg >= 0 && static_cast<std::size_t>(arg) < names_.size();
      out_.rings.push_back({operands[0], operands[2],
                            has_name   ? names_[static_cast<std::size_t>(arg)]
                            : is_param ? view->name
                                       : "?",
                            arg, slots, type.count() / slots * size_bytes(type.dtype())});
    });
    std::ranges::stable_sort(out_.rings, {}, &Timeline::Ring::arg);
    if (out_.rings.empty())
      throw CompileError(
          Diagnostic{"",
                     "kernel " + k_.info.name + " has no rings to draw",
                     {},
                     {},
                     "only loops of wgmma on sm_90a have: see docs/wgmma-pipeline.md"});
  }

  std::size_t ring_index(ir::Value ring) const {
    return static_cast<std::size_t>(std::ranges::find(out_.rings, ring, &Timeline::Ring::of) -
                                    out_.rings.begin());
  }

  void trace(int k_iterations, int tiles) {
    ir::ChannelExtents extents{
        .extent = k_iterations * k_step(k_), .scalar = k_iterations, .outer_trips = tiles};
    const bool has_producer = plan_.producer_warps > 0;
    if (has_producer) {
      out_.roles.push_back({"producer", {}, {}, {}, {}});
      actors_.emplace_back().events = ir::channel_trace(k_, ir::ChannelRole::Producer, extents);
    }
    // Warpgroups that take turns, at tiles or at MMAs, have traces of their own.
    if (plan_.pingpong || plan_.warp_scheduler_barrier) extents.groups = warpgroups_;
    for (int g = 0; g < warpgroups_; ++g) {
      extents.group = extents.groups > 1 ? g : 0;
      out_.roles.push_back({fmt::format("consumer {}", g), {}, {}, {}, {}});
      const bool copies = !has_producer && g == 0;
      actors_.emplace_back().events = ir::channel_trace(
          k_, copies ? ir::ChannelRole::Unified : ir::ChannelRole::Consumer, extents);
    }
  }

  /// Runs the earliest of what can happen: a load that lands, or a role's next event.
  bool step() {
    std::size_t best = actors_.size();
    for (std::size_t i = 0; i < actors_.size(); ++i)
      if (!actors_[i].is_over() && !is_blocked(actors_[i]) &&
          (best == actors_.size() || actors_[i].now < actors_[best].now))
        best = i;
    const bool lands = !landings_.empty() &&
                       (best == actors_.size() || landings_.begin()->first <= actors_[best].now);
    if (lands) {
      land();
      return true;
    }
    if (best == actors_.size()) return false;
    perform(best);
    return true;
  }

  bool is_blocked(Actor& a) {
    const ChannelEvent& e = a.events[a.next];
    const bool waits = e.kind == Kind::Wait && barrier(e.at).complete % 2 == e.number;
    const bool queues = e.kind == Kind::OrderWait && turn_ != e.number;
    if (!e.computed.empty() || (!waits && !queues)) return false;
    if (!a.blocked) a.blocked = a.now;
    return true;
  }

  /// The ops that made tiles in front of the next event.
  void compute(Actor& a) {
    const std::vector<ir::OpId> computed = std::exchange(a.events[a.next].computed, {});
    double cycles = 0;
    std::map<std::string_view, int> ops;
    for (ir::OpId op : computed) {
      const double more = cycles_of(k_, op, warpgroups_per_tile(), m_);
      if (more > 0) ++ops[ir::info(k_[op].opcode).mnemonic];
      cycles += more;
    }
    if (cycles < 1) return;
    std::vector<std::string> names;
    for (const auto& [name, count] : ops) names.push_back(fmt::format("{} {}", count, name));
    role(a).computes.push_back(
        {a.now, a.now + cycles, 0, "", fmt::format("{}", fmt::join(names, ", "))});
    a.now += cycles;
  }

  void perform(std::size_t index) {
    Actor& a = actors_[index];
    const ChannelEvent& e = a.events[a.next];
    if (!e.computed.empty()) return compute(a);  // others may come first then
    if (a.blocked) {
      a.now = std::max(a.now, e.kind == Kind::Wait ? barrier(e.at).completed_at : turn_since_);
      if (a.now - *a.blocked >= 1)
        role(a).waits.push_back({*a.blocked, a.now, 0, "", wait_note(e)});
      a.blocked.reset();
    }
    ++a.next;
    act(a, e);
    out_.end = std::max(out_.end, a.now);
  }

  void act(Actor& a, const ChannelEvent& e) {
    switch (e.kind) {
      case Kind::Expect: {
        Barrier& b = barrier(e.at);
        b.missing += e.number;
        b.is_announced = true;
        break;
      }
      case Kind::Copy:
        copy(a, e);
        break;
      case Kind::Mma:
        multiply(a, e);
        break;
      case Kind::MmaWait:
        wait_for_mmas(a, e);
        break;
      case Kind::Release:
        release(a, e);
        break;
      case Kind::OrderArrive:
        turn_ = e.number;
        turn_since_ = a.now;
        break;
      default:
        break;
    }
  }

  void copy(Actor& a, const ChannelEvent& e) {
    const std::size_t ring = ring_index(e.at.of);
    if (ring == out_.rings.size())
      return arrive_bytes(e.channel, e.number, a.now);  // a tile's number
    // Two CTAs that share a box bring half of it each.
    const double share = e.signals == ChannelEvent::SignalScope::BothCtas ? 0.5 : 1;
    tma_free_ =
        std::max(tma_free_, a.now) + share * static_cast<double>(e.number) / m_.copied_bytes;
    const double landed = tma_free_ + m_.latency;
    const std::int64_t number = filled_[ring]++;
    current_[{ring, e.at.slot}] = out_.fills.size();
    out_.fills.push_back({ring, e.at.slot, number, a.now, landed, 0});
    landings_.insert({landed, {e.channel, e.number}});
    a.now += kIssue;
  }

  void land() {
    const auto [when, what] = *landings_.begin();
    landings_.erase(landings_.begin());
    arrive_bytes(what.first, what.second, when);
  }

  void arrive_bytes(const ir::SlotRef& channel, std::int64_t bytes, double when) {
    Barrier& b = barrier(channel);
    b.missing -= bytes;
    if (!b.is_announced || b.missing != 0) return;
    b.is_announced = false;
    ++b.complete;
    b.completed_at = when;
  }

  void multiply(Actor& a, const ChannelEvent& e) {
    const ir::OpData& d = k_[e.op];
    const ir::Type sums = k_.type(d.results[0]), lhs = k_.type(d.operands[1]);
    const std::int64_t depth = lhs.shape().back();
    const double work = static_cast<double>(sums.count()) * static_cast<double>(depth) /
                        warpgroups_per_tile() * size_bits(lhs.dtype()) / 16;
    const double begin = std::max(a.now, tensor_free_);
    tensor_free_ = begin + work / m_.multiply_adds;
    a.in_flight.push_back(tensor_free_);
    Timeline::Span span{begin, tensor_free_, 0, "", role(a).name};
    for (const ir::SlotRef& read : e.reads) {
      const std::size_t ring = ring_index(read.of);
      if (ring == out_.rings.size()) continue;
      span.text = out_.rings[ring].name;
      if (const auto at = current_.find({ring, read.slot}); at != current_.end())
        span.number = out_.fills[at->second].number;
    }
    role(a).mmas.push_back(span);
    out_.mmas.push_back(std::move(span));
    a.now += kIssue;
  }

  void wait_for_mmas(Actor& a, const ChannelEvent& e) {
    const auto left = static_cast<std::size_t>(e.number);
    if (a.in_flight.size() <= left) return;
    const double done = a.in_flight[a.in_flight.size() - left - 1];
    if (done > a.now) {
      role(a).waits.push_back({a.now, done, 1, "", "wgmma"});
      a.now = done;
    }
    a.in_flight.erase(a.in_flight.begin(), a.in_flight.end() - static_cast<std::ptrdiff_t>(left));
  }

  void release(Actor& a, const ChannelEvent& e) {
    Barrier& b = barrier(e.at);
    const auto filled = fills_of(e.at);
    for (const std::size_t f : filled) {
      role(a).releases.push_back(
          {a.now, a.now, out_.fills[f].number, out_.rings[out_.fills[f].ring].name, ""});
      out_.fills[f].released = a.now;
    }
    if (++b.arrived < (plan_.pingpong ? 1 : warpgroups_)) return;
    b.arrived = 0;
    ++b.complete;
    b.completed_at = a.now;
  }

  /// The fills that a release of this channel's slot frees: those of the rings whose copies wait
  /// for it.
  std::vector<std::size_t> fills_of(const ir::SlotRef& empty) {
    if (guards_.empty()) learn_guards();
    std::vector<std::size_t> found;
    for (std::size_t ring = 0; ring < out_.rings.size(); ++ring)
      if (guards_[out_.rings[ring].of] == empty.of)
        if (const auto at = current_.find({ring, empty.slot}); at != current_.end())
          found.push_back(at->second);
    return found;
  }
  void learn_guards() {
    ir::Value waited, guard;
    for (const ChannelEvent& e : actors_.front().events) {
      if (e.kind == Kind::Wait) waited = e.at.of;
      if (e.kind == Kind::Expect) guard = std::exchange(waited, {});
      if (e.kind == Kind::Copy && guard) guards_[e.at.of] = guard;
    }
  }

  std::string wait_note(const ChannelEvent& e) const {
    if (e.kind == Kind::OrderWait) return "its turn";
    for (const Timeline::Ring& r : out_.rings)
      if (r.full == e.at.of) return fmt::format("full[{}] of {}", e.at.slot, r.name);
    return fmt::format("empty[{}]", e.at.slot);
  }

  /// Warpgroups that compute one tile together.
  int warpgroups_per_tile() const { return plan_.pingpong ? 1 : warpgroups_; }
  Barrier& barrier(const ir::SlotRef& s) { return barriers_[{s.of.index, s.slot}]; }
  Timeline::Role& role(const Actor& a) {
    return out_.roles[static_cast<std::size_t>(&a - actors_.data())];
  }

  static constexpr double kIssue = 20;  ///< cycles to issue a load or an MMA

  const ir::Kernel& k_;
  const ir::Plan& plan_;
  const std::vector<std::string>& names_;
  CycleModel m_;
  int warpgroups_;
  Timeline out_;
  std::vector<Actor> actors_;
  std::map<std::pair<std::uint32_t, std::int64_t>, Barrier> barriers_;
  std::multimap<double, std::pair<ir::SlotRef, std::int64_t>> landings_;
  std::map<std::size_t, std::int64_t> filled_;
  std::map<std::pair<std::size_t, std::int64_t>, std::size_t> current_;  ///< fill of a slot
  std::map<ir::Value, ir::Value> guards_;
  double tma_free_ = 0, tensor_free_ = 0;
  std::int64_t turn_ = 0;
  double turn_since_ = 0;
};

}  // namespace

Timeline timeline_of(const ir::Kernel& machine, const ir::Plan& plan, int k_iterations, int tiles,
                     const std::vector<std::string>& names, const CycleModel& model) {
  return Simulation(machine, plan, names, model).run(k_iterations, tiles);
}

}  // namespace tegula::tools
