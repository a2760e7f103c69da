// Segment sums. Rows: one program per segment. Elements: one program for several segments; if some
// are long, all programs first sum fixed parts of the array, whose boundaries do not depend on the
// segments, so that many programs share one long segment.
#include "tegula/kernels/device_segment_sum.h"

#include <algorithm>
#include <bit>

#include "kernels/float_types.h"
#include "tegula/call_plan.h"
#include "tegula/device_profile.h"
#include "tegula/int_math.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Elements per part; minimum length of a segment summed by parts, which contains a whole part.
constexpr int kPart = 256, kLong = 2 * kPart;
/// Parts per program; offsets per program that searches for the longest segment; lengths per
/// iteration of a program that reads the results of that search.
constexpr int kParts = 16, kOffsets = 4096, kLengths = 1024;
/// Elements that a program adds per iteration.
constexpr int kStep = 1024;

/// Elements in a tile of rows, and the maximum number of its columns.
constexpr int kRowsTile = 4096, kMaxColumns = 512;

template <class T>
auto sums_of_rows() {
  return kernel("device_segment_sum_rows",
                [](In<T, 2> x, In<i32, 1> offsets, Out<f32, 2> y, int columns) {
                  const int rows = kRowsTile / columns;
                  for (auto [s, c] : grid(y, 1, columns)) {
                    Tile total = zeros<f32>(rows, columns);
                    const Tile first = offsets(s), end = offsets(s.first() + 1);
                    for (auto r : steps(first, end, rows).bounded()) total += cast<f32>(x(r, c));
                    y(s, c) = sum(total, 0);
                  }
                });
}

auto longest_kernel() {
  return kernel("device_segment_longest", [](In<i32, 1> offsets, Out<i32, 1> longest) {
    for (auto t : grid(longest, 1)) {
      const Index s = slice(t.first() * kOffsets, kOffsets);
      longest(t) = max(0, max(offsets(s.shifted(1)) - offsets(s)));
    }
  });
}

/// Computes the sums of parts, if any segment is long.
template <class T>
auto segment_parts_kernel() {
  return kernel("device_segment_parts", [](In<T, 1> x, In<i32, 1> longest, Out<f32, 1> parts) {
    for (auto p : grid(parts, kParts)) {
      grid_dependency_wait();
      parts.partial();
      Tile most = full<i32>(0);
      for (auto c : steps(longest.dim(0), kLengths)) most = max(most, max(longest(c)));
      if_(most >= kLong, [&] {
        const Tile elements = x(slice(p.first() * kPart, kParts * kPart));
        parts(p) = sum(cast<f32>(elements).reshape({kParts, kPart}), 1);
      });
    }
  });
}

/// Returns `total` [segments, elements] plus the elements of v from `first` to `end` [segments].
template <class V>
Tile added(Tile total, const V& v, const Tile& first, const Tile& end) {
  for (auto j : steps(max(end - first), static_cast<int>(total.shape()[1]))) {
    const Tile at = first(all, none) + cast<i32>(j.indices())(none, all);
    total += where(at < end(all, none), cast<f32>(v(at)), 0.0f);
  }
  return total;
}

template <class T>
auto sums_of_elements() {
  return kernel("device_segment_sum", [](In<T, 1> x, In<i32, 1> offsets, In<f32, 1> parts,
                                         Out<f32, 1> y, int segments) {
    for (auto s : grid(y, segments)) {
      grid_dependency_wait();
      // Segments after the last one are empty.
      const Tile first = fill_absent(offsets(s), 0), end = fill_absent(offsets(s.shifted(1)), 0);
      const Tile is_long = end - first >= kLong;
      const Tile first_part = where(is_long, (first + (kPart - 1)) / kPart, 0),
                 end_part = where(is_long, end / kPart, 0);
      Tile total = zeros<f32>(segments, kStep / segments);
      total = added(total, x, first, where(is_long, first_part * kPart, end));
      total = added(total, parts, first_part, end_part);
      total = added(total, x, where(is_long, end_part * kPart, end), end);
      y(s) = sum(total, 1);
    }
  });
}

/// Adds the launches of a call on a vector x. The arguments of the call are x, offsets and y.
template <class T>
void plan_elements(PlanBuilder& plan) {
  static const auto* const longest = new auto(longest_kernel());
  static const auto* const parts = new auto(segment_parts_kernel<T>());
  static const auto* const sums = new auto(sums_of_elements<T>());
  const auto at_least_one = [](std::int64_t n, std::int64_t each) {
    return std::max<std::int64_t>(1, ceil_div(n, each));
  };
  const PlanSlot x = plan.argument(0), offsets = plan.argument(1), y = plan.argument(2);
  const std::int64_t segments = plan.tensor(y).size(0);
  const PlanSlot lengths = plan.scratch({at_least_one(segments, kOffsets)}, DType::i32),
                 of_parts = plan.scratch({at_least_one(plan.tensor(x).size(0), kPart)}, DType::f32);
  plan.launch(*longest, offsets, lengths);
  plan.launch(*parts, x, lengths, of_parts);
  // A program sums 4 segments, so that few segments still occupy all SMs, else 32. This determines
  // the lanes per segment and thus the order of its sum, so it must not depend on the GPU.
  constexpr std::int64_t kManySegments = 32768;
  plan.launch(*sums, x, offsets, of_parts, y, segments < kManySegments ? 4 : 32);
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
    static const auto* const of_rows =
        new auto(sums_of_rows<T>().with_plan({.min_ctas_per_sm = 5}));
    static const auto* const plans = new CallPlans;  // leaked: static destructors may call
    if (is_rows) return (*of_rows)(stream, x, offsets, y, tile_columns(y));
    plans->call(stream, tensor_args(x, offsets, y), {},
                [](PlanBuilder& plan) { plan_elements<T>(plan); });
  });
}

}  // namespace tegula::kernels
