#include "kernels/attention/way.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dsl/signature.h"
#include "ir/analysis/mask_formula.h"
#include "kernels/attention/mask_limits.h"

namespace tegula {

Way::Way(const AttentionSpec& spec) : list_(spec.blocks) {
  if (list_)
    text_ = "a block list of the caller";
  else if (spec.range || spec.full)
    text_ = "a range of the caller", depends_on_data_ = true;
  else if (spec.mask)
    text_ = derive(spec.mask, spec.weighting == Weighting::stick_breaking);
  else
    text_ = "all, there is no mask", reach_ = KeyReach::all;
}

std::string Way::derive(const Mask& mask, bool in_order) {
  std::optional<MaskSource> source;
  try {
    source = trace_mask_source(mask);
    depends_on_data_ = !source->tables.empty();
  } catch (const std::exception& e) {
    depends_on_data_ = true;
    return fmt::format("all, the mask cannot be traced over scalars: {}", e.what());
  }
  const ir::MaskClosedForm form = ir::solve_mask(source->expr);
  const std::string why = fmt::format("class {}: {}", name(form.mask_class), form.reason);
  if (form.mask_class == ir::MaskClass::Data && !form.tells_blocks)
    return fmt::format("a range of what is solved, else all ({})", why);
  const MaskLimits limits(form, source->numbers);
  if (limits.is_one_end()) reach_ = KeyReach::up_to_row;
  if (const auto parts = limits.intervals()) {
    has_parts_ = *parts > 1;
    return fmt::format("{}, no block tensors ({})",
                       *parts > 1 ? fmt::format("{} closed ranges", *parts) : "a closed range",
                       why);
  }
  if (in_order)
    return fmt::format("a range of what is solved, else all ({}; a list has no order)", why);
  derived_ = std::make_unique<DerivedLists>(*source);
  return fmt::format("a block list derived from the mask ({})", why);
}

std::optional<ListArgs> Way::lists(const Stream& stream, const AttentionTensors& t,
                                   const AttentionTiles& tiles, const ListRows& rows) const {
  if (list_) return list_args(*list_, t.Q);
  const bool is_wide = std::ranges::any_of(std::array{&t.Q, &t.K, &t.V, &t.O}, [](const Tensor* x) {
    return dsl::needs_wide_index(*x);
  });
  if (!derived_ || (is_wide && !derived_->holds_in_64_bits())) return std::nullopt;
  return derived_->make(stream, t.Q, t.K, tiles, rows);
}

}  // namespace tegula
