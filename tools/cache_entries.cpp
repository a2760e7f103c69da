#include "tools/cache_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "support/env.h"

namespace tegula::tools {
namespace {

constexpr std::string_view kAbsent = "(absent)";

/// Returns `from -> to` for the first line that differs, with its number.
std::string first_difference(const std::string& from, const std::string& to) {
  std::istringstream a(from), b(to);
  for (int line = 1;; ++line) {
    std::string x, y;
    const bool has_x = static_cast<bool>(std::getline(a, x)),
               has_y = static_cast<bool>(std::getline(b, y));
    if (!has_x) x = kAbsent;
    if (!has_y) y = kAbsent;
    if (x != y || (!has_x && !has_y))
      return line == 1 && !has_x == !has_y && from == x
                 ? fmt::format("{} -> {}", x, y)
                 : fmt::format("line {}: {} -> {}", line, x, y);
  }
}

/// Returns the name in `kernel @name ..`, the first line of an IR text.
std::string_view kernel_name(std::string_view ir) {
  const std::size_t at = ir.find('@');
  return at == ir.npos ? ir.substr(0, 0) : ir.substr(at + 1, ir.find(' ', at) - at - 1);
}

/// Returns the first line that differs; for two kernels, their names and the first such line after
/// the one with the name, if any.
std::string ir_difference(const std::string& from, const std::string& to) {
  if (kernel_name(from) == kernel_name(to)) return first_difference(from, to);
  const auto without_header = [](const std::string& ir) {  // keeps the numbers of the lines
    return ir.substr(std::min(ir.find('\n'), ir.size()));
  };
  const std::string a = without_header(from), b = without_header(to);
  return fmt::format("two kernels, {} and {}: {}", kernel_name(from), kernel_name(to),
                     a == b ? first_difference(from, to) : first_difference(a, b));
}

bool has(const runtime::CacheKey& key, std::string_view name) {
  return std::ranges::any_of(key.fields(), [&](const auto& field) { return field.first == name; });
}

}  // namespace

runtime::KernelCache open_cache(std::size_t max_bytes, bool read_only) {
  const std::filesystem::path folder = runtime::default_cache_folder();
  if (folder.empty()) throw std::runtime_error("there is no folder for the disk cache: set HOME");
  return runtime::KernelCache({folder, read_only, max_bytes,
                               [](const std::string& line) { fmt::print(stderr, "{}\n", line); },
                               &runtime::Vfs::posix()});
}

std::vector<CachedKernel> all_kernels(runtime::KernelCache& cache,
                                      std::vector<std::string>* damaged) {
  std::vector<CachedKernel> all;
  for (runtime::CacheFile& file : cache.files()) {
    const std::string path = file.path.string();
    const auto bytes = cache.read_trusted(path);
    auto canonical = bytes ? runtime::entry_key(*bytes) : std::nullopt;
    auto key = canonical ? runtime::CacheKey::parse(std::move(*canonical)) : std::nullopt;
    if (key) {
      runtime::ReadResult read = runtime::decode_entry(*bytes, *key);
      if (read.state == runtime::ReadStatus::ok) {
        std::string id = key->hash().hex();
        all.push_back({std::move(file), std::move(id), std::move(*key), std::move(read.entry)});
        continue;
      }
    }
    if (damaged != nullptr) damaged->push_back(path);
  }
  return all;
}

const CachedKernel& kernel_of(const std::vector<CachedKernel>& all, const std::string& prefix) {
  const auto begins = [&](const CachedKernel& k) { return k.id.starts_with(prefix); };
  const auto found = std::ranges::find_if(all, begins);
  if (found == all.end())
    throw std::runtime_error(fmt::format("no entry begins with {}: see `tegula cache ls`", prefix));
  if (std::ranges::count_if(all, begins) > 1)
    throw std::runtime_error(fmt::format("more than one entry begins with {}", prefix));
  return *found;
}

std::string_view field_of(const runtime::CacheKey& key, std::string_view name) {
  for (const auto& [field, value] : key.fields())
    if (field == name) return value;
  return {};
}

std::string difference(const runtime::CacheKey& from, const runtime::CacheKey& to) {
  std::string text;
  const auto tell = [&](std::string_view name, const std::string& change) {
    text += fmt::format("field \"{}\": {}\n", name, change);
  };
  for (const auto& [name, value] : from.fields()) {
    if (!has(to, name))
      tell(name, fmt::format("{} -> {}", value, kAbsent));
    else if (const std::string other(field_of(to, name)); other != value)
      tell(name, name == "ir" ? ir_difference(std::string(value), other)
                              : first_difference(std::string(value), other));
  }
  for (const auto& [name, value] : to.fields())
    if (!has(from, name)) tell(name, fmt::format("{} -> {}", kAbsent, value));
  return text;
}

}  // namespace tegula::tools
