// Several grids of one kernel, separated by barriers of all programs.
#include <gtest/gtest.h>

#include "dsl/instance.h"
#include "dsl/launcher.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::grid_barrier_test {
namespace {

class GridBarrier : public testing::TestWithParam<Device> {
 protected:
  Device device() const { return GetParam(); }
  Tensor zeros_of(const Dims& shape) const { return Tensor::zeros(shape, DType::f32, device()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, GridBarrier, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Jacobi's iteration: every element becomes the mean of its neighbours, three times.
TEST_P(GridBarrier, ElementsOfOthers) {
  constexpr int kBlock = 64, kSize = 1000;
  const auto jacobi = kernel("jacobi", [](InOut<f32, 1> a, InOut<f32, 1> b) {
    const auto sweep = [](const InOut<f32, 1>& from, const InOut<f32, 1>& to) {
      for (auto i : grid(to, kBlock))
        to(i) = (fill_absent(from(i.shifted(-1)), 0) + fill_absent(from(i.shifted(1)), 0)) * 0.5f;
    };
    sweep(a, b);
    grid_barrier();
    sweep(b, a);
    grid_barrier();
    sweep(a, b);
  });
  const Tensor a = Tensor::integers({kSize}, DType::f32, -64, 64, 1, device()),
               b = zeros_of({kSize});
  std::vector<double> from = a.to_doubles(), to(kSize);
  for (int sweep = 0; sweep < 3; ++sweep) {
    for (std::size_t i = 0; i < kSize; ++i)
      to[i] = ((i > 0 ? from[i - 1] : 0) + (i + 1 < kSize ? from[i + 1] : 0)) * 0.5;
    from = to;
  }
  jacobi(a, b);
  EXPECT_EQ(b.to_doubles(), from);
}

/// Grids of different numbers of tiles and dimensions, and a call after the other.
TEST_P(GridBarrier, GridsOfAnySize) {
  const auto normalize = kernel(
      "normalize", [](In<f32, 2> x, InOut<f32, 2> parts, InOut<f32, 1> total, Out<f32, 2> y) {
        for (auto [r, c] : grid(x, 8, 32, group_m(2)))
          parts(slice(r.first() / 8, 1), slice(c.first() / 32, 1)) = sum(x(r, c));
        grid_barrier();
        for (auto p : grid(GridSpace({1}), 1)) total(p) = sum(parts(slice(0, 16), slice(0, 16)));
        grid_barrier();
        for (auto r : grid(rows(y), 1)) y(r, all) = x(r, all) - total(0);
      });
  const Tensor x = Tensor::integers({50, 100}, DType::f32, -3, 4, 1, device()),
               y = zeros_of({50, 100});
  double total = 0;
  for (const double v : x.to_doubles()) total += v;
  std::vector<double> want = x.to_doubles();
  for (double& v : want) v -= total;
  for (int call = 0; call < 3; ++call) {
    normalize(x, zeros_of({7, 4}), zeros_of({1}), y);
    EXPECT_EQ(y.to_doubles(), want) << "call " << call;
  }
}

/// Two products, the second of what the first has stored.
TEST_P(GridBarrier, ProductsOfProducts) {
  const auto twice =
      kernel("twice", [](In<bf16, 2> a, In<bf16, 2> b, InOut<bf16, 2> s, Out<f32, 2> z) {
        for (auto [m, n] : grid(s, 64, 64)) {
          Tile acc = zeros<f32>(64, 64);
          for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
          s(m, n) = acc;
        }
        grid_barrier();
        for (auto [m, n] : grid(z, 64, 64)) {
          Tile acc = zeros<f32>(64, 64);
          for (auto k : steps(s.cols(), 64)) acc = dot(s(m, k), b(k, n), acc);
          z(m, n) = acc;
        }
      });
  constexpr std::int64_t kSize = 128;
  const Tensor a = Tensor::integers({kSize, kSize}, DType::bf16, 0, 2, 1, device()),
               b = Tensor::integers({kSize, kSize}, DType::bf16, -1, 2, 2, device()),
               s = Tensor::zeros({kSize, kSize}, DType::bf16, device()),
               z = zeros_of({kSize, kSize});
  twice(a, b, s, z);
  const auto x = a.to_doubles(), y = b.to_doubles();
  const auto product = [](const std::vector<double>& l, const std::vector<double>& r) {
    std::vector<double> out(kSize * kSize);
    for (std::size_t i = 0; i < kSize; ++i)
      for (std::size_t k = 0; k < kSize; ++k)
        for (std::size_t j = 0; j < kSize; ++j)
          out[i * kSize + j] += l[i * kSize + k] * r[k * kSize + j];
    return out;
  };
  EXPECT_EQ(z.to_doubles(), product(product(x, y), y));
}

TEST(GridBarriers, LaunchResidentProgramsOnly) {
  const auto k = kernel("k", [](InOut<f32, 1> a, Out<f32, 1> b) {
    for (auto i : grid(a, 32)) a(i) = 1;
    grid_barrier();
    for (auto i : grid(b, 32)) b(i) = a(i.shifted(1));
  });
  const Artefact code = k.compile("sm_90a", spec<f32>(4096), spec<f32>(4096));
  EXPECT_NE(code.ptx().find("atom.release.gpu.global.add"), std::string::npos);
  EXPECT_NE(code.ptx().find("ld.acquire.gpu.global"), std::string::npos);
}

}  // namespace
}  // namespace tegula::grid_barrier_test
