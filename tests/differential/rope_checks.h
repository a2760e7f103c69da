#pragma once
// Rotary position embedding against a reference in double.
#include <optional>

#include "tegula/kernels/rope.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

struct RopeCase {
  std::int64_t tokens, heads, head_dim, rotated;
  RopePairs pairs = RopePairs::half_split;
  bool has_positions = false;
};

/// The rotation of x by the angles of its tokens, or by the opposite ones.
inline Doubles rotated_by(const RopeCase& c, const Doubles& x, const RopeTables& tables,
                          double direction) {
  const Doubles cos = tables.cos.to_doubles(), sin = tables.sin.to_doubles();
  const Doubles positions = tables.positions.defined() ? tables.positions.to_doubles() : Doubles();
  const std::int64_t half = c.rotated / 2, rows = tables.cos.size(0);
  Doubles y = x;
  for (std::int64_t t = 0; t < c.tokens; ++t) {
    const auto row = positions.empty() ? t : static_cast<std::int64_t>(positions[t]);
    if (row < 0 || row >= rows) continue;
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t head = (t * c.heads + h) * c.head_dim;
        const bool is_split = c.pairs == RopePairs::half_split;
        const std::int64_t a = head + (is_split ? i : 2 * i), b = is_split ? a + half : a + 1;
        const double cosine = cos[row * half + i], sine = direction * sin[row * half + i];
        y[a] = x[a] * cosine - x[b] * sine, y[b] = x[b] * cosine + x[a] * sine;
      }
  }
  return y;
}

inline void check_rope(const RopeCase& c, DType dtype, Device device, bool is_aligned) {
  const Stream stream(device);
  const std::int64_t rows = c.has_positions ? 19 : c.tokens + 2;
  RopeTables tables{.cos = Tensor::uniform({rows, c.rotated / 2}, DType::f32, -1, 1, 7, device),
                    .sin = Tensor::uniform({rows, c.rotated / 2}, DType::f32, -1, 1, 8, device)};
  // Some positions are outside.
  if (c.has_positions)
    tables.positions = Tensor::integers({c.tokens}, DType::i32, -2, rows + 2, 9, device);
  const Dims shape{c.tokens, c.heads, c.head_dim};
  const Tensor x = random_rows(shape, dtype, 1, device, is_aligned),
               y = unwritten_rows(shape, dtype, device, is_aligned);
  rope(stream, c.pairs, x, tables, y);
  expect_elements(y, rotated_by(c, x.to_doubles(), tables, 1), 2);
  rope_backward(stream, c.pairs, x, tables, y);
  expect_elements(y, rotated_by(c, x.to_doubles(), tables, -1), 2);
}

inline void check_ropes(Device device) {
  for (const RopePairs pairs : {RopePairs::half_split, RopePairs::interleaved})
    for (const bool has_positions : {false, true})
      for (const RopeCase& of :
           {RopeCase{1, 1, 4, 4}, RopeCase{0, 4, 64, 64}, RopeCase{3, 0, 64, 64},
            RopeCase{13, 5, 64, 64}, RopeCase{37, 1, 96, 96}, RopeCase{9, 3, 80, 40},
            RopeCase{5, 40, 128, 128}})
        for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
          RopeCase c = of;
          c.pairs = pairs, c.has_positions = has_positions;
          SCOPED_TRACE(testing::Message()
                       << name(dtype) << " " << c.tokens << " x " << c.heads << " x " << c.head_dim
                       << (has_positions ? " with positions" : "")
                       << (pairs == RopePairs::interleaved ? " interleaved" : ""));
          check_rope(c, dtype, device, c.tokens != 9);
        }
}

}  // namespace tegula::test
