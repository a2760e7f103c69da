// Places shared-memory tiles. Before and after: machine form; every smem_alloc has attr offset,
// kernel.info.smem_bytes covers them. What ops of the lowering need as scratch comes behind.
#include <fmt/format.h>

#include <algorithm>

#include "ir/layout/shared_layout.h"
#include "ir/pipeline.h"
#include "ir/text.h"
#include "tegula/error.h"
#include "tegula/quotients.h"

namespace tegula::ir {

SharedMemoryError::SharedMemoryError(const Kernel& kernel, std::int64_t bytes)
    : CompileError(Diagnostic{
          "",
          fmt::format("kernel {} needs {} bytes of shared memory, {} allows {} bytes per CTA",
                      kernel.info.name, bytes, kernel.info.target.name(),
                      kernel.info.target->shared_bytes_per_cta),
          {},
          {},
          "use smaller tiles or fewer pipeline stages"}),
      bytes_(bytes) {}

bool allocate_shared(Kernel& kernel, PassContext& context) {
  std::int64_t end = kernel.info.smem_bytes;
  walk(kernel, kernel.body(), [&](OpId op) {
    OpData& d = kernel[op];
    if (d.opcode != Opcode::SmemAlloc) return;
    const SharedLayout* layout = kernel.type(d.results[0]).shared_layout();
    if (layout == nullptr)
      throw InternalError(print_op(kernel, op) + ": has no layout to be placed by");
    const std::int64_t alignment = std::max(16, layout->alignment());
    end = round_up(end, alignment);
    d.attrs.set(AttrName::offset, end);
    end += layout->bytes();
  });
  if (end > kernel.info.target->shared_bytes_per_cta) throw SharedMemoryError(kernel, end);
  kernel.info.smem_bytes = end;
  context.remark(Remark::Kind::Analysis, {}, "shared memory", {{"bytes", fmt::format("{}", end)}});
  return end != 0;
}

}  // namespace tegula::ir
