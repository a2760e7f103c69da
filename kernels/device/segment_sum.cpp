// Sums of segments: of rows by a program for each segment, of single elements by one for some.
#include "tegula/kernels/device_segment_sum.h"

#include <algorithm>
#include <bit>

#include "kernels/float_types.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

/// Segments of a program, and elements of each that it adds at a time.
constexpr int kSegments = 32, kElements = 32;
/// Elements of a tile of rows, and the most columns of it.
constexpr int kTile = 4096, kMaxColumns = 512;

template <class T>
auto sums_of_rows() {
  return kernel("device_segment_sum_rows",
                [](In<T, 2> x, In<i32, 1> offsets, Out<f32, 2> y, int columns) {
                  const int rows = kTile / columns;
                  for (auto [s, c] : grid(y, 1, columns)) {
                    Tile total = zeros<f32>(rows, columns);
                    const Tile first = offsets(s), end = offsets(s.first() + 1);
                    for (auto r : steps(first, end, rows).bounded()) total += cast<f32>(x(r, c));
                    y(s, c) = sum(total, 0);
                  }
                });
}

template <class T>
auto sums_of_elements() {
  return kernel("device_segment_sum", [](In<T, 1> x, In<i32, 1> offsets, Out<f32, 1> y) {
    for (auto s : grid(y, kSegments)) {
      // Segments behind the last one are empty.
      const Tile first = fill_absent(offsets(s), 0), end = fill_absent(offsets(s.shifted(1)), 0);
      Tile total = zeros<f32>(kSegments, kElements);
      for (auto j : steps(max(end - first), kElements)) {
        const Tile at = first(all, none) + cast<i32>(j.indices())(none, all);
        total += where(at < end(all, none), cast<f32>(x(at)), 0.0f);
      }
      y(s) = sum(total, 1);
    }
  });
}

int tile_columns(const Tensor& y) {
  const auto columns =
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(y.size(1), 2, kMaxColumns));
  return static_cast<int>(std::bit_ceil(columns));
}

}  // namespace

void device_segment_sum(const Stream& stream, const Tensor& x, const Tensor& offsets,
                        const Tensor& y, Loc at) {
  const detail::CallPlace here(at);
  const char* const name = "device_segment_sum";
  require_rank(name, "offsets", offsets, 1);
  require_tensor(name, "offsets", offsets, DType::i32,
                 {std::max<std::int64_t>(offsets.size(0), 1)});
  const bool is_rows = x.rank() == 2;
  require_rank(name, "x", x, is_rows ? 2 : 1);
  const std::int64_t segments = offsets.size(0) - 1;
  require_tensor(name, "y", y, DType::f32, is_rows ? Dims{segments, x.size(1)} : Dims{segments});
  for_float(name, x.dtype(), [&]<class T>(T) {
    static const auto* const of_rows = new auto(sums_of_rows<T>().with_plan("min_ctas_per_sm=5"));
    static const auto* const of_elements = new auto(sums_of_elements<T>());
    if (is_rows)
      (*of_rows)(stream, x, offsets, y, tile_columns(y));
    else
      (*of_elements)(stream, x, offsets, y);
  });
}

}  // namespace tegula
