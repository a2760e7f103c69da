// Layers for bench/train_moe.py as PyTorch operators; python/tegula loads this library.
#include "tegula/kernels/export.h"

using namespace tegula;
using namespace tegula::kernels;

namespace {

/// DeepSeekMoE's proportions (Dai et al. 2024): fine-grained experts, 6 per token, 2 shared.
const Moe& deepseek_layer() {
  static const Moe layer =
      moe({.router = routers::deepseek_moe(6), .experts = 64, .shared_experts = 2});
  return layer;
}

}  // namespace

TEGULA_EXPORT(deepseek_moe, moe_forward(deepseek_layer()));
TEGULA_EXPORT(deepseek_moe_backward, moe_backward(deepseek_layer()));
TEGULA_EXPORT_BACKWARD(deepseek_moe, deepseek_moe_backward, kMoeSaved);
