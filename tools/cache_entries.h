#pragma once
// Entries of the disk cache, as listed and compared by `tegula cache`.
#include <optional>
#include <string>
#include <vector>

#include "runtime/cache.h"

namespace tegula::tools {

struct CachedKernel {
  runtime::CacheFile file;
  std::string id;  ///< hash of the key, 32 hexadecimal digits
  runtime::CacheKey key;
  runtime::CacheEntry entry;
};

/// Opens the cache that the environment selects, read-only by default.
runtime::KernelCache open_cache(std::size_t max_bytes = runtime::CacheOptions::kMaxBytes,
                                bool read_only = true);

/// Returns all valid entries, least recently used first; appends paths of damaged ones to
/// `damaged`.
std::vector<CachedKernel> all_kernels(runtime::KernelCache& cache,
                                      std::vector<std::string>* damaged = nullptr);

/// Returns the entry whose id starts with `prefix`. Throws std::runtime_error unless there is
/// exactly one.
const CachedKernel& kernel_of(const std::vector<CachedKernel>& all, const std::string& prefix);

/// Returns the value of a key's field; empty if the field is missing.
std::string_view field_of(const runtime::CacheKey& key, std::string_view name);

/// Returns the fields in which two keys differ, one per line; for a text of several lines, the
/// first line that differs; for the IR of two kernels, their names as well.
std::string difference(const runtime::CacheKey& from, const runtime::CacheKey& to);

}  // namespace tegula::tools
