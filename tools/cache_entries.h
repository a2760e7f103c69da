#pragma once
// The entries of the disk cache as `tegula cache` lists and compares them.
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

/// A cache as the environment says, which is not written to.
runtime::KernelCache open_cache(std::size_t max_bytes = runtime::CacheOptions::kMaxBytes,
                                bool read_only = true);

/// All sound entries, the longest unused first; paths of the others are added to `damaged`.
std::vector<CachedKernel> all_kernels(runtime::KernelCache& cache,
                                      std::vector<std::string>* damaged = nullptr);

/// The entry whose id begins so. Throws std::runtime_error where there is none, or more than one.
const CachedKernel& kernel_of(const std::vector<CachedKernel>& all, const std::string& prefix);

/// Value of a key's field, empty where it has none.
std::string_view field_of(const runtime::CacheKey& key, std::string_view name);

/// The fields in which keys differ, a line each: of a text of many lines the first that differs.
std::string difference(const runtime::CacheKey& from, const runtime::CacheKey& to);

}  // namespace tegula::tools
