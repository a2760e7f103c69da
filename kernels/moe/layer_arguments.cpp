#include "kernels/moe/layer_arguments.h"

#include <algorithm>
#include <cmath>

#include "kernels/argument_error.h"

namespace tegula::experts {
namespace {

bool is_of(const Tensor& t, const Dims& shape, DType dtype, Device device) {
  return t.defined() && t.shape() == shape && t.dtype() == dtype && t.device() == device;
}

std::string described(const Dims& shape, DType dtype) {
  return std::string(name(dtype)) + shape.str();
}

/// The tensor must be that, or none where it may be left out.
void check_tensor(const char* what, const Tensor& t, const Dims& shape, DType dtype,
                  const LayerCall& call, bool is_optional = false) {
  if (is_of(t, shape, dtype, call.X.device()) || (is_optional && !t.defined())) return;
  throw_argument_error(ErrorId::moe_tensor, what, t.defined() ? t.str() : "left out",
                       described(shape, dtype), call.X.str());
}

}  // namespace

void check_options(const MoeOptions& o) {
  if (!o.router.choose || o.router.k < 1 || o.experts < 1 || o.shared_experts < 0)
    throw_argument_error(ErrorId::moe_options, o.experts, o.router.k, o.shared_experts);
  const int bins = all_experts(o) * (o.capacity && o.capacity->by_slot ? choices_per_token(o) : 1);
  if (bins > kMaxKeys) throw_argument_error(ErrorId::moe_experts, bins, kMaxKeys);
}

void check_call(const MoeOptions& o, const LayerCall& c) {
  const Tensor& X = c.X;
  const bool is_half = X.dtype() == DType::bf16 || X.dtype() == DType::f16;
  if (X.rank() != 2 || !is_half) throw_argument_error(ErrorId::moe_input, X.str());
  const MoeWeights& w = c.weights;
  const std::int64_t h = c.hidden(), e = all_experts(o), gates = o.activation.is_gated ? 2 : 1;
  if (w.up.rank() != 3 || w.up.size(1) % gates != 0)
    throw_argument_error(ErrorId::moe_tensor, "up", w.up.defined() ? w.up.str() : "left out",
                         "[experts, outputs, hidden size]", X.str());
  const std::int64_t outputs = w.up.size(1), i = outputs / gates;
  check_tensor("up", w.up, {e, outputs, h}, X.dtype(), c);
  check_tensor("up_bias", w.up_bias, {e, outputs}, X.dtype(), c, true);
  check_tensor("down", w.down, {e, h, i}, X.dtype(), c);
  check_tensor("down_bias", w.down_bias, {e, h}, X.dtype(), c, true);
  check_tensor("router_bias", w.router_bias, {o.experts}, DType::f32, c, true);
  if (c.logits.defined())
    check_tensor("logits", c.logits, {c.tokens(), o.experts}, DType::f32, c);
  else
    check_tensor("router", w.router, {o.experts, h}, X.dtype(), c);
  check_tensor("Y", c.Y, {c.tokens(), h}, X.dtype(), c);
}

int capacity_of(const MoeOptions& o, std::int64_t tokens) {
  if (!o.capacity) return -1;
  if (o.capacity->rows) return *o.capacity->rows;
  const double mean = static_cast<double>(tokens) * o.router.k / o.experts;
  return std::max(o.capacity->at_least,
                  static_cast<int>(std::ceil(static_cast<double>(o.capacity->factor) * mean)));
}

ExpertTileConfig choose_tiles(std::int64_t rows, std::int64_t columns, bool is_gated) {
  ExpertTileConfig c;
  c.swap_ab = rows <= 64;
  c.bm = rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 64 ? 64 : 128;
  if (c.swap_ab)
    c.bn = columns > 64 ? 128 : 64;
  else
    c.bn = is_gated || columns <= 1024 ? 128 : 256;
  return c;
}

}  // namespace tegula::experts
