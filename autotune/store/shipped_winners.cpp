#include "autotune/store/shipped_winners.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <tuple>

#include "autotune/store/store_text.h"
#include "runtime/shared_library.h"

namespace tegula::autotune {

std::filesystem::path shipped_folder() {
  const std::filesystem::path library =
      runtime::file_of(reinterpret_cast<const void*>(&shipped_folder));
  return library.parent_path() / "tegula" / "winners";
}

std::string file_name_of(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      name += static_cast<char>(std::tolower(byte));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  return name;
}

std::vector<Winner> shipped_winners(const std::filesystem::path& folder, const std::string& device,
                                    const std::string& family, std::int64_t version) {
  std::vector<Winner> all;
  std::ifstream in(folder / file_name_of(device) / (file_name_of(family) + ".jsonl"));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  for_each_line(text, [&](std::string_view line) {
    auto row = row_of<Winner>(line);
    if (row && row->key.device == device && row->key.family == family &&
        row->key.version == version)
      all.push_back(*std::move(row));
  });
  std::ranges::stable_sort(all, {},
                           [](const Winner& w) { return std::tie(w.key.problem, w.key.numerics); });
  return all;
}

}  // namespace tegula::autotune
