// Element-wise SwiGLU and GEGLU.
#include "tegula/kernels/gated_activation.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <numbers>

#include "kernels/float_types.h"
#include "kernels/row_tiles.h"
#include "tegula/call_plan.h"
#include "tegula/int_math.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Computes x (1 + tanh(u)) / 2 as x sigmoid(2 u), which is equal and takes half the time: the
/// accurate tanh has separate paths for small and large numbers.
Tile gelu_tanh(const Tile& x) {
  constexpr float kCubic = 0.044715f,
                  kScale = 2 * std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
  // Above this bound the slope no longer matters, but would overflow and give NaN = 0 * inf.
  const Tile square = min(x * x, 0x1p100f), s = sigmoid(kScale * x * (1.0f + kCubic * square)),
             value = x * s;
  const Tile slope = kScale * (1.0f + 3 * kCubic * square);
  return with_gradient(value, x, s + value * (1.0f - s) * slope);
}

Tile activated(GateActivation activation, const Tile& x) {
  if (activation == GateActivation::silu) return silu(x);
  return activation == GateActivation::gelu ? gelu(x) : gelu_tanh(x);
}

/// Extents of the tile of a program.
struct TileShape {
  int rows, columns;
};

template <class T>
auto gated_forward_kernel() {
  return kernel("gated_activation", [](In<T, 2> gate, In<T, 2> up, Out<T, 2> y,
                                       GateActivation activation, TileShape tile) {
    for (auto [r, c] : grid(y, tile.rows, tile.columns))
      y(r, c) = activated(activation, cast<f32>(gate(r, c))) * cast<f32>(up(r, c));
  });
}

template <class T>
auto gated_backward_kernel() {
  return kernel("gated_activation_backward",
                [](In<T, 2> gate, In<T, 2> up, In<T, 2> dy, Out<T, 2> dgate, Out<T, 2> dup,
                   GateActivation activation, TileShape tile) {
                  for (auto [r, c] : grid(dup, tile.rows, tile.columns)) {
                    const Tile x = cast<f32>(gate(r, c)), u = cast<f32>(up(r, c)),
                               g = cast<f32>(dy(r, c)), y = activated(activation, x);
                    dgate(r, c) = derivative(y, x, g * u);
                    dup(r, c) = g * y;
                  }
                });
}

template <class T>
struct GatedKernels {
  // Each thread holds 16 elements of at least two tensors: as many bytes in flight as 32 of one.
  decltype(gated_forward_kernel<T>()) forward =
      gated_forward_kernel<T>().with_plan({.num_warps = 4});
  decltype(gated_backward_kernel<T>()) backward =
      gated_backward_kernel<T>().with_plan({.num_warps = 4});
  // Plans depend on which tensors are contiguous, which stride classes do not distinguish.
  CallPlans forward_plans{StrideKey::exact}, backward_plans{StrideKey::exact};
};
template <class T>
const GatedKernels<T>& gated_kernels() {
  static const auto* const all = new GatedKernels<T>;  // leaked: static destructors may call
  return *all;
}

/// Returns the tensors of a call as its plan launches them: if all are contiguous, as a single row,
/// of which only the last tile is partial.
template <std::size_t N>
std::array<PlanSlot, N> as_rows(PlanBuilder& plan) {
  std::array<PlanSlot, N> slots;
  bool contiguous = true;
  for (std::size_t i = 0; i < N; ++i) {
    slots[i] = plan.argument(i);
    contiguous = contiguous && plan.tensor(slots[i]).is_contiguous();
  }
  for (PlanSlot& slot : slots)
    if (contiguous)
      slot = plan.view(slot, [](const Tensor& t) { return t.reshape({1, t.numel()}); });
  return slots;
}

/// Returns tiles of 2048 elements, two 16-byte accesses of bf16 per thread of 4 warps: the widest,
/// at least 256, that pads least (5000 columns are 5 tiles of 1024, not 3 of 2048).
TileShape tile_of(const Tensor& t) {
  constexpr std::int64_t kElements = 2048, kMinColumns = 256, kMaxRows = 64;
  const std::int64_t extent = std::max<std::int64_t>(t.size(1), 1);
  auto columns = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::min(extent, kElements))));
  for (std::int64_t narrower = columns / 2; narrower >= kMinColumns; narrower /= 2)
    if (round_up(extent, narrower) < round_up(extent, columns)) columns = narrower;
  return {static_cast<int>(std::min(kElements / columns,
                                    std::min(kMaxRows, std::max<std::int64_t>(t.size(0), 1)))),
          static_cast<int>(columns)};
}

void check_gated_tensors(const char* name,
                         std::initializer_list<std::pair<const char*, const Tensor*>> tensors) {
  const Tensor& gate = *tensors.begin()->second;
  require_rank(name, "gate", gate, 2);
  for (const auto& [of, tensor] : tensors)
    require_tensor(name, of, *tensor, gate.dtype(), gate.shape());
}

}  // namespace

void gated_activation(const Stream& stream, GateActivation activation, const Tensor& gate,
                      const Tensor& up, const Tensor& y, Loc at) {
  const detail::CallPlace here(at);
  for_float("gated_activation", gate.dtype(), [&]<class T>(T) {
    check_gated_tensors("gated_activation", {{"gate", &gate}, {"up", &up}, {"y", &y}});
    const auto& k = gated_kernels<T>();
    const PlanOptions key{static_cast<std::int64_t>(activation)};
    k.forward_plans.call(stream, tensor_args(gate, up, y), key, [&](PlanBuilder& plan) {
      const auto [g, u, out] = as_rows<3>(plan);
      const auto [rows, columns] = tile_of(plan.tensor(out));
      plan.launch(k.forward, g, u, out, activation, rows, columns);
    });
  });
}

void gated_activation_backward(const Stream& stream, GateActivation activation, const Tensor& gate,
                               const Tensor& up, const Tensor& dy, const Tensor& dgate,
                               const Tensor& dup, Loc at) {
  const detail::CallPlace here(at);
  for_float("gated_activation_backward", gate.dtype(), [&]<class T>(T) {
    check_gated_tensors(
        "gated_activation_backward",
        {{"gate", &gate}, {"up", &up}, {"dy", &dy}, {"dgate", &dgate}, {"dup", &dup}});
    const auto& k = gated_kernels<T>();
    const PlanOptions key{static_cast<std::int64_t>(activation)};
    k.backward_plans.call(stream, tensor_args(gate, up, dy, dgate, dup), key,
                          [&](PlanBuilder& plan) {
                            const auto [g, u, d, dg, du] = as_rows<5>(plan);
                            const auto [rows, columns] = tile_of(plan.tensor(du));
                            plan.launch(k.backward, g, u, d, dg, du, activation, rows, columns);
                          });
  });
}

}  // namespace tegula::kernels
