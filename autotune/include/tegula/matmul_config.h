#pragma once
#include <compare>
#include <cstdint>
#include <string>

#include "tegula/device_profile.h"
#include "tegula/dtype.h"

/// How matrix products are cut, and which way takes least.
namespace tegula {

/// How a product is cut: tiles of bm x bn, steps of bk along k, and k divided among `splits` CTAs
/// whose partial sums (f32 or i32) a second kernel adds, or, where they are `clustered`, they
/// themselves.
struct MatmulConfig {
  int bm = 128, bn = 256, bk = 64;
  int splits = 1;
  /// Columns of B lie along the rows of the tensor cores' tiles, which are 64 or more: for few rows
  /// of A, or few columns of B. bn of 64, 128, 192 or 256, bm of 8 to 256 in steps of 8.
  bool swapped = false;
  /// The CTAs of a tile are a cluster, of 2, 4 or 8, and each adds and stores a part of it, 1 /
  /// splits of the rows (of the columns if swapped). Needs sm_90; matrices without batches.
  bool clustered = false;
  /// Steps whose operands are under way or read, 2 to 8, as far as shared memory has room for them;
  /// 0: up to 4.
  int stages = 0;
  /// Operands of 16 bits that TMA does not take are read as they lie, element by element, by
  /// mma.sync's kernel, instead of copied for wgmma's: one launch, for a k of few steps.
  bool direct = false;
  /// CTAs of tiles below each other run in pairs and bring the columns of B that both need once,
  /// half each, to both (TMA multicast; k not divided among a cluster). Needs sm_90 and tiles that
  /// fill an SM; elsewhere it changes nothing.
  bool multicast = false;
  /// The steps of all tiles are dealt evenly among so many programs, as many as the GPU has
  /// multiprocessors (stream-K); parts of one tile are added by whoever comes last. `splits`,
  /// `clustered` and `multicast` have no meaning then. 0: each tile is one program's.
  int streamed = 0;
  /// A tile is one warpgroup's work, of bm x bn up to 128x128 or 64x256, and two take tiles in
  /// turn: an epilogue runs beside the next tile's products. Needs sm_90; elsewhere it changes
  /// nothing.
  bool alternate = false;
  /// Results go through shared memory and from there by TMA, where rows of C end with 16 bytes.
  /// Needs sm_90 and tiles that fill an SM; elsewhere it changes nothing.
  bool tma_store = false;
  /// Rows of tiles that are finished together, column by column (Triton's GROUP_M): tiles at work
  /// at one time share operands in L2 where they are about as high together as wide. 1 (row by
  /// row), 2, 4, 6, 8, 10, 12, 16, 20, 24 or 32; without effect on batches that are not streamed,
  /// and where a second kernel adds parts.
  int group_m = 8;
  std::string str() const;
  /// The numbers that kernels choose by, and from which: for `tuned`.
  template <class Config, class Visit>
  static void each_value(Config& c, const Visit& visit) {
    const std::initializer_list<int> extents{8,   16,  24,  32,  40,  48,  56,  64,  72,  80,  88,
                                             96,  104, 112, 120, 128, 136, 144, 152, 160, 168, 176,
                                             184, 192, 200, 208, 216, 224, 232, 240, 248, 256};
    visit("BM", c.bm, extents);
    visit("BN", c.bn, extents);
    visit("BK", c.bk, {8, 16, 32, 64, 128, 256});
    visit("STAGES", c.stages, {0, 2, 3, 4, 5, 6, 7, 8});
    visit("SWAPPED", c.swapped, {0, 1});
    visit("MULTICAST", c.multicast, {0, 1});
    visit("ALTERNATE", c.alternate, {0, 1});
    visit("TMA_STORE", c.tma_store, {0, 1});
    visit("GROUP_M", c.group_m, {1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32});
  }
  friend bool operator==(const MatmulConfig&, const MatmulConfig&) = default;
  friend auto operator<=>(const MatmulConfig&, const MatmulConfig&) = default;
};

/// What the choice of a configuration depends on.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  DType operands = DType::bf16;
  /// The GPU has wgmma, and the operands are not f32 to be multiplied by FMA.
  bool by_wgmma = true;
  /// k is contiguous in B: its columns come in any number at no cost.
  bool b_k_major = false;
  /// k is contiguous in A: the same of its rows, where operands are exchanged.
  bool a_k_major = true;
  /// Rows of A, and of B, begin at multiples of 128 bytes, the lines of the L2.
  bool a_lines = true, b_lines = true;
  /// Products of f32 on tensor cores, which leave out the last 13 bits; else by FMA.
  bool tf32 = false;
  /// Two sums a tile, as MatmulOptions::promoted needs: tiles are half as wide.
  bool promoted = false;
  /// k is not to be divided.
  bool whole = false;
  /// The epilogue reads or writes matrices beside the result.
  bool further = false;
  /// Some operand is one that tensor cores do not take as it lies.
  bool copies = false;
  /// The GPU: what was measured on its model, and its multiprocessors.
  const DeviceProfile* profile = &host_profile();
  int sms = profile->sms;
  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
};

/// The configuration with the least estimated time: waves of tiles, each bound by tensor cores, by
/// bytes from L2 or by the memory's latency, and all by its bandwidth; of few rows beside large
/// weights, one that was measured. A thread remembers what it has asked for.
MatmulConfig matmul_config(const MatmulProblem& problem);
/// For two such products of one A that a program computes at once: bn of each.
MatmulConfig gated_matmul_config(const MatmulProblem& problem);

namespace detail {

/// Whether an argument of an epilogue is as large as the result, unlike scalars and vectors.
template <class Argument>
bool is_matrix(const Argument& argument) {
  if constexpr (requires { argument.rank(); })
    return argument.rank() > 1;
  else
    return false;
}

}  // namespace detail

}  // namespace tegula
