// Layers for bench/train_moe.py as PyTorch operators; python/tegula loads this library.
#include "tegula/kernels/export.h"
#include "tegula/kernels/masks.h"

using namespace tegula;
using namespace tegula::kernels;

namespace {

/// DeepSeekMoE's proportions (Dai et al. 2024): fine-grained experts, 6 per token, 2 shared.
const Moe& deepseek_layer() {
  static const Moe layer =
      moe({.router = routers::deepseek_moe(6), .experts = 64, .shared_experts = 2});
  return layer;
}

const Attention& causal_attention() {
  static const Attention attention({.mask = masks::causal()});
  return attention;
}

}  // namespace

TEGULA_EXPORT(deepseek_moe, moe_forward(deepseek_layer()));
TEGULA_EXPORT(deepseek_moe_backward, moe_backward(deepseek_layer()));
TEGULA_EXPORT_BACKWARD(deepseek_moe, deepseek_moe_backward, kMoeSaved);
TEGULA_EXPORT(training_attention, causal_attention());
TEGULA_EXPORT(training_attention_backward, attention_backward(causal_attention()));
TEGULA_EXPORT_BACKWARD(training_attention, training_attention_backward, kAttentionSaved);
