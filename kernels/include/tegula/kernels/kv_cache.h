#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/kernels/rope.h"
#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Paged KV caches, and ragged batches of requests that use them (docs/serving.md).
namespace tegula::kernels {

/// A KV cache in pages that requests share. k [pages, rows, kv heads, head dim] and v [pages, rows,
/// kv heads, head dim of values] are views with any strides but a contiguous last dimension: a
/// cache [pages, kv heads, rows, head dim] is given as `cache.permute({0, 2, 1, 3})`.
struct KvCache {
  Tensor k, v = {};
  /// i32 [requests or more, pages per request]: the key at position p of request b is row p % rows
  /// of page table[b, p / rows]; pages have 1 to 256 rows. A negative entry is a page without
  /// contents: its keys and values are 0. Undefined: page b has all keys of request b, any number.
  Tensor table = {};
};

/// The requests of one step. The tensors are in device memory and are read at every launch.
struct KvBatch {
  /// i32 [requests + 1], ascending: the queries of request b are rows [q_offsets[b], q_offsets[b +
  /// 1]) of Q. They are the last positions of the request: the i-th is at kv_lengths[b] - number of
  /// queries + i.
  Tensor q_offsets;
  Tensor kv_lengths;              ///< i32 [requests]: keys, with those of this step; 0: none
  std::int64_t max_seqlen_q = 0;  ///< any bound of the number of queries per request
  /// i32 [schedule_words], written by Attention::schedule: divides long requests with few queries
  /// over the SMs, in a separate launch if the step also has prompts (docs/serving.md). Undefined:
  /// requests are not divided, and there is one launch.
  Tensor schedule = {};
};

/// Returns the number of elements of KvBatch::schedule.
std::int64_t schedule_words(std::int64_t requests, Device device);

/// Options of `append`, which may all be left out.
struct KvAppend {
  RopePairs pairs = RopePairs::half_split;
  /// Rotates K, and Q if there is one, before K is stored. Without `positions`, the row of the
  /// tables is the position in the request, and tables may have any number of rows.
  RopeTables rope = {};
  Tensor Q = {};      ///< [rows, heads, head dim], rotated like K; requires `rope`
  Tensor Q_out = {};  ///< receives the rotated Q, without overlap; default: Q itself
  /// i64 [rows]: row r of K goes to row slots[r] % rows of page slots[r] / rows, instead of where
  /// the table puts it; rows with a negative slot are dropped.
  Tensor slots = {};
};

/// Stores the keys K [rows, kv heads, head dim] and values V [rows, kv heads, head dim of values]
/// of a step's queries at their positions in the cache; all are of the cache's type, bf16 or f16.
/// Rows at positions without a page are dropped. Results are undefined if two rows have the same
/// place, as those of requests that share a page may (T1301 or T1319 on `cpu` and `sim`). Does not
/// wait, and a CUDA graph can record it. Throws CompileError for invalid tensors (T1608 to T1610,
/// T1661, T1662, T1680 to T1683).
void append(const Stream& stream, const Tensor& K, const Tensor& V, const KvCache& into,
            const KvBatch& batch, const KvAppend& how = {},
            Loc at = std::source_location::current());

}  // namespace tegula::kernels
