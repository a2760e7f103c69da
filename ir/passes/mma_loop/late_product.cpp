// Two products, the second a step late.
//
// Before:  for k { s = dot q, K[k]; p = f(s); o = dot p, V[k], g(o) }
// After:   if any { p = f(dot q, K[0]);
//                   for k = 1.. { s = dot_async q, K[k]; o' = dot_async p, V[k-1], o
//                                 wait s; p = f(s); wait o'; o = g(o') }
//                   o = dot p, V[last], o }
// so that f, the softmax of attention, runs beside a product (FlashAttention-3, 3.2). K and V are
// rings of their own: K's slot is free once s is there, V's a step later. The last product, too,
// may run beside the first one of the next tile (tile_overlap.cpp).
#include <algorithm>
#include <tuple>
#include <utility>

#include "ir/analysis/bounds.h"
#include "ir/clone_op.h"
#include "ir/loop.h"
#include "ir/passes/mma_loop/first_step.h"
#include "ir/passes/mma_loop/tile_overlap.h"

namespace tegula::ir {
namespace {

class LateProduct {
 public:
  LateProduct(ProductLoop& l, std::size_t sum, TileOverlap* tiles)
      : l_(l),
        k_(l.k),
        tiles_(tiles),
        c_(sum),
        first_(l.dots[0]),
        second_(l.dots[1]),
        begins_fresh_(begins_fresh()) {}

  void run() {
    if (!tiles_) enter_branch();
    const Value weights_init = peel();
    Builder outside = l_.before(l_.loop);
    const RingPosition now = l_.add_carry(keys().ring.next(outside, keys().begin)),
                       before = l_.add_carry(values().begin);
    const Value weights = l_.add_carry(l_.loop, weights_init);
    const Value adds = l_.add_carry(l_.loop, outside.flag(!begins_fresh_));
    const Value sum_before = body_carries(k_, l_.loop)[c_];
    Builder head = l_.before(k_[l_.body].first);
    const Value sum = head.op(Opcode::Poison, {}, k_.type(sum_before));  // stands for the late sum
    k_.replace_all_uses(sum_before, sum);
    l_.fill_ahead(head, keys(), now);
    l_.fill_beside(head);
    l_.fill_ahead(head, values(), before);
    const Value late = overlap({sum_before, weights, adds, before}, now);
    finish_late(late, sum, weights);
    Builder tail = l_.before(k_.terminator(l_.body));
    const Value later = tail.flag(true);
    values().ring.release(tail, before.slot, later);
    const OpId yield = k_.terminator(l_.body);
    k_[yield].operands[c_] = k_[second_].operands[2];
    l_.advance(keys(), now);
    l_.advance(values(), before);
    k_[yield].operands.push_back(k_[second_].operands[0]);
    k_[yield].operands.push_back(later);
    tiles_ ? leave_to_next_tile() : last_product();
    k_.erase(second_);
  }

 private:
  /// Sums that begin as zeros and are at most scaled in a step: the first product need not read
  /// them.
  bool begins_fresh() const {
    if (!tiles_ || !is_zero(k_, loop_inits(k_[l_.loop])[c_])) return false;
    const Value begin = body_carries(k_, l_.loop)[c_], acc = k_[second_].operands[2];
    const OpId def = k_[acc].def;
    return acc == begin || (def && k_[def].opcode == Opcode::Mul &&
                            std::ranges::count(k_[def].operands, begin) == 1);
  }

  Feed& keys() { return l_.feeds[0]; }
  Feed& values() { return l_.feeds[1]; }

  /// The loop moves into a branch that is taken where it has a step; an empty loop gives its inits,
  /// and the positions in the rings stay what they were.
  void enter_branch() {
    Builder b = l_.before(l_.loop);
    const auto own_inits = loop_inits(k_[l_.loop]);
    std::vector<Value> inits(own_inits.begin(), own_inits.end());
    const std::size_t own = inits.size();
    if (l_.is_nested()) {
      for (const Feed& feed : l_.feeds)
        inits.insert(inits.end(), {feed.begin.slot, feed.begin.phase});
      if (l_.has_once())
        for (const Value* v : l_.once_carries(l_.once_at)) inits.push_back(*v);
    }
    std::vector<Type> types;
    for (Value v : inits) types.push_back(k_.type(v));
    const auto& bounds = k_[l_.loop].operands;
    const OpId branch = b.make_if(b.cmp("lt", bounds[0], bounds[1]), types);
    const auto& results = k_[branch].results;
    for (std::size_t i = 0; i < own; ++i) k_.replace_all_uses(k_[l_.loop].results[i], results[i]);
    if (l_.is_nested()) {
      std::size_t next = own;
      for (Feed& feed : l_.feeds) {
        feed.end = {results[next], results[next + 1]};
        next += 2;
      }
      if (l_.has_once()) {
        l_.once_end = l_.once_at;
        for (Value* v : l_.once_carries(l_.once_end)) *v = results[next++];
      }
    }
    l_.end_beside(branch);
    k_.unlink(l_.loop);
    k_.append(k_[branch].regions[0], l_.loop);
    Builder otherwise(k_, k_[branch].regions[1]);
    otherwise.loc = b.loc;
    otherwise.yield(inits);
  }

  /// The first step but for its second product, in front of the loop, which then starts a step
  /// later. Gives the second product's A.
  Value peel() {
    const OpId loop = l_.loop;
    Builder b = l_.before(loop);
    keys().ring.wait(b, keys().begin);
    l_.wait_once(b);
    ValueMap map{{k_[l_.body].args[0], k_[loop].operands[0]}};
    for (std::size_t i = 0; i < loop_inits(k_[loop]).size(); ++i)
      map[body_carries(k_, loop)[i]] = loop_inits(k_[loop])[i];
    const OpId yield = k_.terminator(l_.body);
    FirstStep first_step(k_, loop);
    Value before;  // the pending sums of the tile before
    std::vector<OpId> behind_it;
    for (OpId op : k_.ops(l_.body)) {
      if (op == yield || op == second_ || l_.is_load(op) || first_step.enter(op, map)) continue;
      if (op == first_)
        before = first_scores(b, map);
      else if (tiles_ && makes_fragments(op))
        behind_it.push_back(op);
      else
        clone_op(b, op, map);
    }
    Value sums;  // of the tile before
    if (tiles_) {
      sums = wait_for_tile_before(b, before);
      for (OpId op : behind_it) clone_op(b, op, map);
      tiles_->finish_before(b, sums);
    }
    for (std::size_t i = 0; i < k_[yield].operands.size(); ++i)
      if (i != c_) loop_inits(k_[loop])[i] = mapped(map, k_[yield].operands[i]);
    loop_inits(k_[loop])[c_] = first_sums(map, sums);
    const Value next = b.add(k_[loop].operands[0], k_[loop].operands[2]);
    k_[loop].operands[0] = next;
    const Value weights = mapped(map, k_[second_].operands[0]);
    first_step.drop();
    return weights;
  }

  /// What is not read need not be anything; those of the tile before are in the registers that this
  /// one's go to.
  Value first_sums(const ValueMap& map, Value of_tile_before) const {
    return begins_fresh_ ? of_tile_before : mapped(map, k_[second_].operands[2]);
  }

  /// The first step's scores; the sums of the tile before, if products overlap across tiles.
  Value first_scores(Builder& b, ValueMap& map) {
    const Value acc = mapped(map, k_[first_].operands[2]), a = mapped(map, k_[first_].operands[0]);
    const RingPosition at = keys().begin;
    Value scores, before;
    if (tiles_) {
      const Late late{tiles_->sum(), tiles_->weights(), tiles_->adds(), tiles_->values_at()};
      std::tie(scores, before) = both(b, acc, a, at, late);
    } else {
      scores = l_.complete(b, first_, acc, a, at);
    }
    map[k_[first_].results[0]] = scores;
    keys().ring.release(b, at.slot, b.flag(true));
    release_once_behind(b, k_[l_.loop].operands[0]);
    return before;
  }

  Value wait_for_tile_before(Builder& b, Value pending) {
    b.effect(Opcode::Pin, {});
    const Value sums =
        ProductLoop::wait(b, pending, k_.type(k_[second_].results[0]), 0, tiles_->weights());
    values().ring.release(b, tiles_->values_at().slot, tiles_->exists());
    return sums;
  }

  /// What the first product needs once is free behind the last step's, long before the loop ends.
  void release_once_behind(Builder& b, Value step) {
    const auto& bounds = k_[l_.loop].operands;
    l_.release_once(b, b.cmp("ge", b.add(step, bounds[2]), bounds[1]));
  }

  /// The operands of the late product, whether it adds to a sum, and its values' place.
  struct Late {
    Value sum, weights, adds;
    RingPosition at;
  };
  /// Both products in flight; gives the first one's scores and the late one's pending sum.
  std::pair<Value, Value> both(Builder& b, Value acc, Value a, RingPosition now, const Late& late) {
    const bool fresh = is_zero(k_, acc);
    const Type type = k_.type(acc);
    const Value begin = fresh ? b.op(Opcode::Poison, {}, type) : acc;
    if (l_.takes_turns()) b.effect(Opcode::TurnTake, {});
    const Value scores = l_.issue(b, first_, begin, a, b.flag(!fresh), now);
    values().ring.wait(b, late.at);
    const Value sum = l_.issue(b, second_, late.sum, late.weights, late.adds, late.at);
    if (l_.takes_turns()) b.effect(Opcode::TurnPass, {});
    std::vector<Value> in_registers;
    if (!l_.load_of(a)) in_registers.push_back(a);
    const Type types[] = {type, k_.type(sum)};
    const std::vector<Value> done =
        ProductLoop::wait(b, {scores, sum}, types, 1, std::move(in_registers));
    return {done[0], done[1]};
  }

  /// A step's; gives the late product's pending sum, the other is complete.
  Value overlap(const Late& late, RingPosition now) {
    Builder b = l_.before(first_);
    b.loc = k_[first_].loc;
    keys().ring.wait(b, now);
    const auto [scores, pending] =
        both(b, k_[first_].operands[2], k_[first_].operands[0], now, late);
    keys().ring.release(b, now.slot, b.flag(true));
    release_once_behind(b, k_[l_.body].args[0]);
    k_.replace_all_uses(k_[first_].results[0], scores);
    k_.erase(first_);
    return pending;
  }

  /// The conversion of the second product's A from what it is computed in, and the zeros of its
  /// absent elements: they must not write the registers of fragments while the product before may
  /// read them (ptxas: C7513), so they come late. What the step also needs otherwise does not.
  bool makes_fragments(OpId op) const {
    for (OpId at = k_[k_[second_].operands[0]].def; at && k_[at].parent == l_.body;) {
      const Opcode o = k_[at].opcode;
      if (o != Opcode::Cast && o != Opcode::ConvertLayout && o != Opcode::Select) return false;
      if (l_.uses(k_[at].results[0]) != 1) return false;
      if (at == op) return true;
      at = k_[k_[at].operands[o == Opcode::Select ? 1 : 0]].def;
    }
    return false;
  }

  /// The late sum is waited for behind all that does not need it. `stand_in` is what its users
  /// name.
  void finish_late(Value late, Value stand_in, Value weights) {
    const OpId yield = k_.terminator(l_.body);
    const std::unordered_set<OpId> late_ops = l_.dependents(stand_in);
    std::vector<OpId> users;
    for (OpId op : k_.ops(l_.body))
      if (op != yield && op != second_ && op != k_[stand_in].def &&
          (late_ops.contains(op) || makes_fragments(op)))
        users.push_back(op);
    Builder b = l_.before(yield);
    b.effect(Opcode::Pin, {});
    const Value sum = ProductLoop::wait(b, late, k_.type(stand_in), 0, weights);
    for (OpId op : users) {
      k_.unlink(op);
      k_.insert_before(yield, op);
    }
    k_.replace_all_uses(stand_in, sum);
    k_.erase(k_[stand_in].def);
  }

  /// What the loop has left: where its rings are, and the operands of the last product.
  struct Left {
    std::size_t own;  ///< results before these
    RingPosition keys, values;
    Value sum, weights, adds;
  };
  Left left() const {
    const auto& r = k_[l_.loop].results;
    const std::size_t own = r.size() - 6;
    return {own, {r[own], r[own + 1]}, {r[own + 2], r[own + 3]}, r[c_], r[own + 4], r[own + 5]};
  }

  /// Behind the loop: the last product is the next tile's to do.
  void leave_to_next_tile() {
    const Left last = left();
    keys().end = last.keys;
    values().end = last.values;
    l_.end_beside(l_.loop);
    Builder b = l_.before(k_.terminator(k_[l_.loop].parent));
    l_.once_end = l_.next_once(b, b.flag(true));
    tiles_->leave(last.weights, last.adds);
  }

  /// Behind the loop, and the end of the branch.
  void last_product() {
    const Left last = left();
    const auto& results = k_[l_.loop].results;
    std::vector<Value> yielded(results.begin(), results.begin() + static_cast<int>(last.own));
    Builder b(k_, k_[l_.loop].parent);
    b.loc = k_[second_].loc;
    values().ring.wait(b, last.values);
    const Value pending = l_.issue(b, second_, last.sum, last.weights, last.adds, last.values);
    yielded[c_] = ProductLoop::wait(b, pending, k_.type(last.sum), 0, last.weights);
    values().ring.release(b, last.values.slot, b.flag(true));
    l_.meet(b);
    if (l_.is_nested()) {
      const RingPosition values_end = values().ring.next(b, last.values);
      yielded.insert(yielded.end(),
                     {last.keys.slot, last.keys.phase, values_end.slot, values_end.phase});
      if (l_.has_once()) {
        const RingPosition next = l_.next_once(b, b.flag(true));
        for (const Value* v : l_.once_carries(next)) yielded.push_back(*v);
      }
    }
    b.yield(yielded);
  }

  ProductLoop& l_;
  Kernel& k_;
  TileOverlap* tiles_;  ///< or none
  std::size_t c_;       ///< the second product's sum among the carries
  OpId first_, second_;
  bool begins_fresh_;
};

}  // namespace

std::optional<std::size_t> late_sum(const ProductLoop& l) {
  if (l.dots.size() != 2 || l.has_inner_products()) return std::nullopt;
  const Kernel& k = l.k;
  const Value sum = k[l.dots[1]].results[0];
  if (l.uses(sum) != 1 || l.load_of(k[l.dots[1]].operands[0])) return std::nullopt;
  // A slot that both read is free only when the late one has done with it.
  if (l.load_of(k[l.dots[1]].operands[1])->dots.size() > 1) return std::nullopt;
  const OpId yield = k.terminator(l.body);
  for (std::size_t i = 0; i < k[yield].operands.size(); ++i)
    if (k[yield].operands[i] == sum &&
        !l.dependents(body_carries(k, l.loop)[i]).contains(l.dots[0]))
      return i;
  return std::nullopt;
}

void run_second_product_late(ProductLoop& loop, std::size_t sum, TileOverlap* tiles) {
  LateProduct(loop, sum, tiles).run();
}

}  // namespace tegula::ir
