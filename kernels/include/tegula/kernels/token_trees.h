#pragma once
#include <source_location>

#include "tegula/functions.h"
#include "tegula/kernels/kv_cache.h"
#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Trees of draft tokens whose shapes are in device memory: each request of a step verifies its
/// own tree (Miao et al. 2023, arXiv:2305.09781; Li et al. 2024, arXiv:2406.16858, EAGLE-2).
namespace tegula::kernels {

/// Writes the table that masks::tree reads. The queries of each request are the nodes of a tree, at
/// most `nodes`. `parents` i32 [rows]: entry q_offsets[b] + i is the parent of node i of request b,
/// a smaller index in the same request, or any negative number for a root. `bits` i32 [rows *
/// ceil(nodes / 32)]: bit j % 32 of entry row * ceil(nodes / 32) + j / 32 is set if j is the node
/// of the row or an ancestor of it. A parent that does not precede its node ends the path. Rows of
/// no request are not written. One launch, which a CUDA graph can record. Throws CompileError
/// (T1630) unless 1 <= nodes <= 1024, and T1662 or T1683 for invalid tensors.
void ancestor_bits(const Stream& stream, const Tensor& parents, const KvBatch& batch,
                   const Tensor& bits, int nodes, Loc at = std::source_location::current());

namespace masks {

/// Speculative decoding of a tree per request by Attention::paged: the queries of a request are the
/// nodes of its tree and follow its prefix. A node attends to the prefix, itself and its ancestors.
/// `ancestors` is written by ancestor_bits for at most `nodes` queries per request. The mask reads
/// the tensors of `batch` and `ancestors` at every launch; calls must be for the same batch. Keys
/// more than `nodes` positions before a query are visible without a look at the table. Throws
/// CompileError (T1630, T1633, T1683) for invalid arguments.
Mask tree(const KvBatch& batch, Tensor ancestors, int nodes,
          Loc at = std::source_location::current());

}  // namespace masks
}  // namespace tegula::kernels
