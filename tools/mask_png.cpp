#include "tools/mask_png.h"

#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdint>
#include <vector>

#include "tegula/error.h"

namespace tegula::tools {
namespace {

constexpr std::size_t kBlockPixels = 12;  // side of a block in pixels; the last is white
constexpr std::uint8_t kWhite = 3;
/// Colours of empty, partial and full blocks, and white.
constexpr std::array<png_color, 4> kPalette{
    {{0xf2, 0xf2, 0xf2}, {0xf2, 0xb8, 0x80}, {0xc8, 0x55, 0x3d}, {0xff, 0xff, 0xff}}};

using Line = std::vector<std::uint8_t>;

/// Returns a line of pixels through a row of blocks, as palette indices.
Line pixel_line(const std::vector<ir::BlockCoverage>& row, bool is_between) {
  Line out(row.size() * kBlockPixels, kWhite);
  if (is_between) return out;
  for (std::size_t x = 0; x < out.size(); ++x)
    if (x % kBlockPixels != kBlockPixels - 1)
      out[x] = static_cast<std::uint8_t>(row[x / kBlockPixels]);
  return out;
}

struct Content {
  png_uint_32 width = 0, height = 0;
  std::vector<Line> inside, between;  ///< lines of each row of blocks
  std::string description;
};

Content content_of(const MaskPicture& p) {
  Content c{static_cast<png_uint_32>(p.rows[0].size() * kBlockPixels),
            static_cast<png_uint_32>(p.rows.size() * kBlockPixels),
            {},
            {},
            {}};
  for (const auto& row : p.rows) {
    c.inside.push_back(pixel_line(row, false));
    c.between.push_back(pixel_line(row, true));
  }
  for (const std::string& said : p.caption) c.description += said + "\n";
  return c;
}

void append(png_structp png, png_bytep bytes, std::size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(bytes), count);
}

/// libpng reports errors by longjmp, which skips destructors: no local variable may have one.
bool write_png(png_structp png, png_infop info, const Content& c) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_IHDR(png, info, c.width, c.height, 2, PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_PLTE(png, info, kPalette.data(), static_cast<int>(kPalette.size()));
  std::array<char, 12> key{"Description"};
  png_text text{};
  text.compression = PNG_TEXT_COMPRESSION_NONE;
  text.key = key.data();
  text.text = const_cast<char*>(c.description.c_str());
  text.text_length = c.description.size();
  png_set_text(png, info, &text, 1);
  png_write_info(png, info);
  png_set_packing(png);  // packs four pixels per byte
  for (png_uint_32 y = 0; y < c.height; ++y)
    png_write_row(
        png,
        (y % kBlockPixels == kBlockPixels - 1 ? c.between : c.inside)[y / kBlockPixels].data());
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

std::string png(const MaskPicture& p) {
  const Content content = content_of(p);
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  if (info) png_set_write_fn(png, &out, append, nullptr);
  const bool is_written = info && write_png(png, info, content);
  png_destroy_write_struct(&png, &info);
  if (!is_written)
    throw CompileError(Diagnostic{
        "", "mask: the picture cannot be a PNG file", {}, {}, "use larger blocks: --bm, --bn"});
  return out;
}

}  // namespace tegula::tools
