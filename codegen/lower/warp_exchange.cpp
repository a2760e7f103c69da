#include "codegen/lower/warp_exchange.h"

#include <algorithm>

#include "codegen/lower/lowering.h"
#include "ir/layout/conversion.h"
#include "ir/pipeline.h"

namespace tegula::codegen {

using namespace ir;

std::optional<SharedExchange> warp_exchange(const Kernel& k, OpId convert, const Plan& plan) {
  const OpData& d = k[convert];
  if (!plan.warp_exchange || !k.info.persistent || d.opcode != Opcode::ConvertLayout)
    return std::nullopt;
  const Type type = k.type(d.results[0]);
  const LinearLayout& from = layout_of(k.type(d.operands[0]));
  const LinearLayout& to = layout_of(type);
  // Padding would be read where another warp writes.
  if (type.is_pointer() || size_bits(type.dtype()) < 16 || !from.is_exact() || !to.is_exact())
    return std::nullopt;
  ConversionOptions options;
  options.allow_shared = false;
  const int bytes = size_bytes(type.dtype());
  const auto within = plan_conversion(from, to, bytes, options);
  if (!within || within->kind != ConversionKind::Shuffles) return std::nullopt;
  options.exchange.stmatrix = std::string_view(k.info.target).starts_with("sm_9");
  const auto exchange = synthesize_exchange(from, to, bytes, options.exchange);
  return exchange ? std::optional(*exchange) : std::nullopt;
}

std::int64_t warp_exchange_bytes(const Kernel& k, const Plan& plan) {
  std::int64_t bytes = 0;
  walk(k, k.body(), [&](OpId op) {
    if (const auto exchange = warp_exchange(k, op, plan))
      bytes = std::max<std::int64_t>(bytes, exchange->layout.bytes());
  });
  constexpr std::int64_t kAlignment = 1024;
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return k.info.smem_bytes + kAlignment + plan.groups() * bytes <= shared_limit(k.info.target)
             ? bytes
             : 0;
}

}  // namespace tegula::codegen
