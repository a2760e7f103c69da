// Matrix products: the eight-line kernel, the same with k divided among CTAs, and the host
// function.
#include "tegula/kernels/matmul.h"

#include <map>
#include <mutex>
#include <tuple>

#include "runtime/workspace.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

template <class T>
auto make_kernel() {
  return kernel("matmul", [](In<T, 2> A, In<T, 2> B, Out<T, 2> C) {
    const bool tensor_cores = sizeof(T) == 2;
    const int BM = tune("BM", {16, 32, 64, 128, 256}, tensor_cores ? 128 : 64),
              BN = tune("BN", {16, 32, 64, 96, 128, 160, 192, 224, 256}, tensor_cores ? 256 : 64);
    const int BK = tune("BK", {8, 16, 32, 64, 128}, tensor_cores ? 64 : 16);
    for (auto [m, n] : grid(C, BM, BN, l2_group(8))) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

/// P[s] = the part of A B that steps s * ceil(steps / splits) .. give.
template <class T>
auto make_partial() {
  return kernel("matmul_partial", [](In<T, 2> A, In<T, 2> B, Out<f32, 3> P) {
    const int BM = tune("BM", {64, 128, 256}, 128),
              BN = tune("BN", {32, 64, 96, 128, 160, 192, 224, 256}, 128),
              BK = tune("BK", {32, 64, 128}, 64);
    for (auto [s, m, n] : grid(P, 1, BM, BN)) {
      let_next_kernel_start();
      const Tile all_steps = (A.cols() + (BK - 1)) / BK, splits = P.dim(0);
      const Tile part = (all_steps + (splits - 1)) / splits * BK, first = s.first() * part;
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(first, min(first + part, A.cols()), BK)) acc = dot(A(m, k), B(k, n), acc);
      P(s, m, n) = acc;
    }
  });
}

template <class T>
auto make_sum() {
  return kernel("matmul_sum", [](In<f32, 3> P, Out<T, 2> C) {
    for (auto [m, n] : grid(C, 4, 256)) {
      wait_for_previous_kernels();
      auto sum = zeros<f32>(4, 256);
      for (auto s : steps(P.dim(0), 1)) sum = sum + P(s, m, n);
      C(m, n) = sum;
    }
  });
}

/// The kernels of one configuration, made once.
template <class T>
struct Kernels {
  decltype(make_kernel<T>()) whole;
  decltype(make_partial<T>()) partial;
};

template <class T>
const Kernels<T>& kernels_of(const MatmulConfig& c) {
  static const auto whole = make_kernel<T>();
  static const auto partial = make_partial<T>();
  static std::mutex mutex;
  static std::map<std::tuple<int, int, int>, Kernels<T>> made;
  const std::lock_guard lock(mutex);
  const auto found = made.find({c.bm, c.bn, c.bk});
  if (found != made.end()) return found->second;
  const Tuning tuning{{"BM", c.bm}, {"BN", c.bn}, {"BK", c.bk}};
  return made.try_emplace({c.bm, c.bn, c.bk}, Kernels<T>{whole.with(tuning), partial.with(tuning)})
      .first->second;
}

Tensor partial_sums(const Stream& stream, const Tensor& C, int splits) {
  const Dims shape{splits, C.size(0), C.size(1)};
  if (C.device().kind != DeviceKind::cuda) return Tensor::empty(shape, DType::f32, C.device());
  const auto bytes = static_cast<std::size_t>(splits * C.size(0) * C.size(1)) * sizeof(float);
  const runtime::Workspace workspace = runtime::acquire_workspace(stream, bytes, 0);
  return Tensor::borrow(workspace.scratch, shape, DType::f32, C.device());
}

template <class T>
void run(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
         const MatmulConfig& config) {
  const Kernels<T>& kernels = kernels_of<T>(config);
  if (config.splits <= 1) return kernels.whole(stream, A, B, C);
  static const auto sum = make_sum<T>();
  const Tensor P = partial_sums(stream, C, config.splits);
  kernels.partial(stream, A, B, P);
  sum(stream, P, C);
}

void check(const Tensor& A, const Tensor& B, const Tensor& C) {
  if (A.rank() != 2 || B.rank() != 2 || C.rank() != 2 || A.size(1) != B.size(0) ||
      C.size(0) != A.size(0) || C.size(1) != B.size(1))
    throw CompileError(
        Diagnostic{"",
                   "matmul: A is " + A.str() + ", B is " + B.str() + ", C is " + C.str(),
                   {},
                   {},
                   "shapes must be [m, k], [k, n], [m, n]"});
}

}  // namespace

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulConfig& config) {
  check(A, B, C);
  if (A.dtype() == DType::bf16) return run<bf16>(stream, A, B, C, config);
  if (A.dtype() == DType::f16) return run<f16>(stream, A, B, C, config);
  throw CompileError(Diagnostic{"",
                                "matmul: A is " + A.str() + ", configurations are for bf16 and f16",
                                {},
                                {},
                                "leave the configuration out"});
}

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C) {
  check(A, B, C);
  if (size_bytes(A.dtype()) == 2)
    return matmul(stream, A, B, C, matmul_config(C.size(0), C.size(1), A.size(1)));
  static const auto by_fma = make_kernel<f32>();
  by_fma(stream, A, B, C);
}

void matmul(const Tensor& A, const Tensor& B, const Tensor& C) {
  matmul(Stream(A.device()), A, B, C);
}

}  // namespace tegula
