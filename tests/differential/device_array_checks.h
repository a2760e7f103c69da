#pragma once
// Kernels of whole arrays: running sums, compaction, sums of segments, places in a sorted array,
// counts of keys.
#include <limits>
#include <numeric>
#include <type_traits>

#include "tegula/kernels/device_histogram.h"
#include "tegula/kernels/device_scan.h"
#include "tegula/kernels/device_searchsorted.h"
#include "tegula/kernels/device_segment_sum.h"
#include "tegula/kernels/device_select.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

/// Lengths around those of a chunk of 8192 elements, and of several.
inline const std::vector<std::int64_t> kArrayLengths{0, 1, 2, 31, 129, 8191, 8192, 8193, 40000};

/// The numbers as a tensor of this type.
inline Tensor array_of(const Doubles& values, DType dtype, Device device) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())}, Device::cpu())
      .cast(dtype)
      .to(device);
}

/// Whole numbers from -3 to 3: their sums are exact in all types, with a NaN after two thirds.
inline Doubles numbers_to_add(std::int64_t n, bool has_nan) {
  Doubles x(n);
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<double>((i * 7919) % 7 - 3);
  if (has_nan && n > 0) x[2 * n / 3] = std::nan("");
  return x;
}

inline void check_scan(std::int64_t n, DType dtype, const DeviceScanOptions& options,
                       Device device) {
  const Doubles x = numbers_to_add(n, is_float(dtype) && n % 2 == 1);
  const Tensor from = array_of(x, dtype, device), y = unwritten_rows({n}, dtype, device);
  Doubles want(n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    want[i] = options.kind == ScanKind::exclusive ? sum : sum + x[i];
    sum += x[i];
  }
  device_scan(Stream(device), from, y, options);
  expect_elements(y, want, 0, 0);
}

/// Sums of the largest numbers, which wrap around.
template <class T>
void check_scan_of_extremes(Device device) {
  using Word = std::make_unsigned_t<T>;
  std::vector<T> x, want;
  Word sum = 0;
  for (int i = 0; i < 9000; ++i) {
    x.push_back(i % 3 == 2 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max());
    want.push_back(static_cast<T>(sum += static_cast<Word>(x.back())));
  }
  const Tensor from = Tensor::from(x, device),
               y = Tensor::zeros(from.shape(), from.dtype(), device);
  device_scan(Stream(device), from, y);
  EXPECT_EQ(y.to_vector<T>(), want);
}

/// Sums of any floats: near those of a reference, and the same bits in every run.
inline void check_scan_of_floats(Device device) {
  const std::int64_t n = 100003;
  const Tensor x = Tensor::normal({n}, DType::f32, 0, 1, 5, device),
               y = unwritten_rows({n}, DType::f32, device), again = y.clone();
  const Doubles values = x.to_doubles();
  Doubles want(n);
  std::partial_sum(values.begin(), values.end(), want.begin());
  device_scan(Stream(device), x, y);
  expect_elements(y, want, 300, 16);
  device_scan(Stream(device), x, again);
  EXPECT_EQ(y.to_doubles(), again.to_doubles());
}

/// More chunks than run at once, and than a look back sees: the same sums in every call.
inline void check_scan_of_many_chunks(Device device) {
  for (int call = 0; call < 3; ++call) check_scan((1 << 23) + 77, DType::i32, {}, device);
  check_scan((1 << 22) - 1, DType::f32, {.kind = ScanKind::exclusive, .look_back = true}, device);
}

inline void check_scans(Device device) {
  for (const std::int64_t n : kArrayLengths)
    for (const DType dtype : {DType::i32, DType::i64, DType::f32, DType::f64})
      for (const ScanKind kind : {ScanKind::inclusive, ScanKind::exclusive}) {
        SCOPED_TRACE(testing::Message() << n << " of " << name(dtype));
        check_scan(n, dtype, {.kind = kind}, device);
        if (dtype == DType::f32) check_scan(n, dtype, {.kind = kind, .look_back = true}, device);
      }
  check_scan_of_floats(device);
  check_scan_of_extremes<i32>(device), check_scan_of_extremes<i64>(device);
}

/// Keeps all elements of a stretch, none of another, and every third of the others.
inline bool keeps(std::int64_t i) { return i < 300 || (i > 600 && i % 3 == 0); }

inline void check_select(std::int64_t n, DType dtype, bool keeps_any, Device device) {
  Doubles x = numbers_to_add(n, is_float(dtype)), keep(n), want;
  for (std::int64_t i = 0; i < n; ++i) {
    keep[i] = keeps_any && keeps(i) ? 1 : 0;
    if (keep[i] != 0) want.push_back(x[i]);
  }
  const double number = static_cast<double>(want.size());
  want.resize(n, 12345);  // as it was
  const Tensor y = array_of(Doubles(n, 12345), dtype, device),
               count = array_of({-1}, DType::i32, device);
  device_select(Stream(device), array_of(x, dtype, device), array_of(keep, DType::i1, device), y,
                count);
  EXPECT_EQ(count.to_doubles(), Doubles{number});
  expect_elements(y, array_of(want, dtype, Device::cpu()).to_doubles(), 0, 0);
}

inline void check_selections(Device device) {
  for (const std::int64_t n : kArrayLengths)
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::i32, DType::i64})
      for (const bool keeps_any : {false, true}) {
        SCOPED_TRACE(testing::Message() << n << " of " << name(dtype));
        check_select(n, dtype, keeps_any, device);
      }
}

/// Segments of 0, 1, some and many elements.
inline Doubles segment_offsets(std::int64_t segments) {
  Doubles offsets{0};
  constexpr int kLengths[] = {0, 1, 5, 130, 0, 33, 700, 511, 512, 513, 5000};
  for (std::int64_t s = 0; s < segments; ++s) offsets.push_back(offsets.back() + kLengths[s % 11]);
  return offsets;
}

/// `columns` is 0 for an array.
inline void check_segment_sum(std::int64_t segments, std::int64_t columns, DType dtype,
                              Device device) {
  const Doubles offsets = segment_offsets(segments);
  const std::int64_t n = static_cast<std::int64_t>(offsets.back()) + 3,
                     width = std::max<std::int64_t>(columns, 1);
  const Doubles x = numbers_to_add(n * width, segments % 2 == 1);
  Doubles want(segments * width, 0);
  for (std::int64_t s = 0; s < segments; ++s)
    for (auto r = static_cast<std::int64_t>(offsets[s]); r < offsets[s + 1]; ++r)
      for (std::int64_t c = 0; c < width; ++c) want[s * width + c] += x[r * width + c];
  const auto shaped = [&](const Tensor& t, std::int64_t rows) {
    return columns == 0 ? t : t.reshape({rows, columns});
  };
  const Tensor y = shaped(unwritten_rows({segments * width}, DType::f32, device), segments);
  device_segment_sum(Stream(device), shaped(array_of(x, dtype, device), n),
                     array_of(offsets, DType::i32, device), y);
  expect_elements(y, want, 0, 0);
}

/// Segments whose offsets fall are empty, before a long one, too.
inline void check_falling_segments(Device device) {
  constexpr std::int64_t kElements = 900;
  const Doubles offsets{700, 20, 20, 25, 3, 800, 0, 1};
  const Tensor x = Tensor::full({kElements}, 1, DType::f32, device),
               y = unwritten_rows({7}, DType::f32, device);
  const Tensor of = array_of(offsets, DType::i32, device);
  const Doubles want{0, 0, 5, 0, 797, 0, 1};
  device_segment_sum(Stream(device), x, of, y);
  EXPECT_EQ(y.to_doubles(), want);
  const Tensor rows = x.reshape({kElements, 1}), of_rows = y.reshape({7, 1});
  of_rows.fill(-1);
  device_segment_sum(Stream(device), rows, of, of_rows);
  EXPECT_EQ(of_rows.to_doubles(), want);
}

inline void check_segment_sums(Device device) {
  for (const std::int64_t segments : {0, 1, 7, 50})
    for (const std::int64_t columns : {0, 1, 3, 130})
      for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
        SCOPED_TRACE(testing::Message() << segments << " x " << columns << " " << name(dtype));
        check_segment_sum(segments, columns, dtype, device);
      }
  check_falling_segments(device);
}

/// Places among the smallest and largest numbers, zeros of either sign, and NaN.
inline void check_search_of_extremes(Device device) {
  const auto places = [&](const Tensor& sorted, const Tensor& values, SearchSide side) {
    const Tensor y = unwritten_rows(values.shape(), DType::i32, device);
    device_searchsorted(Stream(device), sorted, values, y, side);
    return y.to_vector<i32>();
  };
  const std::vector<i64> whole{INT64_MIN, INT64_MIN,     INT64_MIN + 1, -1,
                               0,         INT64_MAX - 1, INT64_MAX};
  const Tensor all = Tensor::from(whole, device);
  EXPECT_EQ(places(all, all, SearchSide::left), (std::vector<i32>{0, 0, 2, 3, 4, 5, 6}));
  EXPECT_EQ(places(all, all, SearchSide::right), (std::vector<i32>{2, 2, 3, 4, 5, 6, 7}));
  const std::vector<f32> numbers{-INFINITY, -1, -0.0f, 0.0f, -0.0f, 1e-45f, INFINITY, NAN, NAN};
  const Tensor floats = Tensor::from(numbers, device);
  EXPECT_EQ(places(floats, floats, SearchSide::left),
            (std::vector<i32>{0, 1, 2, 2, 2, 5, 6, 9, 9}));
  EXPECT_EQ(places(floats, floats, SearchSide::right),
            (std::vector<i32>{1, 2, 5, 5, 5, 6, 7, 9, 9}));
}

inline void check_search(std::int64_t n, std::int64_t m, DType dtype, SearchSide side,
                         Device device) {
  Doubles sorted(n), values(m), want(m);
  for (std::int64_t i = 0; i < n; ++i) sorted[i] = static_cast<double>(i / 3 * 2 - 20);
  if (is_float(dtype) && n > 4) sorted[n - 1] = sorted[n - 2] = std::nan("");
  for (std::int64_t i = 0; i < m; ++i) values[i] = static_cast<double>((i * 31) % (n + 9) - 24);
  if (is_float(dtype) && m > 2) values[m / 2] = std::nan(""), values[0] = -INFINITY;
  for (std::int64_t i = 0; i < m; ++i)
    want[i] = static_cast<double>(std::count_if(sorted.begin(), sorted.end(), [&](double s) {
      return std::isnan(values[i]) || (side == SearchSide::left ? s < values[i] : s <= values[i]);
    }));
  const Tensor y = unwritten_rows({m}, DType::i32, device);
  device_searchsorted(Stream(device), array_of(sorted, dtype, device),
                      array_of(values, dtype, device), y, side);
  expect_elements(y, want, 0, 0);
}

inline void check_searches(Device device) {
  for (const std::int64_t n : {0, 1, 2, 7, 64, 1000})
    for (const std::int64_t m : {0, 1, 1023, 1025})
      for (const DType dtype : {DType::f32, DType::i32, DType::i64})
        for (const SearchSide side : {SearchSide::left, SearchSide::right}) {
          SCOPED_TRACE(testing::Message() << m << " in " << n << " of " << name(dtype));
          check_search(n, m, dtype, side, device);
        }
  check_search_of_extremes(device);
}

/// Keys of which half are one number, and some are in no bin.
inline void check_histogram(std::int64_t n, std::int64_t bins, DType dtype, Device device) {
  Doubles keys(n), want(bins, 0);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t key = i % 2 == 0 ? bins / 2 : (i * 7919) % (bins + 2) - 1;
    keys[i] = static_cast<double>(dtype == DType::u8 ? key & 255 : key);
    if (keys[i] >= 0 && keys[i] < static_cast<double>(bins))
      want[static_cast<std::size_t>(keys[i])] += 1;
  }
  const Tensor counts = unwritten_rows({bins}, DType::i32, device);
  for (int run = 0; run < 2; ++run) {
    device_histogram(Stream(device), array_of(keys, dtype, device), counts);
    expect_elements(counts, want, 0, 0);
  }
}

/// Keys whose lower halves alone are numbers of bins are in no bin.
inline void check_histogram_of_far_keys(std::int64_t bins, Device device) {
  constexpr std::int64_t kFar = std::int64_t{1} << 32;
  const std::vector<i64> keys{3, INT64_MIN, kFar + 1, 1 - kFar, INT64_MAX, 3, -1};
  const Tensor counts = unwritten_rows({bins}, DType::i32, device);
  device_histogram(Stream(device), Tensor::from(keys, device), counts);
  Doubles want(bins, 0);
  want[3] = 2;
  expect_elements(counts, want, 0, 0);
  const std::vector<i32> narrow{INT32_MIN, 3, INT32_MAX, -1, 3};
  device_histogram(Stream(device), Tensor::from(narrow, device), counts);
  expect_elements(counts, want, 0, 0);
}

inline void check_histograms(Device device) {
  for (const std::int64_t bins : {33, 5000}) check_histogram_of_far_keys(bins, device);
  for (const std::int64_t n : {0, 1, 4097, 20000})
    for (const std::int64_t bins : {1, 2, 33, 256, 5000})
      for (const DType dtype : {DType::i32, DType::i64, DType::u8}) {
        SCOPED_TRACE(testing::Message() << n << " of " << name(dtype) << ", " << bins << " bins");
        check_histogram(n, bins, dtype, device);
      }
}

}  // namespace tegula::test
