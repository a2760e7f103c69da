// Views and other parameters belong to the trace that made them.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "tegula/tegula.h"

namespace tegula::foreign_parameters_test {
namespace {

Tensor f32s(const Dims& shape, double value = 0) { return Tensor::full(shape, value, DType::f32); }

std::string code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const CompileError& e) {
    return e.diagnostic().code;
  }
  return "";
}

/// Keeps `made(x, y, p, n)` of one kernel and returns the code of the error of using it in another.
template <class Kept, class Made, class Use>
std::string code_of_kept(const Made& made, const Use& use) {
  std::optional<Kept> kept;
  const auto first = kernel("first", [&kept, made](In<f32, 1> x, InOut<f32, 1> y, Ptr<f32> p,
                                                   Scalar<i32> n, Out<f32, 1> z) {
    for (auto i : grid(z, 32)) {
      z(i) = x(i);
      kept.emplace(made(x, y, p, n));
    }
  });
  const Tensor p = f32s({64});
  first(f32s({64}, 1), f32s({64}, 2), p, 3, f32s({64}));
  const auto second = kernel("second", [&kept, use](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 32)) {
      z(i) = x(i);
      use(*kept, i, z);
    }
  });
  return code_of([&] { second(f32s({64}), f32s({64})); });
}

TEST(ForeignParameters, AreRefused) {
  using X = const In<f32, 1>&;
  using Y = const InOut<f32, 1>&;
  using P = const Ptr<f32>&;
  using N = const Scalar<i32>&;
  using Z = const Out<f32, 1>&;
  const auto read = [](auto& v, const Index& i, Z z) { z(i) = v(i); };
  EXPECT_EQ((code_of_kept<In<f32, 1>>([](X x, Y, P, N) { return x; }, read)), "T0402");
  EXPECT_EQ((code_of_kept<InOut<f32, 1>>([](X, Y y, P, N) { return y; }, read)), "T0402");
  EXPECT_EQ((code_of_kept<InOut<f32, 1>>([](X, Y y, P, N) { return y; },
                                         [](auto& v, const Index& i, Z) { v(i) = 1.0f; })),
            "T0402");
  EXPECT_EQ(
      (code_of_kept<In<f32, 1>>([](X x, Y, P, N) { return x; },
                                [](auto& v, const Index& i, Z z) { z(i) = cast<f32>(v.dim(0)); })),
      "T0402");
  EXPECT_EQ((code_of_kept<Ptr<f32>>([](X, Y, P p, N) { return p; },
                                    [](auto& v, const Index& i, Z z) { z(i) = load(v); })),
            "T0402");
  EXPECT_EQ((code_of_kept<Scalar<i32>>(
                [](X, Y, P, N n) { return n; },
                [](auto& v, const Index& i, Z z) { z(i) = cast<f32>(v.value()); })),
            "T0402");
  EXPECT_EQ((code_of_kept<AddressView<f32, 1>>(
                [](X, Y, P p, N) { return view<f32, 1>(p, {64}, {1}); }, read)),
            "T0402");
}

TEST(ForeignParameters, CapturedTensors) {
  const Tensor t = f32s({64}, 5), z = f32s({64});
  std::optional<In<f32, 1>> kept;
  kernel("first", [&kept, &t](Out<f32, 1> z) {
    for (auto i : grid(z, 32)) {
      kept.emplace(view<f32, 1>(t));
      z(i) = (*kept)(i);
    }
  })(z);
  EXPECT_EQ(z.to_doubles()[0], 5);
  const auto again = kernel("second", [&kept](Out<f32, 1> z) {
    for (auto i : grid(z, 32)) z(i) = (*kept)(i);
  });
  EXPECT_EQ(code_of([&] { again(z); }), "T0402");
  EXPECT_EQ(code_of([&] { (void)kept->dim(0); }), "T0401");
}

/// Host Scalars are accepted, and so is a kernel that is traced again for other arguments.
TEST(ForeignParameters, OwnOnesAreAccepted) {
  Scalar<f32> factor(2);
  const auto k = kernel("own", [factor](In<f32, 1> x, Out<f32, 1> z) {
    const In<f32, 1> copy = x.with({});
    for (auto i : grid(z, 32)) z(i) = copy(i) * factor;
  });
  const Tensor z = f32s({64}), more = f32s({63});
  k(f32s({64}, 3), z);
  EXPECT_EQ(z.to_doubles()[0], 6);
  k(f32s({63}, 4), more);
  EXPECT_EQ(more.to_doubles()[62], 8);
}

// ---- texts with values --------------------------------------------------------------------------

TEST(ForeignParameters, PrintNeedsAPlaceForEachValue) {
  const auto code = [](auto body) {
    return code_of([&] {
      kernel("prints", [body](Out<f32, 1> z) {
        for (auto i : grid(z, 32)) {
          body(i.first());
          z(i) = 1.0f;
        }
      })(f32s({32}));
    });
  };
  EXPECT_EQ(code([](const Tile& i) { print("a {} b {}", i); }), "T0125");
  EXPECT_EQ(code([](const Tile& i) { print("c", i); }), "T0125");
  EXPECT_EQ(code([](const Tile& i) { device_assert(i >= 0, "d {}"); }), "T0125");
  EXPECT_EQ(code([](const Tile& i) { device_assert(i >= 0, "d {}", i); }), "");
  EXPECT_EQ(code([](const Tile& i) {
              reduce(full<i32>(1, 8) + i, 0, [](const Tile& a, const Tile& b) {
                print("{}", a);
                return a + b;
              });
            }),
            "T1008");
}

/// A part of a tile takes a Scalar, as a view does.
TEST(ForeignParameters, ScalarsPickElementsOfTiles) {
  const Tensor z = f32s({32});
  kernel("picks", [](In<f32, 1> x, Scalar<i32> n, Out<f32, 1> z) {
    for (auto i : grid(z, 32)) z(i) = full<f32>(0, 32) + x(i)(n);
  })(Tensor::iota({32}, DType::f32), 7, z);
  EXPECT_EQ(z.to_doubles()[0], 7);
}

}  // namespace
}  // namespace tegula::foreign_parameters_test
