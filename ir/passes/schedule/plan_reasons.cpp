#include "ir/passes/schedule/plan_reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/passes/mma_loop/operand_loads.h"
#include "ir/passes/schedule/dot_graph_plan.h"
#include "support/errors.h"

namespace tegula::ir {
namespace {

/// Collects the reasons of one plan.
class Reasons {
 public:
  Reasons(const Plan& plan, const Kernel& k) : p_(plan), k_(k), s_(summarize(k)) {}

  std::vector<std::string> all() {
    if (s_.max_accumulator_elems == 0)
      of_rows();
    else if (!p_.wgmma)
      mma_sync_reasons();
    else if (s_.are_gemms())
      of_gemms(*s_.dots);
    else if (const auto needs = dot_graph_needs(k_, p_.num_warps))
      of_graph(*needs);
    return std::move(reasons_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    reasons_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  void of_rows() {
    add("num_warps={}: no MMAs; a thread holds {} of the largest tile's {} elements", p_.num_warps,
        std::max<std::int64_t>(1, s_.max_tile_elems / (32 * p_.num_warps)), s_.max_tile_elems);
    if (p_.min_ctas_per_sm > 1)
      add("min_ctas_per_sm={}: while the threads of one CTA synchronise, others keep the memory "
          "busy",
          p_.min_ctas_per_sm);
  }

  void mma_sync_reasons() {
    add("{}", wgmma_missed_remark(k_));
    add("num_warps={}: {} elements of the largest accumulator", p_.num_warps,
        s_.max_accumulator_elems);
    add("stages={}: {} bytes per iteration", p_.stages, cp_async_ring_bytes(k_, 1));
  }

  void of_graph(const DotNeeds& needs) {
    add("wgmma=1: a graph of dots in a loop; operands that threads compute for each other go "
        "through shared memory");
    add("num_warps={}: accumulators and fragments take {} registers", p_.num_warps,
        needs.live_registers);
    stages("", needs.stage_bytes(), needs.fixed_bytes);
    if (p_.min_ctas_per_sm > 1)
      add("min_ctas_per_sm={}: the threads copy all operands themselves; while those of one CTA "
          "synchronise, or begin or end a tile, others compute",
          p_.min_ctas_per_sm);
    add("tma_store={}: {}", static_cast<int>(p_.tma_store),
        p_.tma_store ? "there is room next to the rings"
                     : "no room, or no store that TMA supports");
  }

  void stages(std::string_view why, std::int64_t step, std::int64_t once) {
    add("stages={}: {}{} bytes per iteration, {} once, room for {}", p_.stages, why, step, once,
        (k_.info.target->ring_bytes() - once) / step);
  }

  void of_gemms(const DotNeeds& needs) {
    const std::int64_t step = stage_bytes(needs, p_),
                       ring = needs.stationary_bytes + p_.stages * step;
    if (p_.swap_ab)
      add("swap_ab=1: tiles have fewer rows than a warpgroup; their {} columns become rows",
          s_.mma_rows);
    if (p_.pingpong)
      add("pingpong=1: the kernel prefers it; a tile of {} rows is one warpgroup's work",
          s_.mma_rows);
    else
      add("num_warps={}: {} rows of accumulators, {} per warp", p_.num_warps, s_.mma_rows,
          kWarpRows);
    stages(s_.stages != 0 ? "the loop requests it; " : "the useful maximum; ", step,
           needs.stationary_bytes);
    of_registers(needs);
    if (p_.persistent)
      add("persistent=1: rings of {} bytes fill an SM", ring);
    else
      add("persistent=0: {}", k_.info.cluster > 1
                                  ? "the kernel uses clusters"
                                  : fmt::format("with rings of {} bytes two CTAs share an SM, "
                                                "and overlap",
                                                ring));
    if (p_.warp_scheduler_barrier)
      add("warp_scheduler_barrier=1: an operand of an MMA is computed from another MMA");
    if (p_.dynamic_scheduler)
      add("dynamic_scheduler=1: the number of iterations of a tile is read from memory");
    if (p_.overlap_epilogue)
      add("overlap_epilogue=1: there is room for the next tile's first operands");
    else if (p_.warp_scheduler_barrier && p_.persistent)
      add("overlap_epilogue=0: {}", why_no_overlap());
    if (p_.multicast)
      add("multicast=1: the kernel prefers it, and neighbouring tiles share a load");
    if (p_.tma_aux_loads)
      add("tma_aux_loads=1: the kernel prefers it; {} bytes per iteration are auxiliary",
          needs.other_bytes);
    if (p_.tma_store)
      add("tma_store=1: the kernel prefers it, or results are combined with memory, and there is "
          "room next to the rings");
  }

  void of_registers(const DotNeeds& needs) {
    const std::int64_t stacked = p_.pingpong ? s_.mma_rows / kWgmmaRows : 1,
                       needed = needs.accumulators * stacked + needs.fragments;
    if (p_.consumer_registers != 0)
      add("consumer_registers={}: accumulators and fragments take {}, and the producer warpgroup "
          "releases its own",
          p_.consumer_registers, needed);
    else if (p_.producer_warps > 0)
      add("producer_warps={}: accumulators and fragments take {} registers, which every thread has "
          "at entry",
          p_.producer_warps, needed);
  }

  std::string why_no_overlap() const {
    if (s_.accumulator_init_registers > 0)
      return "accumulator-init terms take the registers for it";
    return s_.has_trip ? "shared memory has no room for a second slot of stationary operands"
                       : "a tile may have no iterations";
  }

  const Plan& p_;
  const Kernel& k_;
  KernelSummary s_;
  std::vector<std::string> reasons_;
};

}  // namespace

std::string wgmma_missed_remark(const Kernel& k) {
  const KernelSummary s = summarize(k);
  if (!k.info.target->has_wgmma)
    return fmt::format("wgmma=0: {} has no wgmma", k.info.target.name());
  if (s.max_accumulator_elems == 0) return "wgmma=0: there are no MMAs";
  if (!s.dots) return fmt::format("wgmma=0: for some MMA, {}", s.dots.reason());
  return "wgmma=0: accumulators, fragments and two stages of operands do not fit a CTA";
}

std::vector<std::string> plan_reasons(const Plan& plan, const Kernel& k) {
  return Reasons(plan, k).all();
}

void refuse_plan(const Kernel& k, const Plan& plan, const PlanRequest& requested,
                 const std::string& rule) {
  Loc product;
  walk(k, k.body(), [&](OpId op) {
    if (!product.known() && k[op].opcode == Opcode::Dot) product = k[op].loc;
  });
  const std::string fields = str(requested.fields());
  std::vector<Note> notes;
  if (requested.at.known() && product.known()) notes.push_back({product, "the first dot"});
  if (!fields.empty()) notes.push_back({{}, "the whole plan: " + plan.str()});
  fail(ErrorId::plan_rule, requested.at.known() ? requested.at : product, std::move(notes),
       fields.empty() ? plan.str() : fields, rule);
}

}  // namespace tegula::ir
