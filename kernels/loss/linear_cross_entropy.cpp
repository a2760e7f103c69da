// Cross entropy fused with the preceding linear layer, for some tokens at a time.
#include "tegula/kernels/linear_cross_entropy.h"

#include <algorithm>

#include "kernels/float_types.h"
#include "tegula/kernels/fused_matmul.h"

namespace tegula::kernels {
namespace {

/// C += A B. Each element is updated once, so results are the same in every run.
void matmul_add(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C) {
  for_float("linear_cross_entropy", A.dtype(), [&]<class T>(T) {
    static const auto* const product = new auto(fused_matmul<T, detail::AddedTo<f32>>(
        [](Tile acc, Index, Index) { return acc; }));  // leaked: static destructors may call
    (*product)(stream, A, B, C);
  });
}

void check_linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& labels,
                                const Tensor& logits, const Tensor& loss, const Tensor& lse,
                                const LinearCrossEntropyGradients& gradients) {
  constexpr const char* kName = "linear_cross_entropy";
  require_rank(kName, "x", x, 2);
  require_rank(kName, "weight", weight, 2);
  require_tensor(kName, "weight", weight, x.dtype(), {weight.size(0), x.size(1)});
  require_rank(kName, "logits", logits, 2);
  require_tensor(kName, "logits", logits, x.dtype(),
                 {std::max<std::int64_t>(logits.size(0), 1), weight.size(0)});
  const Dims tokens{x.size(0)};
  require_tensor(kName, "labels", labels, labels.dtype() == DType::i64 ? DType::i64 : DType::i32,
                 tokens);
  require_tensor(kName, "loss", loss, DType::f32, tokens);
  require_tensor(kName, "lse", lse, DType::f32, tokens);
  if (!gradients.x.defined() && !gradients.weight.defined() && !gradients.dloss.defined()) return;
  require_tensor(kName, "the gradient of x", gradients.x, x.dtype(), x.shape());
  require_tensor(kName, "the gradient of weight", gradients.weight, DType::f32, weight.shape());
  require_tensor(kName, "dloss", gradients.dloss, DType::f32, tokens);
}

}  // namespace

void linear_cross_entropy(const Stream& stream, const Tensor& x, const Tensor& weight,
                          const Tensor& labels, const Tensor& logits, const Tensor& loss,
                          const Tensor& lse, const LinearCrossEntropyGradients& gradients,
                          const CrossEntropyOptions& options, Loc at) {
  const detail::CallPlace here(at);
  check_linear_cross_entropy(x, weight, labels, logits, loss, lse, gradients);
  const std::int64_t tokens = x.size(0), held = logits.size(0);
  for (std::int64_t begin = 0; begin < tokens; begin += held) {
    const std::int64_t end = std::min(begin + held, tokens);
    const auto part = [&](const Tensor& t) { return t.slice(0, begin, end); };
    const Tensor x_part = part(x), z = logits.slice(0, 0, end - begin);
    matmul(stream, x_part, weight.transpose(0, 1), z);
    cross_entropy(stream, z, part(labels), part(loss), part(lse), options);
    if (!gradients.x.defined()) continue;
    cross_entropy_backward(stream, z, part(labels), part(lse), part(gradients.dloss), z, options);
    matmul(stream, z, weight, part(gradients.x));
    matmul_add(stream, z.transpose(0, 1), x_part, gradients.weight);
  }
}

}  // namespace tegula::kernels
