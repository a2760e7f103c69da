#pragma once
// Sorts of whole arrays, and the best k of rows.
#include <limits>
#include <numeric>
#include <utility>

#include "tegula/kernels/device_sort.h"
#include "tegula/kernels/device_topk.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

/// Many ties, both zeros, infinities, and NaN at the start, between numbers and at the end.
inline Doubles keys_with_ties(std::int64_t n, DType dtype, std::int64_t distinct) {
  Doubles keys(n);
  for (std::int64_t i = 0; i < n; ++i) {
    keys[i] = static_cast<double>((i * 7919 + i / 5) % distinct);
    if (is_signed(dtype) || is_float(dtype)) keys[i] -= static_cast<double>(distinct / 2);
  }
  if (!is_float(dtype)) return keys;
  for (std::int64_t i = 0; i < n; i += 17) keys[i] = i % 2 == 0 ? 0.0 : -0.0;
  for (std::int64_t i = 0; i < n; i += 61) keys[i] = std::nan("");
  for (std::int64_t i = 5; i < n; i += 97)
    keys[i] = i % 2 == 0 ? std::numeric_limits<double>::infinity()
                         : -std::numeric_limits<double>::infinity();
  return keys;
}

/// Places of the keys in order: stable, NaN last.
inline std::vector<std::int64_t> order_of(std::span<const double> keys, Direction direction) {
  std::vector<std::int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    if (std::isnan(keys[a]) || std::isnan(keys[b])) return !std::isnan(keys[a]);
    return direction == Direction::ascending ? keys[a] < keys[b] : keys[a] > keys[b];
  });
  // No NaN precedes another NaN.
  std::stable_partition(order.begin(), order.end(),
                        [&](std::int64_t i) { return !std::isnan(keys[i]); });
  return order;
}

inline Tensor tensor_of(const Doubles& values, const Dims& shape, DType dtype, Device device) {
  return Tensor::from(values, shape, Device::cpu()).cast(dtype).to(device);
}

inline void check_sort(std::int64_t n, DType dtype, Direction direction, Device device) {
  const Tensor keys = tensor_of(keys_with_ties(n, dtype, 5000), {n}, dtype, device);
  const Doubles x = keys.to_doubles();
  const std::vector<std::int64_t> order = order_of(x, direction);
  Doubles sorted, places, doubled;
  for (const std::int64_t i : order) {
    sorted.push_back(x[i] == 0 ? 0.0 : x[i]);
    places.push_back(static_cast<double>(i));
    doubled.push_back(static_cast<double>(2 * i));
  }
  const Tensor y = unwritten_rows({n}, dtype, device),
               values = unwritten_rows({n}, DType::i32, device);
  const Stream stream(device);
  device_sort(stream, keys, y, {.direction = direction, .sorted_values = values});
  expect_elements(y, sorted, 0, 0);
  for (std::int64_t i = 0; i < n; ++i)
    ASSERT_FALSE(std::signbit(y.to_doubles()[i]) && sorted[i] == 0 && n < 100) << "-0 stays";
  expect_elements(values, places, 0, 0);
  Doubles numbers(n);
  for (std::int64_t i = 0; i < n; ++i) numbers[i] = static_cast<double>(2 * i);
  device_sort(stream, keys, y,
              {.direction = direction,
               .sorted_values = values,
               .values = tensor_of(numbers, {n}, DType::i32, device)});
  expect_elements(values, doubled, 0, 0);
  const Tensor alone = unwritten_rows({n}, dtype, device);
  device_sort(stream, keys, alone, {.direction = direction});
  expect_elements(alone, sorted, 0, 0);
}

inline void check_sorts(std::initializer_list<DType> dtypes,
                        std::initializer_list<std::int64_t> lengths, Device device) {
  for (const DType dtype : dtypes)
    for (const std::int64_t n : lengths)
      for (const Direction direction : {Direction::ascending, Direction::descending}) {
        SCOPED_TRACE(testing::Message() << n << " of " << name(dtype));
        check_sort(n, dtype, direction, device);
      }
}
inline void check_common_sorts(Device device) {
  check_sorts({DType::f32, DType::i32}, {0, 1, 2, 33, 2049, 9000}, device);
}

/// The smallest and the largest numbers of a type and those near 0, some of each.
template <class T>
std::vector<T> extremes_of(std::int64_t n) {
  constexpr T kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
  constexpr T kAll[] = {kHigh, 0, kLow, 1, T(kHigh - 1), T(kLow + 1), T(0) - T(1), kHigh / 2};
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(kAll[(i * 7 + i / 8) % 8]);
  return values;
}
template <class T>
void check_sort_of_extremes(Device device) {
  for (const std::int64_t n : {13, 2100})
    for (const Direction direction : {Direction::ascending, Direction::descending}) {
      const std::vector<T> keys = extremes_of<T>(n);
      std::vector<i32> order(keys.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](i32 a, i32 b) {
        return direction == Direction::ascending ? keys[a] < keys[b] : keys[a] > keys[b];
      });
      std::vector<T> want;
      for (const i32 i : order) want.push_back(keys[i]);
      const Tensor x = Tensor::from(keys, device), y = Tensor::zeros(x.shape(), x.dtype(), device),
                   places = unwritten_rows({n}, DType::i32, device);
      device_sort(Stream(device), x, y, {.direction = direction, .sorted_values = places});
      EXPECT_EQ(y.to_vector<T>(), want) << n << name(x.dtype());
      EXPECT_EQ(places.to_vector<i32>(), order) << n << name(x.dtype());
    }
}
inline void check_sorts_of_extremes(Device device) {
  check_sort_of_extremes<i32>(device), check_sort_of_extremes<u32>(device);
  check_sort_of_extremes<i64>(device), check_sort_of_extremes<u64>(device);
}
/// More tiles than a program reads before it decides.
inline void check_sort_of_many_tiles(Device device) {
  check_sort(45000, DType::i32, Direction::descending, device);
}
inline void check_other_sorts(Device device) {
  check_sorts({DType::bf16, DType::u32, DType::i64, DType::f16, DType::f64, DType::u64}, {33, 2049},
              device);
}

struct TopkCase {
  std::int64_t rows, n, k;
};

inline void check_topk(const TopkCase& c, const Tensor& x, Direction direction) {
  const DType dtype = x.dtype();
  const Device device = x.device();
  const Doubles all = x.to_doubles();
  Doubles values, places;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    const std::span row(all.data() + r * c.n, static_cast<std::size_t>(c.n));
    const std::vector<std::int64_t> order = order_of(row, direction);
    for (std::int64_t i = 0; i < c.k; ++i) {
      values.push_back(row[order[i]]);
      places.push_back(static_cast<double>(order[i]));
    }
  }
  const Tensor y = unwritten_rows({c.rows, c.k}, dtype, device),
               indices = unwritten_rows({c.rows, c.k}, DType::i32, device);
  device_topk(Stream(device), x, y, indices, direction);
  expect_elements(y, values, 0, 0);
  expect_elements(indices, places, 0, 0);
}

inline void check_topks(Device device) {
  for (const TopkCase& c :
       {TopkCase{0, 5, 2}, TopkCase{1, 1, 1}, TopkCase{70, 64, 8}, TopkCase{5, 500, 8},
        TopkCase{130, 128, 8}, TopkCase{33, 256, 7}, TopkCase{9, 129, 1}, TopkCase{3, 1000, 16},
        TopkCase{3, 1025, 1}, TopkCase{2, 4096, 40}, TopkCase{2, 4097, 1}, TopkCase{1, 30000, 70},
        TopkCase{1, 4100, 10}, TopkCase{5, 2, 1}, TopkCase{4, 2, 2}, TopkCase{3, 37, 37},
        TopkCase{3, 128, 128}, TopkCase{2, 1000, 1000}, TopkCase{1, 4101, 4096}})
    for (const DType dtype : {DType::bf16, DType::f32, DType::i32}) {
      SCOPED_TRACE(testing::Message()
                   << name(dtype) << " " << c.k << " of " << c.rows << " x " << c.n);
      check_topk(c,
                 tensor_of(keys_with_ties(c.rows * c.n, dtype, 900), {c.rows, c.n}, dtype, device),
                 c.n % 2 == 0 ? Direction::descending : Direction::ascending);
    }
}

/// Rows whose best numbers are worse than the zeros in memory after the row, and rows of NaN and
/// infinities.
inline void check_topks_of_extremes(Device device) {
  for (const std::int64_t n : {500, 512})
    for (const DType dtype : {DType::bf16, DType::f32})
      for (const Direction direction : {Direction::descending, Direction::ascending}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " " << n);
        const double worst = direction == Direction::descending ? -1 : 1;
        Doubles far, none;
        for (std::int64_t i = 0; i < n; ++i) {
          far.push_back(worst * static_cast<double>(1 + i * 37 % 251));
          none.push_back(i < 100 ? NAN : worst * INFINITY);
        }
        check_topk({1, n, 8}, tensor_of(far, {1, n}, dtype, device), direction);
        check_topk({1, n, 8}, tensor_of(none, {1, n}, dtype, device), direction);
      }
  for (const std::int64_t n : {7, 64, 300, 5000})
    for (const Direction direction : {Direction::descending, Direction::ascending}) {
      SCOPED_TRACE(n);
      const Tensor x = Tensor::from(extremes_of<i32>(n), device).reshape({1, n});
      check_topk({1, n, 7}, x, direction);
    }
}

/// Rows short enough to compare words of key and position: with ties, of equal elements, and of NaN
/// with fewer numbers than requested.
inline void check_topks_by_words(Device device) {
  for (const std::int64_t n : {128, 256, 512, 1024})
    for (const auto& [direction, k] : {std::pair{Direction::descending, 8},
                                       {Direction::ascending, 3},
                                       {Direction::descending, 1}}) {
      if (k == 1 && n != 128) continue;
      SCOPED_TRACE(testing::Message() << k << " of " << n);
      const TopkCase c{19, n, k};
      Doubles alike(c.rows * n, 2), few(c.rows * n, NAN);
      for (std::int64_t i = 0; i < c.rows * n; i += n / 2 - 1)
        few[i] = i % 3 == 0 ? -INFINITY : static_cast<double>(i % 50 - 25);
      for (const Doubles& keys : {keys_with_ties(c.rows * n, DType::bf16, 90), alike, few})
        check_topk(c, tensor_of(keys, {c.rows, n}, DType::bf16, device), direction);
    }
}

/// Rows with gaps between them, after a call with contiguous rows of the same shape.
inline void check_topk_of_parts(Device device) {
  const Tensor wide = tensor_of(keys_with_ties(5 * 256, DType::bf16, 90), {5, 256}, DType::bf16,
                                device),
               part = wide.slice(1, 0, 128);
  check_topk({5, 128, 8}, part.contiguous(), Direction::descending);
  check_topk({5, 128, 8}, part, Direction::descending);
}

}  // namespace tegula::test
