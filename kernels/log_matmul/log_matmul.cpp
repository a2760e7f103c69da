// Log-space matmul: e^(A - a) e^(B - b) on tensor cores, where a are the maxima of A's rows and b
// those of B's columns, then C = a + b + log of the sum. Where the sum is so small that f16 may
// have lost terms, C is recomputed.
#include "tegula/kernels/log_matmul.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/argument_error.h"
#include "kernels/online_exponentials.h"
#include "tegula/call_plan.h"
#include "tegula/int_math.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Exponentials are scaled by 2^15, the largest power of two in f16, so that rounding to a
/// subnormal changes them by at most 2^-40.
constexpr int kScaleBits = 15;
constexpr float kScale = 1 << kScaleBits;
constexpr int kLogMatmulStep = 4096;
/// Columns per program that finds column maxima, and rows per iteration: few columns, so that
/// programs occupy all SMs, and many rows, to reduce the number of waits.
constexpr int kColumnsPerProgram = 16, kRowsPerStep = 256;
/// Tile of the recomputation, and terms per iteration.
constexpr int kExactRows = 16, kExactColumns = 64, kExactTerms = 8;
/// Rows of f16 are aligned to 16 bytes.
constexpr std::int64_t kAlignment = 8;

/// Returns e^(x - top), scaled; 0 for absent elements.
Tile scaled_exponentials(const Tile& x, const Tile& top) {
  return fill_absent(cast<f16>(exp_above(x, top) * kScale), 0);
}

auto rows_kernel() {
  return kernel("log_matmul_rows", [](In<f32, 2> A, Out<f16, 2> E, Out<f32, 1> tops) {
    for (auto r : grid(rows(E), 1)) {
      Tile best = full<f32>(-inf, kLogMatmulStep);
      for (auto c : steps(A.cols(), kLogMatmulStep)) best = max(best, fill_absent(A(r, c), -inf));
      const Tile top = max(best), reference = finite_reference(top);
      tops(r) = top;
      for (auto c : steps(E.cols(), kLogMatmulStep))
        E(r, c) = scaled_exponentials(A(r, c), reference);
    }
  });
}

auto columns_kernel() {
  return kernel("log_matmul_columns", [](In<f32, 2> B, Out<f16, 2> F, Out<f32, 1> tops) {
    for (auto c : grid(cols(F), kColumnsPerProgram)) {
      Tile best = full<f32>(-inf, kRowsPerStep, kColumnsPerProgram);
      for (auto r : steps(B.rows(), kRowsPerStep)) best = max(best, fill_absent(B(r, c), -inf));
      const Tile top = max(best, axis(0)), reference = finite_reference(top);
      tops(c) = top;
      for (auto r : steps(F.rows(), kRowsPerStep))
        F(r, c) = scaled_exponentials(B(r, c), reference(none, all));
    }
  });
}

/// Returns the log of the sum without both scales, plus both maxima.
struct LogEpilogue {
  Tile operator()(const Tile& sum, const Index& m, const Index& n, const In<f32, 1>& row_tops,
                  const In<f32, 1>& column_tops) const {
    constexpr float kScales = 2 * kScaleBits * std::numbers::ln2_v<float>;
    return log(sum) - kScales + row_tops(m)(all, none) + column_tops(n)(none, all);
  }
};

/// Returns the log of the smallest accepted sum of `terms` products: rounding to subnormals has
/// changed it by at most 2^-16.
Tile smallest_kept(const Tile& terms) {
  return log(cast<f32>(terms)) - 23 * std::numbers::ln2_v<float>;
}

/// Returns log(sum of e^(A + B)) of a tile, relative to its own maxima.
Tile exact_tile(const In<f32, 2>& A, const In<f32, 2>& B, const Index& m, const Index& n) {
  const auto terms = [&](const Index& k) {
    return fill_absent(A(m, k), -inf)(all, all, none) + fill_absent(B(k, n), -inf)(none, all, all);
  };
  Tile top = full<f32>(-inf, kExactRows, kExactColumns),
       total = zeros<f32>(kExactRows, kExactColumns);
  for (auto k : steps(A.cols(), kExactTerms)) top = max(top, max(terms(k), axis(1)));
  const Tile reference = where(top == inf, 0.0f, finite_reference(top));
  for (auto k : steps(A.cols(), kExactTerms))
    total += sum(exp_above(terms(k), reference(all, none, all)), 1);
  return reference + log(total);
}

auto exact_kernel() {
  return kernel("log_matmul_exact", [](In<f32, 2> A, In<f32, 2> B, In<f32, 1> row_tops,
                                       In<f32, 1> column_tops, InOut<f32, 2> C) {
    for (auto [m, n] : grid(C, kExactRows, kExactColumns)) {
      const Tile a = row_tops(m)(all, none), b = column_tops(n)(none, all);
      const Tile is_kept = C(m, n) - a - b >= smallest_kept(A.cols()) || a == -inf || b == -inf;
      if_(any(fill_absent(!is_kept, 0)), [&, m = m, n = n] { C(m, n) = exact_tile(A, B, m, n); });
    }
  });
}

struct LogMatmulKernels {
  decltype(rows_kernel()) rows = rows_kernel();
  decltype(columns_kernel()) columns = columns_kernel();
  ConfiguredKernel<detail::DataParallelMatmul<f16, f32, LogEpilogue, In<f32, 1>, In<f32, 1>>>
      product{"log_matmul", {LogEpilogue{}}};
  decltype(exact_kernel()) exact = exact_kernel();
};

/// Returns a GEMM configuration without cluster split-K.
detail::MatmulTraits traits_of(PlanBuilder& plan, PlanSlot E, PlanSlot F, PlanSlot C) {
  MatmulConfig config = choose_matmul(
      detail::matmul_problem(plan.tensor(E), plan.tensor(F), plan.tensor(C), {}), plan.device());
  config.split = SplitK::none, config.parts = 1;
  return {config, {}, 1, false};
}

void build(PlanBuilder& plan) {
  static auto* const kernels = new LogMatmulKernels;  // leaked: static destructors may call
  const PlanSlot A = plan.argument(0), B = plan.argument(1), C = plan.argument(2);
  const std::int64_t m = plan.tensor(C).size(0), n = plan.tensor(C).size(1),
                     k = plan.tensor(A).size(1);
  const auto padded = [](std::int64_t extent) { return ceil_div(extent, kAlignment) * kAlignment; };
  const PlanSlot E = plan.scratch({m, padded(k)}, DType::f16),
                 wide = plan.scratch({padded(k), padded(n)}, DType::f16),
                 row_tops = plan.scratch({m}, DType::f32),
                 wide_tops = plan.scratch({padded(n)}, DType::f32);
  const PlanSlot F = plan.view(wide, [n](const Tensor& t) { return t.slice(1, 0, n); }),
                 column_tops =
                     plan.view(wide_tops, [n](const Tensor& t) { return t.slice(0, 0, n); });
  plan.launch(kernels->rows, A, E, row_tops);
  plan.launch(kernels->columns, B, wide, wide_tops);
  plan.launch(kernels->product.of(traits_of(plan, E, F, C)), E, F, C, row_tops, column_tops);
  plan.launch(kernels->exact, A, B, row_tops, column_tops, C);
}

}  // namespace

void log_matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C, Loc at) {
  const detail::CallPlace here(at);
  detail::check_matmul(A, B, C);
  for (const auto& [name, tensor] : {std::pair{"A", &A}, std::pair{"B", &B}, std::pair{"C", &C}}) {
    require_rank("log_matmul", name, *tensor, 2);
    require_tensor("log_matmul", name, *tensor, DType::f32, tensor->shape());
  }
  static const auto* const plans = new CallPlans;  // leaked: static destructors may call
  plans->call(stream, tensor_args(A, B, C), {}, [](PlanBuilder& plan) { build(plan); });
}

}  // namespace tegula::kernels
