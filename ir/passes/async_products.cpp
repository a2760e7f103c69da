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
// product runs. A sum that only one product adds to stays pending round the loop; other products
// are waited for at once. (CUTLASS, sm90 TMA mainloops; PTX ISA, "Asynchronous Warpgroup Level
// Matrix Instructions".)
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/analysis/tma_access.h"
#include "ir/builder.h"
#include "ir/layout/linear_layout.h"
#include "ir/layout/shared_layout.h"
#include "ir/passes/operand_loads.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

constexpr int kRowsPerWarp = 16;

class LoopProducts {
 public:
  LoopProducts(Kernel& k, OpId loop, const Plan& plan, PassContext& context)
      : k_(k),
        loop_(loop),
        body_(k[loop].regions[0]),
        stages_(plan.stages),
        warps_(plan.warps),
        context_(context) {}

  bool run() {
    for (OpId op : k_.ops(body_))
      if (k_[op].opcode == Opcode::Dot) dots_.push_back(op);
    if (dots_.empty() || is_nested() || writes_memory(k_, loop_, context_)) return false;
    for (OperandLoad& load : operand_loads(k_, loop_, context_))
      if (is_tma(load)) loads_.push_back(std::move(load));
    for (OpId dot : dots_)
      if (!is_legal(dot)) {
        context_.remark(Remark::Kind::Missed, k_[dot].loc,
                        "no wgmma: B is not brought by TMA, or "
                        "the accumulator is not 16 rows a warp");
        return false;
      }
    for (OpId dot : dots_)
      if (auto load = invariant_load(k_, loop_, dot, 0); load && is_tma(*load))
        once_.push_back(std::move(*load));
    lazy_ = pending_carry();
    rotated_ = rotated_carry();
    for (OpId dot : dots_)
      context_.remark(Remark::Kind::Applied, k_[dot].loc, "dot by wgmma",
                      {{"sum", k_.type(k_[dot].results[0]).with_layout(nullptr).str()},
                       {"overlapped", lazy_ || (rotated_ && dot == dots_[1]) ? "1" : "0"}});
    allocate();
    prologue();
    if (rotated_)
      rotate();
    else
      rewrite_body();
    for (const OperandLoad& load : loads_) erase_load(k_, load);
    for (const OperandLoad& load : once_) erase_load(k_, load);
    return true;
  }

 private:
  // ---- legality
  /// The channel's mbarriers are made ready once, so the loop must run once.
  bool is_nested() const {
    for (RegionId r = k_[loop_].parent; k_[r].owner; r = k_[k_[r].owner].parent) {
      const Opcode o = k_[k_[r].owner].opcode;
      if (o == Opcode::For || o == Opcode::While) return true;
    }
    return false;
  }

  bool is_tma(const OperandLoad& load) const {
    if (!is_tma_box(k_.type(k_[load.load].operands[0]), load.axes, load.tile)) return false;
    const auto& pieces = ring_type(k_, load, stages_).shared_layout()->piece_list();
    return pieces.size() == 1 && pieces.front().swizzle != 0;
  }

  const OperandLoad* load_of(Value operand) const {
    for (const auto* list : {&loads_, &once_})
      for (const OperandLoad& load : *list)
        if (k_[load.convert].results[0] == operand) return &load;
    return nullptr;
  }

  bool is_legal(OpId dot) {
    const Type acc = k_.type(k_[dot].results[0]), a = k_.type(k_[dot].operands[0]);
    const bool half = a.dtype() == DType::bf16 || a.dtype() == DType::f16;
    return half && acc.dtype() == DType::f32 && acc.shape()[0] == kRowsPerWarp * warps_ &&
           acc.shape()[1] % 8 == 0 && acc.shape()[1] <= 256 && a.shape()[1] % 16 == 0 &&
           load_of(k_[dot].operands[1]) != nullptr;
  }

  bool is_zero(Value v) const {
    const OpId def = k_[v].def;
    if (!def || k_[def].opcode != Opcode::Const) return false;
    const AttrValue* value = k_[def].attrs.find(AttrName::value);
    return *value == AttrValue(0.0) || *value == AttrValue(std::int64_t{0});
  }

  int uses(Value v) const {
    int n = 0;
    walk(k_, k_.body(),
         [&](OpId op) { n += static_cast<int>(std::ranges::count(k_[op].operands, v)); });
    return n;
  }

  /// Position of the carry that the loop's only product adds to and that nothing else reads, if it
  /// starts at zero.
  std::optional<std::size_t> pending_carry() const {
    if (dots_.size() != 1) return std::nullopt;
    const Value sum = k_[dots_[0]].results[0], acc = k_[dots_[0]].operands[2];
    const OpId yield = k_.terminator(body_);
    for (std::size_t i = 0; i < k_[yield].operands.size(); ++i)
      if (k_[yield].operands[i] == sum && k_[body_].args[i + 1] == acc && uses(sum) == 1 &&
          uses(acc) == 1 && is_zero(k_[loop_].operands[3 + i]))
        return i;
    return std::nullopt;
  }

  /// Ops of the body that need the value, themselves, in what they contain or through others.
  std::unordered_set<OpId> dependents(Value on) const {
    std::unordered_set<Value> reached{on};
    std::unordered_set<OpId> found;
    const auto needs = [&](OpId op) {
      return std::ranges::any_of(k_[op].operands, [&](Value v) { return reached.contains(v); });
    };
    for (OpId op : k_.ops(body_)) {
      bool any = needs(op);
      for (RegionId r : k_[op].regions) walk(k_, r, [&](OpId o) { any = any || needs(o); });
      if (!any) continue;
      found.insert(op);
      reached.insert(k_[op].results.begin(), k_[op].results.end());
    }
    return found;
  }

  /// Position of the carry that the second of two products adds to, where the first needs nothing
  /// of it: the second may then run beside the next step's first.
  std::optional<std::size_t> rotated_carry() const {
    if (dots_.size() != 2 || stages_ < 3) return std::nullopt;
    const Value sum = k_[dots_[1]].results[0];
    if (uses(sum) != 1 || load_of(k_[dots_[1]].operands[0])) return std::nullopt;
    const OpId yield = k_.terminator(body_);
    for (std::size_t i = 0; i < k_[yield].operands.size(); ++i)
      if (k_[yield].operands[i] == sum && !dependents(k_[body_].args[i + 1]).contains(dots_[0]))
        return i;
    return std::nullopt;
  }

  // ---- in front of the loop
  Builder before(OpId op) {
    Builder b(k_);
    b.before(op);
    b.loc = k_[loop_].loc;
    return b;
  }

  void allocate() {
    Builder b = before(loop_);
    const SharedLayout bars = SharedLayout::plain({stages_}, 8, {0});
    const Type barriers = Type::shared(DType::i64, Ints{stages_}, intern_layout(bars));
    channel_ = b.op(Opcode::SmemAlloc, {}, barriers);
    released_ = b.op(Opcode::SmemAlloc, {}, barriers);
    for (OperandLoad& load : once_) load.ring = b.op(Opcode::SmemAlloc, {}, ring_type(k_, load, 1));
    for (OperandLoad& load : loads_) {
      load.ring = b.op(Opcode::SmemAlloc, {}, ring_type(k_, load, stages_));
      context_.remark(Remark::Kind::Applied, k_[load.load].loc, "brought by TMA",
                      {{"stages", fmt::format("{}", stages_)}, {"ring", k_.type(load.ring).str()}});
    }
    b.effect(Opcode::ChannelInit, {channel_, released_});
    leader_ = b.op(Opcode::Leader, std::initializer_list<Value>{});
  }

  static std::int64_t bytes_of(const std::vector<OperandLoad>& loads) {
    std::int64_t bytes = 0;
    for (const OperandLoad& load : loads)
      bytes += load.tile.count() * size_bytes(load.tile.dtype());
    return bytes;
  }

  /// By the leader, and only if the step at `iv` exists. What the loop needs once comes with the
  /// first step.
  void copy_step(Builder& b, Value iv, Value slot, bool first = false, Value free_phase = {}) {
    const Value exists = b.cmp("lt", iv, k_[loop_].operands[1]);
    const OpId branch = b.make_if(b.op(Opcode::And, {leader_, exists}), {});
    Builder inner(k_, k_[branch].regions[0]);
    inner.loc = b.loc;
    const std::int64_t bytes = bytes_of(loads_) + (first ? bytes_of(once_) : 0);
    if (free_phase) inner.effect(Opcode::ChannelWait, {released_, slot, free_phase});
    inner.effect(Opcode::ChannelExpect, {channel_, slot}, {{AttrName::bytes, bytes}});
    StepOffsets offsets(k_, body_, iv);
    const auto copy = [&](const OperandLoad& load) {
      const Value into[] = {load.ring, slot, channel_};
      offsets.copy(inner, load, Opcode::CopyTma, into);
    };
    if (first) std::ranges::for_each(once_, copy);
    std::ranges::for_each(loads_, copy);
  }

  void prologue() {
    Builder b = before(loop_);
    Value iv = k_[loop_].operands[0];
    for (int s = 0; s + 1 < stages_; ++s) {
      copy_step(b, iv, b.i32(s), s == 0);
      iv = b.add(iv, k_[loop_].operands[2]);
    }
  }

  // ---- the loop
  Value add_carry(Value init) {
    const Type type = k_.type(init);
    k_[loop_].operands.push_back(init);
    k_.add_result(loop_, type);
    return k_.add_arg(body_, type);
  }
  Value carry_index(std::int64_t init) {
    Builder outside = before(loop_);
    return add_carry(outside.i32(init));
  }

  void rewrite_body() {
    const Value slot = carry_index(0), phase = carry_index(0);
    Builder head = before(k_[body_].first);
    if (!lazy_) copy_ahead(head, slot, phase, 1);
    head.effect(Opcode::ChannelWait, {channel_, slot, phase});
    if (lazy_) {
      pending_product(slot, phase);
    } else {
      for (OpId dot : dots_) product(dot, slot);
      Builder tail = before(k_.terminator(body_));
      release(tail, slot, tail.flag(true));
    }
    advance(slot, phase);
    if (!lazy_) behind_loop().effect(Opcode::CtaBarrier, {});
  }

  void advance(Value slot, Value phase) {
    const OpId yield = k_.terminator(body_);
    Builder b = before(yield);
    const Value next = b.add(slot, b.i32(1));
    const Value wraps = b.cmp("eq", next, b.i32(stages_));
    const Value next_slot = b.select(wraps, b.i32(0), next);
    const Value next_phase = b.op(Opcode::Xor, {phase, b.cast(wraps, DType::i32)});
    k_[yield].operands.push_back(next_slot);
    k_[yield].operands.push_back(next_phase);
  }

  /// Into the slot `back` steps before the current one, once every warp has done with it, goes the
  /// step that comes `stages` - `back` later.
  void copy_ahead(Builder& b, Value slot, Value phase, int back) {
    Value ahead = k_[body_].args[0];
    for (int s = 0; s + back < stages_; ++s) ahead = b.add(ahead, k_[loop_].operands[2]);
    const Value wraps = b.cmp("lt", slot, b.i32(back));
    const Value target =
        b.select(wraps, b.add(slot, b.i32(stages_ - back)), b.sub(slot, b.i32(back)));
    // The slot's use before this one lies a round back where it wraps.
    const Value free_phase = b.op(Opcode::Xor, {phase, b.cast(wraps, DType::i32)});
    copy_step(b, ahead, target, false, free_phase);
  }

  Value slot_before(Builder& b, Value slot) {
    return b.select(b.cmp("eq", slot, b.i32(0)), b.i32(stages_ - 1), b.sub(slot, b.i32(1)));
  }

  void release(Builder& b, Value slot, Value condition) {
    b.effect(Opcode::ChannelRelease, {released_, slot, condition});
  }

  Builder behind_loop() {
    Builder b(k_);
    if (const OpId after = k_[loop_].next)
      b.before(after);
    else
      b.at_end(k_[loop_].parent);
    b.loc = k_[loop_].loc;
    return b;
  }

  /// `a` and `slot` as this product has them now: the dot's own, or what the loop carried of them.
  Value issue(Builder& b, OpId dot, Value acc, Value a, Value scale_d, Value slot) {
    std::vector<Value> operands{acc, a, k_[dot].operands[1], scale_d};
    for (std::size_t i : {1u, 2u})
      if (const OperandLoad* load = load_of(operands[i])) {
        operands[i] = load->ring;
        operands.push_back(k_.type(load->ring).shape()[0] == 1 ? b.i32(0) : slot);
      }
    const Type sum = Type::pending(k_.type(k_[dot].results[0]));
    const AttrList attrs = k_[dot].attrs;
    return k_[b.create(Opcode::DotAsync, operands, std::span(&sum, 1), attrs)].results[0];
  }

  static Value wait(Builder& b, Value pending, Type type, int count, Value a = {}) {
    std::vector<Value> operands{pending};
    if (a) operands.push_back(a);
    AttrList attrs;
    attrs.set(AttrName::count, std::int64_t{count});
    const OpId op = b.create(Opcode::DotWait, operands, std::span(&type, 1), attrs);
    return b.kernel()[op].results[0];
  }

  /// Issued and waited for; gives the sum.
  Value complete(Builder& b, OpId dot, Value acc, Value a, Value slot) {
    const bool fresh = is_zero(acc);
    const Type type = k_.type(acc);
    if (fresh) acc = b.op(Opcode::Poison, {}, type);
    const Value sum = issue(b, dot, acc, a, b.flag(!fresh), slot);
    return wait(b, sum, type, 0, load_of(a) ? Value() : a);
  }

  void product(OpId dot, Value slot) {
    Builder b = before(dot);
    b.loc = k_[dot].loc;
    const Value done = complete(b, dot, k_[dot].operands[2], k_[dot].operands[0], slot);
    k_.replace_all_uses(k_[dot].results[0], done);
    k_.erase(dot);
  }

  void pending_product(Value slot, Value phase) {
    const std::size_t i = *lazy_;
    const OpId dot = dots_[0];
    const Value init = k_[loop_].operands[3 + i], acc = k_[body_].args[1 + i];
    const Type tile = k_.type(init), pending = Type::pending(tile);
    Builder outside = before(loop_);
    const Value nothing = outside.op(Opcode::Poison, {}, pending);
    k_[loop_].operands[3 + i] = nothing;
    k_.set_type(acc, pending);
    k_.set_type(k_[loop_].results[i], pending);
    Builder b = before(dot);
    b.loc = k_[dot].loc;
    const Value later = b.cmp("ne", k_[body_].args[0], k_[loop_].operands[0]);
    const Value a = k_[dot].operands[0];
    // A tile of A in registers belongs to this step's product: it cannot outlive the step.
    const int in_flight = load_of(a) ? 1 : 0;
    const Value sum = wait(b, issue(b, dot, acc, a, later, slot), pending, in_flight);
    // Each wait completes the product before: its slot is the one that has been read.
    if (in_flight == 1)
      release(b, slot_before(b, slot), later);
    else
      release(b, slot, b.flag(true));
    copy_ahead(b, slot, phase, 1);
    k_.replace_all_uses(k_[dot].results[0], sum);
    k_.erase(dot);
    finish(i, init, tile);
  }

  /// Behind the loop: the last product, and what an empty loop gives.
  void finish(std::size_t i, Value init, Type tile) {
    const Value carried = k_[loop_].results[i];
    Builder b = behind_loop();
    const Value placeholder = b.op(Opcode::Poison, {}, tile);
    k_.replace_all_uses(carried, placeholder);
    const Value sum = wait(b, carried, tile, 0);
    b.effect(Opcode::CtaBarrier, {});
    const Value runs = b.cmp("lt", k_[loop_].operands[0], k_[loop_].operands[1]);
    k_.replace_all_uses(placeholder, b.select(runs, sum, init));
    k_.erase(k_[placeholder].def);
  }

  // ---- two products, the second a step late
  // Before:  for k { s = dot q, K[k]; p = f(s); o = dot p, V[k], g(o) }
  // After:   if any { p = f(dot q, K[0]); for k = 1.. { s' = dot_async q, K[k]; o' = dot_async p,
  // V[k-1];
  //          wait s'; p = f(s); wait o'; .. g(o) }; o = dot p, V[last] }
  // so that f, the softmax of attention, runs beside a product (FlashAttention-3, 3.2).
  void rotate() {
    const std::size_t c = *rotated_;
    const OpId first = dots_[0], second = dots_[1];
    enter_branch();
    const Value weights_init = peel(c);
    const Value slot = carry_index(1), phase = carry_index(0), last_slot = carry_index(0),
                weights = add_carry(weights_init);
    const Value sum_before = k_[body_].args[c + 1];
    Builder head = before(k_[body_].first);
    const Value sum = head.op(Opcode::Poison, {}, k_.type(sum_before));  // stands for the late sum
    k_.replace_all_uses(sum_before, sum);
    copy_ahead(head, slot, phase, 2);
    head.effect(Opcode::ChannelWait, {channel_, slot, phase});
    const Value late = overlap(first, second, {sum_before, weights}, slot, last_slot);
    finish_late(late, sum, weights);
    Builder tail = before(k_.terminator(body_));
    release(tail, last_slot, tail.flag(true));
    const OpId yield = k_.terminator(body_);
    k_[yield].operands[c] = k_[second].operands[2];
    advance(slot, phase);
    k_[yield].operands.push_back(slot);
    k_[yield].operands.push_back(k_[second].operands[0]);
    last_product(c, second);
    k_.erase(second);
  }

  /// The loop moves into a branch that is taken where it has a step; an empty loop gives its inits.
  void enter_branch() {
    Builder b = before(loop_);
    const std::vector<Value> inits(k_[loop_].operands.begin() + 3, k_[loop_].operands.end());
    std::vector<Type> types;
    for (Value v : inits) types.push_back(k_.type(v));
    const OpId branch = b.make_if(b.cmp("lt", k_[loop_].operands[0], k_[loop_].operands[1]), types);
    for (std::size_t i = 0; i < types.size(); ++i)
      k_.replace_all_uses(k_[loop_].results[i], k_[branch].results[i]);
    k_.unlink(loop_);
    k_.append(k_[branch].regions[0], loop_);
    Builder otherwise(k_, k_[branch].regions[1]);
    otherwise.loc = b.loc;
    otherwise.yield(inits);
  }

  /// The first step but for its second product, in front of the loop, which then starts a step
  /// later. Gives the second product's A.
  Value peel(std::size_t c) {
    Builder b = before(loop_);
    b.effect(Opcode::ChannelWait, {channel_, b.i32(0), b.i32(0)});
    std::unordered_map<Value, Value> map{{k_[body_].args[0], k_[loop_].operands[0]}};
    for (std::size_t i = 1; i < k_[body_].args.size(); ++i)
      map[k_[body_].args[i]] = k_[loop_].operands[2 + i];
    const auto mapped = [&](Value v) { return map.contains(v) ? map.at(v) : v; };
    const OpId yield = k_.terminator(body_);
    for (OpId op : k_.ops(body_)) {
      if (op == yield || op == dots_[1] || is_load(op)) continue;
      if (op == dots_[0])
        map[k_[op].results[0]] =
            complete(b, op, mapped(k_[op].operands[2]), mapped(k_[op].operands[0]), b.i32(0));
      else
        clone_op(b, op, map);
    }
    for (std::size_t i = 0; i < k_[yield].operands.size(); ++i)
      k_[loop_].operands[3 + i] = mapped(i == c ? k_[dots_[1]].operands[2] : k_[yield].operands[i]);
    const Value next = b.add(k_[loop_].operands[0], k_[loop_].operands[2]);
    k_[loop_].operands[0] = next;
    return mapped(k_[dots_[1]].operands[0]);
  }

  bool is_load(OpId op) const {
    return std::ranges::any_of(loads_, [&](const OperandLoad& l) {
      return op == l.load || op == l.permute || op == l.convert;
    });
  }

  void clone_op(Builder& b, OpId op, std::unordered_map<Value, Value>& map) {
    std::vector<Value> operands;
    for (Value v : k_[op].operands) operands.push_back(map.contains(v) ? map.at(v) : v);
    std::vector<Type> types;
    for (Value v : k_[op].results) types.push_back(k_.type(v));
    const AttrList attrs = k_[op].attrs;
    const std::vector<RegionId> regions(k_[op].regions.begin(), k_[op].regions.end());
    const Loc saved = std::exchange(b.loc, k_[op].loc);
    const OpId made = b.create(k_[op].opcode, operands, types, attrs);
    b.loc = saved;
    for (std::size_t i = 0; i < types.size(); ++i) map[k_[op].results[i]] = k_[made].results[i];
    for (RegionId r : regions) {
      const RegionId copy = k_.add_region(made);
      for (std::size_t i = 0; i < k_[r].args.size(); ++i) {
        const Value arg = k_[r].args[i];
        map[arg] = k_.add_arg(copy, k_.type(arg));
      }
      Builder inner(k_, copy);
      for (OpId o : k_.ops(r)) clone_op(inner, o, map);
    }
  }

  struct Late {
    Value sum, weights;
  };
  /// Both products in flight; gives the late one's pending sum, the other is complete.
  Value overlap(OpId first, OpId second, Late late, Value slot, Value last_slot) {
    Builder b = before(first);
    b.loc = k_[first].loc;
    const Value acc = k_[first].operands[2], a = k_[first].operands[0];
    const bool fresh = is_zero(acc);
    const Type type = k_.type(acc);
    const Value begin = fresh ? b.op(Opcode::Poison, {}, type) : acc;
    const Value scores = issue(b, first, begin, a, b.flag(!fresh), slot);
    const Value sum = issue(b, second, late.sum, late.weights, b.flag(true), last_slot);
    std::vector<Value> operands{scores, sum};
    if (!load_of(a)) operands.push_back(a);
    const Type types[] = {type, k_.type(sum)};
    AttrList attrs;
    attrs.set(AttrName::count, std::int64_t{1});
    const OpId both = b.create(Opcode::DotWait, operands, types, attrs);
    k_.replace_all_uses(k_[first].results[0], k_[both].results[0]);
    k_.erase(first);
    return k_[both].results[1];
  }

  /// The conversion of the second product's A from what it is computed in: it must not write the
  /// registers of fragments while the product before may read them (ptxas: C7513), so it comes
  /// late.
  bool makes_fragments(OpId op) const {
    for (OpId at = k_[k_[dots_[1]].operands[0]].def; at; at = k_[k_[at].operands[0]].def) {
      const Opcode o = k_[at].opcode;
      if (k_[at].parent != body_ || (o != Opcode::Cast && o != Opcode::ConvertLayout)) return false;
      if (at == op) return true;
    }
    return false;
  }

  /// The late sum is waited for behind all that does not need it. `stand_in` is what its users
  /// name.
  void finish_late(Value late, Value stand_in, Value weights) {
    const OpId yield = k_.terminator(body_);
    const std::unordered_set<OpId> late_ops = dependents(stand_in);
    std::vector<OpId> users;
    for (OpId op : k_.ops(body_))
      if (op != yield && op != dots_[1] && op != k_[stand_in].def &&
          (late_ops.contains(op) || makes_fragments(op)))
        users.push_back(op);
    Builder b = before(yield);
    b.effect(Opcode::Pin, {});
    const Value sum = wait(b, late, k_.type(stand_in), 0, weights);
    for (OpId op : users) {
      k_.unlink(op);
      k_.insert_before(yield, op);
    }
    k_.replace_all_uses(stand_in, sum);
    k_.erase(k_[stand_in].def);
  }

  /// Behind the loop, and the end of the branch.
  void last_product(std::size_t c, OpId second) {
    const auto& results = k_[loop_].results;
    const std::size_t n = results.size();  // .., slot, phase, last slot, weights
    Builder b(k_, k_[loop_].parent);
    b.loc = k_[second].loc;
    std::vector<Value> yielded(results.begin(), results.end() - 4);
    const Value acc = results[c], weights = results[n - 1], slot = results[n - 2];
    yielded[c] = complete(b, second, acc, weights, slot);
    b.effect(Opcode::CtaBarrier, {});
    b.yield(yielded);
  }

  Kernel& k_;
  OpId loop_;
  RegionId body_;
  int stages_, warps_;
  PassContext& context_;
  std::vector<OpId> dots_;
  std::vector<OperandLoad> loads_;  ///< brought for every step
  std::vector<OperandLoad> once_;   ///< brought before the first
  std::optional<std::size_t> lazy_, rotated_;
  Value channel_, released_, leader_;
};

}  // namespace

bool async_products(Kernel& kernel, PassContext& context) {
  const Plan plan = context.plan.value_or(Plan{});
  if (!plan.wgmma || plan.stages < 2) return false;
  bool changed = false;
  for (OpId loop : loops_of(kernel)) changed |= LoopProducts(kernel, loop, plan, context).run();
  return changed;
}

}  // namespace tegula::ir
