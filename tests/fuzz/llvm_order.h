#pragma once
// Finds values of an LLVM module's text that are used before their definition. LLVM's own verifier
// is in a library that tests do not link.
#include <cctype>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tegula::fuzz {

/// Returns the first line that uses a value that the same block defines at that line or later;
/// empty if there is none. Phis are excluded, as they take values from the ends of blocks.
inline std::string used_before_defined(std::string_view module) {
  const auto name_at = [](std::string_view line, std::size_t at) {
    std::size_t end = at + 1;
    while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) ||
                                 line[end] == '_' || line[end] == '.'))
      ++end;
    return line.substr(at, end - at);
  };
  const auto defined_in = [&](std::string_view line) {
    return line.starts_with("  %") && line.find(" = ") != std::string_view::npos ? name_at(line, 2)
                                                                                 : "";
  };
  std::vector<std::string_view> block;
  const auto fault = [&]() -> std::string {
    std::unordered_set<std::string_view> ahead;
    for (const std::string_view line : block)
      if (const std::string_view name = defined_in(line); !name.empty()) ahead.insert(name);
    for (const std::string_view line : block) {
      const std::string_view name = defined_in(line);
      const std::size_t from = name.empty() ? 0 : line.find(" = ") + 3;
      const bool is_phi = line.substr(from).starts_with("phi ");
      for (std::size_t at = line.find('%', from); !is_phi && at != std::string_view::npos;
           at = line.find('%', at + 1))
        if (ahead.contains(name_at(line, at))) return std::string(line);
      ahead.erase(name);
    }
    return "";
  };
  while (!module.empty()) {
    const std::size_t end = std::min(module.find('\n'), module.size());
    const std::string_view line = module.substr(0, end);
    module.remove_prefix(std::min(end + 1, module.size()));
    if (line.starts_with("  ")) {
      block.push_back(line);
      continue;
    }
    if (std::string line_at_fault = fault(); !line_at_fault.empty()) return line_at_fault;
    block.clear();
  }
  return fault();
}

}  // namespace tegula::fuzz
