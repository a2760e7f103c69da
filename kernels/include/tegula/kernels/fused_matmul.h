#pragma once
#include <cstddef>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tegula/kernels/call_place.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/epilogue_check.h"
#include "tegula/kernels/matmul_kernels.h"
#include "tegula/trailing_params.h"

/// GEMMs with a lambda as epilogue: DSL code on the accumulator tile before it is stored. Further
/// inputs of the lambda are its trailing parameters, and arguments of each call:
///
///     auto dense = fused_matmul<bf16, bf16>(
///         [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
///           return max(acc + expand(cast<f32>(bias(n)), 0), 0.0f) + residual(m, n);
///         });
///     dense(stream, A, B, C, bias, residual);
///
/// For two GEMMs that share A and have a common epilogue, use `gated_matmul`.
namespace tegula::kernels {
namespace detail {

/// Kernel arguments of a GEMM in a plan, whose first launches repack operands. The call's arguments
/// are A, one B for each of the `products`, C, and the further inputs of the epilogue. Chooses a
/// configuration if none is given. Throws CompileError for shapes that do not match.
struct MatmulSteps {
  MatmulSteps(PlanBuilder& plan, const MatmulConfig* given, const MatmulOptions& options,
              DType acc_type, std::size_t products);
  MatmulConfig config;
  SplitK split;  ///< split-K of the configuration, as far as the call supports it
  bool is_batched;
  MatmulTraits variant;
  std::vector<PlanSlot> operands;  ///< A and each B
  PlanSlot workspace, counters;    ///< for partial accumulators
};

/// Returns the plan-cache key of a GEMM, apart from its arguments.
PlanOptions matmul_key(const MatmulOptions& options, const MatmulConfig* given);

/// Throws CompileError for shapes that do not match.
void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C);
MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, int epilogue_matrices = 0);

/// Returns how a GEMM reads a tensor whose dimension k is `k_dim` (-1 for A, -2 for B). Operands
/// that TMA or tensor cores cannot read are repacked, except 16-bit ones that take a direct path.
RepackedOperand matmul_operand(const Tensor& tensor, int k_dim, const MatmulOptions& options,
                               OperandPath path = OperandPath::tma);

}  // namespace detail

/// C = epilogue(A B): A [m, k] and B [k, n] of type T, C [m, n] of type O (see `matmul` for
/// supported types), any strides, optionally with a leading batch dimension. `Fn` is a lambda (Tile
/// acc, Index m, Index n, trailing..) or, with the batch index (0 for matrices), (Tile acc, Index
/// b, Index m, Index n, trailing..), with explicit parameter types: `acc` is the accumulator of
/// rows m and columns n; the result is rounded to O. Copies share compiled kernels.
///
/// If the lambda takes two accumulators, (Tile gate, Tile up, ..), C = epilogue(A G, A U) and the
/// arguments are A, G, U, C; A is read once. The bn of a configuration is then the width of each
/// half, and its `split`, `parts` and `swap_ab` are ignored.
template <class T, class O, class Fn>
class FusedMatmul {
  static constexpr std::size_t kProducts = detail::Products<Fn>::size();
  template <template <class...> class Body>
  using Of =
      typename tegula::detail::TrailingAfter<Index, Fn, kProducts>::template Append<Body, T, O, Fn>;

 public:
  explicit FusedMatmul(Fn epilogue, MatmulOptions options = {})
      : kernels_(new Kernels(std::move(epilogue))), options_(options) {}

  /// Arguments: a Stream, A, each B, C and the further inputs of the lambda (T1650, T0701, T0702).
  template <class... Args>
  void operator()(const detail::StreamAt& stream, const Args&... args) const {
    call(nullptr, stream, args...);
  }
  /// The same with a given configuration (see `matmul`).
  template <class... Args>
  void run(const MatmulConfig& config, const detail::StreamAt& stream, const Args&... args) const {
    call(&config, stream, args...);
  }
  /// Adds the launches of a call to its plan.
  void build(PlanBuilder& plan, const MatmulConfig* given, const MatmulOptions& options) const {
    Kernels& k = *kernels_;
    const detail::MatmulSteps s(plan, given, options, dtype_of<Accumulator<T>>, kProducts);
    const PlanSlot C = plan.argument(kProducts + 1);
    const auto launch = [&](const auto& kernel, const auto&... first) {
      plan.launch_with_rest(kernel, kProducts + 2, first...);
    };
    const auto launch_whole = [&](auto& kernels) {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        launch(kernels.of(s.variant), s.operands[I]..., C);
      }(std::make_index_sequence<kProducts + 1>());
    };
    if constexpr (kProducts == 1) {
      const PlanSlot a = s.operands[0], b = s.operands[1];
      const auto batch = [&](PlanSlot slot) { return plan.with_rank(slot, 3); };
      if (s.split == SplitK::stream)
        return launch(k.stream_k.of(s.variant), batch(a), batch(b), batch(C), s.workspace,
                      s.counters, s.config.parts);
      if (s.split == SplitK::cluster) return launch_whole(k.cluster_split_k);
      if (s.split == SplitK::partials) {
        plan.launch(k.split_k.of(s.variant), a, b, s.workspace);
        return launch(k.split_k_reduce, s.workspace, C);
      }
    }
    s.is_batched ? launch_whole(k.batched) : launch_whole(k.data_parallel);
  }
  /// Returns a report on the kernel of this configuration: plan, remarks.
  std::string explain(const MatmulConfig& config, Loc at = std::source_location::current()) const {
    const detail::CallPlace here(at);
    const auto matches = [&](const MatmulConfig& c) { return c == config; };
    const Kernels& k = *kernels_;
    if (k.batched.has(matches)) return k.batched.explain(matches);
    if constexpr (kProducts == 1) {
      if (k.stream_k.has(matches)) return k.stream_k.explain(matches);
      if (k.cluster_split_k.has(matches)) return k.cluster_split_k.explain(matches);
      if (k.split_k.has(matches)) return k.split_k.explain(matches);
    }
    return k.data_parallel.explain(matches);
  }
  /// Returns a report on the compiled kernels of a gated GEMM for matrices.
  std::string explain(Loc at = std::source_location::current()) const
    requires(kProducts == 2)
  {
    const detail::CallPlace here(at);
    return kernels_->data_parallel.explain([](const auto&) { return true; });
  }

 private:
  struct WholeKernels {
    explicit WholeKernels(Fn fn) : epilogue(std::move(fn)) {}
    Fn epilogue;
    ConfiguredKernel<Of<detail::DataParallelMatmul>> data_parallel{
        kProducts == 1 ? "matmul" : "matmul_gated", {epilogue}};
    ConfiguredKernel<Of<detail::BatchedMatmul>> batched{
        kProducts == 1 ? "matmul_batched" : "matmul_gated_batched", {epilogue}};
    CallPlans plans;
  };
  struct SplitKernels : WholeKernels {
    explicit SplitKernels(Fn fn) : WholeKernels(std::move(fn)) {}
    ConfiguredKernel<Of<detail::DataParallelMatmul>> cluster_split_k{"matmul_cluster_split_k",
                                                                     {this->epilogue}};
    ConfiguredKernel<Of<detail::StreamKMatmul>> stream_k{"matmul_stream_k", {this->epilogue}};
    ConfiguredKernel<detail::SplitKMatmul<T>> split_k{"matmul_split_k", {}};
    decltype(kernel("", std::declval<Of<detail::SplitKReduction>>())) split_k_reduce =
        kernel("matmul_split_k_reduce", Of<detail::SplitKReduction>{this->epilogue});
  };
  using Kernels = std::conditional_t<kProducts == 1, SplitKernels, WholeKernels>;

  template <class... Args>
  void call(const MatmulConfig* given, const detail::StreamAt& stream, const Args&... args) const {
    const detail::CallPlace here(stream.at);
    kernels_->plans.call(stream.stream, decltype(kernels_->data_parallel.of({}))::pack(args...),
                         detail::matmul_key(options_, given),
                         [&](PlanBuilder& plan) { build(plan, given, options_); });
  }
  std::shared_ptr<Kernels> kernels_;
  MatmulOptions options_;
};

/// Makes a GEMM of operands of type T and results of type O, which owns its compiled kernels.
template <class T, class O, class Fn>
auto fused_matmul(Fn epilogue, MatmulOptions options = {}) {
  if constexpr (detail::check_epilogue<Fn>())
    return FusedMatmul<T, O, Fn>(std::move(epilogue), options);
}

/// C = epilogue(A G, A U), the two halves of a gated linear unit (SwiGLU; Shazeer 2020).
template <class T, class O, class Fn>
using FusedGatedMatmul = FusedMatmul<T, O, Fn>;
template <class T, class O, class Fn>
auto gated_matmul(Fn epilogue, MatmulOptions options = {}) {
  return fused_matmul<T, O>(std::move(epilogue), options);
}

}  // namespace tegula::kernels
