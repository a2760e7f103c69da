// Turns the dots of a mainloop into wgmmas whose operands TMA loads into a ring of slots.
//
// Before:
//     for k { a = load_view A[.., k]; b = load_view B[k, ..]; c = dot a, b, c }
// After, with loads of stages - 1 iterations in flight:
//     for k, slot, phase {
//       channel_wait slot, phase; c = dot_async c, ring_a[slot], ring_b[slot]; dot_wait 1
//       channel_release slot - 1; the producer thread waits for all releases and loads iteration
//       k + stages - 1
//     }
// Each wait completes the MMA of the previous iteration, whose slot is then free, while the current
// MMA runs. Loops, including GEMMs and back-to-back GEMMs, are expanded from their dot graph
// (dot_graph/expand_dot_graph.cpp). (CUTLASS, sm90 TMA mainloops;
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".)
#include <algorithm>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/analysis/pingpong_loop.h"
#include "ir/analysis/warp_exchange.h"
#include "ir/passes/dot_graph/expansion.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// The mainloops of a kernel, expanded from the steps of a Schedule.
class Mainloops {
 public:
  Mainloops(Kernel& k, const Plan& plan, PassContext& context)
      : k_(k), plan_(plan), context_(context) {
    // With the labels of the original kernel, before all loops.
    if (context.planned.schedule) graph_.emplace(Graph::without_edges(k));
  }

  /// Expands the loops. An expanded loop is rebuilt, with copies of the loops in it.
  bool rewrite() {
    bool changed = false;
    std::unordered_set<OpId> seen;
    const auto is_new = [&](OpId loop) { return seen.insert(loop).second; };
    for (std::vector<OpId> loops = loops_of(k_);;) {
      const auto next = std::ranges::find_if(loops, is_new);
      if (next == loops.end()) return changed;
      if (!rewrite(*next)) continue;
      changed = true;
      loops = loops_of(k_);
    }
  }

 private:
  bool rewrite(OpId op) {
    MmaLoop loop(k_, op, plan_, context_);
    const OpId dot = first_dot(k_, loop.body);
    if (!dot) return false;
    const Result<DotGraph> found = dot_graph(k_, op, plan_.num_warps, context_);
    if (!found || !found->runs_ahead) {
      const std::string why = found ? "TMA cannot load an operand ahead" : found.reason();
      context_.remark(Remark::Kind::Missed, k_[dot].loc, "no wgmma: " + why);
      return false;
    }
    if (found->has_channels() && !loop.find_outer_loops()) return false;
    DotGraph dots = *found;
    // Ping-pong tiles pass the order on once per tile; a skewed loop would pass it on in between.
    if (dots.is_gemm() && !plan_.pingpong && late_gemm(k_, dots)) dots.rings = RingGrouping::Skewed;
    LoopOrder order = order_of(dots);
    const bool is_skewed = order.last_stage > 0;
    std::unordered_map<OpId, Label> labels;  // they are gone after the expansion
    for (const GraphDot& dot : dots.dots) labels[dot.op] = label(graph_->label_of(dot.op));
    const auto lasting = Expansion(loop, std::move(dots), std::move(order), plan_).run(context_);
    if (is_skewed) return true;
    // The expansion may not keep MMAs in flight; the extracted Schedule reports what it did.
    std::vector<Label> kept;
    for (OpId dot_op : lasting) kept.push_back(labels.at(dot_op));
    for (Step& step : context_.expanded.back().steps.steps)
      if (std::ranges::find(kept, step.op) == kept.end()) step.in_flight = 0;
    return true;
  }

  /// Applies channels, their slots and the order of loads from the author's Schedule.
  void ask_schedule(DotGraph& dots) const {
    if (!context_.planned.schedule) return;
    const Schedule& s = *context_.planned.schedule;
    for (auto* loads : {&dots.loads, &dots.gathers})
      for (OperandLoad& load : *loads) {
        if (const Channel* c = s.find_channel(graph_->label_of(load.load))) {
          load.channel = static_cast<int>(c - s.channels.data());
          load.slots = c->slots;
          load.no_multicast = !c->multicast;
        }
        for (const LoopSchedule& loop : s.loops)
          for (const Step& step : loop.steps)
            if (step.op == graph_->label_of(load.load)) load.order = step.order;
      }
    for (Value tile : dots.shared)
      if (const Channel* c = s.find_channel(graph_->label_of(k_[tile].def)))
        dots.slots[tile] = c->slots;
  }

  LoopOrder order_of(DotGraph& dots) {
    // A loop inside an expanded one is a copy.
    if (!graph_ || !graph_->find(dots.loop)) graph_.emplace(Graph::without_edges(k_));
    ask_schedule(dots);
    const PlacementConstraints special = placement_constraints(k_, dots);
    LoopSchedule steps = steps_of(k_, *graph_, dots, special, context_);
    LoopOrder order = loop_order(k_, *graph_, dots, special, steps);
    if (plan_.warp_scheduler_barrier && !plan_.pingpong)
      order.section = ordered_section_of(*graph_, dots, order, context_.planned.schedule.get());
    if (order.section.first && syncs_within(order)) {
      context_.remark(Remark::Kind::Missed, k_[dots.loop].loc,
                      "no warp_scheduler_barrier: warpgroups exchange elements between their MMAs");
      order.section = {};
    }
    steps.loop = label(steps.loop);
    for (Step& step : steps.steps) step.op = label(step.op);
    context_.expanded.push_back({std::move(steps), token_of(order.section)});
    return order;
  }

  /// Returns true if all warpgroups synchronise within the turn of one, which would never end.
  bool syncs_within(const LoopOrder& order) const {
    const auto first = std::ranges::find(order.ops, order.section.first, &ScheduledOp::op),
               last = std::ranges::find(order.ops, order.section.last, &ScheduledOp::op);
    const auto exchanges = [&](OpId op) { return exchanges_between_warps(k_, k_[op]); };
    return std::any_of(first, last, [&](const ScheduledOp& scheduled) {
      return any_op(k_, scheduled.op, exchanges);
    });
  }

  /// Returns the label attribute of the node's op, or else `node`.
  Label label(Label node) const {
    const auto found = graph_->find(node);
    const std::string_view given =
        found ? k_[(*graph_)[*found].ops.front()].attrs.s(AttrName::label) : std::string_view();
    return given.empty() ? node : Label(given);
  }

  std::optional<Token> token_of(const OrderedSection& section) const {
    if (!section.first) return std::nullopt;
    return Token{"mma", 0, label(graph_->label_of(section.first)),
                 label(graph_->label_of(section.last))};
  }

  Kernel& k_;
  const Plan& plan_;
  PassContext& context_;
  std::optional<Graph> graph_;
};

/// Ping-pong: the MMAs of a tile come after those of the previous one. A wait distinguishes phases
/// of a slot only by their parity, so no wait may be more than one phase ahead. The warpgroup that
/// has issued its MMAs passes the order on, and the rest of its tile overlaps the next one.
void order_warpgroups(Kernel& k) {
  const OpId loop = pingpong_loop(k);
  if (!loop) return;
  OpId first, last;
  for (OpId op : k.ops(k[loop].regions[0])) {
    if (k[op].regions.empty() ||
        !any_op(k, op, [&](OpId o) { return k[o].opcode == Opcode::DotAsync; }))
      continue;
    if (!first) first = op;
    last = op;
  }
  if (!first) return;
  Builder wait(k), arrive = Builder::after(k, last);
  wait.before(first);
  wait.loc = arrive.loc = k[first].loc;
  wait.effect(Opcode::OrderWait, {});
  arrive.effect(Opcode::OrderArrive, {});
}

/// Returns why the dot is in no mainloop; empty if the loop's own remark gives the reason.
std::string_view why_in_no_loop(const Kernel& k, OpId dot) {
  bool is_in_loop = false;
  for (RegionId r = k[dot].parent; k[r].owner; r = k[k[r].owner].parent) {
    const OpData& owner = k[k[r].owner];
    if (owner.opcode == Opcode::If)
      return "it is in a branch (if_), where copies cannot run ahead of the iterations";
    if (owner.opcode == Opcode::While && owner.parent != k.body())
      return "it is in a while_ loop, whose iterations cannot be counted ahead";
    is_in_loop |= owner.opcode == Opcode::For;
  }
  return is_in_loop ? "" : "it is not in a loop";
}

void remark_unpipelined_dots(const Kernel& k, PassContext& context) {
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::Dot) return;
    if (const std::string_view why = why_in_no_loop(k, op); !why.empty())
      context.remark(Remark::Kind::Missed, k[op].loc, "mma.sync instead of wgmma",
                     {{"sum", k.type(k[op].results[0]).with_layout(nullptr).str()},
                      {"why", std::string(why)}});
  });
}

}  // namespace

bool pipeline_wgmma(Kernel& kernel, PassContext& context) {
  const Plan plan = context.plan.value_or(Plan{});
  if (!plan.wgmma || plan.stages < 2) return false;
  const bool changed = Mainloops(kernel, plan, context).rewrite();
  remark_unpipelined_dots(kernel, context);
  if (changed && plan.pingpong) order_warpgroups(kernel);
  return changed;
}

}  // namespace tegula::ir
