#pragma once
// Triton's tutorials in the language, against references in double.
#include <numeric>

#include "examples/triton/attention.h"
#include "examples/triton/block_scaled_matmul.h"
#include "examples/triton/dropout.h"
#include "examples/triton/extern_function.h"
#include "examples/triton/grouped_gemm.h"
#include "examples/triton/layer_norm.h"
#include "examples/triton/matmul.h"
#include "examples/triton/persistent_matmul.h"
#include "examples/triton/softmax.h"
#include "examples/triton/vector_add.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {

inline void check_elementwise_tutorials(Device device) {
  const std::int64_t n = 5001;
  const Tensor x = Tensor::uniform({n}, DType::f32, -1, 1, 1, device),
               y = Tensor::uniform({n}, DType::f32, -1, 1, 2, device),
               z = unwritten_rows({n}, DType::f32, device);
  const Doubles a = x.to_doubles(), b = y.to_doubles();
  Doubles sums(n), sines(n);
  for (std::int64_t i = 0; i < n; ++i) sums[i] = a[i] + b[i], sines[i] = std::asin(a[i]);
  const Stream stream(device);
  tutorials::vector_add()(stream, x, y, z);
  expect_elements(z, sums);
  tutorials::arc_sine()(stream, x, z);
  expect_elements(z, sines);
  tutorials::dropout_by_seed()(stream, x, z, 7);
  const Doubles kept = z.to_doubles();
  std::int64_t zeros = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (kept[i] == 0) ++zeros;
    ASSERT_TRUE(kept[i] == 0 || kept[i] == 2 * a[i]) << "element " << i;
  }
  EXPECT_NEAR(static_cast<double>(zeros), n / 2.0, 200);
}

inline void check_softmax_tutorial(Device device) {
  const std::int64_t rows = 5, columns = 77;
  const Tensor x = random_rows({rows, columns}, DType::f32, 3, device),
               y = unwritten_rows({rows, columns}, DType::f32, device);
  tutorials::softmax()(Stream(device), x, y);
  const Doubles in = x.to_doubles();
  Doubles want(rows * columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (std::int64_t c = 0; c < columns; ++c) total += std::exp(in[r * columns + c]);
    for (std::int64_t c = 0; c < columns; ++c)
      want[r * columns + c] = std::exp(in[r * columns + c]) / total;
  }
  expect_elements(y, want);
}

/// Whole numbers, whose products and sums are exact: A [m, k] times B [k, n].
struct ExactProduct {
  std::int64_t m = 130, n = 264, k = 128;
  Doubles a = numbers(m * k, 5), b = numbers(k * n, 7);

  static Doubles numbers(std::int64_t count, std::int64_t period) {
    Doubles x(count);
    for (std::int64_t i = 0; i < count; ++i) x[i] = static_cast<double>((i * 31) % period - 2);
    return x;
  }
  double sum(std::int64_t i, std::int64_t j, std::int64_t from, std::int64_t to) const {
    double total = 0;
    for (std::int64_t p = from; p < to; ++p) total += a[i * k + p] * b[p * n + j];
    return total;
  }
  Tensor A(DType dtype, Device device) const { return of(a, {m, k}, dtype).to(device); }
  Tensor B(DType dtype, Device device) const { return of(b, {k, n}, dtype).to(device); }
  /// B [n, k], row-major.
  Tensor Bt(DType dtype, Device device) const {
    return of(b, {k, n}, DType::f32).transpose(0, 1).clone().cast(dtype).to(device);
  }
  static Tensor of(const Doubles& values, const Dims& shape, DType dtype) {
    return Tensor::from(values, shape, Device::cpu()).cast(dtype);
  }
};

inline void check_matmul_tutorials(Device device) {
  const ExactProduct p;
  const Stream stream(device);
  const Tensor c = unwritten_rows({p.m, p.n}, DType::f16, device);
  Doubles leaky(p.m * p.n), plain(p.m * p.n);
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const double sum = p.sum(i, j, 0, p.k);
      plain[i * p.n + j] = sum, leaky[i * p.n + j] = sum >= 0 ? sum : 0.01 * sum;
    }
  tutorials::matmul()(stream, p.A(DType::f16, device), p.B(DType::f16, device), c);
  expect_elements(c, leaky);
  tutorials::persistent_matmul()(stream, p.A(DType::f16, device), p.Bt(DType::f16, device), c);
  expect_elements(c, plain);
}

/// Products of many shapes, one without rows among them, by fewer programs than tiles.
inline void check_grouped_gemm_tutorial(Device device) {
  struct Product {
    std::int64_t m, n, k;
  };
  const std::vector<Product> products{{130, 136, 64}, {1, 8, 8}, {0, 8, 8}, {40, 264, 40}};
  std::vector<i64> addresses;
  std::vector<i32> shapes;
  std::vector<Tensor> all;
  for (const auto& [m, n, k] : products) {
    const ExactProduct p{.m = m, .n = n, .k = k};
    all.push_back(p.A(DType::f16, device));
    all.push_back(p.B(DType::f16, device));
    all.push_back(unwritten_rows({m, n}, DType::f16, device));
    for (std::size_t i = all.size() - 3; i < all.size(); ++i)
      addresses.push_back(static_cast<i64>(reinterpret_cast<std::uintptr_t>(all[i].data())));
    for (const std::int64_t extent : {m, n / 8, k / 8}) shapes.push_back(static_cast<i32>(extent));
  }
  const auto count = static_cast<std::int64_t>(products.size());
  tutorials::grouped_gemm()(Stream(device), Tensor::from(addresses, {count, 3}, device),
                            Tensor::from(shapes, {count, 3}, device), 3);
  for (std::size_t g = 0; g < products.size(); ++g) {
    const auto& [m, n, k] = products[g];
    const ExactProduct p{.m = m, .n = n, .k = k};
    Doubles want(m * n);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) want[i * n + j] = p.sum(i, j, 0, k);
    expect_elements(all[3 * g + 2], want);
  }
}

/// Scales are powers of two, so that results stay exact.
inline void check_block_scaled_tutorial(Device device) {
  const ExactProduct p{.k = 256};
  const std::int64_t parts = p.k / 128;
  const auto scale = [](std::int64_t i) { return std::ldexp(1.0, static_cast<int>(i % 3) - 1); };
  Doubles a_scales(p.m * parts), b_scales(p.n * parts), want(p.m * p.n, 0);
  for (std::int64_t i = 0; i < p.m * parts; ++i) a_scales[i] = scale(i);
  for (std::int64_t j = 0; j < p.n * parts; ++j) b_scales[j] = scale(j + 1);
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j)
      for (std::int64_t s = 0; s < parts; ++s)
        want[i * p.n + j] +=
            p.sum(i, j, 128 * s, 128 * s + 128) * a_scales[i * parts + s] * b_scales[j * parts + s];
  const auto of = [&](const Doubles& x, std::int64_t rows) {
    return ExactProduct::of(x, {rows, parts}, DType::f32).to(device);
  };
  const Tensor c = unwritten_rows({p.m, p.n}, DType::f16, device);
  tutorials::block_scaled_matmul()(Stream(device), p.A(DType::f8e4m3, device), of(a_scales, p.m),
                                   p.Bt(DType::f8e4m3, device), of(b_scales, p.n), c);
  expect_elements(c, want);
}

/// Sums over a row of x's deviations, and its gradient, as the formulas of the tutorial have them.
inline void check_layer_norm_tutorial(Device device) {
  const std::int64_t rows = 9, n = 100, programs = 4;
  const double eps = 1e-5;
  const Tensor x = random_rows({rows, n}, DType::f16, 1, device),
               dy = random_rows({rows, n}, DType::f16, 2, device),
               w = random_rows({n}, DType::f16, 3, device),
               b = random_rows({n}, DType::f16, 4, device);
  const auto unwritten = [&](const Dims& shape, DType dtype) {
    return unwritten_rows(shape, dtype, device);
  };
  const Tensor y = unwritten({rows, n}, DType::f16), mean = unwritten({rows}, DType::f32),
               rstd = unwritten({rows}, DType::f32), dx = unwritten({rows, n}, DType::f16),
               dw = unwritten({programs, n}, DType::f32), db = unwritten({programs, n}, DType::f32),
               dweight = unwritten({n}, DType::f16), dbias = unwritten({n}, DType::f16);
  const Stream stream(device);
  tutorials::layer_norm()(stream, x, w, b, y, mean, rstd, static_cast<float>(eps));
  tutorials::layer_norm_backward()(stream, dy, x, w, mean, rstd, dx, dw, db);
  tutorials::layer_norm_weights()(stream, dw, db, dweight, dbias);
  const Doubles in = x.to_doubles(), g = dy.to_doubles(), weight = w.to_doubles(),
                bias = b.to_doubles();
  Doubles want_y(rows * n), want_dx(rows * n), want_dw(n, 0), want_db(n, 0), hat(n);
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* row = in.data() + r * n;
    const double m = std::accumulate(row, row + n, 0.0) / n;
    double squares = 0, dot = 0, sum = 0;
    for (std::int64_t c = 0; c < n; ++c) squares += (row[c] - m) * (row[c] - m);
    const double s = 1 / std::sqrt(squares / n + eps);
    for (std::int64_t c = 0; c < n; ++c) {
      hat[c] = (row[c] - m) * s;
      want_y[r * n + c] = hat[c] * weight[c] + bias[c];
      dot += hat[c] * weight[c] * g[r * n + c], sum += weight[c] * g[r * n + c];
      want_dw[c] += g[r * n + c] * hat[c], want_db[c] += g[r * n + c];
    }
    for (std::int64_t c = 0; c < n; ++c)
      want_dx[r * n + c] = (weight[c] * g[r * n + c] - (hat[c] * dot + sum) / n) * s;
  }
  expect_elements(y, want_y, 4);
  expect_elements(dx, want_dx, 4);
  expect_elements(dweight, want_dw, 16);
  expect_elements(dbias, want_db, 16);
}

inline void check_attention_tutorial(Device device) {
  const std::int64_t batches = 2, length = 150, dim = 64;
  const Dims shape{batches, length, dim};
  const Tensor q = random_rows(shape, DType::f16, 1, device),
               k = random_rows(shape, DType::f16, 2, device),
               v = random_rows(shape, DType::f16, 3, device),
               o = unwritten_rows(shape, DType::f16, device);
  const Doubles Q = q.to_doubles(), K = k.to_doubles(), V = v.to_doubles();
  for (const bool is_causal : {false, true}) {
    tutorials::attention()(Stream(device), q, k, v, o, 0.125f, is_causal);
    Doubles want(Q.size(), 0), p(length);
    for (std::int64_t row = 0; row < batches * length; ++row) {
      const std::int64_t first = row / length * length, keys = is_causal ? row - first + 1 : length;
      double total = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        double s = 0;
        for (std::int64_t d = 0; d < dim; ++d) s += Q[row * dim + d] * K[(first + j) * dim + d];
        total += p[j] = std::exp(s / 8);
      }
      for (std::int64_t j = 0; j < keys; ++j)
        for (std::int64_t d = 0; d < dim; ++d)
          want[row * dim + d] += p[j] / total * V[(first + j) * dim + d];
    }
    expect_elements(o, want, 4, 2);
  }
}

}  // namespace tegula::test
