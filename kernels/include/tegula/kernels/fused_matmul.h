#pragma once
#include <memory>
#include <source_location>
#include <string>
#include <utility>

#include "tegula/kernels/call_place.h"
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

/// Arguments of a GEMM's kernels in a plan whose first launches repack operands. Chooses the
/// configuration where none is given. Throws CompileError unless shapes fit.
struct MatmulSteps {
  MatmulSteps(PlanBuilder& plan, const MatmulConfig* given, const MatmulOptions& options,
              DType acc_type);
  MatmulConfig config;
  SplitK split;  ///< the configuration's, as far as the call carries it out
  bool is_batched;
  MatmulTraits variant;
  PlanSlot a, b, workspace, counters;  ///< the last two for partial accumulators
};

/// Key of a plan of a GEMM, besides its arguments.
PlanOptions matmul_key(const MatmulOptions& options, const MatmulConfig* given);

/// Throws CompileError unless shapes fit.
void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C);
MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, int epilogue_matrices = 0);

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
  explicit FusedMatmul(Fn epilogue, MatmulOptions options = {})
      : kernels_(new Kernels(std::move(epilogue))), options_(options) {}

  /// A, B, C and what the lambda takes.
  template <class... Args>
  void operator()(const detail::StreamAt& stream, const Args&... args) const {
    call(nullptr, stream, args...);
  }
  /// The same with a configuration given.
  template <class... Args>
  void run(const MatmulConfig& config, const detail::StreamAt& stream, const Args&... args) const {
    call(&config, stream, args...);
  }
  /// Adds the launches of a call to its plan.
  void build(PlanBuilder& plan, const MatmulConfig* given, const MatmulOptions& options) const {
    Kernels& k = *kernels_;
    const detail::MatmulSteps s(plan, given, options, dtype_of<Accumulator<T>>);
    const PlanSlot C = plan.argument(2);
    const auto launch = [&](const auto& kernel, const auto&... first) {
      plan.launch_with_rest(kernel, 3, first...);
    };
    const auto batch = [&](PlanSlot slot) { return plan.with_rank(slot, 3); };
    if (s.split == SplitK::stream)
      return launch(k.stream_k.of(s.variant), batch(s.a), batch(s.b), batch(C), s.workspace,
                    s.counters, s.config.parts);
    if (s.is_batched) return launch(k.batched.of(s.variant), s.a, s.b, C);
    if (s.split == SplitK::cluster) return launch(k.cluster_split_k.of(s.variant), s.a, s.b, C);
    if (s.split == SplitK::none) return launch(k.data_parallel.of(s.variant), s.a, s.b, C);
    plan.launch(k.split_k.of(s.variant), s.a, s.b, s.workspace);
    launch(k.split_k_reduce, s.workspace, C);
  }
  /// Report on the kernel of this configuration: plan, remarks.
  std::string explain(const MatmulConfig& config, Loc at = std::source_location::current()) const {
    const detail::CallPlace here(at);
    const auto matches = [&](const MatmulConfig& c) { return c == config; };
    const Kernels& k = *kernels_;
    if (k.stream_k.has(matches)) return k.stream_k.explain(matches);
    if (k.batched.has(matches)) return k.batched.explain(matches);
    if (k.cluster_split_k.has(matches)) return k.cluster_split_k.explain(matches);
    if (k.split_k.has(matches)) return k.split_k.explain(matches);
    return k.data_parallel.explain(matches);
  }

 private:
  struct Kernels {
    explicit Kernels(Fn fn) : epilogue(std::move(fn)) {}
    Fn epilogue;
    ConfiguredKernel<Of<detail::DataParallelMatmul>> data_parallel{"matmul", {epilogue}},
        cluster_split_k{"matmul_cluster_split_k", {epilogue}};
    ConfiguredKernel<Of<detail::BatchedMatmul>> batched{"matmul_batched", {epilogue}};
    ConfiguredKernel<Of<detail::StreamKMatmul>> stream_k{"matmul_stream_k", {epilogue}};
    ConfiguredKernel<detail::SplitKMatmul<T>> split_k{"matmul_split_k", {}};
    decltype(kernel("", std::declval<Of<detail::SplitKReduction>>())) split_k_reduce =
        kernel("matmul_split_k_reduce", Of<detail::SplitKReduction>{epilogue});
    CallPlans plans;
  };
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

template <class T, class O, class Fn>
FusedMatmul<T, O, Fn> fused_matmul(Fn epilogue, MatmulOptions options = {}) {
  return FusedMatmul<T, O, Fn>(std::move(epilogue), options);
}

}  // namespace tegula
