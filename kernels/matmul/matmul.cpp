// Matrix products by element types known at run time; the kernels are in fused_matmul.h.
#include "tegula/kernels/matmul.h"

#include "kernels/refuse.h"
#include "tegula/kernels/fused_matmul.h"

namespace tegula {
namespace detail {
namespace {

/// Products on tensor cores: of all types but f32 at its full precision.
bool uses_tensor_cores(const Tensor& A, const MatmulOptions& options) {
  return A.dtype() != DType::f32 || options.tf32;
}

MatmulWay way_of(const MatmulConfig& config, const Tensor& A, const Tensor& B, const Tensor& C) {
  check_matmul(A, B, C);
  if (config.streamed > 0 && A.size(-1) > 0) return MatmulWay::Streamed;
  if (A.rank() == 3) return MatmulWay::Batched;
  if (config.splits <= 1) return MatmulWay::Whole;
  return config.clustered ? MatmulWay::Clustered : MatmulWay::Divided;
}

Dims shape_of_sums(MatmulWay way, const MatmulConfig& c, const Tensor& C) {
  if (way == MatmulWay::Divided) return {c.splits, C.size(0), C.size(1)};
  if (way != MatmulWay::Streamed) return {};
  return {2 * c.streamed, c.swapped ? c.bn : c.bm, c.swapped ? c.bm : c.bn};
}

}  // namespace

void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C, Loc made_at) {
  const int r = A.rank();
  const bool ranks = (r == 2 || r == 3) && B.rank() == r && C.rank() == r;
  if (ranks && A.size(-1) == B.size(-2) && C.size(-2) == A.size(-2) && C.size(-1) == B.size(-1) &&
      (r == 2 || (A.size(0) == B.size(0) && A.size(0) == C.size(0))))
    return;
  const CallPlace here(made_at);
  refuse_call(Mistake::matmul_shapes, A.str(), B.str(), C.str());
}

PackedOperand matmul_operand(const Tensor& tensor, int k_dim, const MatmulOptions& options,
                             bool direct) {
  if (!uses_tensor_cores(tensor, options)) return {tensor, k_dim, Packing::Any};
  if (size_bytes(tensor.dtype()) != 2) return {tensor, k_dim, Packing::AlongDim};
  return {tensor, k_dim, direct ? Packing::Any : Packing::ForTma};
}

MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options, bool further, Loc made_at) {
  check_matmul(A, B, C, made_at);
  MatmulProblem p{C.size(-2), C.size(-1), A.size(-1), A.dtype()};
  p.tf32 = options.tf32, p.promoted = options.promoted, p.further = further;
  p.profile = &device_profile(A.device());
  p.sms = multiprocessors(A.device());
  p.by_wgmma = uses_tensor_cores(A, options) && has_wgmma(A.device());
  const PackedOperand a = matmul_operand(A, -1, options), b = matmul_operand(B, -2, options);
  p.a_k_major = A.stride(-1) == 1 || (a.packing == Packing::AlongDim && a.needs_copy());
  p.b_k_major = B.stride(-2) == 1 || (b.packing == Packing::AlongDim && b.needs_copy());
  p.a_lines = a.has_whole_lines(), p.b_lines = b.has_whole_lines();
  p.whole = A.rank() == 3, p.copies = a.needs_copy() || b.needs_copy();
  return p;
}

MatmulCall::MatmulCall(const MatmulConfig& config, const MatmulOptions& options,
                       const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
                       DType type_of_sums)
    : way(way_of(config, A, B, C)),
      operands(stream,
               {matmul_operand(A, -1, options, config.direct),
                matmul_operand(B, -2, options, config.direct)},
               shape_of_sums(way, config, C), type_of_sums,
               way == MatmulWay::Streamed ? config.streamed : 0),
      variant{config, options, way == MatmulWay::Clustered ? config.splits : 1,
              operands.has_copies()} {}

}  // namespace detail

namespace {

/// The sums as they are.
struct Plain {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

/// A call of `matmul`.
struct Call {
  const Stream& stream;
  const Tensor &A, &B, &C;
  const MatmulConfig& config;
  const MatmulOptions& options;

  /// Computes it if the operands are of T and the result is of one of these types: whether they
  /// are.
  template <class T, class... Results>
  bool is_run_as() const {
    const bool is_of_t = A.dtype() == dtype_of<T> && B.dtype() == dtype_of<T>;
    return is_of_t && ((C.dtype() == dtype_of<Results> && run<T, Results>()) || ...);
  }
  template <class T, class O>
  bool run() const {
    const auto with = [](bool tf32, bool promoted) {
      return fused_matmul<T, O>(Plain{}, {tf32, promoted});
    };
    static const FusedMatmul<T, O, Plain> kProducts[2][2] = {
        {with(false, false), with(false, true)}, {with(true, false), with(true, true)}};
    kProducts[options.tf32][options.promoted].run(config, stream, A, B, C);
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
  refuse_call(Mistake::matmul_types, name(A.dtype()), name(B.dtype()), name(C.dtype()));
}

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulOptions& options, Loc at) {
  const detail::CallPlace here(at);
  matmul(stream, A, B, C, matmul_config(detail::matmul_problem(A, B, C, options)), options);
}

void matmul(const Tensor& A, const Tensor& B, const Tensor& C, const MatmulOptions& options,
            Loc at) {
  matmul(Stream(A.device()), A, B, C, options, at);
}

}  // namespace tegula
