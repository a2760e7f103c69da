// Checks of mbarriers: initialization before use, arrival counts, and announced bytes.
#include <algorithm>
#include <bit>
#include <optional>

#include "codegen/check/barriers.h"

namespace tegula::codegen {

using namespace ir;
using sim::Detector;

namespace {

constexpr std::int64_t kBarrierBytes = 8;

}  // namespace

void Mbarriers::init(SharedState& state, OpId op, const ThreadContext& context) {
  const OpData& d = c_.k[op];
  for_groups(context.threads, [&](int g) {
    const SmemAccess initialized =
        c_.place(op, AccessKind::MbarrierInit, g, context.threads, d.operands[0], kBarrierBytes);
    if (initialized.bytes.end == 0) return;
    const bool is_known =
        std::ranges::any_of(initialized_, [&](const InitializedBarrier& m) { return m.op == op; });
    if (!is_known) initialized_.push_back({op, initialized.bytes, d.attrs.i(AttrName::count, 1)});
    state.set({.place = c_.places.number(initialized)});
  });
}

/// Checks that the mbarrier was initialized and that a barrier orders the initialization before
/// `op`.
void Mbarriers::expect_initialized(const SharedState& state, OpId op, Value address,
                                   const ThreadContext& context) {
  for_groups(context.threads, [&](int g) {
    const ByteRange bytes = c_.ranges.bytes_at(address, g, kBarrierBytes);
    if (bytes.end == 0) return;
    const Threads threads = Checker::within(context.threads, g);
    bool is_made = false;
    for (const AccessStatus& s : state.open) {
      const SmemAccess& p = c_.places.of(s);
      if (p.use != AccessKind::MbarrierInit || !p.bytes.overlaps(bytes)) continue;
      is_made = true;
      if ((s.seen >> g & 1U) == 0 && (threads & ~p.threads).any())
        c_.report(Detector::MbarrierMisuse,
                  "no barrier orders the use of an mbarrier after its initialisation", op, p.op);
    }
    if (!is_made && !initialized_.empty())
      c_.report(Detector::MbarrierMisuse, "no mbarrier was initialised there", op);
  });
}

void Mbarriers::name(const SharedState& state, OpId op, const ThreadContext& context) {
  const Value address = c_.k[op].operands[2];
  expect_initialized(state, op, address, context);
  for_groups(context.threads, [&](int g) {
    const ByteRange bytes = c_.ranges.bytes_at(address, g, kBarrierBytes);
    for (const AccessStatus& s : state.open) {
      const SmemAccess& p = c_.places.of(s);
      if (p.use == AccessKind::MbarrierInit && p.bytes.overlaps(bytes) && !s.fenced &&
          (s.clean >> g & 1U) == 0)
        c_.report(Detector::MbarrierMisuse,
                  "the initialisation of an mbarrier is not made visible to TMA "
                  "(fence_mbar_init)",
                  op, p.op);
    }
  });
}

void Mbarriers::arrive(SharedState& state, OpId op, const ThreadContext& context) {
  const OpData& d = c_.k[op];
  expect_initialized(state, op, d.operands[0], context);
  if (std::ranges::any_of(arrivals_, [&](const Arrival& a) { return a.op == op; })) return;
  Threads threads = context.threads;
  bool is_exact = context.is_exact;
  if (d.operands.size() > 1) {
    const BranchThreads taken = c_.sets.where(d.operands[1]);
    threads &= taken.threads;
    is_exact = is_exact && taken.is_exact;
  }
  Arrival a{op, {}, threads, is_exact, context.is_convergent};
  for_groups(threads, [&](int g) {
    const ByteRange bytes = c_.ranges.bytes_at(d.operands[0], g, kBarrierBytes);
    if (bytes.end == 0) a.is_exact = false;
    a.bytes = a.bytes.end == 0 ? bytes
                               : ByteRange{std::min(a.bytes.first, bytes.first),
                                           std::max(a.bytes.end, bytes.end)};
  });
  arrivals_.push_back(a);
}

void Mbarriers::add_arrival_of_threads(OpId op) {
  const int groups = (c_.k.info.threads + kWarpgroupThreads - 1) / kWarpgroupThreads;
  for (int g = 0; g < groups; ++g)
    thread_arrivals_.push_back(c_.ranges.bytes_at(c_.k[op].operands[0], g, kBarrierBytes));
}

/// Orders the accesses that threads make before they arrive. A wait for an mbarrier that only TMA
/// completes does not order accesses of threads.
void Mbarriers::wait(SharedState& state, OpId op, const ThreadContext& context) {
  const OpData& d = c_.k[op];
  expect_initialized(state, op, d.operands[0], context);
  const ByteRange bytes = c_.ranges.bytes_at(
      d.operands[0], std::countr_zero(warpgroups_of(context.threads)), kBarrierBytes);
  const bool tells =
      bytes.end == 0 || std::ranges::any_of(thread_arrivals_, [&](const ByteRange& s) {
        return s.end == 0 || s.overlaps(bytes);
      });
  if (tells)
    join_warpgroups(state, c_.places, warpgroups_of(threads_between(0, c_.k.info.threads)));
}

/// Returns true if the mbarriers that the arrival may use expect different counts.
bool Mbarriers::is_ambiguous(const Arrival& a) const {
  std::int64_t count = 0;
  for (const InitializedBarrier& m : initialized_) {
    if (!m.bytes.overlaps(a.bytes)) continue;
    if (count != 0 && m.count != count) return true;
    count = m.count;
  }
  return false;
}

namespace {

/// Returns the number of arriving threads: all of them if `is_convergent`, else the maximum over
/// the warpgroups, which may arrive separately.
std::int64_t arriving(const Threads& threads, bool is_convergent) {
  if (is_convergent) return static_cast<std::int64_t>(threads.count());
  std::size_t most = 0;
  for_groups(threads, [&](int g) { most = std::max(most, Checker::within(threads, g).count()); });
  return static_cast<std::int64_t>(most);
}

}  // namespace

/// Checks the arrivals against the count, assuming that each thread arrives once per phase.
void Mbarriers::expect_count(const InitializedBarrier& barrier) {
  Threads all;
  bool is_convergent = true;
  OpId last;
  for (const Arrival& a : arrivals_) {
    if (!a.bytes.overlaps(barrier.bytes)) continue;
    if (!a.is_exact || is_ambiguous(a)) return;
    last = a.op;
    all |= a.threads;
    is_convergent = is_convergent && a.is_convergent;
    if (arriving(a.threads, a.is_convergent) > barrier.count)
      c_.report(Detector::MbarrierMisuse, "an mbarrier gets more arrivals at once than it expects",
                a.op, barrier.op);
  }
  if (last && arriving(all, is_convergent) < barrier.count)
    c_.report(Detector::Deadlock, "an mbarrier expects more arrivals than it can get", last,
              barrier.op);
}

void Mbarriers::finish() {
  if (std::ranges::any_of(arrivals_, [](const Arrival& a) { return a.bytes.end == 0; })) return;
  for (const InitializedBarrier& m : initialized_) expect_count(m);
}

// ---- bytes
namespace {

/// Computes the bytes of the loads of one mbarrier on each path through a region.
class Announced {
 public:
  Announced(const Checker& c, Value mbarrier) : c_(c), mbarrier_(mbarrier) {}

  OpId load;  ///< the first load
  int announcements = 0;

  /// Returns the distinct sums over all paths, or nothing if a sum is unknown.
  std::optional<std::vector<std::int64_t>> bytes(RegionId region) {
    std::vector<std::int64_t> all{0};
    for (OpId op : c_.k.ops(region)) {
      const OpData& d = c_.k[op];
      if (d.opcode == Opcode::MbarExpectTx && d.operands[0] == mbarrier_) ++announcements;
      if (d.opcode == Opcode::TmaLoad && d.operands[2] == mbarrier_ && !add(op, all))
        return std::nullopt;
      if (!d.regions.empty() && !add_branches(d, all)) return std::nullopt;
    }
    return all;
  }

 private:
  static constexpr std::size_t kMaxPaths = 16;

  bool add(OpId op, std::vector<std::int64_t>& all) {
    const OpData& d = c_.k[op];
    const std::int64_t bytes = c_.box_elements(d.operands[0]) * c_.element_bytes(d.operands[0]) *
                               d.attrs.i(AttrName::cluster_ctas, 1);
    if (!load) load = op;
    for (std::int64_t& n : all) n += bytes;
    return bytes != 0;
  }

  bool add_branches(const OpData& d, std::vector<std::int64_t>& all) {
    std::vector<std::int64_t> more;
    for (RegionId r : d.regions) {
      const OpId before = load;
      const auto inside = bytes(r);
      if (!inside) return false;
      if (d.opcode != Opcode::If && load != before) return false;  // unknown number of executions
      for (std::int64_t n : *inside)
        for (std::int64_t m : all)
          if (std::ranges::find(more, n + m) == more.end()) more.push_back(n + m);
    }
    if (more.size() > kMaxPaths) return false;
    all = std::move(more);
    return true;
  }

  const Checker& c_;
  Value mbarrier_;
};

}  // namespace

void check_announced_bytes(Checker& c) {
  const auto all = [&](Opcode o) {
    return ops_where(c.k, c.k.body(), [&](OpId op) { return c.k[op].opcode == o; });
  };
  const std::vector<OpId> announcements = all(Opcode::MbarExpectTx), loads = all(Opcode::TmaLoad);
  for (OpId op : announcements) {
    const Value mbarrier = c.k[op].operands[0];
    const bool is_elsewhere = std::ranges::any_of(loads, [&](OpId load) {
      return c.k[load].operands[2] == mbarrier && std::ranges::none_of(announcements, [&](OpId by) {
               return c.k[by].operands[0] == mbarrier && is_inside(c.k, load, c.k[by].parent);
             });
    });
    Announced announced(c, mbarrier);
    const auto loaded = announced.bytes(c.k[op].parent);
    if (is_elsewhere || !loaded || !announced.load || announced.announcements != 1) continue;
    const std::int64_t bytes = c.k[op].attrs.i(AttrName::bytes);
    if (std::ranges::any_of(*loaded, [&](std::int64_t n) { return n != bytes; }))
      c.report(Detector::TxMismatch,
               "the TMA loads of an mbarrier do not add up to the expected bytes", op,
               announced.load);
  }
}

}  // namespace tegula::codegen
