// Masks on positions in images and videos. Each function returns the lambda that is documented in
// masks.h.
#include <bit>

#include "kernels/masks/mask_arguments.h"
#include "tegula/kernels/masks.h"
#include "tegula/math.h"

namespace tegula::kernels::masks {
namespace {

struct Pixel {
  Tile column, row;
};

/// Returns true if kv is in the size x size window around q, shifted inwards at the border.
Tile is_near(const Pixel& q, const Pixel& kv, const Tile& width, const Tile& height,
             const Tile& size) {
  const Tile half = size / 2;
  const Tile row = clamp(q.row, half, height - 1 - half),
             column = clamp(q.column, half, width - 1 - half);
  return abs(row - kv.row) <= half && abs(column - kv.column) <= half;
}

/// Returns every second bit of i, starting with the lowest. It is a sum of bits instead of the
/// usual shifts by powers of two, because the mask analysis then knows that high bits are constant
/// within an aligned block, and treats the block as a square.
Tile even_bits(const Tile& i, int bits) {
  Tile sum = i & 1;
  for (int k = 1; k < bits; ++k) sum = sum + (((i >> (2 * k)) & 1) << k);
  return sum;
}

/// Returns true if tile `kv` is one of the `window` tiles around tile `q`, out of `tiles`.
Tile is_in_window(const Tile& q, const Tile& kv, const Tile& tiles, const Tile& window) {
  const Tile before = window / 2, after = (window - 1) / 2;
  const Tile centre = clamp(q, before, tiles - 1 - after);
  return kv >= centre - before && kv <= centre + after;
}

/// Adds text to a mask of the first `pixels` positions: pixels attend according to `seen` and to
/// the text; text attends to all.
Tile with_text(const Tile& q, const Tile& kv, const Tile& pixels, const Tile& text,
               const Tile& seen) {
  const Tile end = pixels + text;
  return q < end && kv < end && (q >= pixels || kv >= pixels || seen);
}

void require_size(const char* mask, const char* width, const char* height, const ImageSize& size) {
  require_positive(mask, width, size.width);
  require_positive(mask, height, size.height);
}

}  // namespace

Mask neighbourhood(MaskScalar width, MaskScalar height, MaskScalar size) {
  require_size("masks::neighbourhood", "width", "height", {width, height});
  require_positive("masks::neighbourhood", "size", size);
  return [=](Tile, Tile, Tile q, Tile kv) {
    const Tile w = width.value();
    return is_near({q % w, q / w}, {kv % w, kv / w}, w, height.value(), size.value());
  };
}

Mask tiled_neighbourhood(ImageSize image, ImageSize tile, MaskScalar size) {
  constexpr const char* kMask = "masks::tiled_neighbourhood";
  require_size(kMask, "image.width", "image.height", image);
  require_size(kMask, "tile.width", "tile.height", tile);
  require_positive(kMask, "size", size);
  return [=](Tile, Tile, Tile q, Tile kv) {
    const Tile width = image.width.value(), w = tile.width.value(), h = tile.height.value();
    const Tile pixels = w * h, tiles = width / w, strip = h * width;
    const auto place = [&](const Tile& i) {
      const Tile inside = i % pixels;
      // The number of image rows above this row of tiles: the pixels above, divided by the width.
      const Tile above = (i - i % strip) / width;
      return Pixel{i / pixels % tiles * w + inside % w, above + inside / w};
    };
    return is_near(place(q), place(kv), width, image.height.value(), size.value());
  };
}

Mask morton_neighbourhood(int side, MaskScalar size, Loc at) {
  const detail::CallPlace here(at);
  if (side < 1 || side > (1 << 15) || !std::has_single_bit(static_cast<unsigned>(side)))
    throw_argument_error(ErrorId::morton_side, side);
  require_positive("masks::morton_neighbourhood", "size", size);
  return [=](Tile, Tile, Tile q, Tile kv) {
    const int bits = std::countr_zero(static_cast<unsigned>(side));
    const auto place = [&](const Tile& i) {
      return Pixel{even_bits(i, bits), even_bits(i >> 1, bits)};
    };
    return is_near(place(q), place(kv), Tile(side), Tile(side), size.value());
  };
}

Mask sliding_tiles(ImageSize image, ImageSize tile, ImageSize window, MaskScalar text) {
  constexpr const char* kMask = "masks::sliding_tiles";
  require_size(kMask, "image.width", "image.height", image);
  require_size(kMask, "tile.width", "tile.height", tile);
  require_size(kMask, "window.width", "window.height", window);
  require_count(kMask, "text", text);
  return [=](Tile, Tile, Tile q, Tile kv) {
    const Tile width = image.width.value(), height = image.height.value();
    const Tile w = tile.width.value(), h = tile.height.value();
    const Tile columns = width / w, q_tile = q / (w * h), kv_tile = kv / (w * h);
    const Tile seen =
        is_in_window(q_tile / columns, kv_tile / columns, height / h, window.height.value()) &&
        is_in_window(q_tile % columns, kv_tile % columns, columns, window.width.value());
    return with_text(q, kv, width * height, text.value(), seen);
  };
}

Mask sliding_tiles(VideoSize video, VideoSize tile, VideoSize window, MaskScalar text) {
  constexpr const char* kMask = "masks::sliding_tiles";
  require_size(kMask, "video.width", "video.height", {video.width, video.height});
  require_positive(kMask, "video.frames", video.frames);
  require_size(kMask, "tile.width", "tile.height", {tile.width, tile.height});
  require_positive(kMask, "tile.frames", tile.frames);
  require_size(kMask, "window.width", "window.height", {window.width, window.height});
  require_positive(kMask, "window.frames", window.frames);
  require_count(kMask, "text", text);
  return [=](Tile, Tile, Tile q, Tile kv) {
    const Tile pixels = video.width.value() * video.height.value() * video.frames.value(),
               of_tile = tile.width.value() * tile.height.value() * tile.frames.value();
    const Tile columns = video.width.value() / tile.width.value(),
               rows = video.height.value() / tile.height.value(),
               frames = video.frames.value() / tile.frames.value();
    const Tile q_tile = q / of_tile, kv_tile = kv / of_tile, plane = columns * rows;
    const Tile seen =
        is_in_window(q_tile / plane, kv_tile / plane, frames, window.frames.value()) &&
        is_in_window(q_tile % plane / columns, kv_tile % plane / columns, rows,
                     window.height.value()) &&
        is_in_window(q_tile % columns, kv_tile % columns, columns, window.width.value());
    return with_text(q, kv, pixels, text.value(), seen);
  };
}

}  // namespace tegula::kernels::masks
