#pragma once
// Checks the tensors of a paged cache, for attention and for `append`.
#include "tegula/kernels/kv_cache.h"

namespace tegula::kernels {

/// Largest number of rows of the pages that a table lists.
inline constexpr std::int64_t kMaxPageRows = 256;

/// Throws T1683 for invalid offsets or lengths of a step, or if their devices differ.
void check_batch(const char* caller, const KvBatch& batch);
/// Throws T1680 to T1683 for an invalid cache, table or lengths of a step. `by_slots`: rows of
/// pages are named by their numbers, whatever the table.
void check_cache(const char* caller, const KvCache& cache, const KvBatch& batch,
                 bool by_slots = false);

}  // namespace tegula::kernels
