// Matrix products: the eight-line kernel and its host function.
#include "tegula/kernels/matmul.h"

#include "tegula/tegula.h"

namespace tegula {
namespace {

template <class T>
auto make_kernel() {
  return kernel("matmul", [](In<T, 2> A, In<T, 2> B, Out<T, 2> C) {
    const bool tensor_cores = sizeof(T) == 2;
    const int BM = tune("BM", {16, 32, 64, 128}, tensor_cores ? 128 : 64),
              BN = tune("BN", {16, 32, 64, 96, 128, 256}, tensor_cores ? 256 : 64);
    const int BK = tune("BK", {8, 16, 32, 64}, tensor_cores ? 64 : 16);
    for (auto [m, n] : grid(C, BM, BN, l2_group(8))) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

template <class T>
void run(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C) {
  static const auto kernel = make_kernel<T>();
  kernel(stream, A, B, C);
}

}  // namespace

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C) {
  if (A.rank() != 2 || B.rank() != 2 || C.rank() != 2 || A.size(1) != B.size(0) ||
      C.size(0) != A.size(0) || C.size(1) != B.size(1))
    throw CompileError(
        Diagnostic{"",
                   "matmul: A is " + A.str() + ", B is " + B.str() + ", C is " + C.str(),
                   {},
                   {},
                   "shapes must be [m, k], [k, n], [m, n]"});
  if (A.dtype() == DType::bf16) return run<bf16>(stream, A, B, C);
  if (A.dtype() == DType::f16) return run<f16>(stream, A, B, C);
  run<f32>(stream, A, B, C);
}

void matmul(const Tensor& A, const Tensor& B, const Tensor& C) {
  matmul(Stream(A.device()), A, B, C);
}

}  // namespace tegula
