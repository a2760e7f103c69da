// Boxes whose offset comes from a table. A missing entry reads as 0, which `cpu` and `sim` report.
// If the kernel fills it by fill_absent with a page that the cache lacks, nothing of that page is
// read, summed or stored.
#include <gtest/gtest.h>

#include <algorithm>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test::absent_offsets_test {
namespace {

class AbsentOffsets : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, AbsentOffsets, testing::ValuesIn(devices()), device_name);

void expect_pages(Device device, bool is_filled) {
  const auto k =
      kernel("pages", [is_filled](In<i32, 1> table, In<f32, 2> pages, Scalar<i32> at,
                                  Out<f32, 1> row, Out<f32, 1> total, Out<f32, 2> written) {
        row.partial(), written.partial();
        for (auto i : grid(row, 4)) {
          const Tile entry = table(at), page = is_filled ? fill_absent(entry, -1) : entry,
                     x = pages(page, i);
          row(i) = x;
          total(0) = sum(x);
          written(page, i) = x + 1.0f;
        }
      });
  // The last entry names a page that the cache lacks. The table ends after it.
  const Tensor table = Tensor::from(std::vector<i32>{1, 0, 2}, device),
               pages =
                   Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, device).reshape({2, 4});
  for (const int at : {0, 1, 2, 3, -1}) {
    SCOPED_TRACE(at);
    const auto filled = [&](const Dims& shape) {
      return Tensor::full(shape, -7, DType::f32, device);
    };
    const Tensor row = filled({4}), total = filled({1}), written = filled({2, 4});
    const bool has_entry = at >= 0 && at < 3;
    const bool is_reported = !is_filled && !has_entry && device.kind != DeviceKind::cuda;
    try {
      k(Stream(device), table, pages, at, row, total, written);
      EXPECT_FALSE(is_reported);
    } catch (const ProgramError& e) {
      EXPECT_TRUE(is_reported) << e.what();
      EXPECT_EQ(e.diagnostic().code, "T1314");
    }
    std::vector<double> rows(4, -7), all(8, -7);
    double sum = 0;
    const int page = has_entry ? (at == 0 ? 1 : at == 1 ? 0 : 2) : is_filled ? -1 : 0;
    if (page == 0 || page == 1)
      for (std::size_t j = 0; j < 4; ++j) {
        rows[j] = (page == 1 ? 5.0 : 1.0) + static_cast<double>(j);
        all[(page == 1 ? 4 : 0) + j] = rows[j] + 1;
        sum += rows[j];
      }
    EXPECT_EQ(row.to_doubles(), rows);
    EXPECT_EQ(total.to_doubles(), std::vector<double>{sum});
    EXPECT_EQ(written.to_doubles(), all);
  }
}

TEST_P(AbsentOffsets, AreZeroWhereATableHasNoEntry) { expect_pages(GetParam(), false); }
TEST_P(AbsentOffsets, NameNoPageWhereFilledSo) { expect_pages(GetParam(), true); }

/// A number that is assumed to be below an extent may be below 0.
TEST_P(AbsentOffsets, AnUpperBoundLeavesTheSignOpen) {
  const auto k =
      kernel("below", [](In<f32, 1> x, In<i32, 1> first, Scalar<i32> start, Out<f32, 2> y) {
        for (auto i : grid(cols(y), 16)) {
          const Tile at = first(0);
          assume(at < x.dim(0));
          assume(start + 16 <= x.dim(0));
          y(0, i) = fill_absent(x(at), -5.0f) + full<f32>(0, 16);
          y(1, i) = fill_absent(x(slice(start, 16)), -5.0f);
        }
      });
  const Tensor y = Tensor::empty({2, 16}, DType::f32, GetParam());
  k(Stream(GetParam()), Tensor::full({40}, 2, DType::f32, GetParam()),
    Tensor::from(std::vector<i32>{-1}, GetParam()), -3, y);
  std::vector<double> want(32, -5);
  std::fill(want.begin() + 19, want.end(), 2);
  EXPECT_EQ(y.to_doubles(), want);
}

}  // namespace
}  // namespace tegula::test::absent_offsets_test
