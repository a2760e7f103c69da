// Inserts barriers that make a program's accesses to global memory happen in program order,
// although many threads perform them.
//
// Before:  store_view Y, a, %i ..; b = load_view Y, %j ..; atomic_rmw lock [sem = "release"]
// After:   store_view Y, a, %i ..; cta_barrier; b = load_view Y, %j ..; cta_barrier; atomic_rmw ..
// A barrier is inserted between an access and a conflicting earlier access of another thread if no
// barrier separates them on some path. It is placed as late as possible, so that it serves all
// later accesses, and before the loops that contain only the later access. A release comes after a
// barrier, so that it publishes the writes of all threads; after an acquire, all threads
// synchronize. If every thread accesses only its own elements, as in epilogues, no barrier is
// needed.
#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/analysis/memory_hazards.h"
#include "ir/analysis/producer_thread.h"
#include "ir/analysis/warp_exchange.h"
#include "ir/builder.h"
#include "ir/loop.h"
#include "ir/pipeline.h"
#include "ir/uses.h"
#include "tegula/error.h"

namespace tegula::ir {
namespace {

/// An access after which some path has had no barrier yet.
struct Open {
  OpId op;
  OpId carried;  ///< the access was in an earlier iteration of this loop; null: in this one
  friend auto operator<=>(const Open&, const Open&) = default;
};
using State = std::vector<Open>;  ///< sorted

void add(State& to, const State& from) {
  State both;
  std::ranges::set_union(to, from, std::back_inserter(both));
  to = std::move(both);
}

/// Position of a missing barrier: before `op`, because of the accesses in `before`, or after it.
struct Missing {
  OpId op;
  State before;
  bool is_after = false;
};

class MemoryOrder {
 public:
  MemoryOrder(Kernel& k, PassContext& context) : k_(k), context_(context), hazards_(k), uses_(k) {}

  bool run() {
    State open;
    // Barriers that are inserted after an op are visited, too.
    for (OpId op = k_[k_.body()].first; op; op = k_[op].next)
      for (;;) {
        State now = open;
        missing_.reset();
        find_starts(op, open);
        if (visit(op, now, true)) {
          open = std::move(now);
          break;
        }
        if (place(*missing_) == op) open.clear();
      }
    return changed_;
  }

 private:
  // ---- effects of ops
  bool syncs_for_result(const OpData& d) const {
    using enum Opcode;
    return d.is(AtomicRmw, AtomicCas, AtomicLoad, ReadRegister) &&
           k_.type(d.results[0]).is_scalar() && !uses_.of(d.results[0]).empty();
  }
  /// Returns true if the lowering synchronizes threads before the op has its effects.
  bool syncs_before(const OpData& d) const {
    return d.opcode == Opcode::ArriveAndTestLast || syncs_for_result(d);
  }
  bool syncs_after(const OpData& d) const {
    using enum Opcode;
    if (d.is(ConvertLayout, Reduce, ArgReduce, ReduceWith))
      return !uses_.of(d.results[0]).empty() && exchanges_between_warps(k_, d);
    return d.opcode == CtaBarrier || syncs_before(d);
  }

  State open_at(OpId op, const State& open) {
    State found;
    const MemoryAccess* access = hazards_.access(op);
    const bool publishes = is_release(k_[op]);
    for (const Open& o : open) {
      const MemoryAccess& earlier = *hazards_.access(o.op);
      const bool alone = earlier.is_first_threads() && access && access->is_first_threads();
      if ((publishes && !alone) || (access && hazards_.conflict(earlier, *access, o.carried)))
        found.push_back(o);
    }
    return found;
  }

  /// Updates the open accesses. If `records_missing`, records a missing barrier and returns false
  /// if one is needed before the op.
  bool visit_leaf(OpId op, State& open, bool records_missing) {
    const OpData& d = k_[op];
    if (syncs_before(d)) open.clear();
    if (records_missing)
      if (State before = open_at(op, open); !before.empty()) {
        missing_ = Missing{op, std::move(before)};
        return false;
      }
    if (hazards_.access(op)) add(open, State{{op, {}}});
    if (syncs_after(d)) open.clear();
    const bool precedes_barrier = d.next && k_[d.next].opcode == Opcode::CtaBarrier;
    if (records_missing && is_acquire(d) && !syncs_after(d) && !precedes_barrier) {
      missing_ = Missing{op, {}, true};
      return false;
    }
    return true;
  }

  // ---- paths
  bool visit(OpId op, State& open, bool records_missing) {
    using enum Opcode;
    const OpData& d = k_[op];
    if (d.opcode == If) {
      State other = open;
      if (!visit(d.regions[0], open, records_missing) ||
          !visit(d.regions[1], other, records_missing))
        return false;
      add(open, other);
      return true;
    }
    if (is_loop(d)) return visit_loop(op, open, records_missing);
    return visit_leaf(op, open, records_missing);
  }
  bool visit(RegionId region, State& open, bool records_missing) {
    for (OpId op : k_.ops(region))
      if (!visit(op, open, records_missing)) return false;
    return true;
  }

  /// Visits one iteration. `open` becomes the open accesses after it, `at_exit` those where the
  /// loop ends.
  bool visit_iteration(OpId loop, State& open, State& at_exit, bool records_missing) {
    const bool tests = k_[loop].opcode == Opcode::While;
    if (tests && !visit(k_[loop].regions[0], open, records_missing)) return false;
    if (tests) add(at_exit, open);
    if (!visit(k_[loop].regions.back(), open, records_missing)) return false;
    if (!tests) add(at_exit, open);
    return true;
  }

  /// Computes the open accesses at the start of the loops in `op`. All loops are repeated together:
  /// a fixpoint of each loop for each visit would take time exponential in the nesting depth.
  void find_starts(OpId op, const State& open) {
    starts_.clear();
    do {
      grows_ = false;
      State now = open;
      visit(op, now, false);
    } while (grows_);
  }

  void add_start(OpId loop, const State& more) {
    State& start = starts_[loop];
    const std::size_t before = start.size();
    add(start, more);
    grows_ |= start.size() > before;
  }

  bool visit_loop(OpId loop, State& open, bool records_missing) {
    add_start(loop, open);
    State state = starts_[loop], at_exit;
    const bool may_be_empty = k_[loop].opcode == Opcode::For;
    if (!visit_iteration(loop, state, at_exit, records_missing)) return false;
    if (!has_independent_iterations(k_, loop)) {
      for (Open& o : state) o = carried(o, loop);
      std::ranges::sort(state);
      state.erase(std::ranges::unique(state).begin(), state.end());
      add_start(loop, state);
    }
    if (may_be_empty) add(at_exit, open);
    // The code after the tile loop belongs to the last tile, which does not access the memory of
    // the others.
    if (is_tile_loop(k_, loop)) at_exit.clear();
    open = std::move(at_exit);
    return true;
  }

  /// Returns the access as one of an earlier iteration of `loop`, or of an enclosing loop that
  /// carries it already.
  Open carried(Open o, OpId loop) const {
    const bool keeps = o.carried && (o.carried == loop || is_inside(k_, loop, o.carried));
    return {o.op, keeps ? o.carried : loop};
  }

  // ---- barriers
  /// Inserts a barrier before the outermost loop around the op that contains none of the earlier
  /// accesses. Returns the op that the barrier precedes.
  OpId place(const Missing& m) {
    OpId first = m.op;
    for (OpId owner = k_[k_[m.op].parent].owner; owner && !m.is_after;
         owner = k_[k_[owner].parent].owner) {
      if (k_[owner].opcode == Opcode::If && is_producer_condition(k_, k_[owner].operands[0]))
        throw InternalError("a copy reads memory that the program has written");
      if (!is_loop(k_[owner])) continue;
      if (std::ranges::any_of(m.before, [&](const Open& o) { return is_inside(k_, o.op, owner); }))
        break;
      first = owner;
    }
    Builder b = Builder::after(k_, m.op);
    if (!m.is_after) b.before(first);
    b.effect(Opcode::CtaBarrier, {});
    changed_ = true;
    context_.remark(Remark::Kind::Applied, k_[m.op].loc, reason(m), accesses(m));
    return m.is_after ? OpId() : first;
  }

  /// Returns the op, and the earlier accesses that it conflicts with, for a remark.
  std::vector<std::pair<std::string, std::string>> accesses(const Missing& m) const {
    const auto named = [&](OpId op) {
      return fmt::format("{}@{}", info(k_[op].opcode).mnemonic, k_[op].loc.line);
    };
    std::vector<std::pair<std::string, std::string>> all{
        {"op", std::string(info(k_[m.op].opcode).mnemonic)}};
    for (const Open& earlier : m.before) all.emplace_back("earlier", named(earlier.op));
    return all;
  }

  std::string reason(const Missing& m) const {
    if (m.is_after) return "all threads synchronise: an acquire by one orders their later accesses";
    if (is_release(k_[m.op]))
      return "all threads synchronise: a release publishes their earlier writes";
    return "all threads synchronise: another one may have accessed the same memory";
  }

  Kernel& k_;
  PassContext& context_;
  MemoryHazards hazards_;
  Uses uses_;
  std::unordered_map<OpId, State> starts_;  ///< of loops
  bool grows_ = false;                      ///< an access was added to `starts_`
  std::optional<Missing> missing_;
  bool changed_ = false;
};

}  // namespace

bool memory_order(Kernel& kernel, PassContext& context) {
  return MemoryOrder(kernel, context).run();
}

}  // namespace tegula::ir
