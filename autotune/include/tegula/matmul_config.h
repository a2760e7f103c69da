#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "tegula/device_profile.h"
#include "tegula/dtype.h"
#include "tegula/plan_patch.h"

/// Tiles and decomposition of GEMMs, and the choice of the fastest.
namespace tegula {

/// The CTAs that compute the k-iterations of a tile.
enum class SplitK : std::uint8_t {
  none,      ///< one CTA all of them
  cluster,   ///< the CTAs of a cluster, 2, 4 or 8, a part each; each adds and stores a slice of the
             ///< tile, 1 / parts of the rows (of the columns if swapped). Matrices without batches
  partials,  ///< CTAs that store partial accumulators (f32 or i32), which a second kernel adds
  stream,    ///< stream-K: `parts` CTAs share the k-iterations of all tiles evenly, and the last
             ///< CTA of a tile adds the partial accumulators
};
constexpr auto enumerator_names(SplitK) {
  return std::array<std::string_view, 4>{"none", "cluster", "partials", "stream"};
}

/// Operands that CTAs of neighbouring tiles form a cluster for, to load a part each and multicast
/// it (TMA multicast).
enum class Multicast : std::uint8_t { none, a, b, both };
constexpr auto enumerator_names(Multicast) {
  return std::array<std::string_view, 4>{"none", "a", "b", "both"};
}

/// How operands of 16 bits get to the tensor cores.
enum class OperandPath : std::uint8_t {
  tma,     ///< by TMA; operands that TMA cannot load are repacked first, by a kernel in front
  direct,  ///< as stored, element by element, by the mma.sync kernel: one launch, for a small k
};
constexpr auto enumerator_names(OperandPath) {
  return std::array<std::string_view, 2>{"tma", "direct"};
}

/// Decomposition of a GEMM: tiles of bm x bn, k-iterations of bk.
struct MatmulConfig {
  int bm = 128, bn = 256, bk = 64;
  SplitK split = SplitK::none;
  /// Parts of a split k, CTAs of stream-K; 1 without a split.
  int parts = 1;
  /// Swap A/B: columns of B lie along the rows of the tensor cores' tiles, which are 64 or more:
  /// for few rows of A, or few columns of B. bn of 64, 128, 192 or 256, bm of 8 to 256 in steps of
  /// 8.
  bool swap_ab = false;
  /// Stages of the operand ring, 2 to 8, as far as shared memory has room for them; 0: up to 4.
  int stages = 0;
  OperandPath operands = OperandPath::tma;
  /// `b`: CTAs of tiles below each other form clusters of two (no cluster split-K, no stream-K).
  /// Needs sm_90 and tiles that fill an SM; elsewhere it changes nothing. `a` and `both` are not
  /// carried out yet.
  Multicast multicast = Multicast::none;
  /// Ping-pong: a tile is one warpgroup's work, of bm x bn up to 128x128 or 64x256, and two
  /// warpgroups take tiles alternately: an epilogue overlaps the next tile's mainloop. Needs sm_90;
  /// elsewhere it changes nothing.
  bool pingpong = false;
  /// Results go through shared memory and from there by TMA, where rows of C end with 16 bytes.
  /// Needs sm_90 and tiles that fill an SM; elsewhere it changes nothing.
  bool tma_store = false;
  /// Rows of tiles that are finished together, column by column (Triton's GROUP_M): concurrent
  /// tiles share operands in L2 if together they are about as high as wide. 1 (row by row), 2, 4,
  /// 6, 8, 10, 12, 16, 20, 24 or 32; without effect on batches without stream-K, and with split-K
  /// by a second kernel.
  int group_m = 8;

  bool multicasts() const { return multicast != Multicast::none; }
  bool is_cluster_split() const { return split == SplitK::cluster && parts > 1; }
  /// The fields of a plan that the configuration prefers.
  PlanPatch plan() const {
    const auto wish = [](bool is_set) { return is_set ? std::optional(true) : std::nullopt; };
    return {
        .tma_store = wish(tma_store), .multicast = wish(multicasts()), .pingpong = wish(pingpong)};
  }
  /// "128x256x64 cluster_split_k 2 stages 4": what differs from a plain tile.
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

/// How rows of an operand, or columns where these are contiguous, lie over the L2's lines of 128
/// bytes: a row of a TMA box is one line or crosses two.
enum class LinePhase : std::uint8_t {
  whole,  ///< each begins with a line
  half,   ///< every other one
  split,  ///< few or none
};
constexpr auto enumerator_names(LinePhase) {
  return std::array<std::string_view, 3>{"whole", "half", "split"};
}

constexpr LinePhase line_phase(std::int64_t pitch_bytes) {
  return pitch_bytes % 128 == 0    ? LinePhase::whole
         : pitch_bytes % 128 == 64 ? LinePhase::half
                                   : LinePhase::split;
}

/// The properties of a GEMM that the choice of a configuration depends on.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  /// Matrices of a batch, which has kernels of its own.
  std::int64_t batch = 1;
  bool is_batched = false;
  DType operands = DType::bf16, result = DType::bf16;
  /// k is contiguous in A, and in B: rows of A, and columns of B, come in any number at no cost.
  bool a_k_major = true, b_k_major = false;
  LinePhase a_lines = LinePhase::whole, b_lines = LinePhase::whole;
  /// TMA, or the tensor cores, cannot take the operand as it is stored: it is repacked in front, or
  /// read element by element.
  bool repacks_a = false, repacks_b = false;
  /// Products of f32 on tensor cores, which leave out the last 13 bits; else by FMA.
  bool tf32 = false;
  /// Two accumulators per tile, for FP32 promotion: tiles are half as wide.
  bool fp32_promotion = false;
  /// Matrices of the result's shape that the epilogue reads.
  int epilogue_matrices = 0;
  /// Matrices B that a CTA multiplies A by at once, 2 of a gated unit; bn is of each.
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

/// The configuration with the shortest estimated time on this model of GPU, of all that its target
/// can run. Throws InternalError if there is none.
MatmulConfig choose_matmul(const MatmulProblem& problem, const DeviceProfile& gpu);
/// The decision of a call on a device: a winner of the tuner for this problem, or a near one, else
/// the model's. Kernels of another `family` have winners of their own.
MatmulConfig choose_matmul(const MatmulProblem& problem, Device device,
                           std::string_view family = "matmul");

}  // namespace tegula
