#include "kernels/moe/layer_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/argument_error.h"
#include "kernels/moe/placement.h"
#include "kernels/row_tiles.h"

namespace tegula::kernels::experts {
namespace {

bool is_of(const Tensor& t, const Dims& shape, DType dtype, Device device) {
  return t.defined() && t.shape() == shape && t.dtype() == dtype && t.device() == device;
}

std::string described(const Dims& shape, DType dtype) {
  return std::string(name(dtype)) + shape.str();
}

/// Checks tensors, all of which must be on the device of X.
struct TensorCheck {
  const Tensor& X;

  /// Throws unless the tensor has this shape and type, or is optional and undefined.
  void operator()(const char* what, const Tensor& t, const Dims& shape, DType dtype,
                  bool is_optional = false) const {
    if (is_of(t, shape, dtype, X.device()) || (is_optional && !t.defined())) return;
    throw_argument_error(ErrorId::moe_tensor, what, t.defined() ? t.str() : "left out",
                         described(shape, dtype), X.str());
  }
  /// Checks a gradient: X's type or f32, or undefined.
  void gradient(const char* what, const Tensor& t, const Tensor& of) const {
    (*this)(what, t, of.shape(), t.dtype() == DType::f32 ? DType::f32 : X.dtype(), true);
  }
};

void check_tables(const TensorCheck& check, const MoeOptions& o, std::int64_t tokens,
                  const MoeRouting& r) {
  const std::int64_t k = choices_per_token(o), experts = all_experts(o);
  check("routing.ids", r.ids, {tokens, k}, DType::i32);
  check("routing.weights", r.weights, {tokens, k}, DType::f32);
  check("routing.row_of", r.row_of, {tokens, k}, DType::i32);
  check("routing.slot_of", r.slot_of, {rows_of_experts(o, tokens)}, DType::i32);
  check("routing.offsets", r.offsets, {experts + 1}, DType::i32);
  check("routing.first_tiles", r.first_tiles, {kTileTables, experts + 1}, DType::i32);
}

/// Longest row that can be quantised, as a program holds it in registers.
constexpr std::int64_t kMaxQuantised = kMaxHeldColumns;

void check_scales(const TensorCheck& check, const MoeOptions& o, const LayerCall& c) {
  const MoeScales& s = c.weights.scales;
  const std::int64_t e = all_experts(o), outputs = c.weights.up.size(1), h = c.hidden(),
                     i = c.weights.down.size(2);
  if (!o.quantisation) {
    for (const Tensor* t : {&s.up, &s.down, &s.input, &s.hidden})
      if (t->defined())
        throw_argument_error(ErrorId::kernel_argument, "moe", "one of the scales", t->str(),
                             "none to a layer without `quantisation`");
    return;
  }
  if (h % 16 != 0 || i % 16 != 0 || std::max(h, i) > kMaxQuantised)
    throw_argument_error(ErrorId::moe_quantised_sizes, h, i, kMaxQuantised);
  const bool by_row = o.quantisation->scaling == ExpertScaling::row;
  check("scales.up", s.up, by_row ? Dims{e, outputs} : Dims{e}, DType::f32);
  check("scales.down", s.down, by_row ? Dims{e, h} : Dims{e}, DType::f32);
  if (by_row && (s.input.defined() || s.hidden.defined()))
    throw_argument_error(ErrorId::kernel_argument, "moe",
                         s.input.defined() ? "scales.input" : "scales.hidden", "given",
                         "none with ExpertScaling::row: rows have their own scales");
  if (by_row) return;
  check("scales.input", s.input, {1}, DType::f32);
  check("scales.hidden", s.hidden, {1}, DType::f32);
}

void check_saved(const TensorCheck& check, const MoeOptions& o, const LayerCall& c) {
  if (o.quantisation) throw_argument_error(ErrorId::moe_quantised_training);
  check_tables(check, o, c.tokens(), c.saved.routing);
  const std::int64_t rows = rows_of_experts(o, c.tokens());
  check("saved.hidden", c.saved.hidden, {rows, c.weights.up.size(1)}, c.X.dtype());
}

/// Checks that the MMA supports the rows of the tiles: multiples of 64, or of 8 with swap A/B.
void check_tiles(const char* what, const std::optional<ExpertTileConfig>& tiles, bool may_gather) {
  if (!tiles) return;
  const int unit = tiles->swap_ab ? 8 : 64;
  if (tiles->bm < unit || tiles->bm > 256 || tiles->bm % unit != 0)
    throw_argument_error(ErrorId::kernel_argument, "moe", fmt::format("{}.bm", what), tiles->bm,
                         fmt::format("a multiple of {} to 256", unit));
  if (tiles->gathers && !may_gather)
    throw_argument_error(ErrorId::kernel_argument, "moe", fmt::format("{}.gathers", what), true,
                         "false: of an up product alone, whose rows are neither scaled nor "
                         "quantised");
}

void check_capacity(const ExpertCapacity& c) {
  const auto refuse = [](const char* what, const auto& number, const std::string& wanted) {
    throw_argument_error(ErrorId::kernel_argument, "moe", what, number, wanted);
  };
  constexpr int kGroupTokens = PlacementShape{}.block * kTilesPerGroup;
  if (c.group_tokens < 0 || c.group_tokens % kGroupTokens != 0)
    refuse("capacity.group_tokens", c.group_tokens,
           fmt::format("a multiple of {}, or 0", kGroupTokens));
  if (c.rows.value_or(0) < 0) refuse("capacity.rows", *c.rows, "0 or more");
  if (!(c.factor >= 0)) refuse("capacity.factor", c.factor, "0 or more");
}

/// Returns ceil(factor * rows / experts) for the factor's decimal notation: with 0.1, whose float
/// is slightly too large, 100 rows give 10, not 11. The factor is converted through its shortest
/// decimal, and rounding errors of the double-precision product above an integer are ignored.
int rows_by(float factor, std::int64_t rows, int experts) {
  if (rows == 0) return 0;
  constexpr double kRounding = 0x1p-50;
  constexpr int kMost = std::numeric_limits<int>::max();
  double as_written = factor;
  const std::string decimal = fmt::format("{}", factor);
  std::from_chars(decimal.data(), decimal.data() + decimal.size(), as_written);
  const double product = as_written * static_cast<double>(rows) / experts;
  return product < kMost ? static_cast<int>(std::ceil(product * (1 - kRounding))) : kMost;
}

}  // namespace

void check_options(const MoeOptions& o) {
  if (!o.router.choose || o.router.k < 1 || o.experts < 1 || o.shared_experts < 0 ||
      (o.expert_choice && o.shared_experts > 0))
    throw_argument_error(ErrorId::moe_options, o.experts, o.router.k, o.shared_experts);
  if (o.capacity) check_capacity(*o.capacity);
  if (o.expert_choice && !(o.expert_choice->factor >= 0))
    throw_argument_error(ErrorId::kernel_argument, "moe", "expert_choice.factor",
                         o.expert_choice->factor, "0 or more");
  check_tiles("tiles.up", o.tiles.up, gathers_rows(o));
  check_tiles("tiles.down", o.tiles.down, false);
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
  const TensorCheck check{X};
  const DType of_weights = o.quantisation ? DType::f8e4m3 : X.dtype();
  check("up", w.up, {e, outputs, h}, of_weights);
  check("up_bias", w.up_bias, {e, outputs}, X.dtype(), true);
  check("down", w.down, {e, h, i}, of_weights);
  check("down_bias", w.down_bias, {e, h}, X.dtype(), true);
  check("router_bias", w.router_bias, {o.experts}, DType::f32, true);
  if (c.logits.defined())
    check("logits", c.logits, {c.tokens(), o.experts}, DType::f32);
  else
    check("router", w.router, {o.experts, h}, X.dtype());
  check("Y", c.Y, {c.tokens(), h}, X.dtype());
  check_scales(check, o, c);
  if (c.saved.hidden.defined()) check_saved(check, o, c);
}

void check_routing(const MoeOptions& o, const Tensor& logits, const Tensor& bias,
                   const MoeRouting& routing) {
  const TensorCheck check{logits};
  if (logits.rank() != 2) throw_argument_error(ErrorId::moe_logits, logits.str());
  check("logits", logits, {logits.size(0), o.experts}, DType::f32);
  check("bias", bias, {o.experts}, DType::f32, true);
  check_tables(check, o, logits.size(0), routing);
}

void check_backward(const MoeOptions& o, const LayerCall& c, const MoeGradients& d) {
  check_call(o, c);
  const TensorCheck check{c.X};
  check_saved(check, o, c);
  if (d.logits.defined() && !o.router.gradient)
    throw_argument_error(ErrorId::moe_gradient, "router");
  check("gradients.X", d.X, c.X.shape(), c.X.dtype());
  check("gradients.logits", d.logits, {c.tokens(), o.experts}, DType::f32, true);
  check("gradients.weights", d.weights, c.saved.routing.weights.shape(), DType::f32, true);
  const MoeWeights& w = c.weights;
  check.gradient("gradients.up", d.up, w.up);
  check.gradient("gradients.up_bias", d.up_bias, w.up_bias);
  check.gradient("gradients.down", d.down, w.down);
  check.gradient("gradients.down_bias", d.down_bias, w.down_bias);
}

MoeOptions completed(MoeOptions o) {
  if (!o.expert_choice) return o;
  // A token may be chosen by all experts; the backward pass uses the gradient of softmax.
  o.router = routers::deepseek_moe(o.experts), o.capacity.reset();
  return o;
}

std::int64_t rows_of_experts(const MoeOptions& o, std::int64_t tokens) {
  return o.expert_choice ? std::int64_t{o.experts} * capacity_of(o, tokens)
                         : tokens * choices_per_token(o);
}

int capacity_of(const MoeOptions& o, std::int64_t tokens) {
  if (o.expert_choice)
    return static_cast<int>(
        std::min<std::int64_t>(rows_by(o.expert_choice->factor, tokens, o.experts), tokens));
  if (!o.capacity) return -1;
  if (o.capacity->rows) return *o.capacity->rows;
  const int group = o.capacity->group_tokens;
  const std::int64_t competing = group > 0 ? std::min<std::int64_t>(group, tokens) : tokens;
  return std::max(o.capacity->at_least,
                  rows_by(o.capacity->factor, competing * o.router.k, o.experts));
}

}  // namespace tegula::kernels::experts
