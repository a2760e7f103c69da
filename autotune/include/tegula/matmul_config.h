#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "tegula/device_profile.h"
#include "tegula/dtype.h"
#include "tegula/plan_patch.h"

/// Tiles and decomposition of GEMMs, and the choice of the fastest configuration.
namespace tegula {

/// How CTAs share the k-iterations of a tile.
enum class SplitK : std::uint8_t {
  none,      ///< one CTA runs all of them
  cluster,   ///< the 2, 4 or 8 CTAs of a cluster run one part each, then each adds and stores 1 /
             ///< parts of the rows (columns if swapped). Not for batches
  partials,  ///< CTAs store partial accumulators (f32 or i32), and a second kernel adds them
  stream,    ///< stream-K: `parts` CTAs share the k-iterations of all tiles evenly, and the last
             ///< CTA of a tile adds the partial accumulators
};
constexpr auto enumerator_names(SplitK) {
  return std::array<std::string_view, 4>{"none", "cluster", "partials", "stream"};
}

/// Operand that the CTAs of a cluster on neighbouring tiles share: each CTA loads a part and
/// multicasts it (TMA multicast).
enum class Multicast : std::uint8_t {
  none,  ///< each CTA loads its own operands
  b,     ///< columns of B; rows of A in a batch and for SplitK::partials
};
constexpr auto enumerator_names(Multicast) { return std::array<std::string_view, 2>{"none", "b"}; }

/// How 16-bit operands reach the tensor cores.
enum class OperandPath : std::uint8_t {
  tma,     ///< by TMA; a preceding kernel repacks operands that TMA cannot load
  direct,  ///< as stored, by single-element loads and mma.sync: one launch, for a small k
};
constexpr auto enumerator_names(OperandPath) {
  return std::array<std::string_view, 2>{"tma", "direct"};
}

/// Decomposition of a GEMM: tiles of bm x bn, k-iterations of bk.
struct MatmulConfig {
  int bm = 128, bn = 256, bk = 64;  ///< rows and columns of C per tile, and k per iteration
  SplitK split = SplitK::none;      ///< sharing of the k-iterations of a tile
  /// Parts of a split k, or CTAs of stream-K; 1 without a split.
  int parts = 1;
  /// Swap A/B: columns of B are along the rows of the MMA tiles, which are 64 or more. Useful for
  /// few rows of A or few columns of B. bn is 64, 128, 192 or 256, and bm is a multiple of 8 up to
  /// 256.
  bool swap_ab = false;
  /// Stages of the operand ring, 2 to 8, limited by shared memory; 0: up to 4.
  int stages = 0;
  OperandPath operands = OperandPath::tma;  ///< path of 16-bit types
  /// `b`: CTAs of adjacent tiles form clusters of two (not with cluster split-K or stream-K).
  /// Requires sm_90 and tiles that fill an SM, and is ignored otherwise.
  Multicast multicast = Multicast::none;
  /// Ping-pong: each tile belongs to one warpgroup (bm x bn up to 128x128 or 64x256), and two
  /// warpgroups alternate, so that the epilogue of one tile overlaps the mainloop of the next.
  /// Requires sm_90, and is ignored otherwise.
  bool pingpong = false;
  /// Results are staged in shared memory and stored by TMA if rows of C are multiples of 16 bytes.
  /// Requires sm_90 and tiles that fill an SM, and is ignored otherwise.
  bool tma_store = false;
  /// Rows of tiles that are finished together, column by column (GROUP_M of Triton). Concurrent
  /// tiles share operands in L2 best if together they are about square. Values: 1 (row by row), 2,
  /// 4, 6, 8, 10, 12, 16, 20, 24 or 32. Ignored for batches without stream-K and for split-K with a
  /// second kernel.
  int group_m = 8;

  bool multicasts() const { return multicast != Multicast::none; }
  bool is_cluster_split() const { return split == SplitK::cluster && parts > 1; }
  /// Returns the plan fields that the configuration prefers.
  PlanPatch plan() const {
    const auto wish = [](bool is_set) { return is_set ? std::optional(true) : std::nullopt; };
    return {
        .tma_store = wish(tma_store), .multicast = wish(multicasts()), .pingpong = wish(pingpong)};
  }
  /// Returns the settings that differ from a plain tile: "128x256x64 cluster_split_k 2 stages 4".
  std::string str() const;

  template <class Self, class Visit>
  static void each_field(Self& c, const Visit& visit) {
    visit("bm", c.bm);
    visit("bn", c.bn);
    visit("bk", c.bk);
    visit("split", c.split);
    visit("parts", c.parts);
    visit("swap_ab", c.swap_ab);
    visit("stages", c.stages);
    visit("operands", c.operands);
    visit("multicast", c.multicast);
    visit("pingpong", c.pingpong);
    visit("tma_store", c.tma_store);
    visit("group_m", c.group_m);
  }
  friend bool operator==(const MatmulConfig&, const MatmulConfig&) = default;
  friend auto operator<=>(const MatmulConfig&, const MatmulConfig&) = default;
};

/// Alignment of an operand's rows (or columns if these are contiguous) to the 128-byte lines of the
/// L2: a row of a TMA box covers one line or two.
enum class LinePhase : std::uint8_t {
  whole,  ///< every row begins at a line
  half,   ///< every other row begins at a line
  split,  ///< few or no rows begin at a line
};
constexpr auto enumerator_names(LinePhase) {
  return std::array<std::string_view, 3>{"whole", "half", "split"};
}

/// Returns the alignment of rows that are this many bytes apart.
constexpr LinePhase line_phase(std::int64_t pitch_bytes) {
  return pitch_bytes % 128 == 0    ? LinePhase::whole
         : pitch_bytes % 128 == 64 ? LinePhase::half
                                   : LinePhase::split;
}

/// Properties of a GEMM that determine the choice of its configuration.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;  ///< C [m, n] = A [m, k] B [k, n]
  /// Number of matrices. Batched products use separate kernels.
  std::int64_t batch = 1;
  bool is_batched = false;                             ///< operands have a leading batch dimension
  DType operands = DType::bf16, result = DType::bf16;  ///< types of A and B, and of C
  /// k is contiguous in A, and in B. Rows of A, or columns of B, then need no alignment.
  bool a_k_major = true, b_k_major = false;
  LinePhase a_lines = LinePhase::whole, b_lines = LinePhase::whole;  ///< alignment of A and of B
  /// TMA or the tensor cores cannot read the operand in its layout: a preceding kernel repacks it,
  /// or its elements are loaded one by one.
  bool repacks_a = false, repacks_b = false;
  /// f32 products use tensor cores, which drop the last 13 bits; else FMA.
  bool tf32 = false;
  /// Two accumulators per tile, for FP32 promotion. Tiles are half as wide.
  bool fp32_promotion = false;
  /// Matrices of the result's shape that the epilogue reads.
  int epilogue_matrices = 0;
  /// Number of matrices B that a CTA multiplies by A at once, 2 for a gated unit; bn is per matrix.
  int gates = 1;

  bool repacks() const { return repacks_a || repacks_b; }

  template <class Self, class Visit>
  static void each_field(Self& p, const Visit& visit) {
    visit("m", p.m);
    visit("n", p.n);
    visit("k", p.k);
    visit("batch", p.batch);
    visit("is_batched", p.is_batched);
    visit("operands", p.operands);
    visit("result", p.result);
    visit("a_k_major", p.a_k_major);
    visit("b_k_major", p.b_k_major);
    visit("a_lines", p.a_lines);
    visit("b_lines", p.b_lines);
    visit("repacks_a", p.repacks_a);
    visit("repacks_b", p.repacks_b);
    visit("tf32", p.tf32);
    visit("fp32_promotion", p.fp32_promotion);
    visit("epilogue_matrices", p.epilogue_matrices);
    visit("gates", p.gates);
  }
  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
};

/// Returns the configuration with the shortest estimated time on this GPU model that its target can
/// run. Throws InternalError if there is none.
MatmulConfig choose_matmul(const MatmulProblem& problem, const DeviceProfile& gpu);
/// Returns the decision of a call on a device: a tuned winner for this problem or a near one, else
/// the model's choice. Each `family` of kernels has its own winners.
MatmulConfig choose_matmul(const MatmulProblem& problem, Device device,
                           std::string_view family = "matmul");

}  // namespace tegula
