#pragma once
// RMS norm and layer norm, forward and backward, against references in double.
#include <optional>

#include "tegula/kernels/norm.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

/// One call of a norm and its backward pass.
struct NormCase {
  std::int64_t rows, columns;
  DType dtype = DType::f32;
  bool is_centred = false, has_residual = false, has_affine = true, is_aligned = true;
};

/// Moments and gradients in double.
struct NormReference {
  const NormCase& c;
  double epsilon;
  Doubles x, weight, bias, y, mean, rstd;

  double w(std::int64_t i) const { return weight.empty() ? 1 : weight[i]; }
  void forward() {
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const double* row = x.data() + r * c.columns;
      double total = 0, squares = 0;
      for (std::int64_t i = 0; i < c.columns; ++i) total += row[i];
      mean.push_back(c.is_centred ? total / c.columns : 0);
      for (std::int64_t i = 0; i < c.columns; ++i)
        squares += (row[i] - mean[r]) * (row[i] - mean[r]);
      rstd.push_back(1 / std::sqrt(squares / c.columns + epsilon));
      for (std::int64_t i = 0; i < c.columns; ++i)
        y.push_back((row[i] - mean[r]) * rstd[r] * w(i) + (bias.empty() ? 0 : bias[i]));
    }
  }
  struct Gradients {
    Doubles x, weight, bias;
  };
  Gradients backward(const Doubles& dy, const Doubles& dsum) const {
    Gradients d{{}, Doubles(c.columns), Doubles(c.columns)};
    for (std::int64_t r = 0; r < c.rows; ++r) {
      double gradient = 0, dot = 0;
      const auto normalised = [&](std::int64_t i) {
        return (x[r * c.columns + i] - mean[r]) * rstd[r];
      };
      for (std::int64_t i = 0; i < c.columns; ++i) {
        const double g = dy[r * c.columns + i];
        gradient += g * w(i) / c.columns, dot += g * w(i) * normalised(i) / c.columns;
        d.weight[i] += g * normalised(i), d.bias[i] += g;
      }
      for (std::int64_t i = 0; i < c.columns; ++i) {
        const double g = dy[r * c.columns + i] * w(i) - (c.is_centred ? gradient : 0);
        d.x.push_back((g - normalised(i) * dot) * rstd[r] +
                      (dsum.empty() ? 0 : dsum[r * c.columns + i]));
      }
    }
    return d;
  }
};

/// x + residual, as it is stored.
inline Doubles rounded_sum(const Tensor& x, const Tensor& residual) {
  Doubles sum = x.to_doubles();
  const Doubles other = residual.to_doubles();
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  return Tensor::from(sum, x.shape(), Device::cpu()).cast(DType::f32).cast(x.dtype()).to_doubles();
}

inline void check_norm(const NormCase& c, Device device) {
  const Stream stream(device);
  const Dims shape{c.rows, c.columns}, columns{c.columns}, rows{c.rows};
  const auto normal = [&](const Dims& dims, std::uint64_t seed) {
    return random_rows(dims, c.dtype, seed, device, c.is_aligned);
  };
  const auto fresh = [&](const Dims& dims, DType dtype) {
    return unwritten_rows(dims, dtype, device, c.is_aligned);
  };
  const Tensor x = normal(shape, 1), y = fresh(shape, c.dtype), rstd = fresh(rows, DType::f32);
  const Tensor weight = c.has_affine ? normal(columns, 2) : Tensor();
  const Tensor bias = c.has_affine && c.is_centred ? normal(columns, 3) : Tensor();
  NormExtras extras{.rstd = rstd};
  if (c.is_centred) extras.mean = fresh(rows, DType::f32);
  if (c.has_residual) extras.residual = normal(shape, 4), extras.sum = fresh(shape, c.dtype);
  if (c.is_centred)
    layer_norm(stream, x, weight, bias, y, 1e-5f, extras);
  else
    rms_norm(stream, x, weight, y, 1e-5f, extras);

  NormReference want{c, 1e-5, x.to_doubles(), {}, {}, {}, {}, {}};
  if (c.has_residual) {
    want.x = rounded_sum(x, extras.residual);
    expect_elements(extras.sum, want.x, 0, 0);
  }
  if (weight.defined()) want.weight = weight.to_doubles();
  if (bias.defined()) want.bias = bias.to_doubles();
  want.forward();
  expect_elements(y, want.y);
  expect_elements(rstd, want.rstd);
  if (c.is_centred) expect_elements(extras.mean, want.mean);

  const Tensor dy = normal(shape, 5), dx = fresh(shape, c.dtype);
  const Tensor dsum = c.has_residual ? normal(shape, 6) : Tensor();
  const NormTape tape{c.has_residual ? extras.sum : x, weight, extras.mean, rstd};
  NormGradients gradients{.x = dx};
  if (weight.defined()) gradients.weight = fresh(columns, DType::f32);
  if (bias.defined()) gradients.bias = fresh(columns, c.dtype);
  if (c.is_centred)
    layer_norm_backward(stream, tape, dy, gradients, dsum);
  else
    rms_norm_backward(stream, tape, dy, gradients, dsum);
  const auto of = want.backward(dy.to_doubles(), dsum.defined() ? dsum.to_doubles() : Doubles());
  // A row of one element has a rstd that is as large as 1 / sqrt(epsilon).
  double largest = 1;
  for (const double r : want.rstd) largest = std::max(largest, r);
  expect_elements(dx, of.x, 4 * largest);
  const double scale = 4 * std::sqrt(static_cast<double>(c.rows) + 1);
  if (weight.defined()) expect_elements(gradients.weight, of.weight, scale);
  if (bias.defined()) expect_elements(gradients.bias, of.bias, scale);
}

/// Shapes whose rows are held, several in a program or one, and streamed; one element; none.
inline const std::vector<Dims>& norm_shapes() {
  static const std::vector<Dims> shapes{{1, 1},    {0, 64},   {5, 0},     {67, 7},
                                        {130, 64}, {33, 100}, {9, 1000},  {6, 1024},
                                        {5, 2049}, {3, 8192}, {2, 20000}, {3, 40000}};
  return shapes;
}

inline void check_norms(Device device, bool is_centred) {
  for_row_shapes(norm_shapes(),
                 [&](std::int64_t rows, std::int64_t columns, DType dtype, bool is_aligned) {
                   check_norm({.rows = rows,
                               .columns = columns,
                               .dtype = dtype,
                               .is_centred = is_centred,
                               .has_residual = dtype != DType::f16,
                               .has_affine = dtype != DType::f32 || columns > 64,
                               .is_aligned = is_aligned},
                              device);
                 });
}

/// A NaN or an infinity stays in its row.
inline void check_norm_of_no_numbers(Device device, std::int64_t columns) {
  for (const bool is_centred : {false, true})
    for (const double bad : {std::nan(""), static_cast<double>(INFINITY)}) {
      const Stream stream(device);
      Tensor x = random_rows({5, columns}, DType::f32, 1, device);
      Doubles values = x.to_doubles();
      values[2 * columns + columns / 2] = bad;
      x = Tensor::from(values, {5, columns}, Device::cpu()).cast(DType::f32).to(device);
      const Tensor y = unwritten_rows({5, columns}, DType::f32, device);
      is_centred ? layer_norm(stream, x, {}, {}, y) : rms_norm(stream, x, {}, y);
      const NormCase c{.rows = 5, .columns = columns, .is_centred = is_centred};
      NormReference want{c, is_centred ? 1e-5 : 1e-6, values, {}, {}, {}, {}, {}};
      want.forward();
      expect_elements(y, want.y);
    }
}

}  // namespace tegula::test
