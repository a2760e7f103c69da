#pragma once
// A bundle: compiled kernels in one file (.tgb) that is written once, mapped and never changed.
// Its kernels are found by what they mean, so that it serves a machine without LLVM, NVRTC and
// ptxas. Layout, little-endian: header, index sorted by key, entries at multiples of 64 bytes. The
// index has a checksum of its own and so has every entry, so that opening a bundle reads no entry.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache_format.h"

namespace tegula::runtime {

/// Key of a bundle's entry: a key of the disk cache without its tools.
CacheKey portable_key(const CacheKey& key);

/// A row of the index.
struct BundleRow {
  Hash128 key;
  std::uint64_t offset, bytes;
};

class Bundle {
 public:
  /// Maps the file and checks header and index. Throws DeviceError for a file that cannot be read
  /// or is no sound bundle.
  explicit Bundle(const std::filesystem::path& file);
  ~Bundle();
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  const std::filesystem::path& file() const { return file_; }
  std::span<const BundleRow> rows() const { return {rows_, count_}; }
  /// Bytes of an entry, as encode_entry made them.
  std::string_view entry(const BundleRow& row) const;
  /// The entry of a portable key; nothing where the bundle has none or its bytes are damaged.
  std::optional<CacheEntry> find(const CacheKey& key) const;

 private:
  std::filesystem::path file_;
  std::string_view bytes_;
  const BundleRow* rows_ = nullptr;
  std::size_t count_ = 0;
};

/// An entry to be put into a bundle.
struct BundledKernel {
  CacheKey key;  ///< portable
  CacheEntry entry;
};

/// The bundle's bytes. Of several kernels of one key the last one counts.
std::string encode_bundle(const std::vector<BundledKernel>& kernels);

}  // namespace tegula::runtime
