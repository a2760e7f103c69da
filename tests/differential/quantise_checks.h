#pragma once
// Quantisation to 8-bit floats: scales against references in double, elements within half a step.
#include "tegula/kernels/quantise.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

inline Dims block_extents(ScaleBlock block, const Tensor& x) {
  if (block == ScaleBlock::row) return {1, std::max<std::int64_t>(x.size(1), 1)};
  return {block == ScaleBlock::block_1x128 ? 1 : 128, 128};
}

inline void check_quantised(const Tensor& x, DType to, const QuantiseOptions& options,
                            bool is_aligned) {
  const Device device = x.device();
  const std::int64_t rows = x.size(0), columns = x.size(1);
  const Dims block = block_extents(options.block, x);
  const std::int64_t across = (columns + block[1] - 1) / block[1],
                     down = (rows + block[0] - 1) / block[0];
  const Tensor
      q = Tensor::full({rows, columns + (is_aligned ? 0 : 3)}, 1, to, device).slice(1, 0, columns),
      scales = unwritten_rows(options.block == ScaleBlock::row ? Dims{rows} : Dims{down, across},
                              DType::f32, device);
  quantise_fp8(Stream(device), x, q, scales, options);
  const double most = to == DType::f8e4m3 ? 448 : 57344,
               ulp = to == DType::f8e4m3 ? 0x1p-4 : 0x1p-3;
  const double least = to == DType::f8e4m3 ? 0x1p-10 : 0x1p-17;  // half of the smallest number
  const Doubles v = x.to_doubles(), got = q.to_doubles(), s = scales.to_doubles();
  Doubles largest(s.size(), 0), want;
  const auto block_of = [&](std::size_t i) {
    const auto at = static_cast<std::int64_t>(i);
    return (at / columns / block[0]) * across + at % columns / block[1];
  };
  for (std::size_t i = 0; i < v.size(); ++i)
    largest[block_of(i)] = std::fmax(largest[block_of(i)], std::abs(v[i]));
  for (const double l : largest) {
    const double plain = l == 0 ? 1 : l / most;
    want.push_back(std::max(
        options.power_of_two_scales ? std::exp2(std::ceil(std::log2(plain) - 1e-6)) : plain,
        0x1p-126));
  }
  expect_elements(scales, want, 0);
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (std::isnan(v[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << i;
      continue;
    }
    const double scaled = v[i] / s[block_of(i)];
    ASSERT_LE(std::abs(got[i] - scaled), std::max(std::abs(scaled) * ulp * 1.0001, least))
        << "element " << i << ": " << v[i] << " / " << s[block_of(i)] << " is " << got[i];
  }
}

inline void check_quantisations(Device device) {
  const std::vector<Dims> shapes{{1, 1},    {0, 64},    {5, 0},    {67, 7},
                                 {33, 300}, {130, 256}, {3, 2049}, {2, 40000}};
  for (const ScaleBlock block :
       {ScaleBlock::row, ScaleBlock::block_1x128, ScaleBlock::block_128x128})
    for_row_shapes(
        shapes, [&](std::int64_t rows, std::int64_t columns, DType dtype, bool is_aligned) {
          if (columns > 3000 && block != ScaleBlock::row) return;
          check_quantised(random_rows({rows, columns}, dtype, 1, device, is_aligned),
                          dtype == DType::f16 ? DType::f8e5m2 : DType::f8e4m3,
                          {.block = block, .power_of_two_scales = dtype == DType::f32}, is_aligned);
        });
}

/// Blocks of zeros, with a NaN, of the smallest numbers and of the largest ones, and of numbers
/// whose scale would have an infinite inverse, next to a zero.
inline void check_quantised_extremes(Device device) {
  Doubles values(7 * 256, 0);
  for (int i = 0; i < 256; ++i) {
    values[256 + i] = i == 3 ? std::nan("") : i;
    values[512 + i] = (i - 128) * 0x1p-126;
    values[768 + i] = (i - 128) * 0x1p120;
    values[1024 + i] = i % 2 ? 448 : -448;
    values[1280 + i] = (i - 128) * 0x1p-128;
    values[1536 + i] = (i - 128) * 0x1p-149;
  }
  const Tensor x = Tensor::from(values, {7, 256}, Device::cpu()).cast(DType::f32).to(device);
  for (const ScaleBlock block : {ScaleBlock::row, ScaleBlock::block_1x128})
    for (const bool power_of_two : {false, true})
      check_quantised(x, DType::f8e4m3, {block, power_of_two}, true);
}

}  // namespace tegula::test
