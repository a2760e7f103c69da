#pragma once
// A bundle: compiled kernels in one file (.tgb) that is written once, mapped and never changed.
// Lookups use the kernel's meaning, without the tools that compiled it, so that a bundle serves a
// machine without LLVM, NVRTC and ptxas. Layout, little-endian: header, index sorted by key,
// entries at multiples of 64 bytes. The index and each entry have their own checksums, so that
// opening a bundle does not read the entries.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache_format.h"

namespace tegula::runtime {

/// Returns the key of a bundle's entry: a key of the disk cache without the fields that name tools.
CacheKey portable_key(const CacheKey& key);

/// A row of the index.
struct BundleRow {
  Hash128 key;
  std::uint64_t offset, bytes;
};

class Bundle {
 public:
  /// Maps the file and checks its header and index. Throws DeviceError for a file that cannot be
  /// read or is not a valid bundle.
  explicit Bundle(const std::filesystem::path& file);
  ~Bundle();
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  const std::filesystem::path& file() const { return file_; }
  std::span<const BundleRow> rows() const { return {rows_, count_}; }
  /// Returns the bytes of an entry, as encode_entry wrote them.
  std::string_view entry(const BundleRow& row) const;
  /// Returns the entry of a portable key; nothing if there is none or its bytes are damaged.
  std::optional<CacheEntry> find(const CacheKey& key) const;

 private:
  std::filesystem::path file_;
  std::string_view bytes_;
  const BundleRow* rows_ = nullptr;
  std::size_t count_ = 0;
};

/// An entry for encode_bundle.
struct BundledKernel {
  CacheKey key;  ///< portable
  CacheEntry entry;
};

/// Returns the bundle's bytes. If several kernels have one key, the last one is used.
std::string encode_bundle(const std::vector<BundledKernel>& kernels);

}  // namespace tegula::runtime
