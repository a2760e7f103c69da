#pragma once
#include <string>

#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Matrix products. For an epilogue of one's own: tegula/kernels/fused_matmul.h.
namespace tegula {

/// How a product is cut: tiles of bm x bn, steps of bk along k, and k divided among `splits` CTAs
/// whose partial sums (f32 or i32) a second kernel adds, or, where they are `clustered`, they
/// themselves.
struct MatmulConfig {
  int bm = 128, bn = 256, bk = 64;
  int splits = 1;
  /// Columns of B lie along the rows of the tensor cores' tiles, which are 64 or more: for few rows
  /// of A. bn of 64, 128 or 256, bm of 8 to 256 in steps of 8.
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
  std::string str() const;
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
  /// Rows of both begin at multiples of 128 bytes, the lines of the L2.
  bool whole_lines = true;
  /// Products of f32 on tensor cores, which leave out the last 13 bits; else by FMA.
  bool tf32 = false;
  /// Two sums a tile, as MatmulOptions::promoted needs: tiles are half as wide.
  bool promoted = false;
  /// k is not to be divided.
  bool whole = false;
  /// Some operand is one that tensor cores do not take as it lies.
  bool copies = false;
  friend bool operator==(const MatmulProblem&, const MatmulProblem&) = default;
};

/// The configuration with the least estimated time on a GPU of `sms` multiprocessors: waves of
/// tiles, each bound by tensor cores, by bytes from L2 or by the memory's latency, and all by its
/// bandwidth. A thread remembers what it has asked for.
MatmulConfig matmul_config(const MatmulProblem& problem, int sms = 132);

struct MatmulOptions {
  /// Operands of f32 are multiplied by tensor cores, which leave out their last 13 bits (tf32);
  /// else FMA.
  bool tf32 = false;
  /// Operands of 8-bit floats: the sums of each step, bk products, are added in f32 (DeepGEMM's
  /// promotion), for Hopper's tensor cores keep about 14 bits of a sum of these. Nothing else.
  bool promoted = false;
};

/// C = A B. A [m, k], B [k, n], C [m, n], or all with a batch dimension in front; any strides, any
/// extents; k = 0 gives zeros. Operands that tensor cores do not take as they lie are copied first,
/// at every call, unless k is small: rows that do not begin at multiples of 16 bytes, and of 8 bits
/// (or tf32) those whose k is not contiguous. For these copies, and where k is divided, calls of
/// one stream come from one thread at a time: they share its memory.
///
/// | A and B (alike) | C | sums |
/// |---|---|---|
/// | bf16, f16 | the same type or f32 | f32 |
/// | f32 | f32 | f32 |
/// | f8e4m3, f8e5m2 | bf16, f16 or f32 | f32 |
/// | i8, u8 | i32 or f32 | i32 |
///
/// Throws CompileError for shapes or types that do not fit.
void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulOptions& options = {});
void matmul(const Tensor& A, const Tensor& B, const Tensor& C, const MatmulOptions& options = {});
/// With a given configuration: bm of 64, 128, 192 or 256 unless swapped, bn of 8 to 256 in steps of
/// 8, bk of 16 to 256 in powers of two. Throws CompileError for a cluster that is none.
void matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
            const MatmulConfig& config, const MatmulOptions& options = {});

}  // namespace tegula
