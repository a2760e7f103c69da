// Quantisation to 8-bit floats with one scale per row or block.
#include "kernels/float_types.h"
#include "kernels/quantise/fp8_scale.h"
#include "kernels/row_tiles.h"
#include "tegula/call_plan.h"
#include "tegula/int_math.h"
#include "tegula/kernels/quantise.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

constexpr int kBlock = 128;
/// Rows per program for scales of 1x128 blocks.
constexpr int kRowsOf1x128 = 32;
constexpr int kQuantiseStep = 8192;

template <class T, class Q>
auto by_held_row() {
  return kernel("quantise_fp8_row", [](In<T, 2> x, Out<Q, 2> q, Out<f32, 1> scales,
                                       bool is_power_of_two, int tile_rows) {
    for (auto r : grid(rows(q), tile_rows)) {
      const Tile v = cast<f32>(x.with(kReadOnce)(r, all));
      const Fp8Scale scale = scale_of<Q>(largest_of(v, -1), is_power_of_two);
      q(r, all) = v * along_row(scale.inverse);
      scales(r) = scale.value;
    }
  });
}

template <class T, class Q>
auto by_row_in_two_passes() {
  return kernel("quantise_fp8_two_pass",
                [](In<T, 2> x, Out<Q, 2> q, Out<f32, 1> scales, bool is_power_of_two) {
                  for (auto r : grid(rows(q), 1)) {
                    Tile largest = zeros<f32>(kQuantiseStep);
                    for (auto c : steps(x.cols(), kQuantiseStep))
                      largest = max(largest, fill_absent(abs(cast<f32>(x(r, c))), 0));
                    const Fp8Scale scale = scale_of<Q>(max(largest), is_power_of_two);
                    for (auto c : steps(x.cols(), kQuantiseStep))
                      q(r, c) = cast<f32>(x(r, c)) * scale.inverse;
                    scales(r) = scale.value;
                  }
                });
}

template <class T, class Q>
auto by_1x128() {
  return kernel("quantise_fp8_1x128",
                [](In<T, 2> x, Out<Q, 2> q, Out<f32, 2> scales, bool is_power_of_two) {
                  for (auto [r, c] : grid(q, kRowsOf1x128, kBlock)) {
                    const Tile v = cast<f32>(x(r, c));
                    const Fp8Scale scale = scale_of<Q>(largest_of(v, 1), is_power_of_two);
                    q(r, c) = v * scale.inverse.expand(1);
                    scales(r, c.first() / kBlock) = scale.value;
                  }
                });
}

template <class T, class Q>
auto by_128x128() {
  return kernel("quantise_fp8_128x128",
                [](In<T, 2> x, Out<Q, 2> q, Out<f32, 2> scales, bool is_power_of_two) {
                  for (auto [r, c] : grid(q, kBlock, kBlock)) {
                    const Tile v = cast<f32>(x(r, c));
                    const Fp8Scale scale = scale_of<Q>(max(max(abs(v)), 0.0f), is_power_of_two);
                    q(r, c) = v * scale.inverse;
                    scales(r.first() / kBlock, c.first() / kBlock) = scale.value;
                  }
                });
}

template <class T, class Q>
struct QuantiseKernels {
  decltype(by_held_row<T, Q>()) held_row = by_held_row<T, Q>();
  decltype(by_row_in_two_passes<T, Q>()) two_pass = by_row_in_two_passes<T, Q>();
  decltype(by_1x128<T, Q>()) block_1x128 = by_1x128<T, Q>();
  decltype(by_128x128<T, Q>()) block_128x128 = by_128x128<T, Q>();
  CallPlans plans;
};

/// Calls `run` with the kernels for the types of the tensors.
template <class Run>
void for_quantised_types(const Tensor& x, const Tensor& q, const Run& run) {
  for_float("quantise_fp8", x.dtype(), [&]<class T>(T) {
    const auto to = [&]<class Q>(Q) {
      static const auto* const kernels = new QuantiseKernels<T, Q>;  // never destroyed
      run(*kernels);
    };
    q.dtype() == DType::f8e4m3 ? to(f8e4m3()) : to(f8e5m2());
  });
}

Dims scales_shape(const Tensor& x, ScaleBlock block) {
  const std::int64_t rows = x.size(0), columns = ceil_div(x.size(1), kBlock);
  if (block == ScaleBlock::row) return {rows};
  return {block == ScaleBlock::block_1x128 ? rows : ceil_div(rows, kBlock), columns};
}

}  // namespace

void quantise_fp8(const Stream& stream, const Tensor& x, const Tensor& q, const Tensor& scales,
                  const QuantiseOptions& options, Loc at) {
  constexpr const char* kName = "quantise_fp8";
  const detail::CallPlace here(at);
  const auto [block, is_power_of_two] = options;
  require_rank(kName, "x", x, 2);
  require_tensor(kName, "q", q, q.dtype() == DType::f8e5m2 ? DType::f8e5m2 : DType::f8e4m3,
                 x.shape());
  require_tensor(kName, "scales", scales, DType::f32, scales_shape(x, block));
  const PlanOptions options_of_call{static_cast<std::int64_t>(block), is_power_of_two};
  for_quantised_types(x, q, [&](const auto& k) {
    k.plans.call(stream, tensor_args(x, q, scales), options_of_call, [&](PlanBuilder& plan) {
      const auto launch = [&](const auto& kernel, const auto&... numbers) {
        plan.launch(kernel, plan.argument(0), plan.argument(1), plan.argument(2), is_power_of_two,
                    numbers...);
      };
      if (block == ScaleBlock::block_1x128) return launch(k.block_1x128);
      if (block == ScaleBlock::block_128x128) return launch(k.block_128x128);
      const RowConfig c =
          choose_rows({x.size(0), x.size(1), RowKernel::quantise, x.dtype()}, plan.device());
      if (c.method == RowMethod::held)
        launch(k.held_row, c.tile_rows);
      else
        launch(k.two_pass);
    });
  });
}

}  // namespace tegula::kernels
