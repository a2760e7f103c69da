// Matrix products by element types known at run time; the kernels are in fused_matmul.h.
#include "tegula/kernels/matmul.h"

#include "kernels/argument_error.h"
#include "tegula/kernels/fused_matmul.h"

namespace tegula {
namespace detail {
namespace {

/// Products on tensor cores: of all types but f32 at its full precision.
bool uses_tensor_cores(const Tensor& A, const MatmulOptions& options) {
  return A.dtype() != DType::f32 || options.tf32;
}

/// The split of a configuration that a call carries out: a k of 0 is not streamed, and of batches
/// each tile is one CTA's.
SplitK split_of(const MatmulConfig& c, const Tensor& A, const Tensor& B, const Tensor& C) {
  check_matmul(A, B, C);
  if (c.split == SplitK::stream) return c.parts > 0 && A.size(-1) > 0 ? c.split : SplitK::none;
  return A.rank() == 3 || c.parts <= 1 ? SplitK::none : c.split;
}

Dims workspace_shape(SplitK split, const MatmulConfig& c, const Tensor& C) {
  if (split == SplitK::partials) return {c.parts, C.size(0), C.size(1)};
  if (split != SplitK::stream) return {};
  return {2 * c.parts, c.swap_ab ? c.bn : c.bm, c.swap_ab ? c.bm : c.bn};
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
                               OperandPath path) {
  using enum LayoutRequirement;
  if (!uses_tensor_cores(tensor, options)) return {tensor, k_dim, any};
  if (size_bytes(tensor.dtype()) != 2) return {tensor, k_dim, contiguous_dim};
  return {tensor, k_dim, path == OperandPath::direct ? any : tma_compatible};
}

MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, int epilogue_matrices, Loc made_at) {
  check_matmul(A, B, C, made_at);
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

MatmulCall::MatmulCall(const MatmulConfig& c, const MatmulOptions& options, const Stream& stream,
                       const Tensor& A, const Tensor& B, const Tensor& C, DType acc_type)
    : split(split_of(c, A, B, C)),
      operands(
          stream,
          {matmul_operand(A, -1, options, c.operands), matmul_operand(B, -2, options, c.operands)},
          workspace_shape(split, c, C), acc_type, split == SplitK::stream ? c.parts : 0),
      variant{c, options, split == SplitK::cluster ? c.parts : 1, operands.is_repacked()} {}

}  // namespace detail

namespace {

/// The accumulator itself.
struct Plain {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

/// A call of `matmul`.
struct Call {
  const Stream& stream;
  const Tensor &A, &B, &C;
  const MatmulConfig& config;
  const MatmulOptions& options;

  /// Computes it if the operands are of T and the result is of one of these types, else false.
  template <class T, class... Results>
  bool is_run_as() const {
    const bool is_of_t = A.dtype() == dtype_of<T> && B.dtype() == dtype_of<T>;
    return is_of_t && ((C.dtype() == dtype_of<Results> && run<T, Results>()) || ...);
  }
  template <class T, class O>
  bool run() const {
    const auto with = [](bool tf32, bool fp32_promotion) {
      return fused_matmul<T, O>(Plain{}, {tf32, fp32_promotion});
    };
    static const FusedMatmul<T, O, Plain> kProducts[2][2] = {
        {with(false, false), with(false, true)}, {with(true, false), with(true, true)}};
    kProducts[options.tf32][options.fp32_promotion].run(config, stream, A, B, C);
    return true;
  }
};

}  // namespace

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulConfig& config, const MatmulOptions& options, Loc at) {
  const detail::CallPlace here(at);
  const Call call{stream, A, B, C, config, options};
  if (call.is_run_as<bf16, bf16, f32>() || call.is_run_as<f16, f16, f32>() ||
      call.is_run_as<f32, f32>() || call.is_run_as<f8e4m3, bf16, f16, f32>() ||
      call.is_run_as<f8e5m2, bf16, f16, f32>() || call.is_run_as<i8, i32, f32>() ||
      call.is_run_as<u8, i32, f32>())
    return;
  throw_argument_error(ErrorId::matmul_types, name(A.dtype()), name(B.dtype()), name(C.dtype()));
}

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulOptions& options, Loc at) {
  const detail::CallPlace here(at);
  const MatmulProblem p = detail::matmul_problem(A, B, C, options);
  matmul(stream, A, B, C, choose_matmul(p, A.device()), options);
}

void matmul(const Tensor& A, const Tensor& B, const Tensor& C, const MatmulOptions& options,
            Loc at) {
  matmul(Stream(A.device()), A, B, C, options, at);
}

}  // namespace tegula
