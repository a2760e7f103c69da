// Matrix products by element types known at run time; the kernels are in fused_matmul.h.
#include "tegula/kernels/matmul.h"

#include <functional>
#include <map>
#include <utility>

#include "kernels/has_wgmma.h"
#include "kernels/refuse.h"
#include "kernels/scratch.h"
#include "runtime/context.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"

namespace tegula {
namespace detail {

MatmulTile MatmulTile::tuned() {
  return {
      tune("BM", {8, 16, 24, 32, 40, 48, 56, 64, 128, 192, 256}, 128),
      tune("BN", {8,   16,  24,  32,  40,  48,  56,  64,  72,  80,  88,  96,  104, 112, 120, 128,
                  136, 144, 152, 160, 168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256},
           128),
      tune("BK", {8, 16, 32, 64, 128, 256}, 64),
      tune("STAGES", {0, 2, 3, 4, 5, 6, 7, 8}, 0),
      tune("SWAPPED", {0, 1}, 0) != 0,
      tune("PROMOTED", {0, 1}, 0) != 0,
      tune("TF32", {0, 1}, 0) != 0,
      tune("MULTICAST", {0, 1}, 0) != 0,
      tune("ALTERNATE", {0, 1}, 0) != 0,
      tune("AFTER_COPIES", {0, 1}, 0) != 0};
}

std::function<Tuning(const MatmulVariant&)> MatmulTile::tuning(const MatmulOptions& options) {
  return [options](const MatmulVariant& v) {
    const MatmulConfig& c = v.config;
    Tuning values{{"BM", c.bm},
                  {"BN", c.bn},
                  {"BK", c.bk},
                  {"STAGES", c.stages},
                  {"SWAPPED", c.swapped},
                  {"TF32", options.tf32},
                  {"PROMOTED", options.promoted},
                  {"MULTICAST", c.multicast},
                  {"ALTERNATE", c.alternate},
                  {"AFTER_COPIES", v.after_copies}};
    if (c.clustered) values["CLUSTER"] = c.splits;
    return values;
  };
}

StreamedMemory::StreamedMemory(const MatmulConfig& config, const Stream& stream)
    : config_(config),
      arrivals_(Scratch::counters(stream, static_cast<std::size_t>(config.streamed))) {}

Dims StreamedMemory::sums() const {
  const MatmulConfig& c = config_;
  return {2 * c.streamed, c.swapped ? c.bn : c.bm, c.swapped ? c.bm : c.bn};
}

Tensor as_batches(const Tensor& t) {
  if (t.rank() == 3) return t;
  return Tensor::borrow(t.data(), {1, t.size(0), t.size(1)}, t.dtype(), t.device(),
                        {0, t.stride(0), t.stride(1)});
}

void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C) {
  const int r = A.rank();
  const bool ranks = (r == 2 || r == 3) && B.rank() == r && C.rank() == r;
  if (ranks && A.size(-1) == B.size(-2) && C.size(-2) == A.size(-2) && C.size(-1) == B.size(-1) &&
      (r == 2 || (A.size(0) == B.size(0) && A.size(0) == C.size(0))))
    return;
  refuse_call("matmul: A is " + A.str() + ", B is " + B.str() + ", C is " + C.str(),
              "shapes must be [m, k], [k, n], [m, n], or all with one batch dimension in front");
}

namespace {

/// Products on tensor cores: of all types but f32 at its full precision.
bool uses_tensor_cores(const Tensor& A, const MatmulOptions& options) {
  return A.dtype() != DType::f32 || options.tf32;
}

}  // namespace

PackedOperand matmul_operand(const Tensor& tensor, int k_dim, const MatmulOptions& options,
                             bool direct) {
  if (!uses_tensor_cores(tensor, options)) return {tensor, k_dim, Packing::Any};
  if (size_bytes(tensor.dtype()) != 2) return {tensor, k_dim, Packing::AlongDim};
  return {tensor, k_dim, direct ? Packing::Any : Packing::ForTma};
}

MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options) {
  check_matmul(A, B, C);
  MatmulProblem p{C.size(-2), C.size(-1), A.size(-1), A.dtype()};
  p.tf32 = options.tf32;
  p.promoted = options.promoted;
  p.by_wgmma = uses_tensor_cores(A, options) && has_wgmma(A.device());
  const PackedOperand a = matmul_operand(A, -1, options), b = matmul_operand(B, -2, options);
  p.b_k_major = B.stride(-2) == 1 || (b.packing == Packing::AlongDim && b.needs_copy());
  p.whole_lines = a.has_whole_lines() && b.has_whole_lines();
  p.whole = A.rank() == 3;
  p.copies = a.needs_copy() || b.needs_copy();
  return p;
}

}  // namespace detail

namespace {

using Run = std::function<void(const MatmulConfig&, const Stream&, const Tensor& A, const Tensor& B,
                               const Tensor& C)>;

/// The sums as they are.
struct Plain {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

/// By types of operands and result.
using Table = std::map<std::pair<DType, DType>, Run>;

template <class T, class... Results>
void add(Table& table, const MatmulOptions& options) {
  const auto runner = [&]<class O>() {
    return [product = fused_matmul<T, O>(Plain{}, options)](const auto&... call) {
      product.run(call...);
    };
  };
  ((table[{dtype_of<T>, dtype_of<Results>}] = runner.template operator()<Results>()), ...);
}

Table table(const MatmulOptions& o) {
  Table t;
  add<bf16, bf16, f32>(t, o);
  add<f16, f16, f32>(t, o);
  add<f32, f32>(t, o);
  add<f8e4m3, bf16, f16, f32>(t, o);
  add<f8e5m2, bf16, f16, f32>(t, o);
  add<i8, i32, f32>(t, o);
  add<u8, i32, f32>(t, o);
  return t;
}

const Table& table_of(const MatmulOptions& o) {
  static const Table kTables[2][2] = {{table({false, false}), table({false, true})},
                                      {table({true, false}), table({true, true})}};
  return kTables[o.tf32][o.promoted];
}

[[noreturn]] void refuse_types(const Tensor& A, const Tensor& B, const Tensor& C) {
  refuse_call("matmul: no product of " + std::string(name(A.dtype())) + " and " +
                  std::string(name(B.dtype())) + " into " + std::string(name(C.dtype())),
              "operands of one type; results of it or f32, for 8-bit floats bf16, f16 or f32, for "
              "8-bit integers i32 or f32");
}

}  // namespace

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulConfig& config, const MatmulOptions& options) {
  detail::check_matmul(A, B, C);
  const Table& runs = table_of(options);
  const auto found = runs.find({A.dtype(), C.dtype()});
  if (found == runs.end() || B.dtype() != A.dtype()) refuse_types(A, B, C);
  found->second(config, stream, A, B, C);
}

void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulOptions& options) {
  matmul(stream, A, B, C, matmul_config(detail::matmul_problem(A, B, C, options)), options);
}

void matmul(const Tensor& A, const Tensor& B, const Tensor& C, const MatmulOptions& options) {
  matmul(Stream(A.device()), A, B, C, options);
}

}  // namespace tegula
