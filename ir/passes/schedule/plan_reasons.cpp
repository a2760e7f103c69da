#include "ir/passes/schedule/plan_reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/passes/mma_loop/operand_loads.h"
#include "support/errors.h"

namespace tegula::ir {
namespace {

/// Of one plan.
class Reasons {
 public:
  Reasons(const Plan& plan, const Kernel& k) : p_(plan), k_(k), s_(survey(k, plan.tma_loads)) {}

  std::vector<std::string> all() {
    if (s_.largest_product == 0)
      of_rows();
    else if (!p_.wgmma)
      of_older_products();
    else
      of_wgmma();
    return std::move(reasons_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    reasons_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  void of_rows() {
    add("warps={}: no products; a thread holds {} of the largest tile's {} elements", p_.warps,
        std::max<std::int64_t>(1, s_.largest_tile / (32 * p_.warps)), s_.largest_tile);
    if (p_.min_ctas > 1)
      add("min_ctas={}: while the threads of one CTA meet, others keep the memory busy",
          p_.min_ctas);
  }

  void of_older_products() {
    add("{}", why_no_wgmma(k_));
    add("warps={}: {} elements of the largest product", p_.warps, s_.largest_product);
    add("stages={}: {} bytes a step", p_.stages, copied_ring_bytes(k_, 1));
  }

  void of_wgmma() {
    const std::int64_t ring = s_.once_bytes + p_.stages * s_.step_bytes;
    if (p_.swap)
      add("swap=1: tiles' rows are no warpgroup's; {} columns are, as the transposes' rows",
          s_.product_rows);
    if (p_.alternate)
      add("alternate=1: the grid asks for it; a tile of {} rows is one warpgroup's work",
          s_.product_rows);
    else
      add("warps={}: {} rows of products, {} a warp", p_.warps, s_.product_rows, kWarpRows);
    add("stages={}: {}; {} bytes a step, {} once, room for {}", p_.stages,
        s_.stages != 0 ? "the loop asks for it" : "as deep as is of use", s_.step_bytes,
        s_.once_bytes, (k_.info.target->ring_bytes() - s_.once_bytes) / s_.step_bytes);
    of_registers();
    if (p_.persistent)
      add("persistent=1: rings of {} bytes fill an SM", ring);
    else
      add("persistent=0: {}", k_.info.cluster > 1
                                  ? "programs work in clusters"
                                  : fmt::format("with rings of {} bytes two CTAs share an SM, "
                                                "and overlap by themselves",
                                                ring));
    if (p_.turns) add("turns=1: an operand of a product is computed from another product");
    if (p_.dynamic) add("dynamic=1: how many steps a tile has is read from memory");
    if (p_.overlap_tiles)
      add("overlap_tiles=1: there is room for what the next tile brings first");
    else if (p_.turns && p_.persistent)
      add("overlap_tiles=0: {}", why_no_overlap());
    if (p_.multicast) add("multicast=1: the grid asks for it, and neighbouring tiles share a load");
    if (p_.tma_loads)
      add("tma_loads=1: the grid asks for it; {} of a step's bytes are not of operands",
          s_.beside_bytes);
    if (p_.tma_store)
      add("tma_store=1: the grid asks for it, or results are combined with memory, and there is "
          "room beside the rings");
  }

  void of_registers() {
    const std::int64_t stacked = p_.alternate ? s_.product_rows / kWgmmaRows : 1,
                       needed = s_.accumulators * stacked + s_.fragments;
    if (p_.registers != 0)
      add("registers={}: sums and fragments take {}, and a warpgroup that copies gives up its own",
          p_.registers, needed);
    else if (p_.copy_warps > 0)
      add("copy_warps={}: sums and fragments take {} registers, which all have at the entry",
          p_.copy_warps, needed);
  }

  std::string why_no_overlap() const {
    if (s_.first_sums > 0) return "what products begin with takes the registers for it";
    return s_.has_steps ? "shared memory has no room for a second slot of what is brought once"
                        : "a tile may have no steps";
  }

  const Plan& p_;
  const Kernel& k_;
  Survey s_;
  std::vector<std::string> reasons_;
};

}  // namespace

std::string why_no_wgmma(const Kernel& k) {
  const Survey s = survey(k);
  if (!k.info.target->has_wgmma) return fmt::format("wgmma=0: {} has none", k.info.target.name());
  if (!s.wgmma) return fmt::format("wgmma=0: of some product {}", s.why_not_wgmma);
  if (s.largest_product == 0) return "wgmma=0: there are no products";
  return "wgmma=0: sums, fragments and two steps of operands do not fit a CTA";
}

std::vector<std::string> plan_reasons(const Plan& plan, const Kernel& k) {
  return Reasons(plan, k).all();
}

void refuse_plan(const Kernel& k, const std::string& asked, const std::string& rule, Loc asked_at) {
  Loc product;
  walk(k, k.body(), [&](OpId op) {
    if (!product.known() && k[op].opcode == Opcode::Dot) product = k[op].loc;
  });
  std::vector<Note> notes;
  if (asked_at.known() && product.known()) notes.push_back({product, "the first product"});
  fail(Mistake::plan_rule, asked_at.known() ? asked_at : product, std::move(notes), asked, rule);
}

}  // namespace tegula::ir
