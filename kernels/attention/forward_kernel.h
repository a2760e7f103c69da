#pragma once
// The kernel of attention's forward pass, in the DSL; `attention.cpp` launches it.
#include <memory>
#include <optional>

#include "kernels/attention/fallback_flags.h"
#include "kernels/attention/heuristics.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// Tensors of a call; Lse is stored if it is given. Rows of Q are positions of one head, unless
/// ForwardRows defines them differently.
template <class T>
struct ForwardTensors {
  In<T, 4> Q, K, V;
  Out<T, 4> O;
  std::optional<Out<f32, 3>> Lse;
};

/// Meaning of the rows. With `pack_gqa` a tile holds rows of all heads of a group, seqlen_q per
/// head. With tables of cumulative lengths there are several sequences of at most seqlen_q queries;
/// with `pack_gqa`, each query is then an entry of Q, whose rows are the heads of a group.
struct ForwardRows {
  bool pack_gqa;
  bool no_keys;  ///< the call has no keys
  Scalar<i32> seqlen_q;
  std::optional<In<i32, 1>> cu_q, cu_kv;
};

/// The requests of a paged call. Keys and values are [pages, heads, rows, dim]; `cu_q` has the
/// offsets of the queries.
struct PagedRows {
  std::optional<In<i32, 1>> kv_lengths;
  std::optional<In<i32, 2>> table;
  /// One program per entry (WorkItem) and tile; also for packed queries of sequences.
  std::optional<In<i32, 2>> work;
};

/// Tensors for softmax only (AttentionExtras).
struct SoftmaxTensors {
  std::optional<In<f32, 1>> sinks;
  std::optional<Out<f32, 3>> row_max;
};

/// Parameters of the fallback pass. Split-KV has no fallback pass and reuses them: `words` are the
/// counters of SplitKvPartials, `programs` is the number of clusters that share a tile.
struct FallbackParams {
  SoftmaxPass pass;
  Ptr<u32> words;
  Scalar<i32> programs;  ///< programs of the recompute pass
};

/// Workspace in which clusters that share a tile store their partial softmax states
/// (SplitKvPartials).
struct SplitKvWorkspace {
  std::optional<InOut<f32, 4>> acc_partials, row_stats;
};

/// Compile-time parameters of the kernel of a call.
struct ForwardTiles {
  int block_q = 128, block_kv = 128, cluster_ctas = 1;
  /// Keys are in M of the products and rows in N: for calls whose tiles have few rows.
  bool keys_in_m = false;
  int paired_stages = 0;  ///< AttentionHeuristics::paired_stages
  int few_queries = 0;    ///< AttentionCall::few_queries
  /// CTAs of a cluster multicast the keys that neighbouring tiles share, where possible.
  bool multicast = false;
  /// Boxes of a score's tensor operands are loaded by TMA.
  bool tma_aux_loads = false;

  PlanPatch plan() const {
    const auto wish = [](bool is_set) { return is_set ? std::optional(true) : std::nullopt; };
    PlanPatch plan{.tma_aux_loads = wish(tma_aux_loads), .multicast = wish(multicast)};
    if (keys_in_m) plan.num_warps = 4;
    if (paired_stages > 0) plan.min_ctas_per_sm = 2, plan.stages = paired_stages;
    return plan;
  }
  friend auto operator<=>(const ForwardTiles&, const ForwardTiles&) = default;
};

/// The second to last parameter is BlockListArgs::order.
template <class T>
using ForwardKernel =
    KernelOf<ForwardTensors<T>, Scalar<f32>, ForwardRows, PagedRows, SoftmaxTensors,
             BlockListParams, FallbackParams, std::optional<In<i32, 3>>, SplitKvWorkspace>;

template <class T>
ForwardKernel<T> forward_kernel(const char* name, std::shared_ptr<const AttentionHeuristics> facts,
                                const ForwardTiles& tiles);

extern template ForwardKernel<bf16> forward_kernel<bf16>(const char*,
                                                         std::shared_ptr<const AttentionHeuristics>,
                                                         const ForwardTiles&);
extern template ForwardKernel<f16> forward_kernel<f16>(const char*,
                                                       std::shared_ptr<const AttentionHeuristics>,
                                                       const ForwardTiles&);

}  // namespace tegula::kernels
