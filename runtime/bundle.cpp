#include "runtime/bundle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "support/errors.h"

namespace tegula::runtime {
namespace {

constexpr std::array<char, 8> kBundleMagic{'T', 'E', 'G', 'U', 'L', 'A', 'B', '1'};
constexpr std::size_t kAlignment = 64;  // alignment of the entries, and thus of their machine code

struct BundleHeader {
  std::array<char, 8> magic;
  std::uint64_t file_bytes;
  std::uint64_t count;
  std::uint64_t hash_high, hash_low;  // hash of the index
};
static_assert(sizeof(BundleHeader) == 40 && sizeof(BundleRow) == 32);

/// Fields of a key that identify tools. Bundle lookups ignore them, because a kernel's results do
/// not depend on the tools that compiled it.
constexpr std::string_view kToolFields[] = {"back end", "tegula", "llvm",
                                            "ptxas",    "nvrtc",  "nvrtc builtins"};

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

constexpr const char* kBundleHint = "write it again with `tegula cache export`";

std::string_view mapped(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const auto failed = [&](const std::string& why) {
    if (descriptor >= 0) ::close(descriptor);
    return DeviceError(diagnostic(ErrorId::file_access, {}, {}, "read the bundle", file.string(),
                                  why, kBundleHint));
  };
  if (descriptor < 0) throw failed(std::strerror(errno));
  struct stat s{};
  if (::fstat(descriptor, &s) != 0) throw failed(std::strerror(errno));
  if (!S_ISREG(s.st_mode)) throw failed("it is not a file");
  if (s.st_size == 0) throw failed("it is empty");
  const auto bytes = static_cast<std::size_t>(s.st_size);
  void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (at == MAP_FAILED) throw failed(std::strerror(errno));
  ::close(descriptor);
  return {static_cast<const char*>(at), bytes};
}

/// Returns the first fault of the header or the index, or "".
std::string fault_of(std::string_view bytes) {
  if (bytes.size() < sizeof(BundleHeader)) return "too short";
  BundleHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kBundleMagic) return "not a bundle of this version";
  if (header.file_bytes != bytes.size()) return "truncated or extended";
  if (header.count > (bytes.size() - sizeof(BundleHeader)) / sizeof(BundleRow))
    return "its index is beyond the end";
  const std::string_view index =
      bytes.substr(sizeof(BundleHeader), header.count * sizeof(BundleRow));
  const Hash128 hash = hash128(index);
  if (hash.high != header.hash_high || hash.low != header.hash_low)
    return "the checksum of its index differs";
  const std::span rows(reinterpret_cast<const BundleRow*>(index.data()), header.count);
  for (const BundleRow& row : rows)
    if (row.offset > bytes.size() || row.bytes > bytes.size() - row.offset)
      return "an entry is beyond the end";
  const auto unsorted = std::ranges::adjacent_find(
      rows, [](const BundleRow& a, const BundleRow& b) { return !(a.key < b.key); });
  return unsorted == rows.end() ? "" : "its index is not sorted";
}

}  // namespace

CacheKey portable_key(const CacheKey& key) {
  CacheKey portable;
  for (const auto& [name, value] : key.fields())
    if (std::ranges::find(kToolFields, name) == std::end(kToolFields)) portable.add(name, value);
  return portable;
}

Bundle::Bundle(const std::filesystem::path& file) : file_(file), bytes_(mapped(file)) {
  const std::string fault = fault_of(bytes_);
  if (!fault.empty()) {
    ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
    throw DeviceError(diagnostic(ErrorId::file_access, {}, {}, "use the bundle", file.string(),
                                 fault, kBundleHint));
  }
  BundleHeader header;
  std::memcpy(&header, bytes_.data(), sizeof header);
  rows_ = reinterpret_cast<const BundleRow*>(bytes_.data() + sizeof(BundleHeader));
  count_ = header.count;
}

Bundle::~Bundle() { ::munmap(const_cast<char*>(bytes_.data()), bytes_.size()); }

std::string_view Bundle::entry(const BundleRow& row) const {
  return bytes_.substr(row.offset, row.bytes);
}

std::optional<CacheEntry> Bundle::find(const CacheKey& key) const {
  const Hash128 wanted = key.hash();
  const auto at = std::ranges::lower_bound(rows(), wanted, {}, &BundleRow::key);
  if (at == rows().end() || at->key != wanted) return std::nullopt;
  ReadResult read = decode_entry(entry(*at), key);
  if (read.state != ReadStatus::ok) return std::nullopt;
  return std::move(read.entry);
}

std::string encode_bundle(const std::vector<BundledKernel>& kernels) {
  std::map<Hash128, std::string> entries;
  for (const BundledKernel& kernel : kernels)
    entries[kernel.key.hash()] = encode_entry(kernel.key, kernel.entry);
  std::string index, body;
  const std::size_t index_end = sizeof(BundleHeader) + entries.size() * sizeof(BundleRow);
  for (const auto& [key, bytes] : entries) {
    const std::size_t end = index_end + body.size();
    body.append((kAlignment - end % kAlignment) % kAlignment, '\0');
    index += bytes_of(BundleRow{key, index_end + body.size(), bytes.size()});
    body += bytes;
  }
  const Hash128 hash = hash128(index);
  const BundleHeader header{kBundleMagic, index_end + body.size(), entries.size(), hash.high,
                            hash.low};
  return std::string(bytes_of(header)) + index + body;
}

}  // namespace tegula::runtime
