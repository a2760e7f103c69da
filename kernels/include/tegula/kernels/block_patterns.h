#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/kernels/block_list.h"
#include "tegula/lambda.h"
#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Block lists for patterns that cannot be written as a mask function: blocks chosen by the host,
/// or by a router on the device.
namespace tegula::kernels {

/// Extents of the attention that a list is used with. `batch` and `heads` are 1 if all batch
/// entries or heads share their rows.
struct BlockMaskShape {
  std::int64_t seqlen_q = 0, seqlen_kv = 0;  ///< queries and keys per sequence
  std::int64_t batch = 1, heads = 1;         ///< rows of the list that differ
  int block_q = 128, block_kv = 128;         ///< as in BlockList

  std::int64_t q_blocks() const { return (seqlen_q + block_q - 1) / block_q; }
  std::int64_t kv_blocks() const { return (seqlen_kv + block_kv - 1) / block_kv; }
};

/// Coverage of a kv block for a query tile.
enum class BlockCoverage : std::uint8_t {
  empty,    ///< the tile skips the block: no pair is kept
  partial,  ///< the tile visits the block and computes AttentionSpec::mask in it
  full,     ///< the tile visits the block without a mask: all pairs are kept
};

/// Returns the list of the coverages `use(b, h, m, n)` of query tile m and kv block n, on `device`.
/// A last block that extends beyond the keys is never `full`. Throws CompileError for unsupported
/// block sizes (T1622) and for extents below 1 (T1623).
BlockList list_blocks(const BlockMaskShape& grid,
                      const Lambda<BlockCoverage(std::int64_t b, std::int64_t h, std::int64_t m,
                                                 std::int64_t n)>& use,
                      Device device = Device::best(), Loc at = std::source_location::current());

/// Global, local and random blocks (Zaheer et al. 2020, arXiv:2007.14062, BigBird), counted in
/// blocks: the first `global` block rows and columns are full; tile m visits block n if |m - n| <=
/// window; and each remaining tile visits `random` more blocks, or all if there are fewer. Causal:
/// only n <= m, with a mask for n = m; AttentionSpec::mask must then be causal().
struct BigBird {
  int global = 1, window = 1, random = 3;  ///< in blocks
  bool is_causal = false;                  ///< keeps n <= m only
  std::uint32_t seed = 1;                  ///< batch entries, heads and tiles draw different blocks
};
/// Returns the list of a BigBird pattern. Throws CompileError like list_blocks, and if grid.block_q
/// differs from grid.block_kv (T1624).
BlockList big_bird(const BlockMaskShape& grid, const BigBird& pattern,
                   Device device = Device::best(), Loc at = std::source_location::current());

/// Pairs of a selected block that attention keeps.
enum class BlockInterior : std::uint8_t {
  full,     ///< all: a mask is computed only in a last block that extends beyond the keys
  causal,   ///< q >= kv: blocks above the diagonal are dropped, those on it are masked
  partial,  ///< AttentionSpec::mask is computed everywhere
};

/// Returns a zeroed list of capacity `k`, for select_blocks. Throws like list_blocks, and for k < 1
/// (T1625).
BlockList empty_block_list(const BlockMaskShape& grid, std::int64_t k,
                           Device device = Device::best(),
                           Loc at = std::source_location::current());

/// Block top-k selection (Lu et al. 2025, arXiv:2502.13189, MoBA; Yuan et al. 2025,
/// arXiv:2502.11089, NSA): overwrites `list` with the blocks that a router chose. `indices`, i32
/// [batch or 1, heads or 1, query tiles, k] on the list's device, contains the kv blocks of each
/// query tile in any order; negative entries and blocks beyond `keys` keys are ignored. The indices
/// of a row must be distinct. Runs on the stream without synchronizing, so each step of a model can
/// select new blocks for an existing attention. Throws CompileError (T1626 to T1628) for indices
/// that do not match the list.
void select_blocks(const Stream& stream, const Tensor& indices, std::int64_t keys,
                   BlockInterior within, const BlockList& list,
                   Loc at = std::source_location::current());

}  // namespace tegula::kernels
