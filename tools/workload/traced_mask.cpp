#include "tools/workload/traced_mask.h"

#include <utility>

#include "dsl/functions/traced_function.h"
#include "ir/eval/cell.h"
#include "tegula/error.h"

namespace tegula {

TracedMask trace_mask(const Mask& mask) {
  MaskFunction f = trace_mask_function(mask);
  TracedMask m{std::move(f.expr), {}, {}};
  for (const auto& cell : f.numbers) {
    if (!cell) throw InternalError("trace_mask: a number of the mask is not an argument");
    m.numbers.push_back(ir::from_bits(cell->bits, cell->dtype).i);
  }
  for (const Tensor* table : f.tables) {
    const auto entries = table->to_doubles();  // exact: entries have at most 32 bits
    m.tables.emplace_back(std::vector<std::int64_t>(entries.begin(), entries.end()));
  }
  return m;
}

}  // namespace tegula
