// Cluster split-K: divides the k-iterations of a tile over the CTAs of a cluster.
//
// Before:  s = for 0 .. k { yield dot a, b, acc }; store_view C, f(s), m, n          (128x256)
// After:   s = for part of rank { .. }; p = cluster_reduce_scatter s (32x256)
//          store_view C, f(p), m + rank * 32, n
//
// so that a product of few tiles has work for all SMs. It is what a kernel says with cluster(n),
// cluster_rank, cluster_reduce_scatter and cluster_slice, and from here on is one of those. The sum
// is a barrier, too: what the loop or what stands in front of it reads, all programs have read
// before one of them stores.
#include "ir/passes/cluster_split_k/cluster_split_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <vector>

#include "ir/analysis/index_facts.h"
#include "ir/erase_unused.h"
#include "ir/loop.h"
#include "ir/passes/cluster_split_k/accumulation_loop.h"
#include "ir/passes/cluster_split_k/cluster_hazards.h"
#include "ir/passes/cluster_split_k/cluster_slice.h"
#include "ir/passes/schedule/kernel_summary.h"
#include "ir/passes/schedule/plan_reasons.h"

namespace tegula::ir {
namespace {

/// The result of a loop-carried accumulator after the loop, or after further loops that add to it.
/// An accumulator that begins with zeros and is transposed there, is scattered transposed: a slice
/// of the tensor cores' rows is then received in rows of the stored tile.
struct CarriedAccumulator {
  Value total;      ///< as it is used
  int axis;         ///< its dimension that is split
  OpId first_loop;  ///< the loop that adds to it first
  std::size_t carry;
};

class SplitKRewrite {
 public:
  SplitKRewrite(Kernel& k, int parts) : k_(k), parts_(parts), uses_(k) {}

  /// Splits the kernel; else returns the reason why it cannot be split.
  std::string run() {
    for (const auto check :
         {&SplitKRewrite::look_at_grid, &SplitKRewrite::find_loops, &SplitKRewrite::find_stores,
          &SplitKRewrite::find_sums, &SplitKRewrite::follow_stores})
      if (std::string why = (this->*check)(); !why.empty()) return why;
    rewrite();
    return "";
  }

  OpId first_loop() const { return loops_.front(); }

 private:
  // ---- asking
  std::string look_at_grid() {
    if (!any_op(k_, k_.body(), [&](OpId op) { return k_[op].opcode == Opcode::Dot; }))
      return "there are no MMAs";
    if (!k_.info.target->has_clusters)
      return fmt::format("{} has no clusters", k_.info.target.name());
    if (k_.info.cluster != 1) return "its programs work in clusters already";
    if (!k_.terminator(k_.launch())) return "it has no grid";
    return "";
  }

  bool is_summed(OpId op) const { return std::ranges::count(loops_, op) > 0; }

  std::string find_loops() {
    bool all = true;
    walk(k_, k_.body(), [&](OpId op) {
      if (k_[op].opcode != Opcode::Dot) return;
      OpId loop;
      for (OpId at = k_[k_[op].parent].owner; at; at = k_[k_[at].parent].owner) {
        all = all && k_[at].opcode == Opcode::For;
        loop = at;
      }
      all = all && loop;
      if (all && !is_summed(loop)) loops_.push_back(loop);
    });
    if (!all) return "an MMA is in no loop, or under a condition";
    if (summarize(k_).back_to_back) return "an MMA is computed from another";
    for (OpId loop : loops_)
      if (const auto why = why_not_accumulation(k_, uses_, loop, accumulation_loops_); !why.empty())
        return std::string(why);
    return "";
  }

  /// Checks that nothing has an effect but stores of tiles after the loops.
  std::string find_stores() {
    std::string why;
    walk(k_, k_.body(), [&](OpId op) {
      using enum Opcode;
      const OpData& d = k_[op];
      const bool has_effect = info(d.opcode).has(kWrites) || info(d.opcode).has(kEffects) ||
                              d.attrs.i(AttrName::effects) == 1;
      const bool is_harmless = d.is(Assume, GridDependencyWait, GridLaunchDependents, Pin);
      if (!why.empty() || !has_effect || is_harmless) return;
      const bool is_store = d.is(StoreView, Store, AtomicRmw);
      if (!is_store)
        why = fmt::format("it has a {}", info(d.opcode).mnemonic);
      else if (d.parent != k_.body())
        why = "it writes memory in a loop or a branch";
      else if (!d.results.empty() && !uses_.of(d.results[0]).empty())
        why = "it looks at what an atomic operation found";
      else
        stores_.push_back({op, 0});
    });
    return why;
  }

  std::string find_sums() {
    std::unordered_map<Value, int> dims;
    for (OpId loop : loops_)
      for (std::size_t i = 0; i < k_[loop].results.size(); ++i) {
        const Value result = k_[loop].results[i];
        if (const std::string why = why_no_parts(k_.type(result)); !why.empty()) return why;
        if (uses_.of(result).empty() || goes_on(result)) continue;
        CarriedAccumulator sum{result, 0, loop, i};
        while (goes_on(init_of(sum))) {
          const Value before = init_of(sum);
          sum.first_loop = k_[before].def;
          sum.carry = k_[before].position;
        }
        if (is_zero(k_, init_of(sum))) turn(sum);
        dims[sum.total] = sum.axis;
        accumulators_.push_back(sum);
      }
    share_.emplace(k_, parts_, std::move(dims));
    for (const CarriedAccumulator& sum : accumulators_)
      if (!is_zero(k_, init_of(sum)) && !share_->can_cut(init_of(sum), 0)) return share_->why_not();
    for (OpId loop : loops_)
      if (is_computed_from_sums(loop)) return "an MMA is computed from another's accumulator";
    return "";
  }

  Value init_of(const CarriedAccumulator& sum) const {
    return loop_inits(k_[sum.first_loop])[sum.carry];
  }

  /// Whether another loop adds to the value and nothing else reads it.
  bool goes_on(Value v) const {
    const auto use = uses_.only(v);
    return k_[v].def && is_summed(k_[v].def) && use && is_summed(use->op) &&
           use->operand >= first_init(Opcode::For);
  }

  bool is_computed_from_sums(OpId loop) {
    bool found = false;
    const auto look = [&](Value v) { found = found || share_->depends(v); };
    for (Value v : std::span(k_[loop].operands).first(first_init(Opcode::For))) look(v);
    walk(k_, k_[loop].regions[0], [&](OpId op) {
      for (Value v : k_[op].operands) look(v);
    });
    return found;
  }

  std::string why_no_parts(Type t) const {
    if (!t.is_tile() || t.rank() != 2)
      return "its mainloop carries an accumulator that is no matrix";
    const std::int64_t rows = t.shape()[0];
    if (size_bits(t.dtype()) < 32) return "its accumulators have less than 32 bits";
    if (rows % parts_ != 0 || rows < 2 * parts_ ||
        !std::has_single_bit(static_cast<std::uint64_t>(rows)))
      return fmt::format("{} rows of accumulators are not divided into {} slices", rows, parts_);
    return "";
  }

  void turn(CarriedAccumulator& sum) const {
    const auto use = uses_.only(sum.total);
    if (!use || k_[use->op].opcode != Opcode::Permute || k_[use->op].parent != k_.body()) return;
    const auto order = k_[use->op].attrs.ints(AttrName::order);
    sum.total = k_[use->op].results[0];
    sum.axis = static_cast<int>(std::ranges::find(order, 0) - order.begin());
  }

  std::string follow_stores() {
    for (PartialStore& store : stores_) {
      const OpData& d = k_[store.op];
      const bool in_view = d.opcode == Opcode::StoreView;
      const Value stored = d.operands[1];
      if (!share_->depends(stored)) return "it stores values that do not depend on its MMAs";
      const auto dim = share_->cut_dim(stored);
      if (!dim) return share_->why_not();
      if (in_view && d.attrs.ints(AttrName::axes).size() != k_.type(stored).shape().size())
        return "a store has dimensions that its view lacks";
      store.dim = *dim;
      for (std::size_t i = in_view ? 1 : 0; i < d.operands.size(); ++i)
        if (!share_->can_cut(d.operands[i], *dim)) return share_->why_not();
    }
    return why_ctas_conflict(k_, *share_, stores_, loops_);
  }

  // ---- making
  void rewrite() {
    share_->begin();
    for (OpId loop : accumulation_loops_) keep_k_slice(k_, loop, share_->rank(), parts_);
    for (const CarriedAccumulator& sum : accumulators_) add_parts(sum);
    for (const PartialStore& store : stores_) store_part(store);
    make_clusters();
    erase_replaced();
  }

  void add_parts(const CarriedAccumulator& sum) {
    const OpId def = k_[sum.total].def;
    Builder b = Builder::behind(k_, def);
    Value part =
        b.op(Opcode::ClusterReduceScatter, {sum.total},
             share_->part_type(k_.type(sum.total), sum.axis), {{AttrName::axis, sum.axis}});
    if (const Value init = init_of(sum); !is_zero(k_, init)) {
      part = b.add(part, share_->part(init, 0));
      begin_with_zeros(sum);
    }
    share_->set_slice(sum.total, part);
  }

  void begin_with_zeros(const CarriedAccumulator& sum) {
    Builder b(k_, sum.first_loop);
    const Value zeros = b.zero(k_.type(init_of(sum)));
    loop_inits(k_[sum.first_loop])[sum.carry] = zeros;
  }

  void store_part(const PartialStore& store) {
    const bool in_view = k_[store.op].opcode == Opcode::StoreView;
    for (std::size_t i = in_view ? 1 : 0; i < k_[store.op].operands.size(); ++i) {
      const Value part = share_->part(k_[store.op].operands[i], store.dim);
      k_[store.op].operands[i] = part;
    }
    const Type t = k_.type(k_[store.op].operands[1]);
    const std::int64_t extent = t.shape()[static_cast<std::size_t>(store.dim)];
    if (in_view) share_->move_box(store.op, 2, store.dim, extent);
    for (Value old : k_[store.op].results) k_.set_type(old, t);
  }

  /// Neighbouring programs along the first axis of the launch grid form a cluster.
  void make_clusters() {
    k_.info.cluster = parts_;
    k_.info.preferred = {};  // of kernels whose programs work alone
    const OpId yield = k_.terminator(k_.launch());
    Builder b(k_, yield);
    const Value programs = k_[yield].operands[0];
    const Value all = b.mul(programs, b.constant(k_.type(programs), std::int64_t{parts_}));
    k_[yield].operands[0] = all;
    const auto is_number = [&](OpId op) {
      return k_[op].is(Opcode::ProgramId, Opcode::NumPrograms) &&
             k_[op].attrs.i(AttrName::axis) == 0;
    };
    for (OpId op : ops_where(k_, k_.body(), is_number)) number_clusters(op);
  }

  void number_clusters(OpId op) {
    Builder b(k_, op);
    const Type t = k_.type(k_[op].results[0]);
    Value number;
    if (k_[op].opcode == Opcode::ProgramId) {
      AttrList attrs = k_[op].attrs;
      attrs.erase(AttrName::axis);
      number = k_[b.create(Opcode::ClusterId, {}, std::span(&t, 1), attrs)].results[0];
    } else {
      const Value programs = b.op(Opcode::NumPrograms, {}, t, {{AttrName::axis, 0}});
      number = b.div(programs, b.constant(t, std::int64_t{parts_}));
    }
    k_.replace_all_uses(k_[op].results[0], number);
    k_.erase(op);
  }

  /// Erases ops that only whole tiles needed.
  void erase_replaced() {
    std::vector<OpId> ops;
    for (OpId op : k_.ops(k_.body()))
      if (k_[op].regions.empty()) ops.push_back(op);
    erase_unused(k_, std::move(ops));
  }

  Kernel& k_;
  int parts_;
  Uses uses_;
  std::vector<OpId> loops_;               ///< loops of the body with MMAs
  std::vector<OpId> accumulation_loops_;  ///< the loops, or loops in them, that accumulate
  std::vector<PartialStore> stores_;
  std::vector<CarriedAccumulator> accumulators_;
  std::optional<ClusterSlicer> share_;
};

int requested_split_k(const Kernel& k, const PassContext& context) {
  if (context.plan) return context.plan->cluster_split_k;
  return wanted_fields(k, context).cluster_split_k.value_or(1);
}

}  // namespace

int apply_cluster_split_k(Kernel& k, PassContext& context) {
  const int parts = requested_split_k(k, context);
  if (parts == 1) return 1;
  const auto refuse = [&](const std::string& rule) {
    refuse_plan(k, fmt::format("cluster_split_k={}", parts), rule, context.planned.at);
  };
  if (parts != 2 && parts != 4 && parts != 8) refuse("cluster_split_k is 1, 2, 4 or 8");
  SplitKRewrite split(k, parts);
  const std::string why = split.run();
  if (why.empty()) {
    context.remark(Remark::Kind::Applied, k[split.first_loop()].loc, "split-K in a cluster",
                   {{"programs", std::to_string(parts)}});
    return parts;
  }
  if (context.plan) refuse(why);
  context.remark(Remark::Kind::Missed, {}, "no cluster split-K: " + why);
  return 1;
}

}  // namespace tegula::ir
