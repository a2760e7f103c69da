// Matrix products of a loop become wgmmas whose operands TMA brings into a ring of slots.
//
// Before:
//     for k { a = load_view A[.., k]; b = load_view B[k, ..]; c = dot a, b, c }
// After, with copies of stages - 1 steps in flight:
//     for k, slot, phase {
//       channel_wait slot, phase; c = dot_async c, ring_a[slot], ring_b[slot]; dot_wait 1
//       channel_release slot - 1; the leader waits for all releases and copies step k + stages - 1
//     }
// Each wait completes the product of the step before, so that slot is free, while the current
// product runs. A sum that only one product adds to stays pending round the loop; of two products,
// the second may run a step late (late_product.cpp); others are waited for at once. (CUTLASS, sm90
// TMA mainloops; PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".)
#include <optional>

#include "ir/analysis/bounds.h"
#include "ir/passes/product_loop.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

/// One turn after another: every product is waited for in its own step, or, where the loop has one
/// whose sum nothing else reads, in the next.
class TurnByTurn {
 public:
  explicit TurnByTurn(ProductLoop& l) : l_(l), k_(l.k), pending_(pending_sum()) {
    // A tile of A in registers belongs to its step's product: it cannot outlive the step.
    in_flight_ = pending_ && l.load_of(k_[l.dots[0]].operands[0]) ? 1 : 0;
  }
  bool overlaps() const { return in_flight_ == 1; }

  void run() {
    Feed& feed = l_.feeds[0];
    const RingPosition at = l_.add_carry(feed.begin);
    Builder head = l_.before(k_[l_.body].first);
    if (!pending_) l_.fill_ahead(head, feed, at);
    feed.ring.wait(head, at);
    l_.wait_once(head);
    if (pending_) {
      pending_product(at);
    } else {
      for (OpId dot : l_.dots) product(dot, at);
      Builder tail = l_.before(k_.terminator(l_.body));
      feed.ring.release(tail, at.slot, tail.flag(true));
    }
    l_.advance(feed, at);
    const auto& results = k_[l_.loop].results;
    feed.end = {results[results.size() - 2], results[results.size() - 1]};
    Builder b = behind(k_, l_.loop);
    const Value runs = b.cmp("lt", k_[l_.loop].operands[0], k_[l_.loop].operands[1]);
    if (pending_) finish_pending(b, runs);
    l_.once_end = l_.release_once(b, runs);
    l_.meet(b);
  }

 private:
  /// Position of the carry that the loop's only product adds to and that nothing else reads, if it
  /// starts at zero.
  std::optional<std::size_t> pending_sum() const {
    if (l_.dots.size() != 1) return std::nullopt;
    const Value sum = k_[l_.dots[0]].results[0], acc = k_[l_.dots[0]].operands[2];
    const OpId yield = k_.terminator(l_.body);
    for (std::size_t i = 0; i < k_[yield].operands.size(); ++i)
      if (k_[yield].operands[i] == sum && k_[l_.body].args[i + 1] == acc && l_.uses(sum) == 1 &&
          l_.uses(acc) == 1 && is_zero(k_, k_[l_.loop].operands[3 + i]))
        return i;
    return std::nullopt;
  }

  void product(OpId dot, RingPosition at) {
    Builder b = l_.before(dot);
    b.loc = k_[dot].loc;
    const Value done = l_.complete(b, dot, k_[dot].operands[2], k_[dot].operands[0], at);
    k_.replace_all_uses(k_[dot].results[0], done);
    k_.erase(dot);
  }

  void pending_product(RingPosition at) {
    const std::size_t i = *pending_;
    const OpId dot = l_.dots[0], loop = l_.loop;
    init_ = k_[loop].operands[3 + i];
    const Value acc = k_[l_.body].args[1 + i];
    const Type pending = Type::pending(k_.type(init_));
    Builder outside = l_.before(loop);
    const Value nothing = outside.op(Opcode::Poison, {}, pending);
    k_[loop].operands[3 + i] = nothing;
    k_.set_type(acc, pending);
    k_.set_type(k_[loop].results[i], pending);
    Builder b = l_.before(dot);
    b.loc = k_[dot].loc;
    const Value later = b.cmp("ne", k_[l_.body].args[0], k_[loop].operands[0]);
    const Value a = k_[dot].operands[0];
    const Value issued = l_.issue(b, dot, acc, a, later, at);
    const Value sum =
        ProductLoop::wait(b, issued, pending, in_flight_, l_.load_of(a) ? Value() : a);
    // Each wait completes the product before: its slot is the one that has been read.
    const ChannelRing& ring = l_.feeds[0].ring;
    if (in_flight_ == 1)
      ring.release(b, ring.back(b, at, 1).slot, later);
    else
      ring.release(b, at.slot, b.flag(true));
    l_.fill_ahead(b, l_.feeds[0], at);
    k_.replace_all_uses(k_[dot].results[0], sum);
    k_.erase(dot);
  }

  /// Behind the loop: the last product, and what an empty loop gives.
  void finish_pending(Builder& b, Value runs) {
    const Value carried = k_[l_.loop].results[*pending_];
    const Type tile = k_.type(init_);
    const Value placeholder = b.op(Opcode::Poison, {}, tile);
    k_.replace_all_uses(carried, placeholder);
    const Value sum = ProductLoop::wait(b, carried, tile, 0);
    const Feed& feed = l_.feeds[0];
    if (in_flight_ == 1) feed.ring.release(b, feed.ring.back(b, feed.end, 1).slot, runs);
    k_.replace_all_uses(placeholder, b.select(runs, sum, init_));
    k_.erase(k_[placeholder].def);
  }

  ProductLoop& l_;
  Kernel& k_;
  std::optional<std::size_t> pending_;
  Value init_;         ///< of the pending sum
  int in_flight_ = 0;  ///< products that a wait leaves
};

bool rewrite(Kernel& k, OpId op, const Plan& plan, PassContext& context) {
  ProductLoop loop(k, op, plan, context);
  if (!loop.analyze()) return false;
  const auto late = late_sum(loop);
  TurnByTurn turns(loop);
  for (OpId dot : loop.dots) {
    const bool overlaps = late ? dot == loop.dots[1] : turns.overlaps();
    context.remark(Remark::Kind::Applied, k[dot].loc, "dot by wgmma",
                   {{"sum", k.type(k[dot].results[0]).with_layout(nullptr).str()},
                    {"overlapped", overlaps ? "1" : "0"}});
  }
  loop.allocate(late.has_value());
  loop.fill_first(late ? 1 : 0);
  if (late)
    run_second_product_late(loop, *late);
  else
    turns.run();
  loop.finish();
  return true;
}

}  // namespace

bool async_products(Kernel& kernel, PassContext& context) {
  const Plan plan = context.plan.value_or(Plan{});
  if (!plan.wgmma || plan.stages < 2) return false;
  bool changed = false;
  for (OpId loop : loops_of(kernel)) changed |= rewrite(kernel, loop, plan, context);
  return changed;
}

}  // namespace tegula::ir
