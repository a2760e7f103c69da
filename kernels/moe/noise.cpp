// Noise of routers: the gradient of the noise logits, and jitter of router inputs.
#include "kernels/argument_error.h"
#include "kernels/moe/moe_tensor.h"
#include "tegula/kernels/call_place.h"
#include "tegula/kernels/moe_routers.h"

namespace tegula::kernels::routers {
namespace {

struct NoiseGradient {
  void operator()(In<f32, 2> dlogits, In<f32, 2> noise_logits, In<f32, 2> noise,
                  Out<f32, 2> dnoise_logits) const {
    for (auto [t, e] : grid(dnoise_logits, 8, 128))
      dnoise_logits(t, e) = dlogits(t, e) * noise(t, e) * sigmoid(noise_logits(t, e));
  }
};

template <class T>
struct Jitter {
  void operator()(In<T, 2> X, In<i64, 1> seed, Out<T, 2> out, Scalar<f32> epsilon) const {
    for (auto [t, c] : grid(out, 4, 256)) {
      const Tile element = cast<i64>(t.indices())(all, none) * cast<i64>(out.cols()) +
                           cast<i64>(c.indices())(none, all);
      const Tile u = rand<f32>(seed(0), element);
      out(t, c) = cast<f32>(X(t, c)) * (1.0f + epsilon.value() * (2.0f * u - 1.0f));
    }
  }
};

}  // namespace

void noisy_top_k_gradient(const Stream& stream, const Tensor& dlogits, const Tensor& noise_logits,
                          const Tensor& noise, const Tensor& dnoise_logits, Loc at) {
  const detail::CallPlace here(at);
  static const auto* const gradient = new auto(kernel("moe_noise_gradient", NoiseGradient{}));
  if (dlogits.rank() != 2 || dlogits.dtype() != DType::f32)
    throw_argument_error(ErrorId::moe_logits, dlogits.str());
  check_moe_tensor("noise_logits", noise_logits, dlogits.shape(), DType::f32, dlogits);
  check_moe_tensor("noise", noise, dlogits.shape(), DType::f32, dlogits);
  check_moe_tensor("dnoise_logits", dnoise_logits, dlogits.shape(), DType::f32, dlogits);
  (*gradient)(stream, dlogits, noise_logits, noise, dnoise_logits);
}

void jitter(const Stream& stream, const Tensor& X, float epsilon, const Tensor& seed,
            const Tensor& out, Loc at) {
  const detail::CallPlace here(at);
  static const auto* const of_bf16 = new auto(kernel("moe_jitter", Jitter<bf16>{}));
  static const auto* const of_f16 = new auto(kernel("moe_jitter", Jitter<f16>{}));
  if (X.rank() != 2 || (X.dtype() != DType::bf16 && X.dtype() != DType::f16))
    throw_argument_error(ErrorId::moe_input, X.str());
  check_moe_tensor("seed", seed, {1}, DType::i64, X);
  check_moe_tensor("out", out, X.shape(), X.dtype(), X);
  if (X.dtype() == DType::bf16)
    (*of_bf16)(stream, X, seed, out, epsilon);
  else
    (*of_f16)(stream, X, seed, out, epsilon);
}

}  // namespace tegula::kernels::routers
