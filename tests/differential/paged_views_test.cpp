// Paged views in kernels of the language: boxes, elements, index tiles and stores.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test::paged_views_test {
namespace {

class PagedViews : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, PagedViews, testing::ValuesIn(devices()), device_name);

constexpr std::int64_t kRows = 4, kPages = 5, kColumns = 8;
/// Pages of two requests; the second one lacks its first page. Entries after the last row name no
/// page.
const std::vector<i32> kTable{3, 0, 4, 99, -1, 1, 99, 99}, kLengths{10, 7};

struct Paging {
  Tensor cache, table, lengths;

  explicit Paging(Device device)
      : cache(Tensor::iota({kPages, kRows, kColumns}, DType::f32, device)),
        table(Tensor::from(kTable, {2, 4}, device)),
        lengths(Tensor::from(kLengths, device)) {}
};

/// Returns an element of a request; rows of missing pages are 0.
double element(std::int64_t b, std::int64_t row, std::int64_t column) {
  const i32 page = kTable[static_cast<std::size_t>(b * 4 + row / kRows)];
  return page < 0 ? 0 : static_cast<double>((page * kRows + row % kRows) * kColumns + column);
}

/// Rows at or beyond the length are absent: a minimum does not see them, and stores drop them.
TEST_P(PagedViews, LoadBoxesOfRows) {
  const auto k = kernel("rows", [](In<f32, 3> cache, In<i32, 2> table, In<i32, 1> lengths,
                                   Out<f32, 3> rows, Out<f32, 2> least) {
    rows.partial();
    for (auto b : grid(GridSpace(least.dim(0)), 1)) {
      const auto x = paged(cache, table, b, fill_absent(lengths(b), 0));
      Tile smallest = full<f32>(std::numeric_limits<float>::infinity(), kColumns);
      for (auto n : steps(x.length(), 8)) {
        const Tile box = x(n, all);
        rows(b, n, all) = box;
        smallest = min(smallest, min(box, axis(0)));
      }
      least(b, all) = smallest;
    }
  });
  const Paging p(GetParam());
  const Tensor rows = Tensor::full({2, 16, kColumns}, -7, DType::f32, GetParam()),
               least = Tensor::empty({2, kColumns}, DType::f32, GetParam());
  k(Stream(GetParam()), p.cache, p.table, p.lengths, rows, least);
  const auto got = rows.to_doubles(), mins = least.to_doubles();
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t c = 0; c < kColumns; ++c) {
      double want = INFINITY;
      for (std::int64_t r = 0; r < 16; ++r) {
        const bool has = r < kLengths[static_cast<std::size_t>(b)];
        if (has) want = std::min(want, element(b, r, c));
        EXPECT_EQ(got[static_cast<std::size_t>((b * 16 + r) * kColumns + c)],
                  has ? element(b, r, c) : -7)
            << b << " " << r << " " << c;
      }
      EXPECT_EQ(mins[static_cast<std::size_t>(b * kColumns + c)], want);
    }
}

/// Elements and index tiles outside of the request are 0; pages may be any dimension of the cache.
TEST_P(PagedViews, LoadElementsAndSelectedRows) {
  const auto k = kernel("selected", [](In<f32, 3> cache, In<i32, 2> table, In<i32, 1> picked,
                                       Out<f32, 2> rows, Out<f32, 1> one) {
    for (auto i : grid(rows.dim(0), 8)) {
      const auto x = paged(cache, table, 0, 10, {.page = 2, .row = 0});
      rows(i, all) = x(picked(i), all);
      one(i) = x(picked(i), 3);
    }
  });
  const Paging p(GetParam());
  const std::vector<i32> picked{9, 0, 4, 10, -1, -4, 100, 3};
  const Tensor rows = Tensor::empty({8, kColumns}, DType::f32, GetParam()),
               one = Tensor::empty({8}, DType::f32, GetParam());
  k(Stream(GetParam()), p.cache.permute({1, 2, 0}).contiguous(), p.table,
    Tensor::from(picked, GetParam()), rows, one);
  const auto got = rows.to_doubles(), ones = one.to_doubles();
  for (std::size_t i = 0; i < picked.size(); ++i) {
    const bool has = picked[i] >= 0 && picked[i] < 10;
    for (std::int64_t c = 0; c < kColumns; ++c)
      EXPECT_EQ(got[i * kColumns + static_cast<std::size_t>(c)],
                has ? element(0, picked[i], c) : 0);
    EXPECT_EQ(ones[i], has ? element(0, picked[i], 3) : 0);
  }
}

/// Pages of 16 rows of which TMA loads boxes, and others, that it does not.
struct Boxes {
  std::string_view name;
  i32 begin;          ///< first row of the sum
  bool is_aligned;    ///< the kernel knows that it is a multiple of 16
  std::int64_t rows;  ///< of a page
  bool is_by_tma;
};
constexpr Boxes kBoxes[] = {{"whole pages", 0, true, 16, true},
                            {"from a page on", 16, true, 16, true},
                            {"long pages", 32, true, 96, true},
                            {"from a row on", 3, false, 16, false},
                            {"short pages", 16, true, 4, false}};

/// Sums the rows of a request from `begin` on, 64 at a time: rows beyond the length and missing
/// pages add nothing, although the cache's rows there are NaN.
TEST_P(PagedViews, MultiplyBoxesOfRows) {
  constexpr std::int64_t kDim = 64, kLength = 150;
  for (const Boxes& of : kBoxes) {
    SCOPED_TRACE(of.name);
    const auto k = kernel("multiply", [&](In<bf16, 2> w, In<bf16, 3> cache, In<i32, 2> table,
                                          Scalar<i32> begin, Out<f32, 2> sums) {
      for (auto m : grid(sums.dim(0), 64)) {
        const auto x = paged(cache, table, 0, kLength);
        Tile acc = zeros<f32>(64, kDim);
        const Tile first = of.is_aligned ? begin / 16 * 16 : Tile(begin);
        for (auto n : steps(first, x.length(), 64))
          acc = dot(fill_absent(w(m, n), 0), fill_absent(x(n, all), 0), acc);
        sums(m, all) = acc;
      }
    });
    const std::int64_t pages = (kLength + of.rows - 1) / of.rows;
    std::vector<i32> table;
    for (std::int64_t p = 0; p < pages; ++p)
      table.push_back(p == 1 ? -1 : static_cast<i32>(pages - p));
    const Tensor cache = Tensor::full({pages + 1, of.rows, kDim}, NAN, DType::bf16, GetParam()),
                 w = Tensor::full({64, 256}, 1, DType::bf16, GetParam()),
                 sums = Tensor::empty({64, kDim}, DType::f32, GetParam());
    double want = 0;
    for (std::int64_t r = 0; r < kLength; ++r) {
      const i32 page = table[static_cast<std::size_t>(r / of.rows)];
      if (page < 0) continue;
      cache.select(0, page).select(0, r % of.rows).fill(static_cast<double>(r % 8));
      if (r >= of.begin) want += static_cast<double>(r % 8);
    }
    k(Stream(GetParam()), w, cache, Tensor::from(table, {1, pages}, GetParam()), of.begin, sums);
    for (const double sum : sums.to_doubles()) ASSERT_EQ(sum, want);
    if (GetParam().kind != DeviceKind::sim) continue;
    const std::string how = k.explain();
    EXPECT_EQ(how.find("pipelined by cp.async") == std::string::npos, of.is_by_tma) << how;
  }
}

TEST_P(PagedViews, StoreRows) {
  const auto k = kernel("store", [](InOut<f32, 3> cache, In<i32, 2> table, In<i32, 1> lengths) {
    for (auto b : grid(lengths, 1)) {
      const auto x = paged(cache, table, b, lengths(b));
      x(slice(2, 16), all) = full<f32>(-1, 16, kColumns);
    }
  });
  const Paging p(GetParam());
  k(Stream(GetParam()), p.cache, p.table, p.lengths);
  std::vector<double> want(kPages * kRows * kColumns);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = static_cast<double>(i);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t r = 2; r < kLengths[static_cast<std::size_t>(b)]; ++r)
      if (const i32 page = kTable[static_cast<std::size_t>(b * 4 + r / kRows)]; page >= 0)
        for (std::int64_t c = 0; c < kColumns; ++c)
          want[static_cast<std::size_t>((page * kRows + r % kRows) * kColumns + c)] = -1;
  EXPECT_EQ(p.cache.to_doubles(), want);
}

constexpr int kPagedLine = __LINE__ + 7, kLoadLine = kPagedLine + 1;

/// Returns the first code and line that a call with this table and length ends with.
std::string found_with(const Paging& p, i32 entry, i32 length) {
  const auto k =
      kernel("found", [](In<f32, 3> cache, In<i32, 2> table, Scalar<i32> length, Out<f32, 2> y) {
        for (auto n : grid(y.dim(0), 4)) {
          const auto x = paged(cache, table, 0, length);
          y(n, all) = fill_absent(x(n, all), 0);
        }
      });
  const Device device = p.cache.device();
  const std::vector<i32> table{3, entry, 4, 99};
  try {
    k(Stream(device), p.cache, Tensor::from(table, {1, 4}, device), length,
      Tensor::empty({20, kColumns}, DType::f32, device));
  } catch (const ProgramError& e) {
    return e.diagnostic().code + " at line " + std::to_string(e.diagnostic().loc.line) + ": " +
           e.diagnostic().message;
  }
  return "";
}

TEST_P(PagedViews, ReportEntriesAndLengthsAtTheirLine) {
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "reads zeros";
  const Paging p(GetParam());
  EXPECT_EQ(found_with(p, 0, 12), "");
  EXPECT_EQ(found_with(p, -1, 12), "");
  EXPECT_EQ(found_with(p, 5, 4), "") << "an entry that no row needs";
  const std::string page = found_with(p, 5, 12), room = found_with(p, 0, 17);
  const auto begins = [](const char* code, int line) {
    return code + (" at line " + std::to_string(line) + ":");
  };
  EXPECT_TRUE(page.starts_with(begins("T1689", kLoadLine))) << page;
  EXPECT_NE(page.find("5 < 5"), std::string::npos) << page;
  EXPECT_NE(room.find("17 <= 16"), std::string::npos) << room;
  EXPECT_TRUE(room.starts_with(begins("T1690", kPagedLine))) << room;
}

TEST(PagedViewErrors, RefuseAll) {
  const auto k = kernel("all", [](In<f32, 3> cache, In<i32, 2> table, Out<f32, 2> y) {
    for (auto n : grid(y, 4)) y(n, all) = paged(cache, table, 0, 10)(all, all);
  });
  const Paging p(Device::cpu());
  try {
    k(Stream(Device::cpu()), p.cache, p.table, Tensor::empty({4, kColumns}, DType::f32));
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_EQ(e.diagnostic().code, "T1662");
  }
}

}  // namespace
}  // namespace tegula::test::paged_views_test
