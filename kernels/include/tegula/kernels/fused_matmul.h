#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tegula/further_params.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/matmul_kernels.h"

/// Matrix products whose epilogue is a lambda: DSL code on the tile of sums, before it is stored.
/// Of two products at once: tegula/kernels/gated_matmul.h.
/// What the lambda needs beside the sums are its further parameters, and arguments of every call:
///
///     auto dense = fused_matmul<bf16, bf16>(
///         [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
///           return max(acc + expand(cast<f32>(bias(n)), 0), 0.0f) + residual(m, n);
///         });
///     dense(stream, A, B, C, bias, residual);
namespace tegula {
namespace detail {

/// By which kernels a product is computed.
enum class MatmulWay : std::uint8_t { Whole, Batched, Clustered, Divided, Streamed };

/// What the kernels of a call take. Throws CompileError unless shapes fit.
struct MatmulCall {
  MatmulCall(const MatmulConfig& config, const MatmulOptions& options, const Stream& stream,
             const Tensor& A, const Tensor& B, const Tensor& C, DType type_of_sums);
  MatmulWay way;
  /// A and B, memory for sums of parts of k and, if streamed, counters.
  PackedTensors operands;
  MatmulVariant variant;
};

/// Throws CompileError unless shapes fit.
void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C, Loc made_at = {});
MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, bool further = false, Loc made_at = {});

/// How a product reads a tensor whose dimension k is `k_dim`, -1 of A, -2 of B: operands that TMA
/// or the tensor cores do not take as they lie are copied first; those of 16 bits, where it reads
/// them `direct`ly, are not.
PackedOperand matmul_operand(const Tensor& tensor, int k_dim, const MatmulOptions& options,
                             bool direct = false);

}  // namespace detail

/// C = epilogue(A B): A [m, k] and B [k, n] of T, C [m, n] of O (see `matmul` for what goes
/// together; all with a batch dimension in front, if A has one), any strides. `Fn` is a lambda
/// (Tile acc, Index m, Index n, further..) or, told a batch's entry (0 of matrices), (Tile acc,
/// Index b, Index m, Index n, further..), types written out: `acc` holds the sums at rows m and
/// columns n, and what it returns is rounded to O. Copies share what was compiled. Calls throw
/// CompileError for shapes that do not fit.
template <class T, class O, class Fn>
class FusedMatmul {
  template <template <class...> class Body>
  using Of = typename detail::FurtherBehind<Index, Fn, 1>::template Append<Body, T, O, Fn>;

 public:
  explicit FusedMatmul(Fn epilogue, MatmulOptions options = {}, Loc at = {})
      : kernels_(new Kernels{std::move(epilogue)}), options_(options), made_at_(at) {}

  template <class... Host>
  void operator()(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
                  const Host&... further) const {
    const bool reads_more = (... || detail::is_matrix(further));
    run(matmul_config(detail::matmul_problem(A, B, C, options_, reads_more, made_at_)), stream, A,
        B, C, further...);
  }
  /// The same with a configuration given.
  template <class... Host>
  void run(const MatmulConfig& config, const Stream& stream, const Tensor& A, const Tensor& B,
           const Tensor& C, const Host&... further) const {
    using enum detail::MatmulWay;
    const detail::CallPlace here(made_at_);
    Kernels& k = *kernels_;
    const detail::MatmulCall call(config, options_, stream, A, B, C, dtype_of<SumOf<T>>);
    const detail::MatmulVariant& v = call.variant;
    const Tensor &a = call.operands[0], &b = call.operands[1], &sums = call.operands.further();
    if (call.way == Whole) return k.whole.of(v)(stream, a, b, C, further...);
    if (call.way == Batched) return k.batched.of(v)(stream, a, b, C, further...);
    if (call.way == Clustered) return k.clustered.of(v)(stream, a, b, C, further...);
    if (call.way == Streamed)
      return k.streamed.of(v)(stream, a.with_rank(3), b.with_rank(3), C.with_rank(3), sums,
                              call.operands.counters(), config.streamed, further...);
    k.partial.of(v)(stream, a, b, sums);
    k.sum(stream, sums, C, further...);
  }
  /// What was compiled of this configuration for operands without batches, and why: plan, remarks.
  std::string explain(const MatmulConfig& config) const {
    const auto is_meant = [&](const MatmulConfig& of_variant) { return of_variant == config; };
    const Kernels& k = *kernels_;
    if (k.streamed.has(is_meant)) return k.streamed.explain(is_meant);
    if (config.splits <= 1) return k.whole.explain(is_meant);
    return config.clustered ? k.clustered.explain(is_meant) : k.partial.explain(is_meant);
  }

 private:
  struct Kernels {
    Fn epilogue;
    detail::ConfiguredMatmul<Of<detail::WholeMatmul>> whole{"matmul", {epilogue}},
        clustered{"matmul_clustered", {epilogue}};
    detail::ConfiguredMatmul<Of<detail::BatchedMatmul>> batched{"matmul_batched", {epilogue}};
    detail::ConfiguredMatmul<Of<detail::StreamedMatmul>> streamed{"matmul_streamed", {epilogue}};
    detail::ConfiguredMatmul<detail::PartialMatmul<T>> partial{"matmul_partial", {}};
    decltype(kernel("", std::declval<Of<detail::SumOfParts>>())) sum =
        kernel("matmul_sum", Of<detail::SumOfParts>{epilogue});
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
