#pragma once
#include "tegula/kernels/kv_cache.h"
#include "tegula/released_read.h"

namespace tegula::kernels {

/// Throws the error of a call that read a released page, with the page and the keys in its row.
[[noreturn]] void throw_released_page(const ReleasedRead& error, const KvCache& cache,
                                      const KvBatch& batch);

}  // namespace tegula::kernels
