#include "codegen/check/wgmma_check.h"

#include <algorithm>

#include "ir/loop.h"

namespace tegula::codegen {

using namespace ir;
using sim::Detector;

namespace {

/// Values of SmemAccess::part: the op itself with its reads of B, and its reads of A.
constexpr int kItself = 0, kOfA = 1;

bool is_pending(const Kernel& k, Value v) { return k.type(v).is(TypeKind::Pending); }

/// Returns the number of bytes that a descriptor of `rows` rows covers over its k steps (PTX ISA,
/// "Strides"). If K-major, k steps within a swizzled row stay in its segment.
std::int64_t reach_of(const OpData& descriptor, std::int64_t rows, bool mn_major,
                      std::int64_t last_step) {
  const std::int64_t lbo = descriptor.attrs.i(AttrName::lbo),
                     sbo = descriptor.attrs.i(AttrName::sbo),
                     swizzle = descriptor.attrs.i(AttrName::swizzle);
  if (swizzle == 0) return last_step + kMmaStepBytes;
  const std::int64_t piece = kSwizzleRows * swizzle;
  if (!mn_major) return last_step / piece * piece + (rows / kSwizzleRows - 1) * sbo + piece;
  const std::int64_t pieces = std::max<std::int64_t>(1, rows * 2 / swizzle);
  return last_step + (pieces - 1) * lbo + sbo + piece;
}

}  // namespace

// ---- where values come from
void WgmmaCheck::collect(Value v, Values& into, std::vector<Value>& passed) {
  if (std::ranges::find(passed, v) != passed.end()) return;
  passed.push_back(v);
  const Kernel& k = c_.k;
  const RegionId region = k[v].region;
  const OpId op = region ? k[region].owner : k[v].def;
  if (!op) return into.push_back(v);
  const OpData& d = k[op];
  if (d.opcode == Opcode::Poison) return;
  if (d.opcode == Opcode::WgmmaWait) return collect(d.operands[k[v].position], into, passed);
  const auto merge = merge_of(k, v);
  if (!merge) return into.push_back(v);
  for (Value x : incoming_values(k, *merge)) collect(x, into, passed);
}

/// Returns the values that this one may originate from, through carries, branches and waits.
const WgmmaCheck::Values& WgmmaCheck::origins(Value v) {
  const auto [it, is_new] = origins_.try_emplace(v);
  if (is_new) {
    std::vector<Value> passed;
    collect(v, it->second, passed);
  }
  return it->second;
}

bool WgmmaCheck::originates_from(Value v, Value origin) {
  return std::ranges::find(origins(v), origin) != origins(v).end();
}

// ---- issue
void WgmmaCheck::fence(SharedState& state) { state.needs_wgmma_fence = false; }

/// Checks that no register operand is written between the last fence and the op if both are in the
/// same region. Poison writes nothing.
void WgmmaCheck::expect_fenced(OpId op) {
  const OpData& d = c_.k[op];
  for (OpId earlier = d.prev; earlier && c_.k[earlier].opcode != Opcode::WgmmaFence;
       earlier = c_.k[earlier].prev)
    for (std::size_t i : {0U, 1U}) {
      const Value v = d.operands[i];
      const bool is_written = c_.k.type(v).is_vec() && c_.k[earlier].opcode != Opcode::Poison;
      if (is_written && c_.k[v].def == earlier)
        c_.report(Detector::WgmmaFence,
                  i == 0 ? "the accumulator is written after the last wgmma_fence"
                         : "the A registers are written after the last wgmma_fence",
                  op, earlier);
    }
}

/// Returns the access to shared memory by which a wgmma reads A (operand 1) or B. Its byte range is
/// empty if the operand is in registers.
SmemAccess WgmmaCheck::operand(OpId op, std::size_t operand, int group, const Threads& threads) {
  const OpData& d = c_.k[op];
  const OpId def = c_.k[d.operands[operand]].def;
  const bool is_a = operand == 1;
  SmemAccess p{op, is_a ? kOfA : kItself, group, AccessKind::Wgmma, {}, threads, {}, 0};
  if (!def || c_.k[def].opcode != Opcode::SmemDesc) return p;
  const auto steps = d.attrs.ints(is_a ? AttrName::step_a : AttrName::step_b),
             more_rows = d.attrs.ints(AttrName::rows_a), shape = d.attrs.ints(AttrName::shape);
  const auto most = [](std::span<const std::int64_t> list) {
    return list.empty() ? 0 : std::ranges::max(list);
  };
  const bool mn_major = d.attrs.i(is_a ? AttrName::trans_a : AttrName::trans_b) != 0;
  const std::int64_t rows = is_a || shape.size() < 2 ? kWgmmaRows : shape[1];
  p.address = c_.k[def].operands[0];
  p.size = reach_of(c_.k[def], rows, mn_major, most(steps)) + (is_a ? most(more_rows) : 0);
  p.bytes = c_.ranges.bytes_at(p.address, group, p.size);
  return p;
}

void WgmmaCheck::issue(SharedState& state, OpId op, const ThreadContext& context) {
  const OpData& d = c_.k[op];
  if (state.needs_wgmma_fence)
    c_.report(Detector::WgmmaFence,
              "no wgmma_fence since the kernel began or since accumulators were read", op);
  expect_fenced(op);
  if (is_pending(c_.k, d.operands[0]))
    for (AccessStatus& s : state.open) {
      const SmemAccess& p = c_.places.of(s);
      if (p.use == AccessKind::Wgmma && originates_from(d.operands[0], c_.k[p.op].results[0]))
        s.is_reaccumulated = true;
    }
  for_groups(context.threads, [&](int g) {
    const Threads threads = Checker::within(context.threads, g);
    for (const std::size_t i : {1U, 2U}) {
      const SmemAccess access = operand(op, i, g, threads);
      if (access.part == kOfA && access.bytes.end == 0) continue;
      if (access.bytes.end != 0) access_by_async_proxy(c_, state, access);
      state.set({.place = c_.places.number(access)});
    }
  });
}

void WgmmaCheck::commit(SharedState& state, const ThreadContext& context) {
  codegen::commit(state, c_.places, AccessKind::Wgmma, context.threads);
}

// ---- waits
/// Checks that an accumulator in flight passes through the wait, which also orders the groups that
/// it leaves in flight.
void WgmmaCheck::expect_passed(const AccessStatus& s, OpId wait) {
  const OpId product = c_.places.of(s).op;
  const auto& operands = c_.k[wait].operands;
  const bool is_passed = std::ranges::any_of(
      operands, [&](Value v) { return originates_from(v, c_.k[product].results[0]); });
  if (!is_passed)
    c_.report(Detector::Accumulator, "an accumulator in flight is not passed through the wait",
              wait, product);
}

/// Checks that A in registers is an operand of the wait that retires the wgmma: the registers
/// belong to the wgmma until then.
void WgmmaCheck::expect_kept(const AccessStatus& s, OpId wait) {
  const OpId product = c_.places.of(s).op;
  const Value a = c_.k[product].operands[1];
  if (!c_.k.type(a).is_vec()) return;
  const auto& from = origins(a);
  const bool is_kept = std::ranges::any_of(c_.k[wait].operands, [&](Value v) {
    return !is_pending(c_.k, v) &&
           (v == a || std::ranges::any_of(from, [&](Value o) { return originates_from(v, o); }));
  });
  if (!is_kept)
    c_.report(Detector::AFragment,
              "the A registers of a wgmma retired here are not kept alive until this wait", wait,
              product);
}

/// Checks that no wgmma in flight writes the registers that the wait returns.
void WgmmaCheck::expect_over(const SharedState& state, OpId wait) {
  const OpData& d = c_.k[wait];
  for (const AccessStatus& s : state.open) {
    const SmemAccess& p = c_.places.of(s);
    if (p.use != AccessKind::Wgmma || p.part != kItself || s.done) continue;
    for (std::size_t i = 0; i < d.results.size(); ++i) {
      if (is_pending(c_.k, d.results[i])) continue;
      if (!originates_from(d.operands[i], c_.k[p.op].results[0])) continue;
      c_.report(Detector::Accumulator,
                s.age == AccessStatus::kOpen
                    ? "the accumulator is used, but its wgmma is never committed"
                    : "the accumulator is used while its wgmma group is in flight",
                wait, p.op);
    }
  }
}

void WgmmaCheck::wait(SharedState& state, OpId op, const ThreadContext& context) {
  const OpData& d = c_.k[op];
  const std::int64_t count = d.attrs.i(AttrName::count);
  for (const AccessStatus& s : state.open) {
    const SmemAccess& p = c_.places.of(s);
    if (p.use != AccessKind::Wgmma || p.part != kItself || s.done) continue;
    if (!s.is_reaccumulated) expect_passed(s, op);
    if (s.age >= count) expect_kept(s, op);
  }
  retire(state, c_.places, AccessKind::Wgmma, context.threads, count);
  expect_over(state, op);
  for (std::size_t i = 0; i < d.results.size(); ++i)
    if (!is_pending(c_.k, d.results[i]) && is_pending(c_.k, d.operands[i]) &&
        !origins(d.operands[i]).empty())
      state.needs_wgmma_fence = true;
}

}  // namespace tegula::codegen
