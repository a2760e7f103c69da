#pragma once
// Encoding of one cache entry: header, section table, sections, checksum. Little-endian; every size
// is checked against its bounds before it is used.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/hash.h"

namespace tegula::runtime {

/// The facts that a compiled kernel depends on, in the order in which they were added. They never
/// include paths, users, times or GPU names.
class CacheKey {
 public:
  void add(std::string_view field, std::string_view value);
  /// Returns the key of a canonical text; nothing if its lengths are inconsistent.
  static std::optional<CacheKey> parse(std::string canonical);
  /// Returns all fields, length-prefixed: equal exactly if the keys are.
  const std::string& canonical() const { return canonical_; }
  /// Returns names and values in order; the views are valid as long as the key.
  std::vector<std::pair<std::string_view, std::string_view>> fields() const;
  Hash128 hash() const { return hash128(canonical_); }
  /// Returns "field: value" lines for people.
  std::string str() const;

 private:
  std::string canonical_;
};

enum class Section : std::uint32_t { key = 1, meta = 2, cubin = 3, ptx = 4, ir = 5, log = 6 };

/// Entry of the disk cache. `meta` is the artefact without its code, `ptx` the text emitted by the
/// back end, and `log` the remarks of the passes, each in the encoding of its owner.
struct CacheEntry {
  std::string meta;
  std::string cubin;
  std::string ptx;
  std::string ir;
  std::string log;
  friend bool operator==(const CacheEntry&, const CacheEntry&) = default;
};

inline constexpr std::size_t kMaxEntryBytes =
    64u << 20;  ///< limit of the file, and of its sections unpacked

std::string encode_entry(const CacheKey& key, const CacheEntry& entry);

enum class ReadStatus { ok, damaged, other_key };
struct ReadResult {
  ReadStatus state = ReadStatus::damaged;
  CacheEntry entry;
  std::string why;  ///< empty if ok
};

/// Decodes an entry and compares its key with `wanted`. Does not throw, whatever the bytes are.
ReadResult decode_entry(std::string_view file, const CacheKey& wanted);

/// Returns the canonical key inside an entry, for listings; nothing if the entry is damaged.
std::optional<std::string> entry_key(std::string_view file);

}  // namespace tegula::runtime
