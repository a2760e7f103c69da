// PNG, https://www.w3.org/TR/png-3: chunks of length, name, content and CRC-32. The image data are
// a zlib stream (RFC 1950) of stored blocks (RFC 1951, 3.2.4), which needs no compressor.
#include "tools/mask_png.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace tegula::tools {
namespace {

constexpr std::size_t kSide = 12;  // pixels of a block, the last of which are white
constexpr std::size_t kMaxStored = 65535;
constexpr std::uint8_t kWhite = 3;
/// Of empty, partial and full blocks, and white.
constexpr std::array<std::uint8_t, 12> kPalette{0xf2, 0xf2, 0xf2, 0xf2, 0xb8, 0x80,
                                                0xc8, 0x55, 0x3d, 0xff, 0xff, 0xff};

std::string big_endian(std::uint32_t n) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(n >> shift & 255);
  return out;
}
std::string little_endian(std::size_t n) {
  return {static_cast<char>(n & 255), static_cast<char>(n >> 8 & 255)};
}

std::uint32_t crc32(std::string_view text) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : text) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

std::uint32_t adler32(std::string_view text) {
  std::uint32_t a = 1, b = 0;
  for (const char c : text) {
    a = (a + static_cast<std::uint8_t>(c)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

std::string chunk(std::string_view name, std::string_view content) {
  const std::string named = std::string(name) + std::string(content);
  return big_endian(static_cast<std::uint32_t>(content.size())) + named + big_endian(crc32(named));
}

std::string zlib_stream(std::string_view bytes) {
  std::string out("\x78\x01", 2);
  for (std::size_t at = 0; at < bytes.size(); at += kMaxStored) {
    const std::string_view part = bytes.substr(at, kMaxStored);
    const bool is_last = at + part.size() == bytes.size();
    out += static_cast<char>(is_last);
    out += little_endian(part.size()) + little_endian(~part.size());
    out += part;
  }
  return out + big_endian(adler32(bytes));
}

/// A line of pixels through row of blocks: the filter's number, 0, and four pixels a byte.
std::string line(const std::vector<ir::Coverage>& row, bool is_between) {
  std::string out(1 + (row.size() * kSide + 3) / 4, '\0');
  for (std::size_t x = 0; x < row.size() * kSide; ++x) {
    const bool is_white = is_between || x % kSide == kSide - 1;
    const auto color = is_white ? kWhite : static_cast<std::uint8_t>(row[x / kSide]);
    char& byte = out[1 + x / 4];
    byte = static_cast<char>(static_cast<std::uint8_t>(byte) | color << (6 - 2 * (x % 4)));
  }
  return out;
}

}  // namespace

std::string png(const MaskPicture& p) {
  std::string pixels, text("Description\0", 12);
  for (const auto& row : p.rows) {
    const std::string inside = line(row, false), between = line(row, true);
    for (std::size_t y = 0; y + 1 < kSide; ++y) pixels += inside;
    pixels += between;
  }
  for (const std::string& said : p.caption) text += said + "\n";
  // Bits a pixel 2, by palette; deflate, the usual filters, not interlaced.
  const std::string header = big_endian(static_cast<std::uint32_t>(p.rows[0].size() * kSide)) +
                             big_endian(static_cast<std::uint32_t>(p.rows.size() * kSide)) +
                             std::string("\x02\x03\x00\x00\x00", 5);
  const std::string palette(kPalette.begin(), kPalette.end());
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunk("PLTE", palette) +
         chunk("tEXt", text) + chunk("IDAT", zlib_stream(pixels)) + chunk("IEND", "");
}

}  // namespace tegula::tools
