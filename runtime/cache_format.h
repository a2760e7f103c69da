#pragma once
// One cache entry as bytes: header, section table, sections, checksum. Little-endian, every size
// bounded before it is believed.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/hash.h"

namespace tegula::runtime {

/// The facts a compiled kernel depends on, in the order they were added. Never paths, users, times
/// or GPU names.
class CacheKey {
 public:
  void add(std::string_view field, std::string_view value);
  /// The key of such a text; nothing where its lengths do not fit.
  static std::optional<CacheKey> parse(std::string canonical);
  /// All fields, length-prefixed: equal exactly if the keys are.
  const std::string& canonical() const { return canonical_; }
  /// Names and values in order, which live as long as the key.
  std::vector<std::pair<std::string_view, std::string_view>> fields() const;
  Hash128 hash() const { return hash128(canonical_); }
  /// "field: value" a line, for people.
  std::string str() const;

 private:
  std::string canonical_;
};

enum class Section : std::uint32_t { key = 1, meta = 2, cubin = 3, ptx = 4, ir = 5, log = 6 };

/// Entry of the disk cache. `meta` is the artefact but for its code, `ptx` what the back end
/// emitted, and `log` the remarks of the passes, each as its owner encodes it.
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

/// Never throws for any bytes.
ReadResult decode_entry(std::string_view file, const CacheKey& wanted);

/// The canonical key inside an entry, for listings; nothing if it is damaged.
std::optional<std::string> entry_key(std::string_view file);

}  // namespace tegula::runtime
