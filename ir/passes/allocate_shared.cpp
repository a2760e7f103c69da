// Places shared-memory tiles. Before and after: machine form; every smem_alloc has attr offset, and
// kernel.info.smem_bytes covers them. Scratch memory of lowered ops is placed after them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <span>
#include <unordered_set>

#include "ir/access.h"
#include "ir/analysis/tma_access.h"
#include "ir/layout/shared_layout.h"
#include "ir/pipeline.h"
#include "ir/text.h"
#include "support/errors.h"
#include "tegula/int_math.h"

namespace tegula::ir {
namespace {

/// Returns "4 slots of bf16 [128, 64]".
std::string words(Type shared) {
  const auto slot = shared.shape().subspan(1);
  const std::int64_t slots = shared.shape().front();
  return fmt::format("{} slot{} of {} [{}]", slots, slots == 1 ? "" : "s", name(shared.dtype()),
                     fmt::join(slot, ", "));
}

/// Returns the uses of shared memory, the largest first.
std::vector<SharedUse> sorted_uses(const Kernel& kernel) {
  std::vector<SharedUse> uses = kernel.info.shared_uses;
  std::ranges::stable_sort(uses, std::ranges::greater(), &SharedUse::bytes);
  return uses;
}

Diagnostic too_much(const Kernel& kernel, std::int64_t bytes) {
  constexpr std::size_t kNamed = 4;
  const std::vector<SharedUse> uses = sorted_uses(kernel);
  std::vector<Note> notes;
  for (const SharedUse& use : std::span(uses).first(std::min(uses.size(), kNamed)))
    notes.push_back({use.loc, fmt::format("{} bytes: {}", use.bytes, use.what)});
  return diagnostic(ErrorId::shared_memory, uses.empty() ? Loc() : uses.front().loc,
                    std::move(notes), kernel.info.name, bytes, kernel.info.target.name(),
                    kernel.info.target->shared_bytes_per_cta);
}

}  // namespace

SharedMemoryError::SharedMemoryError(const Kernel& kernel, std::int64_t bytes)
    : CompileError(too_much(kernel, bytes)), bytes_(bytes) {}

bool allocate_shared(Kernel& kernel, PassContext& context) {
  std::int64_t end = kernel.info.smem_bytes;
  std::unordered_set<Value> by_tma;
  walk(kernel, kernel.body(), [&](OpId op) {
    if (kernel[op].opcode == Opcode::CopyTma) by_tma.insert(filled_tile(kernel[op]));
  });
  walk(kernel, kernel.body(), [&](OpId op) {
    OpData& d = kernel[op];
    if (d.opcode != Opcode::SmemAlloc) return;
    const SharedLayout* layout = kernel.type(d.results[0]).shared_layout();
    if (layout == nullptr)
      throw InternalError(print_op(kernel, op) + ": has no layout to be placed by");
    const std::int64_t least = by_tma.contains(d.results[0]) ? kTmaLineBytes : 16;
    const std::int64_t alignment = std::max<std::int64_t>(least, layout->alignment());
    end = round_up(end, alignment);
    d.attrs.set(AttrName::offset, end);
    end += layout->bytes();
    const Type type = kernel.type(d.results[0]);
    if (type.dtype() != DType::i64)  // else channels
      kernel.info.shared_uses.push_back({d.loc, words(type), layout->bytes()});
  });
  if (end > kernel.info.target->shared_bytes_per_cta) throw SharedMemoryError(kernel, end);
  kernel.info.smem_bytes = end;
  context.remark(Remark::Kind::Analysis, {}, "shared memory", {{"bytes", fmt::format("{}", end)}});
  return end != 0;
}

}  // namespace tegula::ir
