// Matrix products by element types known at run time; the kernels are in fused_matmul.h.
#include "tegula/kernels/matmul.h"

#include "kernels/argument_error.h"
#include "tegula/kernels/fused_matmul.h"

namespace tegula {
namespace detail {
namespace {

using enum MatmulDecomposition;

/// Products on tensor cores: of all types but f32 at its full precision.
bool uses_tensor_cores(const Tensor& A, const MatmulOptions& options) {
  return A.dtype() != DType::f32 || options.tf32;
}

MatmulDecomposition mode_of(const MatmulConfig& c, const Tensor& A) {
  if (c.stream_k_ctas > 0 && A.size(-1) > 0) return StreamK;
  if (A.rank() == 3) return Batched;
  if (c.split_k <= 1) return DataParallel;
  return c.split_k_in_cluster ? ClusterSplitK : SplitK;
}

Dims workspace_shape(MatmulDecomposition mode, const MatmulConfig& c, const Tensor& C) {
  if (mode == SplitK) return {c.split_k, C.size(0), C.size(1)};
  if (mode != StreamK) return {};
  return {2 * c.stream_k_ctas, c.swap_ab ? c.bn : c.bm, c.swap_ab ? c.bm : c.bn};
}

}  // namespace

void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C) {
  const int r = A.rank();
  const bool ranks = (r == 2 || r == 3) && B.rank() == r && C.rank() == r;
  if (ranks && A.size(-1) == B.size(-2) && C.size(-2) == A.size(-2) && C.size(-1) == B.size(-1) &&
      (r == 2 || (A.size(0) == B.size(0) && A.size(0) == C.size(0))))
    return;
  throw_argument_error(ErrorId::matmul_shapes, A.str(), B.str(), C.str());
}

RepackedOperand matmul_operand(const Tensor& tensor, int k_dim, const MatmulOptions& options,
                               bool no_repack) {
  if (!uses_tensor_cores(tensor, options)) return {tensor, k_dim, LayoutRequirement::any};
  if (size_bytes(tensor.dtype()) != 2) return {tensor, k_dim, LayoutRequirement::contiguous_dim};
  return {tensor, k_dim, no_repack ? LayoutRequirement::any : LayoutRequirement::tma_compatible};
}

MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, bool has_aux) {
  check_matmul(A, B, C);
  MatmulProblem p{C.size(-2), C.size(-1), A.size(-1), A.dtype()};
  p.fp32_promotion = options.fp32_promotion, p.has_epilogue_tensors = has_aux;
  p.profile = &device_profile(A.device()), p.num_sms = num_sms(A.device());
  p.tf32 = options.tf32, p.has_wgmma = uses_tensor_cores(A, options) && has_wgmma(A.device());
  const RepackedOperand a = matmul_operand(A, -1, options), b = matmul_operand(B, -2, options);
  const bool along_k = a.requirement == LayoutRequirement::contiguous_dim;
  p.a_k_major = A.stride(-1) == 1 || (along_k && a.needs_repack());
  p.b_k_major = B.stride(-2) == 1 || (along_k && b.needs_repack());
  p.is_a_line_aligned = a.is_line_aligned(), p.is_b_line_aligned = b.is_line_aligned();
  p.no_split_k = A.rank() == 3, p.needs_repack = a.needs_repack() || b.needs_repack();
  return p;
}

MatmulSteps::MatmulSteps(PlanBuilder& plan, const MatmulConfig* given, const MatmulOptions& options,
                         DType acc_type) {
  a = plan.argument(0), b = plan.argument(1);
  const Tensor &A = plan.tensor(a), &B = plan.tensor(b), &C = plan.tensor(plan.argument(2));
  check_matmul(A, B, C);
  bool has_aux = false;
  for (std::size_t i = 3; i < plan.size(); ++i) has_aux |= plan.tensor(plan.argument(i)).rank() > 1;
  config = given ? *given : matmul_config(matmul_problem(A, B, C, options, has_aux));
  mode = mode_of(config, A);
  if (mode == StreamK) counters = plan.counters(config.stream_k_ctas);
  if (const Dims shape = workspace_shape(mode, config, C); !shape.empty())
    workspace = plan.scratch(shape, acc_type);
  const auto read = repack(plan, {{a, matmul_operand(A, -1, options, config.no_repack)},
                                  {b, matmul_operand(B, -2, options, config.no_repack)}});
  const bool is_repacked = read[0] != a || read[1] != b;
  variant = {config, options, mode == ClusterSplitK ? config.split_k : 1, is_repacked};
  a = read[0], b = read[1];
}

PlanOptions matmul_key(const MatmulOptions& o, const MatmulConfig* given) {
  if (!given) return {o.tf32, o.fp32_promotion};
  const auto& [bm, bn, bk, split_k, swap_ab, in_cluster, stages, no_repack, multicast,
               stream_k_ctas, pingpong, tma_store, group_m] = *given;  // all there are
  return {o.tf32,    o.fp32_promotion, bm,         bn,        bk,
          split_k,   swap_ab,          in_cluster, stages,    no_repack,
          multicast, stream_k_ctas,    pingpong,   tma_store, group_m};
}

}  // namespace detail

namespace {

/// The accumulator itself.
struct Plain {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

/// A call of `matmul` while its plan is built.
struct Building {
  PlanBuilder& plan;
  const MatmulConfig* given;
  const MatmulOptions& options;

  DType dtype(std::size_t i) const { return plan.tensor(plan.argument(i)).dtype(); }
  /// Builds it if the operands are of T and the result is of one of these types, else false.
  template <class T, class... Results>
  bool is_built_as() const {
    const bool is_of_t = dtype(0) == dtype_of<T> && dtype(1) == dtype_of<T>;
    return is_of_t && ((dtype(2) == dtype_of<Results> && build<T, Results>()) || ...);
  }
  template <class T, class O>
  bool build() const {
    static const auto* const product = new FusedMatmul<T, O, Plain>(Plain{});
    product->build(plan, given, options);
    return true;
  }
};

void call(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
          const MatmulConfig* given, const MatmulOptions& options, Loc at) {
  const detail::CallPlace here(at);
  static const auto* const plans = new CallPlans;  // statics may call, too
  const auto key = detail::matmul_key(options, given);
  plans->call(stream, tensor_args(A, B, C), key, [&](PlanBuilder& plan) {
    const Building b{plan, given, options};
    if (!(b.is_built_as<bf16, bf16, f32>() || b.is_built_as<f16, f16, f32>() ||
          b.is_built_as<f32, f32>() || b.is_built_as<f8e4m3, bf16, f16, f32>() ||
          b.is_built_as<f8e5m2, bf16, f16, f32>() || b.is_built_as<i8, i32, f32>() ||
          b.is_built_as<u8, i32, f32>()))
      throw_argument_error(ErrorId::matmul_types, name(A.dtype()), name(B.dtype()),
                           name(C.dtype()));
  });
}

}  // namespace

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulConfig& config, const MatmulOptions& options, Loc at) {
  call(stream, A, B, C, &config, options, at);
}

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulOptions& options, Loc at) {
  call(stream, A, B, C, nullptr, options, at);
}

void matmul(const Tensor& A, const Tensor& B, const Tensor& C, const MatmulOptions& options,
            Loc at) {
  matmul(Stream(A.device()), A, B, C, options, at);
}

}  // namespace tegula
