#include "runtime/cache_format.h"

#include <zstd.h>

#include <array>
#include <bit>
#include <cstring>
#include <map>

namespace tegula::runtime {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the file format is written as the host's memory");

constexpr std::array<char, 8> kEntryMagic{'T', 'E', 'G', 'U', 'L', 'A', 'K', '1'};
constexpr std::array<char, 8> kEntryEnd{'1', 'K', 'A', 'L', 'U', 'G', 'E', 'T'};
constexpr std::uint32_t kMaxSections = 32;
constexpr std::size_t kSmall = 512;  // too small to compress
constexpr std::uint32_t kPacked = 1;

struct EntryHeader {
  std::array<char, 8> magic;
  std::uint32_t section_count;
  std::uint32_t reserved;
  std::uint64_t file_bytes;
};

struct TableRow {
  std::uint32_t section;
  std::uint32_t flags;
  std::uint64_t offset;
  std::uint64_t stored_bytes;
  std::uint64_t plain_bytes;
};

struct Trailer {
  std::uint64_t hash_high, hash_low;
  std::array<char, 8> end;
};

static_assert(sizeof(EntryHeader) == 24 && sizeof(TableRow) == 32 && sizeof(Trailer) == 24);

template <class T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T get(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string packed(const std::string& plain) {
  std::string out(ZSTD_compressBound(plain.size()), 0);
  const std::size_t n = ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 1);
  if (ZSTD_isError(n) || n >= plain.size()) return plain;
  out.resize(n);
  return out;
}

struct Field {
  Section section;
  std::string CacheEntry::* text;
};
constexpr Field kFields[] = {{Section::meta, &CacheEntry::meta},
                             {Section::cubin, &CacheEntry::cubin},
                             {Section::ptx, &CacheEntry::ptx},
                             {Section::ir, &CacheEntry::ir},
                             {Section::log, &CacheEntry::log}};

/// Sections by kind, or the reason why they cannot be read.
struct Sections {
  std::map<Section, std::string> text;
  std::string why;
};

std::string header_fault(std::string_view file) {
  if (file.size() < sizeof(EntryHeader) + sizeof(Trailer)) return "too short";
  if (file.size() > kMaxEntryBytes) return "too long";
  const auto header = get<EntryHeader>(file, 0);
  if (header.magic != kEntryMagic) return "not a cache entry of this version";
  if (header.file_bytes != file.size()) return "truncated or extended";
  if (header.section_count > kMaxSections) return "too many sections";
  const std::size_t trailer_at = file.size() - sizeof(Trailer);
  if (sizeof(EntryHeader) + header.section_count * sizeof(TableRow) > trailer_at)
    return "section table beyond the end";
  const auto trailer = get<Trailer>(file, trailer_at);
  if (trailer.end != kEntryEnd) return "no end mark";
  const Hash128 hash = hash128(file.substr(0, trailer_at));
  if (hash.high != trailer.hash_high || hash.low != trailer.hash_low) return "checksum differs";
  return {};
}

/// Reads the sections. Also detects entries with a valid checksum and malformed content, which a
/// bug or another program wrote.
Sections read_sections(std::string_view file) {
  Sections result;
  result.why = header_fault(file);
  if (!result.why.empty()) return result;
  const auto header = get<EntryHeader>(file, 0);
  const std::size_t end = file.size() - sizeof(Trailer);
  std::size_t plain_total = 0;
  for (std::uint32_t i = 0; i < header.section_count; ++i) {
    const auto row = get<TableRow>(file, sizeof(EntryHeader) + i * sizeof(TableRow));
    if (row.offset > end || row.stored_bytes > end - row.offset)
      return {{}, "section beyond the end"};
    if (row.plain_bytes > kMaxEntryBytes || (plain_total += row.plain_bytes) > kMaxEntryBytes)
      return {{}, "sections too large"};
    const std::string_view stored = file.substr(row.offset, row.stored_bytes);
    std::string plain;
    if ((row.flags & kPacked) != 0) {
      plain.resize(row.plain_bytes);
      const std::size_t n =
          ZSTD_decompress(plain.data(), plain.size(), stored.data(), stored.size());
      if (ZSTD_isError(n) || n != row.plain_bytes) return {{}, "section cannot be unpacked"};
    } else {
      if (row.plain_bytes != row.stored_bytes) return {{}, "section sizes differ"};
      plain = stored;
    }
    if (!result.text.emplace(static_cast<Section>(row.section), std::move(plain)).second)
      return {{}, "a section appears twice"};
  }
  if (result.text.count(Section::key) == 0) return {{}, "no key"};
  return result;
}

/// Returns true for an ELF file for machine 190 (CUDA).
bool is_cubin(const std::string& bytes) {
  constexpr std::uint16_t kCudaMachine = 190;
  return bytes.size() >= 64 && bytes.compare(0, 4, "\177ELF", 4) == 0 &&
         get<std::uint16_t>(bytes, 18) == kCudaMachine;
}

}  // namespace

void CacheKey::add(std::string_view field, std::string_view value) {
  put(canonical_, static_cast<std::uint64_t>(field.size()));
  canonical_ += field;
  put(canonical_, static_cast<std::uint64_t>(value.size()));
  canonical_ += value;
}

std::optional<CacheKey> CacheKey::parse(std::string canonical) {
  std::size_t at = 0, pieces = 0;
  while (at < canonical.size()) {
    if (canonical.size() - at < sizeof(std::uint64_t)) return std::nullopt;
    const auto bytes = get<std::uint64_t>(canonical, at);
    at += sizeof(std::uint64_t);
    if (bytes > canonical.size() - at) return std::nullopt;
    at += bytes;
    ++pieces;
  }
  if (pieces % 2 != 0) return std::nullopt;
  CacheKey key;
  key.canonical_ = std::move(canonical);
  return key;
}

std::vector<std::pair<std::string_view, std::string_view>> CacheKey::fields() const {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  std::string_view rest = canonical_;
  const auto next = [&rest] {
    const auto bytes = get<std::uint64_t>(rest, 0);
    const std::string_view piece = rest.substr(sizeof bytes, bytes);
    rest.remove_prefix(sizeof bytes + bytes);
    return piece;
  };
  while (!rest.empty()) {
    const std::string_view name = next();
    all.emplace_back(name, next());
  }
  return all;
}

std::string CacheKey::str() const {
  std::string text;
  for (const auto& [name, value] : fields()) {
    text += name;
    text += ": ";
    text += value;
    text += '\n';
  }
  return text;
}

std::string encode_entry(const CacheKey& key, const CacheEntry& entry) {
  std::vector<std::pair<Section, const std::string*>> sections{{Section::key, &key.canonical()}};
  for (const Field& field : kFields)
    if (!(entry.*field.text).empty()) sections.emplace_back(field.section, &(entry.*field.text));
  std::string table;
  std::string body;
  const std::size_t body_at = sizeof(EntryHeader) + sections.size() * sizeof(TableRow);
  for (const auto& [section, text] : sections) {
    const std::string stored = text->size() < kSmall ? *text : packed(*text);
    const std::uint32_t flags = stored.size() < text->size() ? kPacked : 0;
    put(table, TableRow{static_cast<std::uint32_t>(section), flags, body_at + body.size(),
                        stored.size(), text->size()});
    body += stored;
  }
  const std::size_t total = body_at + body.size() + sizeof(Trailer);
  std::string file;
  file.reserve(total);
  put(file, EntryHeader{kEntryMagic, static_cast<std::uint32_t>(sections.size()), 0, total});
  file += table;
  file += body;
  const Hash128 hash = hash128(file);
  put(file, Trailer{hash.high, hash.low, kEntryEnd});
  return file;
}

ReadResult decode_entry(std::string_view file, const CacheKey& wanted) {
  ReadResult result;
  Sections sections = read_sections(file);
  result.why = sections.why;
  if (!result.why.empty()) return result;
  if (sections.text[Section::key] != wanted.canonical()) {
    result.state = ReadStatus::other_key;
    result.why = "contains another key";
    return result;
  }
  for (const Field& field : kFields)
    if (const auto found = sections.text.find(field.section); found != sections.text.end())
      result.entry.*field.text = std::move(found->second);
  if (!result.entry.cubin.empty() && !is_cubin(result.entry.cubin)) {
    result.why = "its machine code is not a cubin";
    return result;
  }
  result.state = ReadStatus::ok;
  return result;
}

std::optional<std::string> entry_key(std::string_view file) {
  Sections sections = read_sections(file);
  if (!sections.why.empty()) return std::nullopt;
  return std::move(sections.text[Section::key]);
}

}  // namespace tegula::runtime
