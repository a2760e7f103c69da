#pragma once
#include "tegula/tensor.h"

namespace tegula::kernels {

/// The kv blocks that each query tile visits, for masks that are known on the device only (top-k
/// blocks, trees, learned sparse patterns). Query tile m of batch entry b and head h visits the kv
/// blocks blocks[b, h, m, 0 .. counts[b, h, m]) in that order; block n contains keys [n * block_kv,
/// (n + 1) * block_kv). All tensors are i32 on the attention's device and are read at every launch;
/// the first two dimensions broadcast if they are 1. The indices of a row must be distinct and
/// refer to blocks with keys (MInference, arXiv 2407.02490; NSA, arXiv 2502.11089). With packed
/// sequences (Attention::varlen) `batch` is the number of sequences, tiles and blocks are counted
/// from the beginning of each sequence, and there are at least as many rows as tiles of
/// max_seqlen_q queries; rows that a sequence does not have are ignored. Throws CompileError for
/// invalid tensors.
struct BlockList {
  /// [batch or 1, heads or 1, query tiles, capacity].
  Tensor kv_indices;
  /// [batch or 1, heads or 1, query tiles]: entries of each row, at most the capacity.
  Tensor kv_num_blocks;
  /// Shaped like `kv_num_blocks`: the number of leading entries that need no mask. Such blocks must
  /// not exceed seqlen_kv, and all rows must attend to all of their keys. Undefined: 0, so the mask
  /// is computed in every block.
  Tensor full_kv_num_blocks = {};
  /// Queries and keys per block; both must be tile sizes of attention: 16, 32, 64 or 128 queries,
  /// and 16, 32, 48, 64, 80, 96, 112, 128 or 176 keys.
  int block_q = 128, block_kv = 128;
};

}  // namespace tegula::kernels
