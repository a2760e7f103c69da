// Row-wise and elementwise kernels.
#include "tegula/kernels/rows.h"

#include <numbers>

#include "kernels/argument_error.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

/// Rows are read once, yet kept in the L2 before what is written: so writing goes on all the time,
/// and the kernels took 1-3 % less on an H200. Chains of such kernels on tensors of 8 to 270 MB
/// took as long as without, within what two runs differ by (bench/results/sweeps/*-rows.jsonl).
constexpr Hints kRead{.evict = Evict::last};

template <class T>
auto make_softmax() {
  return kernel("softmax", [](In<T, 2> x, Out<T, 2> y) {
    for (auto r : grid(rows(y), 1)) {
      const Tile v = cast<f32>(x.with(kRead)(r, all));
      // Base 2: one fma and one instruction for the exponential.
      constexpr float log2e = std::numbers::log2e_v<float>;
      const Tile e = exp2(fma(v, log2e, max(v) * -log2e));
      y(r, all) = e * rcp(sum(e));
    }
  });
}

template <class T>
auto make_rms_norm() {
  return kernel("rms_norm", [](In<T, 2> x, In<T, 1> weight, Out<T, 2> y, Scalar<f32> epsilon) {
    for (auto r : grid(rows(y), 1)) {
      // The weights are on their way while the row is summed.
      const Tile v = cast<f32>(x.with(kRead)(r, all)), w = weight(all);
      const Tile mean = sum(v * v) / cast<f32>(x.cols());
      y(r, all) = v * rsqrt(mean + epsilon) * cast<f32>(w);
    }
  });
}

/// Calls `run` with a value of the host type of one of the dtypes that the kernel takes.
template <class Run>
void for_float(const char* name, DType dtype, const Run& run) {
  if (dtype == DType::bf16) return run(bf16());
  if (dtype == DType::f16) return run(f16());
  if (dtype == DType::f32) return run(f32());
  throw_argument_error(ErrorId::row_type, name, tegula::name(dtype));
}

}  // namespace

void vector_add(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& z) {
  static const auto add = kernel("vector_add", [](In<f32, 1> a, In<f32, 1> b, Out<f32, 1> c) {
    for (auto i : grid(c, 512)) c(i) = a(i) + b(i);
  });
  add(stream, x, y, z);
}

void softmax(const Stream& stream, const Tensor& x, const Tensor& y, Loc at) {
  const detail::CallPlace here(at);
  for_float("softmax", x.dtype(), [&](auto t) {
    static const auto k = make_softmax<decltype(t)>();
    k(stream, x, y);
  });
}

void rms_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& y,
              float epsilon, Loc at) {
  const detail::CallPlace here(at);
  for_float("rms_norm", x.dtype(), [&](auto t) {
    static const auto k = make_rms_norm<decltype(t)>();
    k(stream, x, weight, y, epsilon);
  });
}

}  // namespace tegula
