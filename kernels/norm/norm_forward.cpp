// RMS norm and layer norm: a program holds its rows in registers; rows that are too long are read a
// second time, mostly from L2.
#include <bit>
#include <optional>

#include "kernels/float_types.h"
#include "kernels/row_tiles.h"
#include "tegula/call_plan.h"
#include "tegula/kernels/norm.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

constexpr int kNormStep = 8192;

template <class T>
struct NormTensors {
  In<T, 2> x;
  std::optional<In<T, 2>> residual;
  std::optional<In<T, 1>> weight, bias;
  Out<T, 2> y;
  std::optional<Out<T, 2>> sum;
  std::optional<Out<f32, 1>> mean, rstd;
};

/// Returns the input of the norm in f32; if the sum with the residual is stored, its rounded
/// value.
template <class T>
Tile normalised_elements(const NormTensors<T>& t, const Index& r, const Subscript& c) {
  const Tile x = cast<f32>(t.x.with(kReadOnce)(r, c));
  if (!t.residual) return x;
  const Tile sum = x + cast<f32>((*t.residual).with(kReadOnce)(r, c));
  return t.sum ? cast<f32>(cast<T>(sum)) : sum;
}

template <class T>
void store_sum(const NormTensors<T>& t, const Index& r, const Subscript& c, const Tile& v) {
  if (t.sum) (*t.sum)(r, c) = v;
}

/// Mean of each row (0 for RMS norm), and sum of squared differences from it.
struct RowMoments {
  Tile mean, squares;
};

RowMoments moments_of_held(const Tile& v, const Tile& columns, bool is_centred) {
  if (!is_centred) return {Tile(0.0f), sum(v * v, -1)};
  const Tile mean = sum(v, -1) / columns, d = v - along_row(mean);
  return {mean, sum(d * d, -1)};
}

/// Moments of parts of a row are merged as in Chan, Golub and LeVeque 1979: differences from a
/// distant mean would lose the variance by cancellation.
template <class T>
RowMoments moments_of_blocks(const NormTensors<T>& t, const Index& r, bool is_centred) {
  Tile mean = full<f32>(0), squares = full<f32>(0);
  for (auto c : steps(t.x.cols(), kNormStep)) {
    const Tile v = normalised_elements(t, r, c), left = cast<f32>(t.x.cols() - c.first());
    store_sum(t, r, c, v);
    const Tile seen = cast<f32>(c.first()), count = min(left, static_cast<float>(kNormStep));
    const RowMoments part = moments_of_held(v, count, is_centred);
    const Tile share = count / (seen + count), away = part.mean - mean;
    squares += part.squares + away * away * seen * share;
    mean += away * share;
  }
  return {mean, squares};
}

template <class T>
void store_normalised(const NormTensors<T>& t, const Index& r, const Subscript& c, const Tile& v,
                      const Tile& mean, const Tile& rstd, bool is_centred) {
  Tile y = (is_centred ? v - along_row(mean) : v) * along_row(rstd);
  if (t.weight) y = y * cast<f32>((*t.weight)(c));
  if (t.bias) y = y + cast<f32>((*t.bias)(c));
  t.y(r, c) = y;
}

template <class T>
void store_statistics(const NormTensors<T>& t, const Index& r, const Tile& mean, const Tile& rstd) {
  if (t.mean) (*t.mean)(r) = mean;
  if (t.rstd) (*t.rstd)(r) = rstd;
}

template <class T>
auto norm_of_held_rows() {
  return kernel("norm", [](NormTensors<T> t, Scalar<f32> epsilon, bool is_centred, int tile_rows) {
    for (auto r : grid(rows(t.y), tile_rows)) {
      const Tile v = normalised_elements(t, r, all), columns = cast<f32>(t.x.cols());
      store_sum(t, r, all, v);
      const auto [mean, squares] = moments_of_held(v, columns, is_centred);
      const Tile rstd = rsqrt(squares / columns + epsilon);
      store_normalised(t, r, all, v, mean, rstd, is_centred);
      store_statistics(t, r, mean, rstd);
    }
  });
}

template <class T>
auto norm_in_two_passes() {
  return kernel("norm_two_pass", [](NormTensors<T> t, Scalar<f32> epsilon, bool is_centred) {
    for (auto r : grid(rows(t.y), 1)) {
      const auto [mean, squares] = moments_of_blocks(t, r, is_centred);
      const Tile rstd = rsqrt(squares / cast<f32>(t.x.cols()) + epsilon);
      for (auto c : steps(t.x.cols(), kNormStep))
        store_normalised(t, r, c, normalised_elements(t, r, c), mean, rstd, is_centred);
      store_statistics(t, r, mean, rstd);
    }
  });
}

template <class T>
struct NormKernels {
  decltype(norm_of_held_rows<T>()) held = norm_of_held_rows<T>();
  decltype(norm_in_two_passes<T>()) two_pass = norm_in_two_passes<T>();
  CallPlans plans;
};

void check_norm(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Tensor& y, const NormExtras& extras) {
  require_rank(name, "x", x, 2);
  const Dims columns{x.size(1)}, rows{x.size(0)};
  require_tensor(name, "y", y, x.dtype(), x.shape());
  require_optional(name, "weight", weight, x.dtype(), columns);
  require_optional(name, "bias", bias, x.dtype(), columns);
  require_optional(name, "residual", extras.residual, x.dtype(), x.shape());
  require_optional(name, "sum", extras.sum, x.dtype(), x.shape());
  require_optional(name, "mean", extras.mean, DType::f32, rows);
  require_optional(name, "rstd", extras.rstd, DType::f32, rows);
}

void norm(const char* name, const Stream& stream, const Tensor& x, const Tensor& weight,
          const Tensor& bias, const Tensor& y, float epsilon, bool is_centred,
          const NormExtras& extras) {
  for_float(name, x.dtype(), [&](auto t) {
    static const auto* const kernels = new NormKernels<decltype(t)>;  // never destroyed
    const auto& [residual, sum, mean, rstd] = extras;
    const auto args = tensor_args(x, residual, weight, bias, y, sum, mean, rstd);
    kernels->plans.call(
        stream, args, PlanOptions{std::bit_cast<std::int32_t>(epsilon), is_centred},
        [&](PlanBuilder& plan) {
          check_norm(name, x, weight, bias, y, extras);
          const int tensors = 2 + residual.defined() + sum.defined();
          const RowConfig c = choose_rows(
              {x.size(0), x.size(1), RowKernel::norm, x.dtype(), tensors}, plan.device());
          const auto launch = [&](const auto& kernel, const auto&... numbers) {
            plan.launch(kernel, plan.argument(0), plan.argument(1), plan.argument(2),
                        plan.argument(3), plan.argument(4), plan.argument(5), plan.argument(6),
                        plan.argument(7), epsilon, is_centred, numbers...);
          };
          if (c.method == RowMethod::held)
            launch(kernels->held, c.tile_rows);
          else
            launch(kernels->two_pass);
        });
  });
}

}  // namespace

void rms_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& y,
              float epsilon, const NormExtras& extras, Loc at) {
  const detail::CallPlace here(at);
  if (extras.mean.defined())
    throw_argument_error(ErrorId::kernel_argument, "rms_norm", "mean", extras.mean.str(),
                         "none: the rows are not centred");
  norm("rms_norm", stream, x, weight, {}, y, epsilon, false, extras);
}

void layer_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Tensor& y, float epsilon, const NormExtras& extras, Loc at) {
  const detail::CallPlace here(at);
  norm("layer_norm", stream, x, weight, bias, y, epsilon, true, extras);
}

}  // namespace tegula::kernels
