// Library calls of bench/common_shapes.txt as exported callables: `tegula tune` measures them, and
// bench/ship_winners.py ships the winners.
#include "tegula/kernels/export.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/softmax.h"

using namespace tegula;
using namespace tegula::kernels;

namespace {

using Args = std::span<const detail::HostArg>;

ExportParam tensor(const char* name, const char* dims, int rank,
                   detail::ViewAccess access = detail::ViewAccess::In) {
  return {.info = {detail::ParamKind::View, DType::bf16, rank, access},
          .any_dtype = true,
          .name = name,
          .dims = dims};
}
ExportParam output(const char* name, const char* dims, int rank) {
  return tensor(name, dims, rank, detail::ViewAccess::Out);
}

Exportable matmul_export(const char* a, const char* b, const char* c, int rank, bool transposes_b) {
  return {{tensor("A", a, rank), tensor("B", b, rank), output("C", c, rank)},
          [transposes_b, rank](const Stream& stream, Args args, Loc at) {
            const Tensor& B = *args[1].tensor;
            matmul(stream, *args[0].tensor, transposes_b ? B.transpose(rank - 2, rank - 1) : B,
                   *args[2].tensor, {}, at);
          }};
}

Exportable norm(bool has_mean) {
  return {{tensor("x", "R C", 2), tensor("weight", "C", 1), output("y", "R C", 2)},
          [has_mean](const Stream& stream, Args args, Loc at) {
            if (has_mean)
              layer_norm(stream, *args[0].tensor, *args[1].tensor, {}, *args[2].tensor, 1e-5f, {},
                         at);
            else
              rms_norm(stream, *args[0].tensor, *args[1].tensor, *args[2].tensor, 1e-6f, {}, at);
          }};
}

Exportable softmax_of_rows() {
  return {{tensor("x", "R C", 2), output("y", "R C", 2)},
          [](const Stream& stream, Args args, Loc at) {
            softmax(stream, *args[0].tensor, *args[1].tensor, at);
          }};
}

}  // namespace

// Linear layers: weights [N, K], as PyTorch stores them, and [K, N].
TEGULA_EXPORT(common_linear, matmul_export("M K", "N K", "M N", 2, true));
TEGULA_EXPORT(common_matmul, matmul_export("M K", "K N", "M N", 2, false));
TEGULA_EXPORT(common_batched_matmul, matmul_export("B M K", "B K N", "B M N", 3, false));
TEGULA_EXPORT(common_attention, exportable(Attention(AttentionSpec{})));
TEGULA_EXPORT(common_causal_attention, exportable(Attention({.mask = masks::causal()})));
TEGULA_EXPORT(common_attention_backward, attention_backward(Attention(AttentionSpec{})));
TEGULA_EXPORT(common_causal_attention_backward,
              attention_backward(Attention({.mask = masks::causal()})));
TEGULA_EXPORT(common_rms_norm, norm(false));
TEGULA_EXPORT(common_layer_norm, norm(true));
TEGULA_EXPORT(common_softmax, softmax_of_rows());
