#pragma once
#include "tegula/tensor.h"

namespace tegula {

/// The kv blocks that each query tile visits, for masks that only the device knows (top-k blocks,
/// trees, sparse patterns that were learned). Query tile m of batch entry b and head h visits the
/// kv blocks blocks[b, h, m, 0 .. counts[b, h, m]) in that order; block n holds keys [n * block_kv,
/// (n + 1) * block_kv). All tensors are i32 on the device of the attention, read at every launch;
/// extents of 1 in the first two dimensions stand for all batch entries or heads. The numbers of a
/// row must differ and be those of blocks with keys (MInference, arXiv 2407.02490; NSA, arXiv
/// 2502.11089). A tensor that does not fit throws CompileError.
struct BlockList {
  /// [batch or 1, heads or 1, query tiles, capacity].
  Tensor kv_indices;
  /// [batch or 1, heads or 1, query tiles]: entries of each row, at most the capacity.
  Tensor kv_num_blocks;
  /// Like `kv_num_blocks`: the number of leading entries that need no mask. They must hold existing
  /// keys only, and all rows must attend to them. Undefined: none, so that the mask is computed in
  /// every block.
  Tensor full_kv_num_blocks = {};
  /// Queries and keys of a block; attention's own tile sizes: 16, 32, 64 or 128 queries, and 16,
  /// 32, 48, 64, 80, 96, 112, 128 or 176 keys.
  int block_q = 128, block_kv = 128;
};

}  // namespace tegula
