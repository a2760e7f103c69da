#include "tools/mask_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/markup.h"

namespace tegula::tools {
namespace {

constexpr int kBlockSide = 12, kLine = 16;

std::string_view coverage_color(ir::BlockCoverage c) {
  return c == ir::BlockCoverage::Empty  ? "#f2f2f2"
         : c == ir::BlockCoverage::Full ? "#c8553d"
                                        : "#f2b880";
}

std::string block(std::size_t x, std::size_t y, ir::BlockCoverage c) {
  return fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", x, y,
                     kBlockSide, kBlockSide, coverage_color(c));
}

std::string caption_line(std::size_t x, std::size_t y, std::string_view text) {
  return fmt::format("<text x=\"{}\" y=\"{}\" stroke=\"none\">{}</text>\n", x, y, escaped(text));
}

}  // namespace

std::string svg(const MaskPicture& p) {
  const std::size_t blocks = p.rows.size() * kBlockSide;
  std::size_t longest = 24;  // in characters, of a line of the legend
  for (const std::string& text : p.caption) longest = std::max(longest, text.size());
  const std::size_t width = std::max(p.rows[0].size() * kBlockSide, longest * 7 + 8),
                    height = blocks + (p.caption.size() + 1) * kLine + 8;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" stroke=\"white\" "
      "font-family=\"monospace\" font-size=\"11\">\n",
      width, height);
  for (std::size_t y = 0; y < p.rows.size(); ++y) {
    out += "<g>";
    if (y < p.notes.size()) out += "<title>" + escaped(p.notes[y]) + "</title>";
    out += "\n";
    for (std::size_t x = 0; x < p.rows[y].size(); ++x)
      out += block(x * kBlockSide, y * kBlockSide, p.rows[y][x]);
    out += "</g>\n";
  }
  constexpr std::array<std::string_view, 3> kNames{"empty", "partial", "full"};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    out += block(i * 80, blocks + 6, static_cast<ir::BlockCoverage>(i));
    out += caption_line(i * 80 + kBlockSide + 4, blocks + kLine, kNames[i]);
  }
  for (std::size_t i = 0; i < p.caption.size(); ++i)
    out += caption_line(0, blocks + (i + 2) * kLine, p.caption[i]);
  return out + "</svg>\n";
}

}  // namespace tegula::tools
