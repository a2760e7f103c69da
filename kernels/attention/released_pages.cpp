// Which keys of which requests a released page holds.
#include "kernels/attention/released_pages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tegula::kernels {
namespace {

struct CacheRow {
  std::int64_t page, row;
};

/// Returns the row [kv heads, dim] of a cache that contains the address.
std::optional<CacheRow> row_at(const Tensor& cache, std::uintptr_t address) {
  const auto size = static_cast<std::int64_t>(size_bytes(cache.dtype()));
  const auto from_base =
      static_cast<std::int64_t>(address - reinterpret_cast<std::uintptr_t>(cache.data()));
  for (std::int64_t page = 0; page < cache.size(0); ++page)
    for (std::int64_t row = 0; row < cache.size(1); ++row)
      for (std::int64_t head = 0; head < cache.size(2); ++head) {
        const std::int64_t first =
            page * cache.stride(0) + row * cache.stride(1) + head * cache.stride(2);
        if (from_base >= first * size && from_base < (first + cache.size(3)) * size)
          return CacheRow{page, row};
      }
  return std::nullopt;
}

/// Returns "key 19 of request 1" for each request of which the row is a key.
std::vector<std::string> keys_in(const CacheRow& at, const KvCache& cache, const KvBatch& batch) {
  const std::vector<i32> lengths = batch.kv_lengths.to_vector<i32>();
  const std::int64_t rows = cache.k.size(1),
                     columns = cache.table.defined() ? cache.table.size(1) : 0;
  std::vector<std::string> keys;
  const auto add = [&](std::size_t request, std::int64_t key) {
    if (key < lengths[request])
      keys.push_back("key " + std::to_string(key) + " of request " + std::to_string(request));
  };
  if (!cache.table.defined()) {
    if (at.page < std::ssize(lengths)) add(static_cast<std::size_t>(at.page), at.row);
    return keys;
  }
  const std::vector<i32> table = cache.table.to_vector<i32>();
  for (std::size_t b = 0; b < lengths.size(); ++b)
    for (std::int64_t p = 0; p < columns; ++p)
      if (table[b * static_cast<std::size_t>(columns) + static_cast<std::size_t>(p)] == at.page)
        add(b, p * rows + at.row);
  return keys;
}

}  // namespace

void throw_released_page(const ReleasedRead& error, const KvCache& cache, const KvBatch& batch) {
  constexpr std::size_t kNamed = 4;
  std::vector<Diagnostic> all = error.diagnostics();
  const auto of_page = std::ranges::find(all, "T1693", &Diagnostic::code);
  std::optional<CacheRow> at = row_at(cache.k, error.address());
  if (!at) at = row_at(cache.v, error.address());
  if (at && of_page != all.end()) {
    std::vector<std::string> keys = keys_in(*at, cache, batch);
    const std::size_t more = keys.size() - std::min(keys.size(), kNamed);
    keys.resize(keys.size() - more);
    std::string text = "; row " + std::to_string(at->row) + " of page " + std::to_string(at->page);
    for (std::size_t i = 0; i < keys.size(); ++i) text += (i == 0 ? " is " : ", ") + keys[i];
    if (more > 0) text += ", and of " + std::to_string(more) + " more";
    of_page->message += text;
  }
  throw ProgramError(std::move(all));
}

}  // namespace tegula::kernels
