// Products of matrices at addresses that the kernel reads from memory: cp.async copies both
// operands for wgmma, inside loops and branches of the device. Exact on small integers, on every
// available device.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::address_products_test {
namespace {

std::uint64_t address_of(const Tensor& t) { return reinterpret_cast<std::uint64_t>(t.data()); }

class AddressProducts : public test::OnDevice {
 protected:
  template <class Kernel>
  void expect_pipelined(const Kernel& kernel, bool is_wgmma = true) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    const std::string said = kernel.explain();
    EXPECT_NE(said.find("pipelined by cp.async"), std::string::npos) << said;
    if (!is_wgmma) return;
    EXPECT_NE(said.find("a=gathered b=gathered"), std::string::npos) << said;
    EXPECT_EQ(said.find("mma.sync"), std::string::npos) << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AddressProducts, testing::ValuesIn(test::devices()),
                         test::device_name);

struct Shape {
  std::int64_t m, n, k;
};

/// Operands and results of many shapes, and their tables. Rows are `pad` elements longer than n and
/// k.
struct Products {
  Products(const std::vector<Shape>& shapes, Device device, std::int64_t pad = 0)
      : shapes(shapes), device(device), pad(pad) {
    for (const auto& [m, n, k] : shapes) {
      const auto seed = static_cast<std::uint64_t>(m + 3 * n + 5 * k);
      const auto add = [&](std::vector<Tensor>& list, Tensor t) {
        addresses.push_back(address_of(t));
        list.push_back(std::move(t));
      };
      add(a, Tensor::integers({m, k + pad}, DType::f16, -3, 4, seed, device));
      add(b, Tensor::integers({k, n + pad}, DType::f16, -3, 4, seed + 1, device));
      add(c, Tensor::full({m, n + pad}, 77, DType::f32, device));
    }
  }

  Tensor table() const { return Tensor::from(addresses, {count(), 3}, device); }
  /// m, and n and k divided by `unit`.
  Tensor extents(std::int64_t unit) const {
    std::vector<i32> all;
    for (const auto& [m, n, k] : shapes)
      for (const std::int64_t extent : {m, n / unit, k / unit})
        all.push_back(static_cast<i32>(extent));
    return Tensor::from(all, {count(), 3}, device);
  }
  std::int64_t count() const { return static_cast<std::int64_t>(shapes.size()); }

  void expect_results(const std::vector<bool>& skipped = {}) const {
    for (std::size_t g = 0; g < shapes.size(); ++g) {
      const auto& [m, n, k] = shapes[g];
      SCOPED_TRACE(testing::Message() << "product " << g << ": " << m << " " << n << " " << k);
      std::vector<double> want(static_cast<std::size_t>(m * (n + pad)), 77);
      const auto sums = test::product(a[g].slice(1, 0, k), b[g].slice(1, 0, n));
      for (std::int64_t i = 0; i < m && (skipped.empty() || !skipped[g]); ++i)
        for (std::int64_t j = 0; j < n; ++j)
          want[static_cast<std::size_t>(i * (n + pad) + j)] =
              sums[static_cast<std::size_t>(i * n + j)];
      test::expect_equal(c[g], want);
    }
  }

  std::vector<Shape> shapes;
  Device device;
  std::int64_t pad;
  std::vector<Tensor> a, b, c;
  std::vector<u64> addresses;
};

/// Extents that are multiples of a chunk but not of a tile; groups without rows, columns or depth;
/// fewer steps than the ring has slots, and more.
const std::vector<Shape> kShapes{{70, 136, 64}, {1, 8, 8},     {0, 8, 8},     {40, 0, 40},
                                 {9, 64, 0},    {64, 72, 200}, {130, 64, 456}};

auto grouped(int block, int depth, int programs) {
  return kernel("grouped", [=](In<u64, 2> addresses, In<i32, 2> eighths) {
    for (auto p : grid(GridSpace({programs}), 1)) {
      Tile tile = cast<i32>(p.first()), first = full<i32>(0);
      for (auto g : steps(eighths.rows(), 1)) {
        const Tile m = eighths(g, 0), n = 8 * eighths(g, 1), k = 8 * eighths(g, 2);
        const auto A = view<f16, 2>(as_pointer<f16>(addresses(g, 0)), {m, k}, {k, 1}, aligned(16));
        const auto B = view<f16, 2>(as_pointer<f16>(addresses(g, 1)), {k, n}, {n, 1}, aligned(16));
        const auto C = view<f32, 2>(as_pointer<f32>(addresses(g, 2)), {m, n}, {n, 1}, aligned(16));
        const Tile columns = cdiv(n, block), end = first + cdiv(m, block) * columns;
        while_([&] { return tile < end; },
               [&] {
                 const Index r = slice((tile - first) / columns * block, block),
                             c = slice((tile - first) % columns * block, block);
                 Tile acc = zeros<f32>(block, block);
                 for (auto s : steps(k, depth)) acc = dot(A(r, s), B(s, c), acc);
                 C(r, c) = acc;
                 tile = tile + programs;
               });
        first = end;
      }
    }
  });
}

TEST_P(AddressProducts, ManyShapes) {
  for (const int depth : {32, 64}) {
    const Products all(kShapes, GetParam());
    const auto product = grouped(64, depth, 3);
    product(stream(), all.table(), all.extents(8));
    all.expect_results();
    expect_pipelined(product);
  }
}

/// A chain of products: the result of one is an operand of the next.
TEST_P(AddressProducts, TheResultsBefore) {
  const auto chain = kernel("chain", [](In<u64, 1> addresses, Scalar<i32> count, Scalar<i32> n8) {
    for (auto p : grid(GridSpace({1}), 1)) {
      for (auto i : steps(cast<i32>(p.first()), Tile(count), 1)) {
        const Tile n = 8 * Tile(n8);
        const auto at = [&](const Tile& place) {
          return view<f16, 2>(as_pointer<f16>(addresses(place)), {n, n}, {n, 1}, aligned(16));
        };
        const auto X = at(i.first()), W = at(Tile(count) + 1), Y = at(i.first() + 1);
        Tile acc = zeros<f32>(64, 64);
        for (auto s : steps(n, 32)) acc = dot(X(slice(0, 64), s), W(s, slice(0, 64)), acc);
        Y(slice(0, 64), slice(0, 64)) = acc;
      }
    }
  });
  constexpr std::int64_t kN = 56, kCount = 3;
  const Tensor x = Tensor::integers({kN, kN}, DType::f16, -1, 2, 1, GetParam());
  std::vector<double> permuted(kN * kN, 0);
  for (std::int64_t i = 0; i < kN; ++i)
    permuted[static_cast<std::size_t>(i * kN + (i * 5 + 3) % kN)] = 1;
  const Tensor w = Tensor::from(permuted, {kN, kN}, Device::cpu()).cast(DType::f16).to(GetParam());
  std::vector<Tensor> results;
  std::vector<u64> addresses{address_of(x)};
  for (std::int64_t i = 0; i < kCount; ++i) {
    results.push_back(Tensor::full({kN, kN}, 5, DType::f16, GetParam()));
    addresses.push_back(address_of(results.back()));
  }
  addresses.push_back(address_of(w));
  chain(stream(), Tensor::from(addresses, GetParam()), static_cast<i32>(kCount),
        static_cast<i32>(kN / 8));
  Tensor want = x;
  for (std::size_t i = 0; i < results.size(); ++i) {
    test::expect_equal(results[i], test::product(want, w));
    want = results[i];
  }
  expect_pipelined(chain);
}

/// A product under a condition that only the device knows.
TEST_P(AddressProducts, UnderAConditionOfTheDevice) {
  const auto wanted = kernel("wanted", [](In<u64, 2> addresses, In<i32, 2> eighths,
                                          In<i32, 1> flags) {
    for (auto g : grid(rows(eighths), 1)) {
      if_(flags(g) > 0, [&] {
        const Tile m = eighths(g, 0), n = 8 * eighths(g, 1), k = 8 * eighths(g, 2);
        const auto A = view<f16, 2>(as_pointer<f16>(addresses(g, 0)), {m, k}, {k, 1}, aligned(16));
        const auto B = view<f16, 2>(as_pointer<f16>(addresses(g, 1)), {k, n}, {n, 1}, aligned(16));
        const auto C = view<f32, 2>(as_pointer<f32>(addresses(g, 2)), {m, n}, {n, 1}, aligned(16));
        for (auto r : steps(m, 64))
          for (auto c : steps(n, 64)) {
            Tile acc = zeros<f32>(64, 64);
            for (auto s : steps(k, 64)) acc = dot(A(r, s), B(s, c), acc);
            C(r, c) = acc;
          }
      });
    }
  });
  const Products all({{70, 136, 200}, {64, 64, 64}, {40, 72, 456}}, GetParam());
  wanted(stream(), all.table(), all.extents(8),
         Tensor::from(std::vector<i32>{1, 0, 1}, GetParam()));
  all.expect_results({false, true, false});
  expect_pipelined(wanted);
}

/// Rows of odd lengths and no promise: elements move one by one, and nothing is copied ahead.
TEST_P(AddressProducts, OddRows) {
  const auto odd = kernel("odd", [](In<u64, 2> addresses, In<i32, 2> extents) {
    for (auto g : grid(rows(extents), 1)) {
      const Tile m = extents(g, 0), n = extents(g, 1), k = extents(g, 2);
      const auto A = view<f16, 2>(as_pointer<f16>(addresses(g, 0)), {m, k}, {k + 1, 1});
      const auto B = view<f16, 2>(as_pointer<f16>(addresses(g, 1)), {k, n}, {n + 1, 1});
      const auto C = view<f32, 2>(as_pointer<f32>(addresses(g, 2)), {m, n}, {n + 1, 1});
      for (auto r : steps(m, 64))
        for (auto c : steps(n, 64)) {
          Tile acc = zeros<f32>(64, 64);
          for (auto s : steps(k, 64)) acc = dot(A(r, s), B(s, c), acc);
          C(r, c) = acc;
        }
    }
  });
  const Products all({{70, 133, 65}, {1, 1, 1}, {5, 7, 0}}, GetParam(), 1);
  odd(stream(), all.table(), all.extents(1));
  all.expect_results();
}

/// A loop moves a view by an element: a thread reads what another one wrote in the previous
/// iteration.
TEST_P(AddressProducts, ViewsThatMove) {
  const auto moved = kernel("moved", [](In<u64, 1> addresses, Scalar<i32> n) {
    for (auto p : grid(GridSpace({1}), 1)) {
      const Tile first = as_pointer<i32>(addresses(p.first()));
      for (auto i : steps(Tile(n), 1)) {
        const auto x = view<i32, 1>(first + i.first(), {256}, {1});
        x(slice(0, 256)) = x(slice(0, 256)) + 1;
      }
    }
  });
  const Tensor x = Tensor::zeros({256 + 7}, DType::i32, GetParam());
  moved(stream(), Tensor::from(std::vector<u64>{address_of(x)}, GetParam()), 8);
  std::vector<double> want;
  for (int i = 0; i < 256 + 7; ++i) want.push_back(std::min({i + 1, 8, 256 + 7 - i}));
  EXPECT_EQ(x.to_doubles(), want);
}

/// Rows that share all but one element: a store through one row is read through another.
TEST_P(AddressProducts, ViewsWithOverlappingRows) {
  const auto overlapping = kernel("overlapping", [](In<u64, 1> addresses, Out<i32, 2> y) {
    for (auto p : grid(GridSpace({1}), 1)) {
      const auto x = view<i32, 2>(as_pointer<i32>(addresses(p.first())), {64, 64}, {1, 1});
      x(0, slice(0, 64)) = arange(64) * 3;
      y(slice(0, 32), slice(0, 32)) = x(slice(0, 32), slice(0, 32));
    }
  });
  const Tensor x = Tensor::zeros({127}, DType::i32, GetParam()),
               y = Tensor::empty({32, 32}, DType::i32, GetParam());
  overlapping(stream(), Tensor::from(std::vector<u64>{address_of(x)}, GetParam()), y);
  std::vector<double> want;
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 32; ++j) want.push_back(3 * (i + j));
  EXPECT_EQ(y.to_doubles(), want);
}

/// A stride that violates the promise is reported where rows are read.
TEST(AddressProduct, UnalignedRows) {
  const auto read = kernel("read_rows", [](In<u64, 1> table, In<i32, 1> n, Out<f16, 2> y) {
    for (auto r : grid(rows(y), 8)) {
      const auto x =
          view<f16, 2>(as_pointer<f16>(table(0)), {y.rows(), 8 * n(0)}, {n(1), 1}, aligned(16));
      y(r, slice(0, 16)) = x(r, slice(0, 16));
    }
  });
  for (const Device d : {Device::cpu(), Device::sim()}) {
    const Tensor x = Tensor::zeros({8, 18}, DType::f16, d),
                 y = Tensor::empty({8, 16}, DType::f16, d);
    try {
      read(Tensor::from(std::vector<u64>{address_of(x)}, d),
           Tensor::from(std::vector<i32>{2, 18}, d), y);
      ADD_FAILURE() << "nothing is found on " << test::name_of(d);
    } catch (const ProgramError& e) {
      EXPECT_EQ(e.diagnostic().code, "T1313") << e.what();
    }
  }
}

}  // namespace
}  // namespace tegula::address_products_test
