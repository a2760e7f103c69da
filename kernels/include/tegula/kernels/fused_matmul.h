#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tegula/kernels/copy.h"
#include "tegula/kernels/matmul_kernels.h"
#include "tegula/trailing_params.h"

/// GEMMs whose epilogue is a lambda: DSL code on the accumulator tile, before it is stored. Two
/// GEMMs at once: tegula/kernels/gated_matmul.h. Other inputs of the lambda are its trailing
/// parameters, and arguments of every call:
///
///     auto dense = fused_matmul<bf16, bf16>(
///         [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
///           return max(acc + expand(cast<f32>(bias(n)), 0), 0.0f) + residual(m, n);
///         });
///     dense(stream, A, B, C, bias, residual);
namespace tegula {
namespace detail {

/// Arguments of a call's kernels. Throws CompileError unless shapes fit.
struct MatmulCall {
  MatmulCall(const MatmulConfig& c, const MatmulOptions& options, const Stream& stream,
             const Tensor& A, const Tensor& B, const Tensor& C, DType acc_type);
  SplitK split;
  /// A and B, workspace for partial accumulators and, with stream-K, counters.
  RepackedOperands operands;
  MatmulTraits variant;
};

/// Throws CompileError unless shapes fit.
void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C, Loc made_at = {});
MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, int epilogue_matrices = 0,
                             Loc made_at = {});

/// How a GEMM reads a tensor whose dimension k is `k_dim`, -1 of A, -2 of B: operands that TMA or
/// the tensor cores cannot read are repacked first, unless a direct path reads 16 bits as stored.
RepackedOperand matmul_operand(const Tensor& tensor, int k_dim, const MatmulOptions& options,
                               OperandPath path = OperandPath::tma);

}  // namespace detail

/// C = epilogue(A B): A [m, k] and B [k, n] of T, C [m, n] of O (see `matmul` for supported types;
/// all with a batch dimension in front, if A has one), any strides. `Fn` is a lambda (Tile acc,
/// Index m, Index n, trailing..) or, with the batch entry (0 of matrices), (Tile acc, Index b,
/// Index m, Index n, trailing..), types written out: `acc` is the accumulator at rows m and columns
/// n, and the result is rounded to O. Copies share compiled kernels. Calls throw CompileError for
/// shapes that do not fit.
template <class T, class O, class Fn>
class FusedMatmul {
  template <template <class...> class Body>
  using Of = typename detail::TrailingAfter<Index, Fn, 1>::template Append<Body, T, O, Fn>;

 public:
  explicit FusedMatmul(Fn epilogue, MatmulOptions options = {}, Loc at = {})
      : kernels_(new Kernels{std::move(epilogue)}), options_(options), made_at_(at) {}

  template <class... Host>
  void operator()(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
                  const Host&... trailing) const {
    const int matrices = (0 + ... + static_cast<int>(detail::is_matrix(trailing)));
    const MatmulProblem problem = detail::matmul_problem(A, B, C, options_, matrices, made_at_);
    run(choose_matmul(problem, A.device()), stream, A, B, C, trailing...);
  }
  /// The same with a configuration given.
  template <class... Host>
  void run(const MatmulConfig& config, const Stream& stream, const Tensor& A, const Tensor& B,
           const Tensor& C, const Host&... trailing) const {
    const detail::CallPlace here(made_at_);
    Kernels& k = *kernels_;
    const detail::MatmulCall call(config, options_, stream, A, B, C, dtype_of<Accumulator<T>>);
    const detail::MatmulTraits& v = call.variant;
    const Tensor &a = call.operands[0], &b = call.operands[1], &partial = call.operands.workspace();
    if (call.split == SplitK::stream)
      return k.stream_k.of(v)(stream, a.with_rank(3), b.with_rank(3), C.with_rank(3), partial,
                              call.operands.counters(), config.parts, trailing...);
    if (call.split == SplitK::partials) {
      k.split_k.of(v)(stream, a, b, partial);
      return k.split_k_reduce(stream, partial, C, trailing...);
    }
    if (A.rank() == 3) return k.batched.of(v)(stream, a, b, C, trailing...);
    if (call.split == SplitK::cluster) return k.cluster_split_k.of(v)(stream, a, b, C, trailing...);
    k.data_parallel.of(v)(stream, a, b, C, trailing...);
  }
  /// Report on the kernel of this configuration for operands without batches: plan, remarks.
  std::string explain(const MatmulConfig& config) const {
    const auto matches = [&](const MatmulConfig& c) { return c == config; };
    const Kernels& k = *kernels_;
    if (k.stream_k.has(matches)) return k.stream_k.explain(matches);
    if (config.parts <= 1) return k.data_parallel.explain(matches);
    return config.split == SplitK::cluster ? k.cluster_split_k.explain(matches)
                                           : k.split_k.explain(matches);
  }

 private:
  struct Kernels {
    Fn epilogue;
    detail::ConfiguredMatmul<Of<detail::DataParallelMatmul>> data_parallel{"matmul", {epilogue}},
        cluster_split_k{"matmul_cluster_split_k", {epilogue}};
    detail::ConfiguredMatmul<Of<detail::BatchedMatmul>> batched{"matmul_batched", {epilogue}};
    detail::ConfiguredMatmul<Of<detail::StreamKMatmul>> stream_k{"matmul_stream_k", {epilogue}};
    detail::ConfiguredMatmul<detail::SplitKMatmul<T>> split_k{"matmul_split_k", {}};
    decltype(kernel("", std::declval<Of<detail::SplitKReduction>>())) split_k_reduce =
        kernel("matmul_split_k_reduce", Of<detail::SplitKReduction>{epilogue});
  };
  std::shared_ptr<Kernels> kernels_;
  MatmulOptions options_;
  Loc made_at_;
};

template <class T, class O, class Fn>
FusedMatmul<T, O, Fn> fused_matmul(Fn epilogue, MatmulOptions options = {},
                                   Loc at = std::source_location::current()) {
  return FusedMatmul<T, O, Fn>(std::move(epilogue), options, at);
}

}  // namespace tegula
