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
struct Packing {
  std::vector<i32> ids, starts;
  Packing() {
    const std::array<int, 6> lengths{100, 37, 256, 5, 200, 170};
    for (std::size_t d = 0; d < lengths.size(); ++d) {
      starts.push_back(static_cast<i32>(ids.size()));
      ids.insert(ids.end(), static_cast<std::size_t>(lengths[d]), static_cast<i32>(d));
    }
  }
  Tensor id_table(Device device) const { return Tensor::from(ids, device); }
  Tensor start_table(Device device) const { return Tensor::from(starts, device); }
};
inline const Packing kPacking;
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
/// A mask on positions within the document.
inline Mask within_document(Mask inner, Device device) {
  return [inner, ids = kPacking.id_table(device), starts = kPacking.start_table(device)](
             Tile b, Tile h, Tile q, Tile kv) {
    const auto id = view<i32, 1>(ids), start = view<i32, 1>(starts);
    return id(q) == id(kv) && inner(b, h, q - start(id(q)), kv - start(id(kv)));
  };
}

/// With tables on `device`.
inline std::vector<Case> cases(Device device) {
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
      // The queries of one tile see a key for different reasons, which ranges do not join.
      {"shared_prefix", shared_prefix(100, kPacking.id_table(device), kPacking.start_table(device)),
       [](int q, int kv) { return (q >= kv && same_document(q, kv)) || (q >= 100 && kv < 100); },
       "T", 100, 99},
      {"global_window", global_window(60, global_positions(device)),
       [](int q, int kv) {
         return std::abs(q - kv) <= 60 || is_global_position(q) || is_global_position(kv);
       },
       "T", 100, 0},
      {"same_place", same_place(50, 256, 20),
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
      {"window_in_document", within_document(sliding_window(50), device),
       [](int q, int kv) { return q >= kv && same_document(q, kv) && q - kv <= 50; }, "T", 100,
       100},
      {"shuffled_document", document(shuffled_ids(device)),
       [](int q, int kv) { return shuffled_id(q) == shuffled_id(kv); }, "T", 20, 0},
      {"dilated_window", dilated_window(180, 3),
       [](int q, int kv) { return std::abs(q - kv) <= 180 && (q - kv) % 3 == 0; }, "C", 100, 100},
      {"neighbourhood", neighbourhood(kWidth, kHeight, kSize), in_neighbourhood, "G", 95, 80},
  };
}

}  // namespace tegula::catalogue
