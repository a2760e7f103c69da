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
// MMA runs. Accumulators that nothing else reads stay pending around the loop; GEMM1 of
// back-to-back GEMMs may be skewed (skew_back_to_back_mma.cpp); others are waited for at once.
// Loops that this does not fit (operands that dots compute for others, one tile read in several
// forms, stores in the loop) are expanded from the graph of their dots
// (dot_graph/expand_dot_graph.cpp). (CUTLASS, sm90 TMA mainloops; PTX ISA, "Asynchronous Warpgroup
// Level Matrix Instructions".)
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ir/analysis/index_facts.h"
#include "ir/analysis/pingpong_loop.h"
#include "ir/loop.h"
#include "ir/passes/dot_graph/expand_dot_graph.h"
#include "ir/passes/mma_loop/epilogue_overlap.h"
#include "ir/pipeline.h"
#include "ir/schedule/to_plan.h"

namespace tegula::ir {
namespace {

/// Pipeline without skew: every MMA is waited for in its own iteration, or, if nothing else reads
/// the accumulators, in the next one.
class InOrderMma {
 public:
  explicit InOrderMma(MmaLoop& l) : l_(l), k_(l.k), pending_(pending_accumulators()) {
    // A tile of A in registers belongs to the MMA of its iteration: it cannot outlive that.
    const bool in_ring = std::ranges::all_of(
        l_.dots, [&](OpId dot) { return l_.load_of(k_[dot].operands[0]) != nullptr; });
    in_flight_ = in_ring ? static_cast<int>(pending_.size()) : 0;
  }
  bool overlaps() const { return in_flight_ > 0; }

  void run() {
    OperandPipeline& pipeline = l_.pipelines[0];
    l_.read_aux();
    const RingPosition at = l_.add_carry(pipeline.begin);
    Builder head = l_.before(k_[l_.body].first);
    l_.fill_aux(head);
    if (pending_.empty()) l_.prefetch_next(head, pipeline, at);
    pipeline.ring.wait(head, at);
    l_.wait_stationary(head);
    if (!pending_.empty()) {
      pending_mma(at);
    } else {
      for (OpId dot : l_.dots) complete(dot, at);
      Builder tail = l_.before(k_.terminator(l_.body));
      pipeline.ring.release(tail, at.slot, tail.flag(true));
    }
    l_.advance(pipeline, at);
    const auto& results = k_[l_.loop].results;
    pipeline.end = {results[results.size() - 2], results[results.size() - 1]};
    l_.end_aux(l_.loop);
    Builder b = Builder::behind(k_, l_.loop);
    if (l_.is_skipped_by_other_warpgroup()) pipeline.end = l_.end_position(b, pipeline);
    const Value first = k_[l_.loop].operands[0], end = k_[l_.loop].operands[1];
    const bool always = IndexFacts(k_).is_less(first, end);
    if (always) k_[l_.loop].attrs.set(AttrName::has_trip, std::int64_t{1});
    const Value runs = always ? b.flag(true) : b.cmp("lt", first, end);
    if (!pending_.empty()) finish_pending(b, runs, always);
    l_.release_stationary(b, runs);
    l_.stationary_end = l_.next_stationary(b, runs);
    l_.sync_before_reuse(b);
  }

 private:
  /// A carry that an MMA of the loop adds to and that nothing else reads.
  struct PendingAccumulator {
    std::size_t carry;
    Value init = {};
  };

  /// One for each MMA, or none if one of them has another use or does not start at zero, or if
  /// others wait within the iteration.
  std::vector<PendingAccumulator> pending_accumulators() const {
    if (l_.has_inner_mma()) return {};
    std::vector<PendingAccumulator> pending;
    for (OpId dot : l_.dots) {
      const auto carry = pending_carry(dot);
      if (!carry) return {};
      pending.push_back({*carry});
    }
    return pending;
  }

  std::optional<std::size_t> pending_carry(OpId dot) const {
    const Value sum = k_[dot].results[0], acc = k_[dot].operands[2];
    const OpId yield = k_.terminator(l_.body);
    for (std::size_t i = 0; i < k_[yield].operands.size(); ++i)
      if (k_[yield].operands[i] == sum && body_carries(k_, l_.loop)[i] == acc &&
          l_.uses(sum) == 1 && l_.uses(acc) == 1 && is_zero(k_, loop_inits(k_[l_.loop])[i]))
        return i;
    return std::nullopt;
  }

  /// The first op behind a loop's only MMA that may not run beside it: one that reads the result,
  /// or has effects or regions.
  OpId end_of_overlap(OpId dot) const {
    if (l_.dots.size() != 1) return {};
    OpId op = k_[dot].next;
    const auto may_overlap = [&](const OpData& d) {
      const OpInfo& row = info(d.opcode);
      return (row.has(kPure) || row.has(kReads)) && !row.has(kWrites) && !row.has(kEffects) &&
             d.regions.empty() &&
             std::ranges::find(d.operands, k_[dot].results[0]) == d.operands.end();
    };
    while (may_overlap(k_[op])) op = k_[op].next;
    return op;
  }

  void complete(OpId dot, RingPosition at) {
    Builder b = l_.before(dot);
    b.loc = k_[dot].loc;
    const Value done =
        l_.complete(b, dot, k_[dot].operands[2], k_[dot].operands[0], at, end_of_overlap(dot));
    k_.replace_all_uses(k_[dot].results[0], done);
    k_.erase(dot);
  }

  /// The carry of the sum is pending from here on, and begins as nothing.
  Type make_pending(PendingAccumulator& acc) {
    const std::size_t i = acc.carry;
    acc.init = loop_inits(k_[l_.loop])[i];
    const Type pending = Type::pending(k_.type(acc.init));
    Builder outside = l_.before(l_.loop);
    loop_inits(k_[l_.loop])[i] = outside.op(Opcode::Poison, {}, pending);
    k_.set_type(body_carries(k_, l_.loop)[i], pending);
    k_.set_type(k_[l_.loop].results[i], pending);
    return pending;
  }

  /// Issues all MMAs together, at the position of the last one.
  void pending_mma(RingPosition at) {
    Builder b = l_.before(l_.dots.back());
    b.loc = k_[l_.dots.back()].loc;
    const Value later = b.cmp("ne", k_[l_.body].args[0], k_[l_.loop].operands[0]);
    std::vector<Value> issued, in_registers;
    std::vector<Type> types;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      const OpId dot = l_.dots[i];
      const Value a = k_[dot].operands[0];
      types.push_back(make_pending(pending_[i]));
      b.loc = k_[dot].loc;
      issued.push_back(
          l_.issue(b, dot, body_carries(k_, l_.loop)[pending_[i].carry], a, later, at));
      if (!l_.load_of(a)) in_registers.push_back(a);
    }
    const std::vector<Value> accumulators =
        MmaLoop::wait(b, issued, types, in_flight_, std::move(in_registers));
    // Each wait completes the MMAs of the previous iteration: their slot has been read.
    const ChannelRing& ring = l_.pipelines[0].ring;
    if (overlaps())
      ring.release(b, ring.back(b, at, 1).slot, later);
    else
      ring.release(b, at.slot, b.flag(true));
    l_.prefetch_next(b, l_.pipelines[0], at);
    for (std::size_t i = 0; i < accumulators.size(); ++i) {
      k_.replace_all_uses(k_[l_.dots[i]].results[0], accumulators[i]);
      k_.erase(l_.dots[i]);
    }
  }

  /// After the loop: waits for the last MMAs, and selects the result of an empty loop unless it
  /// `always` runs.
  void finish_pending(Builder& b, Value runs, bool always) {
    std::vector<Value> carried, placeholders;
    std::vector<Type> types;
    for (const PendingAccumulator& acc : pending_) {
      carried.push_back(k_[l_.loop].results[acc.carry]);
      types.push_back(k_.type(acc.init));
      placeholders.push_back(b.op(Opcode::Poison, {}, types.back()));
      k_.replace_all_uses(carried.back(), placeholders.back());
    }
    const std::vector<Value> done = MmaLoop::wait(b, carried, types, 0);
    const OperandPipeline& pipeline = l_.pipelines[0];
    if (overlaps()) pipeline.ring.release(b, pipeline.ring.back(b, pipeline.end, 1).slot, runs);
    for (std::size_t i = 0; i < done.size(); ++i) {
      k_.replace_all_uses(placeholders[i],
                          always ? done[i] : b.select(runs, done[i], pending_[i].init));
      k_.erase(k_[placeholders[i]].def);
    }
  }

  MmaLoop& l_;
  Kernel& k_;
  std::vector<PendingAccumulator>
      pending_;        ///< accumulators that stay pending around the loop, one per MMA
  int in_flight_ = 0;  ///< MMAs that a wait leaves in flight
};

void run_skewed(MmaLoop& loop, std::size_t acc) {
  auto tiles = EpilogueOverlap::of(loop, loop.dots[1], acc);
  if (tiles) tiles->enter();
  loop.read_aux();
  loop.fill_prologue(1);
  skew_back_to_back_mma(loop, acc, tiles ? &*tiles : nullptr);
  loop.finish();
  if (tiles) tiles->close();
}

/// Loops that the two pipelines refuse: any other graph of dots. Each is expanded from the steps of
/// a Schedule.
class GraphLoops {
 public:
  GraphLoops(Kernel& k, const Plan& plan, PassContext& context)
      : k_(k), plan_(plan), context_(context) {
    // With the labels of the kernel as it was, in front of all loops.
    if (begins_with_schedule(context.plan_changes)) graph_.emplace(k);
  }

  bool rewrite(OpId op) {
    MmaLoop loop(k_, op, plan_, context_);
    bool has_dot = false;
    for (OpId o : k_.ops(loop.body)) has_dot |= k_[o].opcode == Opcode::Dot;
    if (!has_dot) return false;
    auto dots = dot_graph(k_, op, plan_.num_warps, context_);
    if (!dots || !loop.find_outer_loops()) return false;
    for (const GraphDot& dot : dots->dots)
      context_.remark(Remark::Kind::Applied, k_[dot.op].loc, "dot by wgmma",
                      {{"sum", k_.type(k_[dot.op].results[0]).with_layout(nullptr).str()},
                       {"a", name(dot.operands[0])},
                       {"b", name(dot.operands[1])}});
    if (!graph_) graph_.emplace(k_);
    LoopOrder order = loop_order(k_, *graph_, *dots, steps_of(k_, *graph_, *dots, context_));
    expand_dot_graph(loop, std::move(*dots), std::move(order), plan_, context_);
    return true;
  }

 private:
  Kernel& k_;
  const Plan& plan_;
  PassContext& context_;
  std::optional<Graph> graph_;
};

bool rewrite(Kernel& k, OpId op, const Plan& plan, PassContext& context, GraphLoops& graphs) {
  MmaLoop loop(k, op, plan, context);
  const std::size_t remarks = context.remarks.size();
  if (!loop.analyze()) {
    std::vector<Remark> why(context.remarks.begin() + static_cast<std::ptrdiff_t>(remarks),
                            context.remarks.end());
    context.remarks.resize(remarks);
    if (graphs.rewrite(op)) return true;
    context.remarks.resize(remarks);
    std::ranges::move(why, std::back_inserter(context.remarks));
    return false;
  }
  // Ping-pong tiles pass the order on once per tile; a skewed loop would do so in between.
  const auto skewed = plan.pingpong ? std::nullopt : skewed_accumulator(loop);
  InOrderMma in_order(loop);
  for (OpId dot : loop.dots) {
    const bool overlaps = skewed ? dot == loop.dots[1] : in_order.overlaps();
    context.remark(Remark::Kind::Applied, k[dot].loc, "dot by wgmma",
                   {{"sum", k.type(k[dot].results[0]).with_layout(nullptr).str()},
                    {"overlapped", overlaps ? "1" : "0"}});
  }
  loop.allocate(skewed.has_value());
  if (skewed) {
    run_skewed(loop, *skewed);
  } else {
    loop.fill_prologue(0);
    in_order.run();
    loop.finish();
  }
  return true;
}

/// Ping-pong: the MMAs of a tile come after those of the previous one. A wait tells phases of a
/// slot apart only by their parity, so nobody may wait for a slot more than one phase ahead. The
/// warpgroup that has issued its MMAs passes the order on, and the rest of its tile overlaps the
/// next one.
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
  Builder wait(k), arrive = Builder::behind(k, last);
  wait.before(first);
  wait.loc = arrive.loc = k[first].loc;
  wait.effect(Opcode::OrderWait, {});
  arrive.effect(Opcode::OrderArrive, {});
}

/// Why no mainloop has this dot; empty if the loop's own remark says it.
std::string_view why_in_no_loop(const Kernel& k, OpId dot) {
  bool is_in_loop = false;
  for (RegionId r = k[dot].parent; k[r].owner; r = k[k[r].owner].parent) {
    const OpData& owner = k[k[r].owner];
    if (owner.opcode == Opcode::If)
      return "it stands in a branch (if_), where copies cannot run ahead of the iterations";
    if (owner.opcode == Opcode::While && owner.parent != k.body())
      return "it stands in a while_ loop, whose iterations cannot be counted ahead";
    is_in_loop |= owner.opcode == Opcode::For;
  }
  return is_in_loop ? "" : "it stands in no loop";
}

void tell_others(const Kernel& k, PassContext& context) {
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::Dot) return;
    if (const std::string_view why = why_in_no_loop(k, op); !why.empty())
      context.remark(Remark::Kind::Missed, k[op].loc, "no wgmma but mma.sync",
                     {{"sum", k.type(k[op].results[0]).with_layout(nullptr).str()},
                      {"why", std::string(why)}});
  });
}

}  // namespace

bool pipeline_wgmma(Kernel& kernel, PassContext& context) {
  const Plan plan = context.plan.value_or(Plan{});
  if (!plan.wgmma || plan.stages < 2) return false;
  bool changed = false;
  GraphLoops graphs(kernel, plan, context);
  for (OpId loop : loops_of(kernel)) changed |= rewrite(kernel, loop, plan, context, graphs);
  tell_others(kernel, context);
  if (changed && plan.pingpong) order_warpgroups(kernel);
  return changed;
}

}  // namespace tegula::ir
