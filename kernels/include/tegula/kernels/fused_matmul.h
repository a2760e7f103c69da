#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tegula/call_plan.h"
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

/// Kernels that compute a GEMM.
enum class MatmulDecomposition { DataParallel, Batched, ClusterSplitK, SplitK, StreamK };

/// What the kernels of a GEMM's plan read and how they are traced: operands that tensor cores
/// cannot read are repacked by launches that come first. `plan` is of a call with A, B, C and
/// whatever the epilogue takes. Throws CompileError unless shapes fit.
struct MatmulSteps {
  /// Chooses the configuration where none is given.
  MatmulSteps(PlanBuilder& plan, const MatmulConfig* given, const MatmulOptions& options,
              DType acc_type, Loc made_at);
  MatmulConfig config;
  MatmulDecomposition mode;
  MatmulTraits traits;
  PlanSlot a, b;
  /// Partial accumulators, and with stream-K counters.
  PlanSlot workspace, counters;
};

/// What a GEMM's plan depends on besides the tensors.
class MatmulKey {
 public:
  explicit MatmulKey(const MatmulOptions& options, const MatmulConfig* given = nullptr);
  operator std::span<const std::uint64_t>() const { return {words_.data(), count_}; }

 private:
  void add(std::uint64_t word) { words_[count_++] = word; }

  std::array<std::uint64_t, 16> words_;
  std::size_t count_ = 0;
};

/// The matrices of a GEMM with a batch dimension in front of them.
PlanSlot as_batches(PlanBuilder& plan, PlanSlot slot);

/// Throws CompileError unless shapes fit.
void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C, Loc made_at = {});
MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, bool has_aux = false, Loc made_at = {});

/// How a GEMM reads a tensor whose dimension k is `k_dim`, -1 of A, -2 of B: operands that TMA or
/// the tensor cores cannot read are repacked first, unless they have 16 bits and `no_repack` lets
/// mma.sync read them as stored.
RepackedOperand matmul_operand(const Tensor& tensor, int k_dim, const MatmulOptions& options,
                               bool no_repack = false);
/// The operands of a plan that a GEMM reads: those of `slots`, the first of which is A.
std::vector<PlanSlot> matmul_operands(PlanBuilder& plan, std::initializer_list<PlanSlot> slots,
                                      const MatmulOptions& options, bool no_repack);

/// The kernels of C = epilogue(A B), in all configurations that calls ask for.
template <class T, class O, class Fn>
class MatmulKernels {
  template <template <class...> class Body>
  using Of = typename TrailingAfter<Index, Fn, 1>::template Append<Body, T, O, Fn>;

 public:
  explicit MatmulKernels(Fn epilogue) : epilogue_(std::move(epilogue)) {}

  /// Arguments of a call; they are the same for matrices and batches.
  template <class... Host>
  static auto pack(const Tensor& A, const Tensor& B, const Tensor& C, const Host&... trailing) {
    return decltype(kernel("", std::declval<Of<DataParallelMatmul>>()))::pack(A, B, C, trailing...);
  }
  void build(PlanBuilder& plan, const MatmulConfig* given, const MatmulOptions& options,
             Loc made_at) {
    using enum MatmulDecomposition;
    const MatmulSteps s(plan, given, options, dtype_of<Accumulator<T>>, made_at);
    const PlanSlot C = plan.argument(2);
    const auto launch = [&](auto&& kernel, const auto&... first) {
      plan.launch_with_rest(kernel, 3, first...);
    };
    if (s.mode == DataParallel) return launch(data_parallel_.of(s.traits), s.a, s.b, C);
    if (s.mode == Batched) return launch(batched_.of(s.traits), s.a, s.b, C);
    if (s.mode == ClusterSplitK) return launch(cluster_split_k_.of(s.traits), s.a, s.b, C);
    if (s.mode == StreamK)
      return launch(stream_k_.of(s.traits), as_batches(plan, s.a), as_batches(plan, s.b),
                    as_batches(plan, C), s.workspace, s.counters, s.config.stream_k_ctas);
    plan.launch(split_k_.of(s.traits), s.a, s.b, s.workspace);
    launch(split_k_reduce_, s.workspace, C);
  }
  std::string explain(const MatmulConfig& config) const {
    const auto matches = [&](const MatmulConfig& c) { return c == config; };
    if (stream_k_.has(matches)) return stream_k_.explain(matches);
    if (batched_.has(matches)) return batched_.explain(matches);
    if (config.split_k <= 1) return data_parallel_.explain(matches);
    return config.split_k_in_cluster ? cluster_split_k_.explain(matches)
                                     : split_k_.explain(matches);
  }

 private:
  Fn epilogue_;
  ConfiguredMatmul<Of<DataParallelMatmul>> data_parallel_{"matmul", {epilogue_}},
      cluster_split_k_{"matmul_cluster_split_k", {epilogue_}};
  ConfiguredMatmul<Of<BatchedMatmul>> batched_{"matmul_batched", {epilogue_}};
  ConfiguredMatmul<Of<StreamKMatmul>> stream_k_{"matmul_stream_k", {epilogue_}};
  ConfiguredMatmul<SplitKMatmul<T>> split_k_{"matmul_split_k", {}};
  decltype(kernel("", std::declval<Of<SplitKReduction>>())) split_k_reduce_ =
      kernel("matmul_split_k_reduce", Of<SplitKReduction>{epilogue_});
};

}  // namespace detail

/// C = epilogue(A B): A [m, k] and B [k, n] of T, C [m, n] of O (see `matmul` for supported types;
/// all with a batch dimension in front, if A has one), any strides. `Fn` is a lambda (Tile acc,
/// Index m, Index n, trailing..) or, with the batch entry (0 of matrices), (Tile acc, Index b,
/// Index m, Index n, trailing..), types written out: `acc` is the accumulator at rows m and columns
/// n, and the result is rounded to O. Copies share compiled kernels. Calls throw CompileError for
/// shapes that do not fit.
template <class T, class O, class Fn>
class FusedMatmul {
 public:
  explicit FusedMatmul(Fn epilogue, MatmulOptions options = {}, Loc at = {})
      : state_(new State(std::move(epilogue))), options_(options), made_at_(at) {}

  template <class... Host>
  void operator()(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
                  const Host&... trailing) const {
    call(nullptr, stream, A, B, C, trailing...);
  }
  /// The same with a configuration given.
  template <class... Host>
  void run(const MatmulConfig& config, const Stream& stream, const Tensor& A, const Tensor& B,
           const Tensor& C, const Host&... trailing) const {
    call(&config, stream, A, B, C, trailing...);
  }
  /// Report on the kernel of this configuration: plan, remarks. That for batches, if calls had
  /// some.
  std::string explain(const MatmulConfig& config) const { return state_->kernels.explain(config); }

 private:
  using Kernels = detail::MatmulKernels<T, O, Fn>;
  struct State {
    explicit State(Fn epilogue) : kernels(std::move(epilogue)) {}
    Kernels kernels;
    CallPlans plans;
  };

  template <class... Host>
  void call(const MatmulConfig* given, const Stream& stream, const Tensor& A, const Tensor& B,
            const Tensor& C, const Host&... trailing) const {
    const detail::CallPlace here(made_at_);
    State& s = *state_;
    s.plans.call(stream, Kernels::pack(A, B, C, trailing...), detail::MatmulKey(options_, given),
                 [&](PlanBuilder& plan) { s.kernels.build(plan, given, options_, made_at_); });
  }

  std::shared_ptr<State> state_;
  MatmulOptions options_;
  Loc made_at_;
};

template <class T, class O, class Fn>
FusedMatmul<T, O, Fn> fused_matmul(Fn epilogue, MatmulOptions options = {},
                                   Loc at = std::source_location::current()) {
  return FusedMatmul<T, O, Fn>(std::move(epilogue), options, at);
}

}  // namespace tegula
