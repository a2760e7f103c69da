#pragma once
// The library of masks with their definitions in plain C++ and the class each is found to be in.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <vector>

#include "tegula/kernels/masks.h"
#include "tegula/math.h"
#include "tegula/tegula.h"

namespace tegula::catalogue {
using namespace kernels;

using namespace masks;

struct Case {
  const char* name;
  Mask mask;
  std::function<bool(int q, int kv)> want;
  const char* mask_class;
  /// Percentage of the uniform blocks that interval analysis, and the closed form, must decide.
  double blocks, ranges;
};

/// Queries and keys, which the numbers below fit.
inline constexpr int kLength = 768;

inline const int kWidth = 24, kHeight = 32, kSize = 7;  // an image of 768 pixels

inline bool in_neighbourhood(int q, int kv) {
  const int half = kSize / 2;
  const int row = std::clamp(q / kWidth, half, kHeight - 1 - half);
  const int column = std::clamp(q % kWidth, half, kWidth - 1 - half);
  return std::abs(row - kv / kWidth) <= half && std::abs(column - kv % kWidth) <= half;
}

inline bool in_block_diffusion(int q, int kv) {
  const int s = kLength / 2, n = 32;
  const bool q_noised = q < s, kv_noised = kv < s;
  const int q_block = q % s / n, kv_block = kv % s / n;
  return (q_block == kv_block && q_noised == kv_noised) ||
         (q_block > kv_block && q_noised && !kv_noised) ||
         (q_block >= kv_block && !q_noised && !kv_noised);
}

/// Documents of uneven lengths, and each position's.
struct LayoutRequirement {
  std::vector<i32> ids, starts;
  LayoutRequirement() {
    const std::array<int, 6> lengths{100, 37, 256, 5, 200, 170};
    for (std::size_t d = 0; d < lengths.size(); ++d) {
      starts.push_back(static_cast<i32>(ids.size()));
      ids.insert(ids.end(), static_cast<std::size_t>(lengths[d]), static_cast<i32>(d));
    }
  }
  Tensor id_table(Device device) const { return Tensor::from(ids, device); }
  Tensor start_table(Device device) const { return Tensor::from(starts, device); }
};
inline const LayoutRequirement kPacking;
inline bool same_document(int q, int kv) {
  return kPacking.ids[static_cast<std::size_t>(q)] == kPacking.ids[static_cast<std::size_t>(kv)];
}
inline bool is_global_position(int i) { return i < 2 || i == 400; }
inline Tensor global_positions(Device device) {
  std::vector<i32> marks;
  for (int i = 0; i < kLength; ++i) marks.push_back(is_global_position(i));
  return Tensor::from(marks, device);
}
/// Documents whose ids do not ascend.
inline i32 shuffled_id(int i) { return i / 96 * 5 % 8; }
inline Tensor shuffled_ids(Device device) {
  std::vector<i32> ids;
  for (int i = 0; i < kLength; ++i) ids.push_back(shuffled_id(i));
  return Tensor::from(ids, device);
}
/// The masks that masks.h has had from the beginning, with tables on `device`.
inline std::vector<Case> first_cases(Device device) {
  return {
      {"full", full(), [](int, int) { return true; }, "I", 100, 100},
      {"causal", causal(), [](int q, int kv) { return q >= kv; }, "I", 100, 100},
      {"bottom_right", causal_bottom_right(500, 768), [](int q, int kv) { return q + 268 >= kv; },
       "I", 100, 100},
      {"sliding_window", sliding_window(200),
       [](int q, int kv) { return q >= kv && q - kv <= 200; }, "I", 100, 100},
      {"window_at_launch", window(Scalar<i32>(90), Scalar<i32>(33)),
       [](int q, int kv) { return -33 <= q - kv && q - kv <= 90; }, "I", 100, 100},
      {"chunked", chunked(192), [](int q, int kv) { return q >= kv && q / 192 == kv / 192; }, "I",
       100, 100},
      {"chunked_at_launch", chunked(Scalar<i32>(100)),
       [](int q, int kv) { return q >= kv && q / 100 == kv / 100; }, "I", 100, 100},
      {"sink_window", sink_window(4, 150),
       [](int q, int kv) { return q >= kv && (kv < 4 || q - kv <= 150); }, "I", 100, 100},
      {"prefix_lm", prefix_lm(200), [](int q, int kv) { return kv < 200 || q >= kv; }, "I", 100,
       100},
      {"block_causal", block_causal(80), [](int q, int kv) { return q / 80 >= kv / 80; }, "I", 100,
       100},
      {"batchify", batchify(256, causal()),
       [](int q, int kv) { return q / 256 == kv / 256 && q % 256 >= kv % 256; }, "I", 100, 100},
      {"batchify_at_launch", batchify(Scalar<i32>(200), sliding_window(60)),
       [](int q, int kv) { return q / 200 == kv / 200 && q >= kv && q - kv <= 60; }, "I", 100, 100},
      {"block_diffusion", block_diffusion(kLength / 2, 32), in_block_diffusion, "I", 100, 100},
      {"speculative_blocks", speculative_blocks(96, 48),
       [](int q, int kv) {
         return kv < 96 || (q / 48 == (kv - 96) / 48 && (kv - 96) % 48 <= q % 48);
       },
       "I", 100, 100},
      {"not_causal", not_(causal()), [](int q, int kv) { return q < kv; }, "I", 100, 100},
      {"shifted", shifted(Scalar<i32>(300), 40, sliding_window(99)),
       [](int q, int kv) { return q + 300 >= kv + 40 && q + 300 - kv - 40 <= 99; }, "I", 100, 100},
      {"left_padding", left_padding(Tensor::from(std::vector<i32>{77}, device)),
       [](int, int kv) { return kv >= 77; }, "T", 100, 100},
      // The queries of one tile attend to a key for different reasons, which ranges do not join.
      {"shared_prefix", shared_prefix(100, kPacking.id_table(device), kPacking.start_table(device)),
       [](int q, int kv) { return (q >= kv && same_document(q, kv)) || (q >= 100 && kv < 100); },
       "T", 100, 99},
      {"global_window", global_window(60, global_positions(device)),
       [](int q, int kv) {
         return std::abs(q - kv) <= 60 || is_global_position(q) || is_global_position(kv);
       },
       "T", 100, 0},
      {"svg_temporal_head", svg_temporal_head(50, 256, 20),
       [](int q, int kv) {
         return q < 50 || kv < 50 || std::abs((q - 50) % 256 - (kv - 50) % 256) < 20;
       },
       "C", 100, 0},
      {"key_padding", key_padding(Tensor::from(std::vector<i32>{555, 1}, device)),
       [](int, int kv) { return kv < 555; }, "T", 100, 100},
      {"document", document(kPacking.id_table(device)), same_document, "T", 100, 100},
      {"causal_document", and_(causal(), document(kPacking.id_table(device))),
       [](int q, int kv) { return q >= kv && same_document(q, kv); }, "T", 100, 100},
      {"packed_causal", packed_causal(kPacking.id_table(device), kPacking.start_table(device)),
       [](int q, int kv) { return q >= kv && same_document(q, kv); }, "T", 100, 100},
      {"window_in_document",
       within_documents(kPacking.id_table(device), kPacking.start_table(device),
                        sliding_window(50)),
       [](int q, int kv) { return q >= kv && same_document(q, kv) && q - kv <= 50; }, "T", 100,
       100},
      {"shuffled_document", document(shuffled_ids(device)),
       [](int q, int kv) { return shuffled_id(q) == shuffled_id(kv); }, "T", 20, 0},
      {"dilated_window", dilated_window(180, 3),
       [](int q, int kv) { return std::abs(q - kv) <= 180 && (q - kv) % 3 == 0; }, "C", 100, 100},
      {"neighbourhood", neighbourhood(kWidth, kHeight, kSize), in_neighbourhood, "G", 95, 80},
  };
}

// ---- slices, shards and video -------------------------------------------------------------------
inline bool in_slices(int q, int kv) {
  return (q < 300 && kv < 200 && q - 300 >= kv - 200) || (q >= 300 && kv >= 100 && kv < 400) ||
         (q < 250 && kv >= 500 && kv < 700 && q <= kv - 500) ||
         (q >= 400 && q < 700 && kv >= 400 && q - 700 >= kv - 768 && q - 400 <= kv - 400);
}
inline std::vector<AttnSlice> some_slices() {
  return {{0, 300, 0, 200, SliceMaskType::causal},
          {Scalar<i32>(300), kLength, 100, 400},
          {0, 250, 500, 700, SliceMaskType::inverse_causal},
          {400, 700, 400, kLength, SliceMaskType::bi_causal}};
}
/// Position of i in a sequence of 8 chunks of 384 positions, of which rank r of 4 holds two.
inline int zigzag_position(int i, int rank) {
  return i < 384 ? rank * 384 + i : (7 - rank) * 384 + i - 384;
}

inline std::vector<Case> interval_cases() {
  return {
      {"svg_spatial_head", svg_spatial_head(50, 114, 128),
       [](int q, int kv) { return q < 50 || kv < 114 || std::abs(q - kv) < 128; }, "I", 100, 100},
      {"slices", slices(some_slices()), in_slices, "I", 100, 99},
      {"zigzag_own", zigzag(Scalar<i32>(1), Scalar<i32>(1), 4, 384, causal()),
       [](int q, int kv) { return zigzag_position(q, 1) >= zigzag_position(kv, 1); }, "I", 100,
       100},
      {"zigzag_window", zigzag(Scalar<i32>(2), Scalar<i32>(1), 4, 384, sliding_window(500)),
       [](int q, int kv) {
         const int distance = zigzag_position(q, 2) - zigzag_position(kv, 1);
         return distance >= 0 && distance <= 500;
       },
       "I", 100, 100},
  };
}

// ---- tables -------------------------------------------------------------------------------------
inline std::vector<i32> by_position(const std::function<int(int)>& value) {
  std::vector<i32> out;
  for (int i = 0; i < kLength; ++i) out.push_back(value(i));
  return out;
}
inline Tensor table_of(const std::function<int(int)>& value, Device device) {
  return Tensor::from(by_position(value), device);
}
/// Images at [60, 200), [230, 240) and [500, 700) of a text: which one i is in, or -1.
inline int image_at(int i) {
  return i >= 60 && i < 200 ? 0 : i >= 230 && i < 240 ? 1 : i >= 500 && i < 700 ? 2 : -1;
}
inline int span_end(int i) {
  const int image = image_at(i);
  return image < 0 ? i + 1 : image == 0 ? 200 : image == 1 ? 240 : 700;
}
inline int image_before(int q) { return q < 40 ? -1 : q < 200 ? 0 : q < 500 ? 2 : 5; }
inline constexpr std::array<i32, 8> kShownFrom{0, 10, 200, 200, 300, 500, 600, 600},
    kShownTo{200, 300, 210, 500, 310, 768, 700, 650};
inline int window_begin(int q) { return std::max(0, q - 100); }
inline int summary_end(int q) { return q / 100 * 20; }
inline int hidden_from(int kv) { return kv / 150 * 150 + 300; }

/// Two children for each of 128 nodes, from position 640 on.
inline constexpr int kTreeAt = 640, kNodes = 128;
inline bool in_tree(int q, int kv) {
  if (kv < kTreeAt) return true;
  int node = q - kTreeAt;
  while (node > kv - kTreeAt) node = (node - 1) / 2;
  return node == kv - kTreeAt;
}
inline Mask some_tree(Device device) {
  std::vector<int> parents{-1};
  for (int i = 1; i < kNodes; ++i) parents.push_back((i - 1) / 2);
  return tree(kTreeAt, ancestor_bits({parents}, kNodes, device), kNodes);
}

inline std::vector<Case> table_cases(Device device) {
  const auto table = [device](const std::function<int(int)>& value) {
    return table_of(value, device);
  };
  const auto of_images = [device](const std::array<i32, 8>& values) {
    return Tensor::from(std::vector<i32>(values.begin(), values.end()), device);
  };
  const auto zero = [](int) { return 0; };
  return {
      {"transfusion", transfusion(table(span_end)),
       [](int q, int kv) { return q >= kv || (image_at(q) >= 0 && image_at(q) == image_at(kv)); },
       "T", 100, 100},
      {"latest_image", latest_image(table(image_before), 96),
       [](int q, int kv) { return kv / 96 == image_before(q); }, "T", 100, 97},
      {"shown_images", shown_images(of_images(kShownFrom), of_images(kShownTo), 96),
       [](int q, int kv) {
         const auto image = static_cast<std::size_t>(kv / 96);
         return q >= kShownFrom.at(image) && q < kShownTo.at(image);
       },
       "T", 100, 41},
      {"row_intervals",
       row_intervals({{table(window_begin), table([](int q) { return q + 1; })},
                      {table(zero), table(summary_end)}}),
       [](int q, int kv) { return (q >= kv && q - kv <= 100) || kv < summary_end(q); }, "T", 100,
       99},
      {"flash_mask",
       flash_mask(table(hidden_from), table([](int) { return kLength; }), table(zero),
                  table([](int kv) { return kv - 30; })),
       [](int q, int kv) { return q >= kv - 30 && q < hidden_from(kv); }, "T", 100, 100},
      {"tree", some_tree(device), in_tree, "D", 98, 98},
  };
}

// ---- images and videos --------------------------------------------------------------------------
struct Pixel {
  int column, row;
};
inline bool are_near(Pixel q, Pixel kv, int width, int height) {
  const int half = kSize / 2;
  return std::abs(std::clamp(q.row, half, height - 1 - half) - kv.row) <= half &&
         std::abs(std::clamp(q.column, half, width - 1 - half) - kv.column) <= half;
}
/// A mask of an image of 32 x 24 in tiles of 8 x 8.
inline Pixel tiled(int i) {
  const int tile = i / 64, inside = i % 64;
  return {tile % 4 * 8 + inside % 8, tile / 4 * 8 + inside / 8};
}
inline Pixel morton(int i) {
  Pixel p{0, 0};
  for (int bit = 0; bit < 5; ++bit) {
    p.column += (i >> (2 * bit) & 1) << bit;
    p.row += (i >> (2 * bit + 1) & 1) << bit;
  }
  return p;
}
/// Whether tile kv is in the `window` around tile q: first and last of `tiles`.
inline bool is_in_window(int q, int kv, int tiles, int window) {
  const int first = std::clamp(q - window / 2, 0, tiles - window);
  return kv >= first && kv < first + window;
}
/// An image of 32 x 16 in tiles of 8 x 4, and 100 positions of text.
inline bool in_sliding_tiles(int q, int kv) {
  if (q >= 612 || kv >= 612) return false;
  if (q >= 512 || kv >= 512) return true;
  return is_in_window(q / 32 / 4, kv / 32 / 4, 4, 2) && is_in_window(q / 32 % 4, kv / 32 % 4, 4, 3);
}
/// A video of 16 x 8 x 4 in tiles of 4 x 4 x 2, and 200 positions of text.
inline bool in_sliding_tiles_of_video(int q, int kv) {
  if (q >= 712 || kv >= 712) return false;
  if (q >= 512 || kv >= 512) return true;
  const int a = q / 32, b = kv / 32;
  return is_in_window(a / 8, b / 8, 2, 1) && is_in_window(a / 4 % 2, b / 4 % 2, 2, 2) &&
         is_in_window(a % 4, b % 4, 4, 3);
}

inline std::vector<Case> image_cases() {
  return {
      {"tiled_neighbourhood", tiled_neighbourhood({32, 24}, {8, 8}, kSize),
       [](int q, int kv) { return are_near(tiled(q), tiled(kv), 32, 24); }, "G", 100, 0},
      {"morton_neighbourhood", morton_neighbourhood(32, kSize),
       [](int q, int kv) { return are_near(morton(q), morton(kv), 32, 32); }, "G", 88, 0},
      {"sliding_tiles", sliding_tiles(ImageSize{32, 16}, ImageSize{8, 4}, ImageSize{3, 2}, 100),
       in_sliding_tiles, "G", 100, 80},
      {"sliding_tiles_of_video",
       sliding_tiles(VideoSize{16, 8, 4}, VideoSize{4, 4, 2}, VideoSize{3, 2, 1}, Scalar<i32>(200)),
       in_sliding_tiles_of_video, "G", 100, 79},
  };
}

// ---- as users write them by hand ----------------------------------------------------------------
/// tiled_neighbourhood's place, its row as the number of rows of tiles and the row within one.
inline Tile row_of_tiled(const Tile& i) { return i / 256 * 8 + i % 64 / 8; }
inline Tile column_of_tiled(const Tile& i) { return i / 64 % 4 * 8 + i % 64 % 8; }
/// A remainder by hand.
inline Tile column_by_hand(const Tile& i) { return i - i / kWidth * kWidth; }

/// Coordinates that are decoded and put together.
inline std::vector<Case> decoded_cases() {
  const auto is_close = [](const Tile& q, const Tile& kv, int last) {
    const int half = kSize / 2;
    return abs(clamp(q, half, last - half) - kv) <= half;
  };
  return {
      {"tiles_by_hand",
       [=](Tile, Tile, Tile q, Tile kv) {
         return is_close(row_of_tiled(q), row_of_tiled(kv), 23) &&
                is_close(column_of_tiled(q), column_of_tiled(kv), 31);
       },
       [](int q, int kv) { return are_near(tiled(q), tiled(kv), 32, 24); }, "G", 100, 0},
      {"columns_by_hand",
       [=](Tile, Tile, Tile q, Tile kv) {
         return is_close(q / kWidth, kv / kWidth, kHeight - 1) &&
                is_close(column_by_hand(q), column_by_hand(kv), kWidth - 1);
       },
       in_neighbourhood, "G", 95, 80},
      // Rows of 24 in memory of rows of 32.
      {"padded_rows",
       [](Tile, Tile, Tile q, Tile kv) {
         return kv / kWidth * 32 + kv % kWidth <= q / kWidth * 32 + q % kWidth - 40;
       },
       [](int q, int kv) {
         return kv / kWidth * 32 + kv % kWidth <= q / kWidth * 32 + q % kWidth - 40;
       },
       "G", 100, 0},
      {"rejoined",
       [](Tile, Tile, Tile q, Tile kv) {
         const Tile frame = kv / (kWidth * 8), row = kv / kWidth % 8, column = kv % kWidth;
         return q >= (frame * 8 + row) * kWidth + column;
       },
       [](int q, int kv) { return q >= kv; }, "I", 100, 100},
  };
}

/// 32 keys to a word.
inline bool is_set(int i) { return i / 100 % 3 == 0; }
inline i32 word_of(int first) {
  std::uint32_t word = 0;
  for (int i = 0; i < 32; ++i) word |= std::uint32_t{is_set(first + i)} << i;
  return static_cast<i32>(word);
}
inline int seen_for(int kv) { return kv % 100 < 30 ? 400 : 50; }

inline std::vector<Case> bit_cases(Device device) {
  const Tensor words = table_of([](int i) { return word_of(i % 24 * 32); }, device),
               spans = table_of(seen_for, device);
  std::vector<std::vector<int>> parents{{-1}};
  for (int i = 1; i < kNodes; ++i) parents[0].push_back((i - 1) / 2);
  const Tensor ancestors = ancestor_bits(parents, kNodes, device);
  return {
      {"bits_of_keys",
       [words](Tile, Tile, Tile, Tile kv) {
         return ((view<i32, 1>(words)(kv / 32) >> (kv % 32)) & 1) != 0;
       },
       [](int, int kv) { return is_set(kv); }, "T", 40, 0},
      {"bits_of_a_tree",
       [ancestors](Tile, Tile, Tile q, Tile kv) {
         const Tile node = q - kTreeAt, of = kv - kTreeAt, is_node = node >= 0 && of >= 0;
         const Tile row = where(is_node, node, 0), bit = where(is_node, of, 0);
         const Tile word = view<i32, 1>(ancestors)(row * (kNodes / 32) + bit / 32);
         return of < 0 || (is_node && ((word >> (bit % 32)) & 1) != 0);
       },
       in_tree, "D", 98, 98},
      {"seen_for",
       [spans](Tile, Tile, Tile q, Tile kv) { return q >= kv && q < kv + view<i32, 1>(spans)(kv); },
       [](int q, int kv) { return q >= kv && q < kv + seen_for(kv); }, "T", 60, 50},
  };
}

/// All masks of the library, with tables on `device`, and such as are written by hand.
inline std::vector<Case> cases(Device device) {
  std::vector<Case> all = first_cases(device);
  for (const std::vector<Case>& more :
       {interval_cases(), table_cases(device), image_cases(), decoded_cases(), bit_cases(device)})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace tegula::catalogue
