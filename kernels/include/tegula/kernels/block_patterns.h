#pragma once
#include <cstdint>
#include <functional>
#include <source_location>

#include "tegula/kernels/block_list.h"
#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Block lists of patterns that no mask function describes: blocks chosen by the host, and by a
/// router on the device.
namespace tegula {

/// Extents of the attention that a list is for. `batch` and `heads` are 1 if all batch entries or
/// heads share their rows.
struct BlockMaskShape {
  std::int64_t seqlen_q = 0, seqlen_kv = 0;
  std::int64_t batch = 1, heads = 1;
  int block_q = 128, block_kv = 128;

  std::int64_t q_blocks() const { return (seqlen_q + block_q - 1) / block_q; }
  std::int64_t kv_blocks() const { return (seqlen_kv + block_kv - 1) / block_kv; }
};

/// Coverage of a kv block for a query tile.
enum class BlockCoverage : std::uint8_t {
  empty,    ///< nothing: none of its pairs is kept
  partial,  ///< visits it, and computes AttentionSpec::mask in it
  full,     ///< visits it without a mask: all of its pairs are kept
};

/// The list of the coverages `use(b, h, m, n)` of query tile m and key block n, on `device`. A last
/// block that the keys do not fill is never whole. Throws CompileError for blocks that are not
/// attention's, and extents below 1.
BlockList list_blocks(const BlockMaskShape& grid,
                      const std::function<BlockCoverage(std::int64_t b, std::int64_t h,
                                                        std::int64_t m, std::int64_t n)>& use,
                      Device device = Device::best(), Loc at = std::source_location::current());

/// Global, near and random blocks (Zaheer et al. 2020, arXiv:2007.14062, BigBird), by numbers of
/// blocks: the first `global` rows and columns of blocks are full; tile m visits block n if |m - n|
/// <= window; and each other tile visits `random` more blocks, or as many as there are. Causal:
/// only n <= m, of which n = m is masked; AttentionSpec::mask is then causal().
struct BigBird {
  int global = 1, window = 1, random = 3;
  bool is_causal = false;
  std::uint32_t seed = 1;  ///< batch entries, heads and tiles of a seed have blocks of their own
};
/// Throws CompileError as list_blocks does, and unless grid.block_q is grid.block_kv.
BlockList big_bird(const BlockMaskShape& grid, const BigBird& pattern,
                   Device device = Device::best(), Loc at = std::source_location::current());

/// Pairs of a chosen block that attention keeps.
enum class BlockInterior : std::uint8_t {
  full,     ///< all: no mask is computed but in a last block that the keys do not fill
  causal,   ///< q >= kv: blocks above the diagonal are dropped, those on it masked
  partial,  ///< AttentionSpec::mask is computed everywhere
};

/// A list with room for `k` blocks in each row, of zeros, for select_blocks. Throws as list_blocks.
BlockList empty_block_list(const BlockMaskShape& grid, std::int64_t k,
                           Device device = Device::best(),
                           Loc at = std::source_location::current());

/// Block top-k selection (Lu et al. 2025, arXiv:2502.13189, MoBA; Yuan et al. 2025,
/// arXiv:2502.11089, NSA): `list` becomes the blocks that a router chose. `indices`, i32 [batch or
/// 1, heads or 1, query tiles, k] on the list's device, has the kv blocks of each query tile in any
/// order; entries below 0 or beyond the blocks of `keys` keys are no choice. Numbers of a row must
/// differ. Runs on the stream without waiting, so that each step of a model can select anew into
/// the list that its attention was made with. Throws CompileError for indices that do not fit the
/// list.
void select_blocks(const Stream& stream, const Tensor& indices, std::int64_t keys,
                   BlockInterior within, const BlockList& list,
                   Loc at = std::source_location::current());

}  // namespace tegula
