// Walks the structured program, each role with the accesses open at its start. Branches are joined,
// and loops are repeated until the state stops growing.
#include "codegen/check/simt_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/check/barriers.h"
#include "codegen/check/checker.h"
#include "codegen/check/wgmma_check.h"
#include "ir/op_table.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Maximum number of rounds per loop. The state may still change after the last one.
constexpr int kMaxLoopRounds = 4;

class SimtWalker {
 public:
  explicit SimtWalker(const Kernel& simt)
      : c_(simt), k_(simt), products_(c_), named_(c_), mbarriers_(c_), cluster_(c_) {}

  std::vector<SimtFault> run() {
    find_async();
    SharedState state;
    const ThreadContext all{threads_between(0, k_.info.threads)};
    region(k_.body(), state, all);
    exit(state);
    named_.finish();
    if (is_async_) {
      mbarriers_.finish();
      check_announced_bytes(c_);
    }
    return std::move(c_.faults);
  }

 private:
  using Run = void (SimtWalker::*)(OpId, SharedState&, const ThreadContext&);
  struct Visit {
    Run run = nullptr;
    bool is_async = false;  ///< only relevant with TMA, wgmma and mbarriers
  };
  static const Visit& visit_of(Opcode opcode) {
    using enum Opcode;
    static constexpr auto kVisits = op_table<Visit>({
        {If, {&SimtWalker::branch, false}},
        {For, {&SimtWalker::loop, false}},
        {While, {&SimtWalker::loop, false}},
        {Roles, {&SimtWalker::roles, false}},
        {BarSync, {&SimtWalker::named_barrier, false}},
        {BarArrive, {&SimtWalker::named_barrier, false}},
        {StShared, {&SimtWalker::write, true}},
        {StMatrix, {&SimtWalker::write, true}},
        {CpAsync, {&SimtWalker::write, true}},
        {ClusterArrive, {&SimtWalker::cluster_arrive, false}},
        {ClusterWait, {&SimtWalker::cluster_wait, false}},
        {LdCluster, {&SimtWalker::ld_cluster, false}},
        {FenceProxyAsync, {&SimtWalker::proxy_fence, true}},
        {FenceMbarInit, {&SimtWalker::init_fence, true}},
        {TmaLoad, {&SimtWalker::tma_load, true}},
        {TmaStore, {&SimtWalker::tma_store, true}},
        {TmaReduce, {&SimtWalker::tma_store, true}},
        {TmaCommit, {&SimtWalker::tma_commit, true}},
        {TmaWait, {&SimtWalker::tma_wait, true}},
        {MbarInit, {&SimtWalker::mbar_init, true}},
        {MbarArrive, {&SimtWalker::mbar_arrive, true}},
        {MbarExpectTx, {&SimtWalker::mbar_arrive, true}},
        {MbarWait, {&SimtWalker::mbar_wait, true}},
        {WgmmaFence, {&SimtWalker::wgmma_fence, true}},
        {Wgmma, {&SimtWalker::wgmma, true}},
        {WgmmaCommit, {&SimtWalker::wgmma_commit, true}},
        {WgmmaWait, {&SimtWalker::wgmma_wait, true}},
    });
    return kVisits[static_cast<std::size_t>(opcode)];
  }

  /// Sets `is_async_` if the kernel uses asynchronous units. Otherwise only its barriers need
  /// checks.
  void find_async() {
    walk(k_, k_.body(), [&](OpId op) {
      using enum Opcode;
      is_async_ = is_async_ || k_[op].is(TmaLoad, TmaStore, TmaReduce, Wgmma, MbarInit);
      if (k_[op].opcode == MbarArrive) mbarriers_.add_arrival_of_threads(op);
    });
  }

  void exit(const SharedState& state) {
    visit_exit(c_, state);
    cluster_.exit(state);
  }

  // ---- structure
  void region(RegionId r, SharedState& state, const ThreadContext& context) {
    for (OpId op : k_.ops(r)) {
      if (context.has_partial_warp && info(k_[op].opcode).has(kConvergent))
        c_.report(sim::Detector::Divergence, "only a part of a warp executes a convergent op", op);
      const Visit& visit = visit_of(k_[op].opcode);
      if (visit.run && (is_async_ || !visit.is_async)) (this->*visit.run)(op, state, context);
    }
  }

  /// Checks both branches, each with the threads that may take it. A divergent condition splits the
  /// threads; a uniform one sends all of them to the same branch.
  void branch(OpId op, SharedState& state, const ThreadContext& context) {
    const OpData& d = k_[op];
    const BranchThreads taken = c_.sets.where(d.operands[0]);
    ThreadContext yes = context, no = context;
    yes.threads &= taken.threads;
    if (taken.by_thread_id) {
      no.threads &= ~taken.threads;
      yes.has_partial_warp = context.is_exact && has_part_of_warp(yes.threads, k_.info.threads);
      no.has_partial_warp = context.is_exact && has_part_of_warp(no.threads, k_.info.threads);
    } else {
      yes.is_exact = no.is_exact = context.is_exact && taken.is_exact;
      yes.is_convergent = no.is_convergent = context.is_convergent && taken.is_convergent;
    }
    if (taken.varies != Divergence::Uniform || taken.by_thread_id) {
      if (yes.threads.any()) region(d.regions[0], state, yes);
      if (no.threads.any()) region(d.regions[1], state, no);
      return;
    }
    SharedState other = state;
    region(d.regions[0], state, yes);
    region(d.regions[1], other, no);
    state.join(other);
  }

  void loop(OpId op, SharedState& state, const ThreadContext& context) {
    for (int round = 0; round < kMaxLoopRounds; ++round) {
      SharedState next = state;
      for (RegionId r : k_[op].regions) region(r, next, context);
      next.join(state);
      if (next == state) return;
      state = std::move(next);
    }
  }

  void roles(OpId op, SharedState& state, const ThreadContext&) {
    const OpData& d = k_[op];
    const auto warps = d.attrs.ints(AttrName::warps);
    int first = 0;
    for (std::size_t i = 0; i < d.regions.size() && i < warps.size(); ++i) {
      const int end = first + static_cast<int>(warps[i]) * 32;
      SharedState own = state;
      region(d.regions[i], own,
             ThreadContext{threads_between(first, std::min(end, k_.info.threads))});
      exit(own);
      first = end;
    }
  }

  // ---- ops
  void named_barrier(OpId op, SharedState& s, const ThreadContext& w) { named_.visit(s, op, w); }
  void write(OpId op, SharedState& s, const ThreadContext& w) { visit_write(c_, s, op, w); }
  void cluster_arrive(OpId, SharedState& s, const ThreadContext&) { cluster_.arrive(s); }
  void cluster_wait(OpId, SharedState& s, const ThreadContext&) { cluster_.wait(s); }
  void ld_cluster(OpId op, SharedState& s, const ThreadContext&) { cluster_.visit(s, op); }
  void proxy_fence(OpId op, SharedState& s, const ThreadContext& w) {
    if (k_[op].attrs.s(AttrName::kind) != "global") fence(s, c_.places, w.threads, false);
  }
  void init_fence(OpId, SharedState& s, const ThreadContext& w) {
    fence(s, c_.places, w.threads, true);
  }
  void tma_load(OpId op, SharedState& s, const ThreadContext& w) {
    cluster_.visit(s, op);
    mbarriers_.name(s, op, w);
    visit_tma_load(c_, s, op, w);
  }
  void tma_store(OpId op, SharedState& s, const ThreadContext& w) { visit_tma_store(c_, s, op, w); }
  void tma_commit(OpId, SharedState& s, const ThreadContext& w) {
    commit(s, c_.places, AccessKind::TmaStore, w.threads);
  }
  void tma_wait(OpId op, SharedState& s, const ThreadContext& w) {
    retire(s, c_.places, AccessKind::TmaStore, w.threads, k_[op].attrs.i(AttrName::count));
  }
  void mbar_init(OpId op, SharedState& s, const ThreadContext& w) { mbarriers_.init(s, op, w); }
  void mbar_arrive(OpId op, SharedState& s, const ThreadContext& w) {
    cluster_.visit(s, op);
    mbarriers_.arrive(s, op, w);
  }
  void mbar_wait(OpId op, SharedState& s, const ThreadContext& w) { mbarriers_.wait(s, op, w); }
  void wgmma_fence(OpId, SharedState& s, const ThreadContext&) { products_.fence(s); }
  void wgmma(OpId op, SharedState& s, const ThreadContext& w) { products_.issue(s, op, w); }
  void wgmma_commit(OpId, SharedState& s, const ThreadContext& w) { products_.commit(s, w); }
  void wgmma_wait(OpId op, SharedState& s, const ThreadContext& w) { products_.wait(s, op, w); }

  Checker c_;
  const Kernel& k_;
  WgmmaCheck products_;
  NamedBarriers named_;
  Mbarriers mbarriers_;
  ClusterCheck cluster_;
  bool is_async_ = false;
};

std::string place(const Kernel& k, OpId op) {
  const Loc& loc = k[op].loc;
  return fmt::format("{} at {}:{}", info(k[op].opcode).mnemonic, loc.file, loc.line);
}

}  // namespace

Checker::Checker(const Kernel& simt) : k(simt), ranges(simt), sets(simt), addresses(simt) {
  for (const Param& p : simt.params()) params[p.value] = &p;
}

void Checker::report(sim::Detector kind, const char* what, OpId op, OpId other) {
  const bool is_known = std::ranges::any_of(
      faults, [&](const SimtFault& f) { return f.kind == kind && f.op == op && f.other == other; });
  if (!is_known) faults.push_back({kind, what, op, other});
}

std::int64_t Checker::box_elements(Value map) const {
  const auto it = params.find(map);
  if (it == params.end()) return 0;
  const auto box = it->second->attrs.ints(AttrName::box);
  std::int64_t elements = box.empty() ? 0 : 1;
  for (std::int64_t extent : box) elements *= extent;
  return elements;
}

std::int64_t Checker::element_bytes(Value map) const {
  const auto it = params.find(map);
  if (it == params.end()) return 0;
  const std::int64_t arg = it->second->attrs.i(AttrName::arg, -1);
  for (const Param& p : k.params()) {
    if (p.attrs.i(AttrName::arg, -1) != arg) continue;
    if (p.attrs.s(AttrName::component) == "ptr") return size_bytes(k.type(p.value).dtype());
    // The swizzle width equals the row width of its boxes.
    const auto box = p.attrs.ints(AttrName::box);
    const std::int64_t swizzle = p.attrs.i(AttrName::swizzle);
    if (!box.empty() && swizzle % box[0] == 0 && swizzle > 0) return swizzle / box[0];
  }
  return 0;
}

std::int64_t Checker::box_bytes(Value map) const {
  return std::max<std::int64_t>(1, box_elements(map)) *
         std::max<std::int64_t>(1, element_bytes(map));
}

SmemAccess Checker::place(OpId op, AccessKind use, int group, const Threads& threads, Value address,
                          std::int64_t size) {
  return {op,      0,   group, use, ranges.bytes_at(address, group, size), within(threads, group),
          address, size};
}

std::string SimtFault::str(const Kernel& simt) const {
  std::string text = fmt::format("{}: {}: {}", sim::name(kind), what, place(simt, op));
  if (other) text += "; " + place(simt, other);
  return text;
}

std::vector<SimtFault> find_simt_faults(const Kernel& simt) { return SimtWalker(simt).run(); }

bool check_simt(Kernel& kernel, PassContext&) {
  const auto faults = find_simt_faults(kernel);
  if (!faults.empty()) throw InternalError(faults.front().str(kernel));
  return false;
}

}  // namespace tegula::codegen
