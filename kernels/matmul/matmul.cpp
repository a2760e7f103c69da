// GEMMs for element types known at run time; the kernels are in fused_matmul.h.
#include "tegula/kernels/matmul.h"

#include <vector>

#include "kernels/argument_error.h"
#include "tegula/kernels/fused_matmul.h"

namespace tegula::kernels {
namespace detail {
namespace {

/// Returns true for GEMMs on tensor cores: all types except f32 at full precision.
bool uses_tensor_cores(const Tensor& A, const MatmulOptions& options) {
  return A.dtype() != DType::f32 || options.tf32;
}

/// Returns the split-K that a call uses: stream-K only if k > 0, other kinds only for matrices
/// without a batch dimension.
SplitK split_of(const MatmulConfig& c, const Tensor& A) {
  if (c.split == SplitK::stream) return c.parts > 0 && A.size(-1) > 0 ? c.split : SplitK::none;
  return A.rank() == 3 || c.parts <= 1 ? SplitK::none : c.split;
}

/// Throws T1662 if the accumulator's rows cannot be divided among the CTAs of the cluster.
void check_cluster(const MatmulConfig& c) {
  const int rows = c.swap_ab ? c.bn : c.bm;
  if (c.split != SplitK::cluster || c.parts <= 1) return;
  if ((c.parts == 2 || c.parts == 4 || c.parts == 8) && rows >= c.parts && (rows & (rows - 1)) == 0)
    return;
  throw_argument_error(ErrorId::kernel_argument, "matmul", "the configuration", c.str(),
                       "SplitK::cluster 2, 4 or 8 parts and 64, 128 or 256 rows of the accumulator "
                       "(bm; bn if swapped), which its CTAs halve; or take another split");
}

Dims workspace_shape(SplitK split, const MatmulConfig& c, const Tensor& C) {
  if (split == SplitK::partials) return {c.parts, C.size(0), C.size(1)};
  if (split != SplitK::stream) return {};
  return {2 * c.parts, c.swap_ab ? c.bn : c.bm, c.swap_ab ? c.bm : c.bn};
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
                               OperandPath path) {
  using enum LayoutRequirement;
  if (!uses_tensor_cores(tensor, options)) return {tensor, k_dim, any};
  if (size_bytes(tensor.dtype()) != 2) return {tensor, k_dim, contiguous_dim};
  return {tensor, k_dim, path == OperandPath::direct ? any : tma_compatible};
}

MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, int epilogue_matrices) {
  check_matmul(A, B, C);
  MatmulProblem p{.m = C.size(-2), .n = C.size(-1), .k = A.size(-1)};
  p.batch = A.rank() == 3 ? A.size(0) : 1, p.is_batched = A.rank() == 3;
  p.operands = A.dtype(), p.result = C.dtype(), p.tf32 = options.tf32;
  p.fp32_promotion = options.fp32_promotion, p.epilogue_matrices = epilogue_matrices;
  const RepackedOperand a = matmul_operand(A, -1, options), b = matmul_operand(B, -2, options);
  const bool along_k = a.requirement == LayoutRequirement::contiguous_dim;
  p.a_k_major = A.stride(-1) == 1 || (along_k && a.needs_repack());
  p.b_k_major = B.stride(-2) == 1 || (along_k && b.needs_repack());
  p.a_lines = line_phase(a.pitch_bytes()), p.b_lines = line_phase(b.pitch_bytes());
  p.repacks_a = a.needs_repack(), p.repacks_b = b.needs_repack();
  return p;
}

MatmulSteps::MatmulSteps(PlanBuilder& plan, const MatmulConfig* given, const MatmulOptions& options,
                         DType acc_type, std::size_t products) {
  for (std::size_t i = 0; i <= products; ++i) operands.push_back(plan.argument(i));
  const Tensor &A = plan.tensor(operands[0]), &B = plan.tensor(operands[1]),
               &C = plan.tensor(plan.argument(products + 1));
  for (std::size_t i = 1; i <= products; ++i) check_matmul(A, plan.tensor(operands[i]), C);
  const bool is_gated = products > 1;
  const auto chosen = [&] {
    int matrices = 0;  // for gated GEMMs the choice does not depend on them
    for (std::size_t i = products + 2; i < plan.size() && !is_gated; ++i)
      matrices += plan.tensor(plan.argument(i)).rank() > 1;
    MatmulProblem problem = matmul_problem(A, B, C, options, matrices);
    problem.gates = static_cast<int>(products);
    return choose_matmul(problem, A.device(), is_gated ? "gated_matmul" : "matmul");
  };
  if (given && !is_gated && A.rank() == 2) check_cluster(*given);
  config = given ? *given : chosen();
  if (is_gated) config.split = SplitK::none, config.swap_ab = false;
  split = split_of(config, A), is_batched = A.rank() == 3;
  if (split == SplitK::stream) counters = plan.counters(config.parts);
  if (const Dims shape = workspace_shape(split, config, C); !shape.empty())
    workspace = plan.scratch(shape, acc_type);
  std::vector<OperandSlot> wanted;
  for (const PlanSlot slot : operands)
    wanted.push_back({slot, matmul_operand(plan.tensor(slot), wanted.empty() ? -1 : -2, options,
                                           config.operands)});
  const std::vector<PlanSlot> read = repack(plan, wanted);
  variant = {config, options, split == SplitK::cluster ? config.parts : 1, read != operands};
  operands = read;
}

PlanOptions matmul_key(const MatmulOptions& o, const MatmulConfig* given) {
  if (!given) return {o.tf32, o.fp32_promotion};
  const auto& [bm, bn, bk, split, parts, swap_ab, stages, operands, multicast, pingpong, tma_store,
               group_m] = *given;  // all fields
  const auto number = [](auto value) { return static_cast<std::int64_t>(value); };
  return {o.tf32,
          o.fp32_promotion,
          bm,
          bn,
          bk,
          number(split),
          parts,
          swap_ab,
          stages,
          number(operands),
          number(multicast),
          pingpong,
          tma_store,
          group_m};
}

}  // namespace detail

namespace {

/// Epilogue that returns the accumulator unchanged.
struct Plain {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

/// Builds the plan of a call of `matmul`.
struct MatmulPlan {
  PlanBuilder& plan;
  const MatmulConfig* given;
  const MatmulOptions& options;

  DType dtype(std::size_t i) const { return plan.tensor(plan.argument(i)).dtype(); }
  /// Builds it if the operands have type T and the result one of `Results`; else returns false.
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
  static const auto* const plans = new CallPlans;  // leaked: static destructors may call
  const auto key = detail::matmul_key(options, given);
  plans->call(stream, tensor_args(A, B, C), key, [&](PlanBuilder& plan) {
    const MatmulPlan b{plan, given, options};
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

}  // namespace tegula::kernels
