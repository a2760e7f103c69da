// Matrix products of a loop become wgmmas whose operands TMA brings into a ring of slots.
//
// Before:  for k { a = convert_layout load_view A[.., k]; b = .. load_view B[k, ..]; c = dot a, b,
// c } After:   the leader has copies of stages-1 steps in flight; then
//          for k, slot, phase { channel_wait slot, phase; c = dot_async c, ring_a[slot],
//          ring_b[slot]; dot_wait 1; cta_barrier; the leader copies step k + stages-1 into the slot
//          before }
// The barrier stands behind the wait for the previous step's product, so that slot is free, while
// the current product runs. A sum that only one product adds to stays pending round the loop. Other
// products are waited for at once, and the barrier stands at the head. (CUTLASS, sm90 TMA
// mainloops; PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".)
#include <fmt/format.h>

#include <algorithm>
#include <optional>
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
      if (is_tma_box(k_.type(k_[load.load].operands[0]), load.axes, load.tile) && is_swizzled(load))
        loads_.push_back(std::move(load));
    for (OpId dot : dots_)
      if (!is_legal(dot)) {
        context_.remark(Remark::Kind::Missed, k_[dot].loc,
                        "no wgmma: B is not brought by TMA, or "
                        "the accumulator is not 16 rows a warp");
        return false;
      }
    lazy_ = pending_carry();
    allocate();
    prologue();
    rewrite_body();
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

  bool is_swizzled(const OperandLoad& load) const {
    const auto& pieces = ring_type(k_, load, stages_).shared_layout()->piece_list();
    return pieces.size() == 1 && pieces.front().swizzle != 0;
  }

  OperandLoad* load_of(Value operand) {
    for (OperandLoad& load : loads_)
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
    channel_ =
        b.op(Opcode::SmemAlloc, {}, Type::shared(DType::i64, Ints{stages_}, intern_layout(bars)));
    for (OperandLoad& load : loads_) {
      load.ring = b.op(Opcode::SmemAlloc, {}, ring_type(k_, load, stages_));
      step_bytes_ += load.tile.count() * size_bytes(load.tile.dtype());
      context_.remark(Remark::Kind::Applied, k_[load.load].loc, "brought by TMA",
                      {{"stages", fmt::format("{}", stages_)}, {"ring", k_.type(load.ring).str()}});
    }
    b.effect(Opcode::ChannelInit, {channel_});
    leader_ = b.op(Opcode::Leader, std::initializer_list<Value>{});
  }

  /// By the leader, and only if the step at `iv` exists.
  void copy_step(Builder& b, Value iv, Value slot) {
    const Value exists = b.cmp("lt", iv, k_[loop_].operands[1]);
    const OpId branch = b.make_if(b.op(Opcode::And, {leader_, exists}), {});
    Builder inner(k_, k_[branch].regions[0]);
    inner.loc = b.loc;
    inner.effect(Opcode::ChannelExpect, {channel_, slot}, {{AttrName::bytes, step_bytes_}});
    StepOffsets offsets(k_, body_, iv);
    for (const OperandLoad& load : loads_) {
      const Value into[] = {load.ring, slot, channel_};
      offsets.copy(inner, load, Opcode::CopyTma, into);
    }
  }

  void prologue() {
    Builder b = before(loop_);
    Value iv = k_[loop_].operands[0];
    for (int s = 0; s + 1 < stages_; ++s) {
      copy_step(b, iv, b.i32(s));
      iv = b.add(iv, k_[loop_].operands[2]);
    }
  }

  // ---- the loop
  Value carry_zero() {
    Builder outside = before(loop_);
    const Value zero = outside.i32(0);
    k_[loop_].operands.push_back(zero);
    k_.add_result(loop_, Type::scalar(DType::i32));
    return k_.add_arg(body_, Type::scalar(DType::i32));
  }

  void rewrite_body() {
    const Value slot = carry_zero(), phase = carry_zero();
    Builder head = before(k_[body_].first);
    if (!lazy_) free_slot(head, slot);
    head.effect(Opcode::ChannelWait, {channel_, slot, phase});
    if (lazy_)
      pending_product(slot);
    else
      for (OpId dot : dots_) product(dot, slot);
    for (const OperandLoad& load : loads_) erase_load(k_, load);
    const OpId yield = k_.terminator(body_);
    Builder tail = before(yield);
    const Value next = tail.add(slot, tail.i32(1));
    const Value wraps = tail.cmp("eq", next, tail.i32(stages_));
    const Value next_slot = tail.select(wraps, tail.i32(0), next);
    const Value next_phase = tail.op(Opcode::Xor, {phase, tail.cast(wraps, DType::i32)});
    k_[yield].operands.push_back(next_slot);
    k_[yield].operands.push_back(next_phase);
    if (!lazy_) behind_loop().effect(Opcode::CtaBarrier, {});
  }

  /// The slot before the current one has been read by all: the step that comes `stages` - 1 later
  /// goes there.
  void free_slot(Builder& b, Value slot) {
    b.effect(Opcode::CtaBarrier, {});
    Value ahead = k_[body_].args[0];
    for (int s = 0; s + 1 < stages_; ++s) ahead = b.add(ahead, k_[loop_].operands[2]);
    copy_step(b, ahead,
              b.select(b.cmp("eq", slot, b.i32(0)), b.i32(stages_ - 1), b.sub(slot, b.i32(1))));
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

  Value issue(Builder& b, OpId dot, Value acc, Value scale_d, Value slot) {
    std::vector<Value> operands{acc, k_[dot].operands[0], k_[dot].operands[1], scale_d};
    for (std::size_t i : {1u, 2u})
      if (const OperandLoad* load = load_of(operands[i])) {
        operands[i] = load->ring;
        operands.push_back(slot);
      }
    const Type sum = Type::pending(k_.type(k_[dot].results[0]));
    context_.remark(Remark::Kind::Applied, k_[dot].loc, "dot by wgmma",
                    {{"sum", k_.type(k_[dot].results[0]).with_layout(nullptr).str()}});
    return k_[b.create(Opcode::DotAsync, operands, std::span(&sum, 1), k_[dot].attrs)].results[0];
  }

  static Value wait(Builder& b, Value pending, Type type, int count, Value a = {}) {
    std::vector<Value> operands{pending};
    if (a) operands.push_back(a);
    AttrList attrs;
    attrs.set(AttrName::count, std::int64_t{count});
    const OpId op = b.create(Opcode::DotWait, operands, std::span(&type, 1), attrs);
    return b.kernel()[op].results[0];
  }

  void product(OpId dot, Value slot) {
    Builder b = before(dot);
    b.loc = k_[dot].loc;
    Value acc = k_[dot].operands[2];
    const bool fresh = is_zero(acc);
    const Type type = k_.type(acc);
    if (fresh) acc = b.op(Opcode::Poison, {}, type);
    const Value a = k_[dot].operands[0];
    const Value sum = issue(b, dot, acc, b.flag(!fresh), slot);
    const Value done = wait(b, sum, type, 0, load_of(a) ? Value() : a);
    k_.replace_all_uses(k_[dot].results[0], done);
    k_.erase(dot);
  }

  void pending_product(Value slot) {
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
    const Value sum = wait(b, issue(b, dot, acc, later, slot), pending, in_flight);
    free_slot(b, slot);
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

  Kernel& k_;
  OpId loop_;
  RegionId body_;
  int stages_, warps_;
  PassContext& context_;
  std::vector<OpId> dots_;
  std::vector<OperandLoad> loads_;
  std::optional<std::size_t> lazy_;
  Value channel_, leader_;
  std::int64_t step_bytes_ = 0;
};

}  // namespace

bool async_products(Kernel& kernel, PassContext& context) {
  const Plan plan = context.plan.value_or(Plan{});
  if (!plan.wgmma || plan.stages < 2) return false;
  std::vector<OpId> loops;
  walk(kernel, kernel.body(), [&](OpId op) {
    if (kernel[op].opcode == Opcode::For) loops.push_back(op);
  });
  bool changed = false;
  for (OpId loop : loops) changed |= LoopProducts(kernel, loop, plan, context).run();
  return changed;
}

}  // namespace tegula::ir
