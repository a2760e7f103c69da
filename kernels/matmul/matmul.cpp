// Matrix products by element types known at run time; the kernels are in fused_matmul.h.
#include "tegula/kernels/matmul.h"

#include <array>

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

/// Whether the epilogue reads or writes tensors as large as the result.
bool has_aux(const PlanBuilder& plan) {
  for (std::size_t i = 3; i < plan.size(); ++i)
    if (plan.tensor(plan.argument(i)).rank() > 1) return true;
  return false;
}

}  // namespace

void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C, Loc made_at) {
  const int r = A.rank();
  const bool ranks = (r == 2 || r == 3) && B.rank() == r && C.rank() == r;
  if (ranks && A.size(-1) == B.size(-2) && C.size(-2) == A.size(-2) && C.size(-1) == B.size(-1) &&
      (r == 2 || (A.size(0) == B.size(0) && A.size(0) == C.size(0))))
    return;
  const CallPlace here(made_at);
  throw_argument_error(ErrorId::matmul_shapes, A.str(), B.str(), C.str());
}

RepackedOperand matmul_operand(const Tensor& tensor, int k_dim, const MatmulOptions& options,
                               bool no_repack) {
  if (!uses_tensor_cores(tensor, options)) return {tensor, k_dim, LayoutRequirement::any};
  if (size_bytes(tensor.dtype()) != 2) return {tensor, k_dim, LayoutRequirement::contiguous_dim};
  return {tensor, k_dim, no_repack ? LayoutRequirement::any : LayoutRequirement::tma_compatible};
}

MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, bool has_aux, Loc made_at) {
  check_matmul(A, B, C, made_at);
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

std::vector<PlanSlot> matmul_operands(PlanBuilder& plan, std::initializer_list<PlanSlot> slots,
                                      const MatmulOptions& options, bool no_repack) {
  std::vector<OperandSlot> operands;
  for (const PlanSlot slot : slots) {
    const int k_dim = operands.empty() ? -1 : -2;
    const RepackedOperand o = matmul_operand(plan.tensor(slot), k_dim, options, no_repack);
    operands.push_back({slot, o.dim, o.requirement});
  }
  return repack(plan, operands);
}

MatmulSteps::MatmulSteps(PlanBuilder& plan, const MatmulConfig* given, const MatmulOptions& options,
                         DType acc_type, Loc made_at) {
  a = plan.argument(0), b = plan.argument(1);
  const Tensor &A = plan.tensor(a), &B = plan.tensor(b), &C = plan.tensor(plan.argument(2));
  check_matmul(A, B, C, made_at);
  config = given ? *given : matmul_config(matmul_problem(A, B, C, options, has_aux(plan), made_at));
  mode = mode_of(config, A);
  if (mode == StreamK) counters = plan.counters(static_cast<std::size_t>(config.stream_k_ctas));
  if (const Dims shape = workspace_shape(mode, config, C); !shape.empty())
    workspace = plan.scratch(shape, acc_type);
  const auto read = matmul_operands(plan, {a, b}, options, config.no_repack);
  traits = {config, options, mode == ClusterSplitK ? config.split_k : 1,
            read[0] != a || read[1] != b};
  a = read[0], b = read[1];
}

PlanSlot as_batches(PlanBuilder& plan, PlanSlot slot) {
  if (plan.tensor(slot).rank() == 3) return slot;
  return plan.view(slot, [](const Tensor& t) { return t.with_rank(3); });
}

MatmulKey::MatmulKey(const MatmulOptions& options, const MatmulConfig* given) {
  add((options.tf32 ? 1u : 0u) | (options.fp32_promotion ? 2u : 0u));
  if (!given) return;
  // A field that is added to MatmulConfig does not compile here before it is part of the key.
  const auto& [bm, bn, bk, split_k, swap_ab, split_k_in_cluster, stages, no_repack, multicast,
               stream_k_ctas, pingpong, tma_store, group_m] = *given;
  for (const int value : {bm, bn, bk, split_k, +swap_ab, +split_k_in_cluster, stages, +no_repack,
                          +multicast, stream_k_ctas, +pingpong, +tma_store, group_m})
    add(static_cast<std::uint64_t>(value));
}

}  // namespace detail

namespace {

/// The accumulator itself.
struct Plain {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

/// The plan of a call of `matmul`.
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
    static auto* const kernels = new detail::MatmulKernels<T, O, Plain>(Plain{});
    kernels->build(plan, given, options, {});
    return true;
  }
  void build() const {
    if (is_built_as<bf16, bf16, f32>() || is_built_as<f16, f16, f32>() || is_built_as<f32, f32>() ||
        is_built_as<f8e4m3, bf16, f16, f32>() || is_built_as<f8e5m2, bf16, f16, f32>() ||
        is_built_as<i8, i32, f32>() || is_built_as<u8, i32, f32>())
      return;
    throw_argument_error(ErrorId::matmul_types, name(dtype(0)), name(dtype(1)), name(dtype(2)));
  }
};

void call(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
          const MatmulConfig* given, const MatmulOptions& options, Loc at) {
  const detail::CallPlace here(at);
  static const auto* const plans = new CallPlans;  // statics may call, too
  const auto view = [](const Tensor& t) {
    return detail::HostArg{detail::ParamKind::View, t.dtype(), &t};
  };
  plans->call(stream, std::array{view(A), view(B), view(C)}, detail::MatmulKey(options, given),
              [&](PlanBuilder& plan) { Building{plan, given, options}.build(); });
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
