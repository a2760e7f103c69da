// Checks of named barriers: ids, counts, and whether enough threads can arrive.
#include <algorithm>

#include "codegen/check/barriers.h"

namespace tegula::codegen {

using namespace ir;
using sim::Detector;

namespace {

constexpr int kWarp = 32;

}  // namespace

/// Returns the number of threads that synchronize. An op without a count synchronizes all warps of
/// the CTA.
std::int64_t NamedBarriers::count_of(const OpData& d) const {
  const std::int64_t count = d.attrs.i(AttrName::count);
  return count != 0 ? count : (c_.k.info.threads + kWarp - 1) / kWarp * kWarp;
}

/// Returns the threads that use each barrier; empty if a barrier number is unknown.
std::map<std::int64_t, Threads> NamedBarriers::by_id(Value id, const Threads& threads) const {
  std::map<std::int64_t, Threads> found;
  if (const auto* numbers = c_.sets.by_thread(id)) {
    for (std::size_t i = threads._Find_first(); i < numbers->size(); i = threads._Find_next(i))
      found[(*numbers)[i].i].set(i);
    return found;
  }
  bool is_known = true;
  for_groups(threads, [&](int g) {
    const Range r = c_.ranges.of(id, g);
    is_known = is_known && r.is_known() && r.is_one();
    if (is_known) found[r.lo] |= Checker::within(threads, g);
  });
  if (!is_known) found.clear();
  return found;
}

void NamedBarriers::use(std::int64_t id, std::int64_t count, OpId op, const Threads& threads) {
  if (id < 0 || id >= kNamedBarriers)
    return c_.report(Detector::BarrierCount, "there is no such barrier: 0 to 15", op);
  BarrierUse& u = uses_[static_cast<std::size_t>(id)];
  if (u.first && u.count != count)
    c_.report(Detector::BarrierCount, "a barrier is used with two different counts", op, u.first);
  if (!u.first) u = {op, count, {}, false};
  u.threads |= threads;
  u.waits = u.waits || c_.k[op].opcode == Opcode::BarSync;
}

/// Marks the barriers that `id` may denote if its value is known only at run time.
void NamedBarriers::may_be(Value id, const Threads& threads) {
  for_groups(threads, [&](int g) {
    const Range r = c_.ranges.of(id, g);
    for (std::int64_t n = std::max<std::int64_t>(0, r.lo);
         n <= std::min<std::int64_t>(r.hi, kNamedBarriers - 1); ++n)
      at_run_time_.set(static_cast<std::size_t>(n));
  });
}

void NamedBarriers::visit(SharedState& state, OpId op, const ThreadContext& context) {
  const OpData& d = c_.k[op];
  const std::int64_t count = count_of(d);
  if (count % kWarp != 0)
    c_.report(Detector::BarrierCount, "a barrier counts threads that are not whole warps", op);
  const std::uint32_t all = warpgroups_of(threads_between(0, c_.k.info.threads));
  const auto ids = by_id(d.operands[0], context.threads);
  if (ids.empty()) may_be(d.operands[0], context.threads);
  const bool waits = d.opcode == Opcode::BarSync;
  if (ids.empty() && waits) join_warpgroups(state, c_.places, all);
  for (const auto& [id, threads] : ids) {
    use(id, count, op, threads);
    const auto arriving = static_cast<std::int64_t>(threads.count());
    if (context.is_exact && arriving > count)
      c_.report(Detector::BarrierCount, "more threads arrive at a barrier than it counts", op);
    // Warps that this analysis does not know may also arrive, so all warpgroups may be
    // synchronized.
    if (waits) join_warpgroups(state, c_.places, arriving >= count ? warpgroups_of(threads) : all);
  }
}

void NamedBarriers::expect_enough(const BarrierUse& use) {
  const int padding = (kWarp - c_.k.info.threads % kWarp) % kWarp;
  if (static_cast<std::int64_t>(use.threads.count()) + padding < use.count)
    c_.report(use.waits ? Detector::Deadlock : Detector::BarrierCount,
              "a barrier counts more threads than ever arrive at it", use.first);
}

void NamedBarriers::finish() {
  for (std::size_t id = 0; id < uses_.size(); ++id)
    if (uses_[id].first && !at_run_time_.test(id)) expect_enough(uses_[id]);
}

}  // namespace tegula::codegen
