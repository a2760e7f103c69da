#pragma once
// The kernels of a layer for one element type.
#include "kernels/moe/expert_products.h"
#include "kernels/moe/rows.h"
#include "tegula/kernels/fused_matmul.h"

namespace tegula::experts {

/// Logits are the accumulators themselves.
struct Logits {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

template <class T>
struct ExpertKernels {
  explicit ExpertKernels(const ExpertActivation& activation) : up("moe_up", {activation}) {}

  mutable detail::ConfiguredMatmul<detail::DataParallelMatmul<T, f32, Logits>> logits{"moe_logits",
                                                                                      {}};
  mutable KernelVariants<ExpertUp<T>, ExpertTileConfig> up;
  mutable KernelVariants<ExpertDown<T>, ExpertTileConfig> down{"moe_down", {}};
  decltype(kernel("", PermuteRows<T>{})) permute = kernel("moe_permute", PermuteRows<T>{});
  decltype(kernel("", CombineRows<T>{})) combine = kernel("moe_combine", CombineRows<T>{});
};

}  // namespace tegula::experts
