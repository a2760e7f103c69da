// The device cpu rejects what the compiler rejects, with the same text; plans state what was done.
#include <gtest/gtest.h>

#include <string>

#include "support/env.h"
#include "tegula/tegula.h"

namespace tegula::one_language_test {
namespace {

/// The text that a call throws, without the lines that name the device.
template <class Call>
std::string thrown(const Call& call) {
  try {
    call();
  } catch (const CompileError& e) {
    return e.what();
  }
  return "nothing";
}

TEST(OneLanguage, ProductsThatDoNotFitAreRefusedOnTheCpuToo) {
  const auto product = kernel("product", [](In<f16, 2> a, In<f16, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 512, 512)) {
      auto acc = zeros<f32>(512, 512);
      for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
      c(m, n) = acc;
    }
  });
  const auto on = [&](Device d) {
    return thrown([&] {
      product(Tensor::zeros({64, 64}, DType::f16, d), Tensor::zeros({64, 64}, DType::f16, d),
              Tensor::empty({64, 64}, DType::f32, d));
    });
  };
  const std::string cpu = on(Device::cpu());
  EXPECT_NE(cpu, "nothing");
  EXPECT_EQ(cpu, on(Device::sim()));
}

TEST(OneLanguage, NoCompileRunsThemAll) {
  Env changed = env();
  changed.check = {"nocompile"};
  const EnvOverride scope(changed);
  const auto product = kernel("uncompiled", [](In<f16, 2> a, In<f16, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 512, 512)) {
      auto acc = zeros<f32>(512, 512);
      for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
      c(m, n) = acc;
    }
  });
  const Device cpu = Device::cpu();
  const Tensor ones = Tensor::full({64, 64}, 1, DType::f16, cpu),
               c = Tensor::empty({64, 64}, DType::f32, cpu);
  product(ones, ones, c);
  EXPECT_EQ(c.to_doubles()[4095], 64);
}

TEST(OneLanguage, ApproximationsOfF64HaveOneError) {
  const auto approximation = kernel("approximation", [](In<f64, 1> x, Out<f64, 1> z) {
    for (auto i : grid(z, 32)) z(i) = tanh_approx(x(i)) + x(i);
  });
  const auto on = [&](Device d) {
    return thrown([&] {
      approximation(Tensor::zeros({40}, DType::f64, d), Tensor::empty({40}, DType::f64, d));
    });
  };
  EXPECT_NE(on(Device::cpu()).find("error T1009: tanh_approx of f64"), std::string::npos);
  EXPECT_EQ(on(Device::cpu()), on(Device::sim()));
}

/// The grid of a scalar of any integer type, in the words of the error that it gives.
template <class T>
std::string grid_of(Device d, T n) {
  const auto count = kernel("count", [](Scalar<T> n, InOut<i32, 1> z) {
    for (auto i : grid(GridSpace(n.value()), 1)) {
      (void)i;
      atomic_add(z(0), 1);
    }
  });
  const Tensor z = Tensor::zeros({1}, DType::i32, d);
  const std::string error = thrown([&] { count(n, z); });
  return error == "nothing" ? std::to_string(z.to_doubles()[0]) : error;
}

TEST(OneLanguage, GridsOfScalarsOfAnyType) {
  const auto expect = [](auto n, const std::string& words) {
    const std::string cpu = grid_of(Device::cpu(), n);
    EXPECT_NE(cpu.find(words), std::string::npos) << cpu;
    EXPECT_EQ(cpu, grid_of(Device::sim(), n));
  };
  expect(std::int8_t{5}, "5");
  expect(std::int8_t{-1}, "grid extent -1 along axis 0");
  expect(std::int16_t{-300}, "grid extent -300 along axis 0");
  expect(std::uint16_t{65535}, "65535");
  expect(std::uint32_t{3'000'000'000}, "grid extent 3000000000 along axis 0");
  expect(std::int64_t{1} << 32, "grid extent 4294967296 along axis 0");
}

/// A grid that a launch recipe cannot compute is refused before the grid, on each device.
TEST(OneLanguage, GridsAreOfIntegersAndTheirArithmetic) {
  const auto refused = [](Device d, auto extent) {
    const auto k = kernel("extent", [extent](Scalar<i32> n, Scalar<f32> x, InOut<i32, 1> z) {
      for (auto i : grid(GridSpace(extent(n.value(), x.value())), 1)) z(0) = cast<i32>(i.first());
    });
    return thrown([&] { k(4, 4.0f, Tensor::zeros({1}, DType::i32, d)); });
  };
  const auto of_float = [](const Tile&, const Tile& x) { return cast<i32>(x); };
  const auto chosen = [](const Tile& n, const Tile&) { return where(n > 3, n, 4); };
  for (const Device d : {Device::cpu(), Device::sim()}) {
    EXPECT_NE(refused(d, of_float).find("error T0605"), std::string::npos) << refused(d, of_float);
    EXPECT_NE(refused(d, chosen).find("error T0605"), std::string::npos) << refused(d, chosen);
  }
}

/// An MMA in a branch with an else side uses mma.sync, and the plan states it.
TEST(OneLanguage, ThePlanDescribesTheExecution) {
  const auto branch =
      kernel("branch", [](In<f16, 2> a, In<f16, 2> b, In<i32, 1> which, Out<f32, 2> c) {
        for (auto [m, n] : grid(c, 128, 128))
          if_(
              which(m.first() / 128) >= 0,
              [&] {
                auto acc = zeros<f32>(128, 128);
                for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
                c(m, n) = acc;
              },
              [&] { c(m, n) = zeros<f32>(128, 128); });
      });
  const Device d = Device::sim();
  branch(Tensor::zeros({128, 128}, DType::f16, d), Tensor::zeros({128, 128}, DType::f16, d),
         Tensor::zeros({1}, DType::i32, d), Tensor::empty({128, 128}, DType::f32, d));
  const std::string said = branch.explain();
  EXPECT_EQ(said.find("wgmma=1"), std::string::npos) << said;
  EXPECT_NE(said.find("it is in a branch (if_)"), std::string::npos) << said;
}

}  // namespace
}  // namespace tegula::one_language_test
