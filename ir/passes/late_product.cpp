// Two products, the second a step late.
//
// Before:  for k { s = dot q, K[k]; p = f(s); o = dot p, V[k], g(o) }
// After:   if any { p = f(dot q, K[0]);
//                   for k = 1.. { s = dot_async q, K[k]; o' = dot_async p, V[k-1], o
//                                 wait s; p = f(s); wait o'; o = g(o') }
//                   o = dot p, V[last], o }
// so that f, the softmax of attention, runs beside a product (FlashAttention-3, 3.2). K and V are
// rings of their own: K's slot is free once s is there, V's a step later.
#include <algorithm>
#include <utility>

#include "ir/analysis/bounds.h"
#include "ir/clone_op.h"
#include "ir/passes/product_loop.h"

namespace tegula::ir {
namespace {

class LateProduct {
 public:
  LateProduct(ProductLoop& l, std::size_t sum)
      : l_(l), k_(l.k), c_(sum), first_(l.dots[0]), second_(l.dots[1]) {}

  void run() {
    enter_branch();
    const Value weights_init = peel();
    Builder outside = l_.before(l_.loop);
    const RingPosition now = l_.add_carry(keys().ring.next(outside, keys().begin)),
                       before = l_.add_carry(values().begin);
    const Value weights = l_.add_carry(l_.loop, weights_init);
    const Value sum_before = k_[l_.body].args[c_ + 1];
    Builder head = l_.before(k_[l_.body].first);
    const Value sum = head.op(Opcode::Poison, {}, k_.type(sum_before));  // stands for the late sum
    k_.replace_all_uses(sum_before, sum);
    l_.fill_ahead(head, keys(), now);
    l_.fill_ahead(head, values(), before);
    const Value late = overlap({sum_before, weights}, now, before);
    finish_late(late, sum, weights);
    Builder tail = l_.before(k_.terminator(l_.body));
    values().ring.release(tail, before.slot, tail.flag(true));
    const OpId yield = k_.terminator(l_.body);
    k_[yield].operands[c_] = k_[second_].operands[2];
    l_.advance(keys(), now);
    l_.advance(values(), before);
    k_[yield].operands.push_back(k_[second_].operands[0]);
    last_product();
    k_.erase(second_);
  }

 private:
  Feed& keys() { return l_.feeds[0]; }
  Feed& values() { return l_.feeds[1]; }

  /// The loop moves into a branch that is taken where it has a step; an empty loop gives its inits,
  /// and the positions in the rings stay what they were.
  void enter_branch() {
    Builder b = l_.before(l_.loop);
    std::vector<Value> inits(k_[l_.loop].operands.begin() + 3, k_[l_.loop].operands.end());
    const std::size_t own = inits.size();
    if (l_.is_nested()) {
      for (const Feed& feed : l_.feeds)
        inits.insert(inits.end(), {feed.begin.slot, feed.begin.phase});
      if (l_.has_once()) inits.push_back(l_.once_phase);
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
      if (l_.has_once()) l_.once_end = results[next];
    }
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
    for (std::size_t i = 1; i < k_[l_.body].args.size(); ++i)
      map[k_[l_.body].args[i]] = k_[loop].operands[2 + i];
    const OpId yield = k_.terminator(l_.body);
    for (OpId op : k_.ops(l_.body)) {
      if (op == yield || op == second_ || l_.is_load(op)) continue;
      if (op != first_) {
        clone_op(b, op, map);
        continue;
      }
      map[k_[op].results[0]] = l_.complete(b, op, mapped(map, k_[op].operands[2]),
                                           mapped(map, k_[op].operands[0]), keys().begin);
      keys().ring.release(b, keys().begin.slot, b.flag(true));
      release_once_behind(b, k_[loop].operands[0]);
    }
    for (std::size_t i = 0; i < k_[yield].operands.size(); ++i)
      k_[loop].operands[3 + i] =
          mapped(map, i == c_ ? k_[second_].operands[2] : k_[yield].operands[i]);
    const Value next = b.add(k_[loop].operands[0], k_[loop].operands[2]);
    k_[loop].operands[0] = next;
    return mapped(map, k_[second_].operands[0]);
  }

  /// What the first product needs once is free behind the last step's, long before the loop ends.
  void release_once_behind(Builder& b, Value step) {
    const auto& bounds = k_[l_.loop].operands;
    l_.release_once(b, b.cmp("ge", b.add(step, bounds[2]), bounds[1]));
  }

  struct Late {
    Value sum, weights;
  };
  /// Both products in flight; gives the late one's pending sum, the other is complete.
  Value overlap(Late late, RingPosition now, RingPosition before) {
    Builder b = l_.before(first_);
    b.loc = k_[first_].loc;
    const Value acc = k_[first_].operands[2], a = k_[first_].operands[0];
    const bool fresh = is_zero(k_, acc);
    const Type type = k_.type(acc);
    const Value begin = fresh ? b.op(Opcode::Poison, {}, type) : acc;
    keys().ring.wait(b, now);
    if (l_.takes_turns()) b.effect(Opcode::TurnTake, {});
    const Value scores = l_.issue(b, first_, begin, a, b.flag(!fresh), now);
    values().ring.wait(b, before);
    const Value sum = l_.issue(b, second_, late.sum, late.weights, b.flag(true), before);
    if (l_.takes_turns()) b.effect(Opcode::TurnPass, {});
    std::vector<Value> in_registers;
    if (!l_.load_of(a)) in_registers.push_back(a);
    const Type types[] = {type, k_.type(sum)};
    const std::vector<Value> both =
        ProductLoop::wait(b, {scores, sum}, types, 1, std::move(in_registers));
    keys().ring.release(b, now.slot, b.flag(true));
    release_once_behind(b, k_[l_.body].args[0]);
    k_.replace_all_uses(k_[first_].results[0], both[0]);
    k_.erase(first_);
    return both[1];
  }

  /// The conversion of the second product's A from what it is computed in, and the zeros of its
  /// absent elements: they must not write the registers of fragments while the product before may
  /// read them (ptxas: C7513), so they come late.
  bool makes_fragments(OpId op) const {
    for (OpId at = k_[k_[second_].operands[0]].def; at && k_[at].parent == l_.body;) {
      const Opcode o = k_[at].opcode;
      if (o != Opcode::Cast && o != Opcode::ConvertLayout && o != Opcode::Select) return false;
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

  /// Behind the loop, and the end of the branch.
  void last_product() {
    const auto& results = k_[l_.loop].results;
    const std::size_t n = results.size();  // .., position of keys, of values, weights
    Builder b(k_, k_[l_.loop].parent);
    b.loc = k_[second_].loc;
    std::vector<Value> yielded(results.begin(), results.end() - 5);
    const Value acc = results[c_], weights = results[n - 1];
    const RingPosition keys_end{results[n - 5], results[n - 4]},
        last{results[n - 3], results[n - 2]};
    values().ring.wait(b, last);
    yielded[c_] = l_.complete(b, second_, acc, weights, last);
    values().ring.release(b, last.slot, b.flag(true));
    l_.meet(b);
    if (l_.is_nested()) {
      const RingPosition values_end = values().ring.next(b, last);
      yielded.insert(yielded.end(),
                     {keys_end.slot, keys_end.phase, values_end.slot, values_end.phase});
      if (l_.has_once()) yielded.push_back(l_.next_once(b, b.flag(true)));
    }
    b.yield(yielded);
  }

  ProductLoop& l_;
  Kernel& k_;
  std::size_t c_;  ///< the second product's sum among the carries
  OpId first_, second_;
};

}  // namespace

std::optional<std::size_t> late_sum(const ProductLoop& l) {
  if (l.dots.size() != 2) return std::nullopt;
  const Kernel& k = l.k;
  const Value sum = k[l.dots[1]].results[0];
  if (l.uses(sum) != 1 || l.load_of(k[l.dots[1]].operands[0])) return std::nullopt;
  // A slot that both read is free only when the late one has done with it.
  if (l.load_of(k[l.dots[1]].operands[1])->dots.size() > 1) return std::nullopt;
  const OpId yield = k.terminator(l.body);
  for (std::size_t i = 0; i < k[yield].operands.size(); ++i)
    if (k[yield].operands[i] == sum && !l.dependents(k[l.body].args[i + 1]).contains(l.dots[0]))
      return i;
  return std::nullopt;
}

void run_second_product_late(ProductLoop& loop, std::size_t sum) { LateProduct(loop, sum).run(); }

}  // namespace tegula::ir
