// Views that kernels make of addresses in a table: a multi-tensor update, and products of matrices
// of many shapes in one launch.
#include "tegula/address_view.h"

#include <gtest/gtest.h>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::address_views_test {
namespace {

std::uint64_t address_of(const Tensor& t) { return reinterpret_cast<std::uint64_t>(t.data()); }

class AddressViews : public testing::TestWithParam<Device> {
 protected:
  Device device() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Devices, AddressViews, testing::ValuesIn(test::devices()),
                         test::device_name);

/// w -= lr * g of tensors of any length, also at addresses that no wide access may take, in one
/// launch; a chunk of elements is a program's.
TEST_P(AddressViews, UpdateManyTensors) {
  constexpr int kChunk = 512;
  const auto update =
      kernel("update", [](In<u64, 2> tensors, In<i64, 1> sizes, In<i32, 2> chunks, Scalar<f32> lr) {
        for (auto c : grid(rows(chunks), 1)) {
          const Tile i = chunks(c, 0), n = sizes(i);
          const auto w = view<bf16, 1>(as_pointer<bf16>(tensors(i, 0)), {n}, {1});
          const auto g = view<f32, 1>(as_pointer<f32>(tensors(i, 1)), {n}, {1});
          const Index part = slice(chunks(c, 1) * kChunk, kChunk);
          w(part) = cast<bf16>(cast<f32>(w(part)) - lr * g(part));
        }
      });
  std::vector<Tensor> weights, gradients;
  std::vector<u64> table;
  std::vector<i64> sizes;
  std::vector<i32> chunks;
  const Tensor pool = Tensor::integers({4096}, DType::bf16, -64, 64, 3, device());
  const std::vector<double> before = pool.to_doubles();
  std::int64_t first = 1;  // 2 bytes after an aligned address
  for (const std::int64_t n : {1, 7, 512, 0, 700, 1300}) {
    gradients.push_back(Tensor::integers({std::max<std::int64_t>(n, 1)}, DType::f32, -16, 16,
                                         static_cast<std::uint64_t>(n), device()));
    table.push_back(address_of(pool) + static_cast<std::uint64_t>(2 * first));
    table.push_back(address_of(gradients.back()));
    sizes.push_back(n);
    for (std::int64_t part = 0; part * kChunk < n; ++part) {
      chunks.push_back(static_cast<i32>(sizes.size()) - 1);
      chunks.push_back(static_cast<i32>(part));
    }
    first += n + 3;
  }
  const auto count = static_cast<std::int64_t>(sizes.size());
  update(Tensor::from(table, {count, 2}, device()), Tensor::from(sizes, {count}, device()),
         Tensor::from(chunks, {static_cast<std::int64_t>(chunks.size()) / 2, 2}, device()), 0.5f);
  std::vector<double> want = before;
  first = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto g = gradients[i].to_doubles();
    for (std::int64_t j = 0; j < sizes[i]; ++j) {
      double& w = want[static_cast<std::size_t>(first + j)];
      w = static_cast<double>(
          static_cast<float>(bf16(static_cast<float>(w - 0.5 * g[static_cast<std::size_t>(j)]))));
    }
    first += sizes[i] + 3;
  }
  EXPECT_EQ(pool.to_doubles(), want);
}

/// The same of aligned tensors, whose pieces of 16 bytes move at once: lengths that are whole
/// pieces, ragged ones, and none.
TEST_P(AddressViews, AlignedTensorsMoveInPieces) {
  constexpr int kChunk = 2048;
  const auto update =
      kernel("update_in_pieces", [](In<u64, 2> tensors, In<i32, 1> sizes, Scalar<f32> lr) {
        for (auto [i, c] : grid({sizes.dim(0), 2}, 1, 1)) {
          const Tile n = sizes(i);
          const auto w = view<bf16, 1>(as_pointer<bf16>(tensors(i, 0)), {n}, {1}, aligned(16));
          const auto g = view<f32, 1>(as_pointer<f32>(tensors(i, 1)), {n}, {1}, aligned(16));
          const Index part = slice(cast<i32>(c.first()) * kChunk, kChunk);
          w(part) = cast<bf16>(cast<f32>(w(part)) - lr * g(part));
        }
      });
  std::vector<Tensor> weights, gradients;
  std::vector<u64> table;
  std::vector<i32> sizes;
  for (const std::int64_t n : {2048, 1, 0, 4096, 777, 3000}) {
    const auto seed = static_cast<std::uint64_t>(n);
    const std::int64_t room = n + 8;
    weights.push_back(Tensor::integers({room}, DType::bf16, -64, 64, seed, device()));
    gradients.push_back(Tensor::integers({room}, DType::f32, -16, 16, seed + 1, device()));
    table.push_back(address_of(weights.back()));
    table.push_back(address_of(gradients.back()));
    sizes.push_back(static_cast<i32>(n));
  }
  std::vector<std::vector<double>> before;
  for (const Tensor& w : weights) before.push_back(w.to_doubles());
  const auto count = static_cast<std::int64_t>(sizes.size());
  update(Tensor::from(table, {count, 2}, device()), Tensor::from(sizes, {count}, device()), 0.5f);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<double> want = before[i];
    const auto g = gradients[i].to_doubles();
    for (std::size_t j = 0; j < static_cast<std::size_t>(sizes[i]); ++j)
      want[j] =
          static_cast<double>(static_cast<float>(bf16(static_cast<float>(want[j] - 0.5 * g[j]))));
    EXPECT_EQ(weights[i].to_doubles(), want) << "tensor " << i << " of " << sizes[i];
  }
  if (device().kind != DeviceKind::sim) return;
  const std::string code = update.dump("optimize");
  EXPECT_NE(code.find("width = 8"), std::string::npos) << code;
  EXPECT_NE(code.find("width = 4"), std::string::npos) << code;
}

/// Rows of matrices: extents that the kernel can see to be whole pieces, both orders of dimensions,
/// parts that begin in the middle of a piece, and columns chosen by an index tile.
TEST_P(AddressViews, AlignedRowsMoveInPieces) {
  const auto copy = kernel("copy_rows", [](In<u64, 1> tensors, In<i32, 1> eighths, Out<f16, 2> y,
                                           Out<f16, 2> across, Out<f16, 2> picked) {
    for (auto r : grid(rows(y), 8)) {
      const Tile n = eighths(0) * 8;
      const auto x = view<f16, 2>(as_pointer<f16>(tensors(0)), {y.rows(), n}, {n, 1}, aligned(16));
      const auto t = view<f16, 2>(as_pointer<f16>(tensors(0)), {n, y.rows()}, {1, n}, aligned(16));
      y(r, slice(0, 64)) = x(r, slice(0, 64));
      across(r, slice(0, 32)) = t(slice(4, 32), r).T();
      picked(r, slice(0, 4)) = x(r, arange(4) * 9);
    }
  });
  constexpr std::int64_t kRows = 13, kColumns = 56;
  const Tensor x = Tensor::integers({kRows, kColumns}, DType::f16, -64, 64, 1, device());
  const Tensor y = Tensor::empty({kRows, kColumns}, DType::f16, device()),
               across = Tensor::empty({kRows, 32}, DType::f16, device()),
               picked = Tensor::empty({kRows, 4}, DType::f16, device());
  copy(Tensor::from(std::vector<u64>{address_of(x)}, {1}, device()),
       Tensor::from(std::vector<i32>{kColumns / 8}, {1}, device()), y, across, picked);
  const auto all = x.to_doubles();
  EXPECT_EQ(y.to_doubles(), all);
  std::vector<double> middle, some;
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 4; j < 36; ++j)
      middle.push_back(all[static_cast<std::size_t>(i * kColumns + j)]);
    for (std::int64_t j = 0; j < 4; ++j)
      some.push_back(all[static_cast<std::size_t>(i * kColumns + 9 * j)]);
  }
  EXPECT_EQ(across.to_doubles(), middle);
  EXPECT_EQ(picked.to_doubles(), some);
}

/// A violated promise is reported where the kernel relies on it.
TEST(AddressView, UnalignedAddress) {
  const auto read = kernel("read_pieces", [](In<u64, 1> table, Out<f32, 1> y) {
    for (auto i : grid(y, 128))
      y(i) = view<f32, 1>(as_pointer<f32>(table(0)), {128}, {1}, aligned(16))(i);
  });
  for (const Device d : {Device::cpu(), Device::sim()}) {
    const Tensor x = Tensor::zeros({256}, DType::f32, d), y = Tensor::empty({128}, DType::f32, d);
    try {
      read(Tensor::from(std::vector<u64>{address_of(x) + 4}, {1}, d), y);
      ADD_FAILURE() << "nothing is found on " << test::name_of(d);
    } catch (const ProgramError& e) {
      EXPECT_EQ(e.diagnostic().code, "T1313") << e.what();
    }
  }
}

/// Triton's grouped GEMM: a table of addresses, one of shapes and leading strides; programs walk
/// the tiles of all products.
TEST_P(AddressViews, GroupedProducts) {
  constexpr int kBlock = 32, kPrograms = 5;
  const auto grouped = kernel("grouped", [](In<u64, 2> tensors, In<i32, 2> shapes) {
    for (auto p : grid(GridSpace({kPrograms}), 1)) {
      Tile tile = cast<i32>(p.first()), done = full<i32>(0);
      for (auto g : steps(shapes.rows(), 1)) {
        const Tile m = shapes(g, 0), n = shapes(g, 1), k = shapes(g, 2);
        const Tile columns = cdiv(n, kBlock), count = cdiv(m, kBlock) * columns;
        const auto A = view<f16, 2>(as_pointer<f16>(tensors(g, 0)), {m, k}, {k, 1});
        const auto B = view<f16, 2>(as_pointer<f16>(tensors(g, 1)), {k, n}, {n + 1, 1});
        const auto C = view<f32, 2>(as_pointer<f32>(tensors(g, 2)), {m, n}, {n, 1});
        while_([&] { return tile < done + count; },
               [&] {
                 const Tile own = tile - done;
                 const Index r = slice(own / columns * kBlock, kBlock),
                             c = slice(own % columns * kBlock, kBlock);
                 Tile acc = zeros<f32>(kBlock, kBlock);
                 for (auto s : steps(k, kBlock)) acc = dot(A(r, s), B(s, c), acc);
                 C(r, c) = acc;
                 tile = tile + kPrograms;
               });
        done = done + count;
      }
    }
  });
  struct Product {
    std::int64_t m, n, k;
  };
  std::vector<u64> table;
  std::vector<i32> shapes;
  std::vector<Tensor> a, b, c;
  const std::vector<Product> products{{40, 33, 64}, {1, 1, 1}, {64, 96, 40}, {7, 65, 33}};
  for (const auto& [m, n, k] : products) {
    const auto seed = static_cast<std::uint64_t>(m);
    a.push_back(Tensor::integers({m, k}, DType::f16, -4, 4, seed, device()));
    b.push_back(Tensor::integers({k, n + 1}, DType::f16, -4, 4, seed + 1, device()));
    c.push_back(Tensor::full({m, n}, 99, DType::f32, device()));
    for (const Tensor* t : {&a.back(), &b.back(), &c.back()}) table.push_back(address_of(*t));
    for (const std::int64_t extent : {m, n, k}) shapes.push_back(static_cast<i32>(extent));
  }
  const auto count = static_cast<std::int64_t>(products.size());
  grouped(Tensor::from(table, {count, 3}, device()), Tensor::from(shapes, {count, 3}, device()));
  for (std::size_t i = 0; i < products.size(); ++i) {
    const auto& [m, n, k] = products[i];
    const auto x = a[i].to_doubles(), y = b[i].to_doubles();
    std::vector<double> want;
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t col = 0; col < n; ++col) {
        double sum = 0;
        for (std::int64_t s = 0; s < k; ++s)
          sum += x[static_cast<std::size_t>(r * k + s)] *
                 y[static_cast<std::size_t>(s * (n + 1) + col)];
        want.push_back(sum);
      }
    EXPECT_EQ(c[i].to_doubles(), want) << "product " << i;
  }
}

/// Presence is that of a parameter's view: folds leave out what is outside.
TEST_P(AddressViews, ElementsOutsideAreAbsent) {
  const auto fold = kernel("fold", [](In<u64, 1> tensors, In<i32, 1> sizes, Out<f32, 2> y) {
    for (auto i : grid(rows(y), 1)) {
      const Tile n = sizes(i);
      const auto x = view<f32, 2>(as_pointer<f32>(tensors(i)), {n, 3}, {3, 1});
      const Tile v = x(slice(0, 16), 1);
      y(i, 0) = max(v, axis(0));
      y(i, 1) = sum(where(v < 0, 1, 0), axis(0));
      y(i, 2) = x(2, 2);
      const Tile picked = x(arange(4) * 3, 0);
      y(i, 3) = sum(picked, axis(0));
    }
  });
  const std::vector<f32> values{-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12};
  const Tensor x = Tensor::from(values, {4, 3}, device());
  const Tensor y = Tensor::empty({2, 4}, DType::f32, device());
  fold(Tensor::from(std::vector<u64>{address_of(x), address_of(x)}, {2}, device()),
       Tensor::from(std::vector<i32>{4, 2}, {2}, device()), y);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{-2, 4, -9, -11, -2, 2, 0, -1}));
}

/// An address that belongs to no tensor known to the host.
/// A parameter is a part of the tensor that the view has.
TEST_P(AddressViews, AroundAParameter) {
  const auto copied = kernel("around", [](In<u64, 1> table, In<f32, 1> part, Out<f32, 1> y) {
    for (auto i : grid(y, 16)) {
      const auto all = view<f32, 1>(as_pointer<f32>(table(0)), {16}, {1});
      y(i) = all(i) + part(0);
    }
  });
  const Tensor x = Tensor::integers({16}, DType::f32, 1, 9, 5, device()),
               y = Tensor::zeros({16}, DType::f32, device());
  copied(Tensor::from(std::vector<u64>{address_of(x)}, {1}, device()), x.slice(0, 0, 4), y);
  const std::vector<double> given = x.to_doubles();
  std::vector<double> want;
  for (const double v : given) want.push_back(v + given[0]);
  EXPECT_EQ(y.to_doubles(), want);
}

/// Lines that begin one element after each other, of a parameter and at an address.
TEST_P(AddressViews, WindowsOfASignal) {
  const auto sums = kernel("windows", [](In<f32, 2> x, In<u64, 1> table, Out<f32, 2> y) {
    for (auto [m, n] : grid(y, 32, 64)) {
      const auto again =
          view<f32, 2>(as_pointer<f32>(table(0)), {y.rows(), y.cols()}, {1, 1}, aligned(16));
      y(m, n) = x(m, n) + again(m, n);
    }
  });
  const Tensor signal = Tensor::integers({160}, DType::f32, 0, 50, 6, device()),
               y = Tensor::zeros({64, 64}, DType::f32, device());
  const Tensor x = Tensor::borrow(signal.data(), {64, 64}, DType::f32, device(), {1, 1});
  sums(x, Tensor::from(std::vector<u64>{address_of(signal)}, {1}, device()), y);
  const std::vector<double> given = signal.to_doubles();
  std::vector<double> want;
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < 64; ++j) want.push_back(2 * given[i + j]);
  EXPECT_EQ(y.to_doubles(), want);
}

TEST(AddressView, OutsideOfAllTensors) {
  const auto read = kernel("read", [](In<u64, 1> table, Out<f32, 1> y) {
    for (auto i : grid(y, 4)) y(i) = view<f32, 1>(as_pointer<f32>(table(0)), {4}, {1})(i);
  });
  for (const Device d : {Device::cpu(), Device::sim()}) {
    const Tensor x = Tensor::zeros({2}, DType::f32, d), y = Tensor::empty({4}, DType::f32, d);
    try {
      read(Tensor::from(std::vector<u64>{address_of(x)}, {1}, d), y);
      ADD_FAILURE() << "nothing is found on " << test::name_of(d);
    } catch (const ProgramError& e) {
      EXPECT_EQ(e.diagnostic().code, "T1302") << e.what();
    }
  }
}

}  // namespace
}  // namespace tegula::address_views_test
