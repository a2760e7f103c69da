// Element types of results, literals, and what each operator and function computes.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "run_on_host.h"

namespace tegula::operators_test {
namespace {

using test::empty;
using test::host;
using test::kHost;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::FloatNear;
using testing::Pointwise;

/// Runs a function inside a trace; nothing of it is kept.
void traced(const std::function<void()>& f) {
  kernel("k", [&f](Out<f32, 1>) { f(); }).trace(empty({4}));
}

template <class A, class B>
DType type_of_sum() {
  DType d{};
  traced([&] { d = (zeros<A>(4) + zeros<B>(4)).dtype(); });
  return d;
}

TEST(Promotion, KindThenWidth) {
  EXPECT_EQ((type_of_sum<i8, i32>()), DType::i32);
  EXPECT_EQ((type_of_sum<i64, f16>()), DType::f16);
  EXPECT_EQ((type_of_sum<bf16, f32>()), DType::f32);
  EXPECT_EQ((type_of_sum<f32, f64>()), DType::f64);
  EXPECT_EQ((type_of_sum<f16, bf16>()), DType::f16);
  EXPECT_EQ((type_of_sum<i32, u32>()), DType::u32);
  EXPECT_EQ((type_of_sum<u8, i16>()), DType::i16);
  EXPECT_EQ((type_of_sum<bool, bool>()), DType::i32);
  EXPECT_EQ((type_of_sum<bool, u8>()), DType::u8);
}

TEST(Promotion, LiteralsNeverWidenATile) {
  traced([] {
    EXPECT_EQ((zeros<bf16>(4) * 2.5).dtype(), DType::bf16);
    EXPECT_EQ((3 + zeros<u8>(4)).dtype(), DType::u8);
    EXPECT_EQ((zeros<i64>(4) - 1).dtype(), DType::i64);
    EXPECT_EQ((zeros<i16>(4) * 0.5f).dtype(), DType::f32)
        << "a literal of a higher kind lends its kind";
    EXPECT_EQ((zeros<bool>(4) + 1).dtype(), DType::i32);
    EXPECT_EQ((zeros<f16>(4) > 1).dtype(), DType::i1);
    EXPECT_EQ((zeros<i8>(4) << 1).dtype(), DType::i8);
    EXPECT_EQ((zeros<bool>(4) & true).dtype(), DType::i1);
    EXPECT_EQ(where(zeros<bool>(4), 1, 0).dtype(), DType::i32);
    EXPECT_EQ(where(zeros<bool>(4), 1.0f, 0).dtype(), DType::f32);
    EXPECT_EQ(max(zeros<bf16>(4), 0.0).dtype(), DType::bf16);
    EXPECT_EQ(max(0, zeros<i8>(4)).dtype(), DType::i8);
    EXPECT_EQ(max(full<i8>(3), 0).dtype(), DType::i8) << "a scalar has no dimension to fold";
  });
}

TEST(Promotion, FoldsUseATypeThatHoldsThem) {
  traced([] {
    EXPECT_EQ(sum(zeros<bf16>(4)).dtype(), DType::bf16);
    EXPECT_EQ(sum(zeros<i8>(4)).dtype(), DType::i32);
    EXPECT_EQ(sum(zeros<bool>(4)).dtype(), DType::i32);
    EXPECT_EQ(sum(zeros<i64>(4)).dtype(), DType::i64);
    EXPECT_EQ(max(zeros<i8>(4)).dtype(), DType::i8);
    EXPECT_EQ(argmax(zeros<f32>(4), 0).dtype(), DType::i32);
    EXPECT_EQ(cumsum(zeros<bf16>(4), 0).dtype(), DType::bf16);
    EXPECT_EQ(dot(zeros<bf16>(16, 16), zeros<bf16>(16, 16)).dtype(), DType::f32);
    EXPECT_EQ(dot(zeros<i8>(16, 16), zeros<i8>(16, 16)).dtype(), DType::i32);
    EXPECT_EQ(dot(zeros<f64>(16, 16), zeros<f64>(16, 16)).dtype(), DType::f64);
  });
}

/// f(x) of f32 or i32 elements, by the interpreter.
template <class R, class T, class F>
std::vector<R> map(const std::vector<T>& x, F f) {
  const auto k = kernel("map", [f](In<T, 1> in, Out<R, 1> out) {
    for (auto i : grid(out, 16)) out(i) = f(in(i));
  });
  const Tensor z = empty({static_cast<std::int64_t>(x.size())}, dtype_of<R>);
  test::run(k, Tensor::from(x, kHost), z);
  return z.to_vector<R>();
}
using Floats = std::vector<float>;
using Ints = std::vector<i32>;

TEST(Operators, Integers) {
  const Ints x{7, -7, 3, 0};
  EXPECT_THAT((map<i32>(x, [](Tile t) { return t / 2; })), ElementsAre(3, -3, 1, 0));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return t % 4; })), ElementsAre(3, -3, 3, 0));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return (t & 6) | 1; })), ElementsAre(7, 1, 3, 1));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return t ^ ~t; })), ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return (t << 2) >> 1; })), ElementsAre(14, -14, 6, 0));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return -t + 1; })), ElementsAre(-6, 8, -2, 1));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return clamp(t, -1, 4); })), ElementsAre(4, -1, 3, 0));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return cdiv(abs(t), 2); })), ElementsAre(4, 4, 2, 0));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return popc(t & 7); })), ElementsAre(3, 1, 2, 0));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return 10 - t; })), ElementsAre(3, 17, 7, 10));
}

TEST(Operators, QuotientsRoundedUpDoNotWrap) {
  using Bytes = std::vector<u8>;
  EXPECT_THAT((map<u8>(Bytes{2, 200, 255, 0}, [](Tile t) { return cdiv(t, 100); })),
              ElementsAre(1, 2, 3, 0));
  EXPECT_THAT((map<u8>(Bytes{2, 200, 255, 0}, [](Tile t) { return cdiv(t, full<u8>(255)); })),
              ElementsAre(1, 1, 1, 0));
  EXPECT_THAT((map<i16>(std::vector<i16>{3, 32767, -5}, [](Tile t) { return cdiv(t, 32767); })),
              ElementsAre(1, 1, 0));
}

TEST(Operators, ComparisonsAndLogic) {
  const Ints x{-1, 0, 1, 2};
  EXPECT_THAT((map<i32>(x, [](Tile t) { return where(t >= 0 && t < 2, 1, 0); })),
              ElementsAre(0, 1, 1, 0));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return where(t < 0 || t == 2, 1, 0); })),
              ElementsAre(1, 0, 0, 1));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return where(!(t > 0), 1, 0); })), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return where(!t, 1, 0); })), ElementsAre(0, 1, 0, 0))
      << "a number counts as != 0";
  EXPECT_THAT((map<i32>(x, [](Tile t) { return where(t && true, 1, 0); })),
              ElementsAre(1, 0, 1, 1));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return where(t != 1, t <= 0, false); })),
              ElementsAre(1, 1, 0, 0));
}

TEST(Operators, CompoundAssignmentRebinds) {
  EXPECT_THAT((map<i32>(Ints{5, 6},
                        [](Tile t) {
                          const Tile before = t;
                          t += 1;
                          t *= 2;
                          t -= before;
                          t <<= 1;
                          t |= 1;
                          t %= 10;
                          return t;
                        })),
              ElementsAre((((5 + 1) * 2 - 5) * 2 | 1) % 10, (((6 + 1) * 2 - 6) * 2 | 1) % 10));
}

TEST(Functions, MatchTheirDefinitions) {
  const Floats x{-2.5f, -1.0f, -0.25f, 0.0f, 0.5f, 1.0f, 3.25f};
  const auto expect = [&](const char* name, const std::vector<float>& got, double (*f)(double),
                          double bound = 1e-6) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = f(x[i]);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got[i])) << name << " of " << x[i];
      else
        EXPECT_NEAR(got[i], want, bound * std::max(1.0, std::abs(want))) << name << " of " << x[i];
    }
  };
  expect("exp", map<f32>(x, [](Tile t) { return exp(t); }), [](double v) { return std::exp(v); });
  expect("exp2", map<f32>(x, [](Tile t) { return exp2(t); }),
         [](double v) { return std::exp2(v); });
  expect("log", map<f32>(x, [](Tile t) { return log(abs(t) + 1); }),
         [](double v) { return std::log(std::abs(v) + 1); });
  expect("log2", map<f32>(x, [](Tile t) { return log2(abs(t) + 1); }),
         [](double v) { return std::log2(std::abs(v) + 1); });
  expect("sqrt", map<f32>(x, [](Tile t) { return sqrt(t * t); }),
         [](double v) { return std::abs(v); });
  expect("rsqrt", map<f32>(x, [](Tile t) { return rsqrt(t * t + 1); }),
         [](double v) { return 1 / std::sqrt(v * v + 1); });
  expect("rcp", map<f32>(x, [](Tile t) { return rcp(t + 10); }),
         [](double v) { return 1 / (v + 10); });
  expect("sin", map<f32>(x, [](Tile t) { return sin(t); }), [](double v) { return std::sin(v); });
  expect("cos", map<f32>(x, [](Tile t) { return cos(t); }), [](double v) { return std::cos(v); });
  expect("tanh", map<f32>(x, [](Tile t) { return tanh(t); }),
         [](double v) { return std::tanh(v); });
  expect("erf", map<f32>(x, [](Tile t) { return erf(t); }), [](double v) { return std::erf(v); });
  expect("floor", map<f32>(x, [](Tile t) { return floor(t); }),
         [](double v) { return std::floor(v); });
  expect("ceil", map<f32>(x, [](Tile t) { return ceil(t); }),
         [](double v) { return std::ceil(v); });
  expect("round", map<f32>(x, [](Tile t) { return round(t); }),
         [](double v) { return std::nearbyint(v); });
  expect("trunc", map<f32>(x, [](Tile t) { return trunc(t); }),
         [](double v) { return std::trunc(v); });
  expect("sigmoid", map<f32>(x, [](Tile t) { return sigmoid(t); }),
         [](double v) { return 1 / (1 + std::exp(-v)); });
  expect("silu", map<f32>(x, [](Tile t) { return silu(t); }),
         [](double v) { return v / (1 + std::exp(-v)); });
  expect("gelu", map<f32>(x, [](Tile t) { return gelu(t); }),
         [](double v) { return v * (1 + std::erf(v / std::sqrt(2.0))) / 2; });
  expect("softplus", map<f32>(x, [](Tile t) { return softplus(t); }),
         [](double v) { return std::log1p(std::exp(v)); });
  expect(
      "pow 3", map<f32>(x, [](Tile t) { return pow(t, 3.0f); }),
      [](double v) { return std::pow(v, 3.0); }, 1e-5);
  expect(
      "pow 2", map<f32>(x, [](Tile t) { return pow(t, 2.0f); }), [](double v) { return v * v; },
      1e-5);
  expect(
      "pow 0.5", map<f32>(x, [](Tile t) { return pow(t, 0.5f); }),
      [](double v) { return std::pow(v, 0.5); }, 1e-5);
  expect("pow 0", map<f32>(x, [](Tile t) { return pow(t, 0.0f); }), [](double) { return 1.0; });
  EXPECT_THAT((map<f32>(std::vector<f32>{inf, -inf, nan, 0}, [](Tile t) { return pow(1.0f, t); })),
              ElementsAre(1, 1, 1, 1));
  for (const float y : {-inf, -2.0f, -1.0f, -0.5f, 0.5f, 1.0f, 2.0f, 3.0f, inf}) {
    const Floats edges{-0.0f, 0.0f, -1.0f, -inf, inf, -2.0f};
    const auto got = map<f32>(edges, [y](Tile t) { return pow(t, y); });
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const float want = std::pow(edges[i], y);
      EXPECT_EQ(std::isnan(got[i]), std::isnan(want)) << edges[i] << "^" << y;
      if (std::isnan(want)) continue;
      EXPECT_FLOAT_EQ(got[i], want) << edges[i] << "^" << y;
      EXPECT_EQ(std::signbit(got[i]), std::signbit(want)) << edges[i] << "^" << y;
    }
  }
  const Floats low{-2, -17, -20, -40, -80};
  const auto small = map<f32>(low, [](Tile t) { return softplus(t); });
  for (std::size_t i = 0; i < low.size(); ++i)
    EXPECT_NEAR(small[i] / std::log1p(std::exp(low[i])), 1, 1e-6) << low[i];
  expect("fma", map<f32>(x, [](Tile t) { return fma(t, t, 1.0f); }),
         [](double v) { return v * v + 1; });
}

TEST(Functions, NanAndInfinity) {
  const Floats x{nan, inf, -inf, 1.0f};
  EXPECT_THAT((map<i32>(x, [](Tile t) { return where(isnan(t), 1, 0); })), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT((map<i32>(x, [](Tile t) { return where(isinf(t), 1, 0); })), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT((map<f32>(x, [](Tile t) { return max(t, 0.0f); })), ElementsAre(0, inf, 0, 1))
      << "a NaN loses";
  EXPECT_THAT((map<f32>(Floats{200, -200}, [](Tile t) { return softplus(t); })),
              ElementsAre(200, 0));
}

/// From -20 to 20, and towards 0 on both sides.
Floats dense() {
  Floats x;
  for (int i = -5120; i <= 5120; ++i) x.push_back(static_cast<float>(i) / 256);
  for (float v = 20; v > 1e-30f; v *= 0.97f) x.insert(x.end(), {v, -v});
  return x;
}

TEST(Functions, GeluKeepsItsPrecisionFarBelowZero) {
  const Floats x = dense(), got = map<f32>(x, [](Tile t) { return gelu(t); });
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], want = v * std::erfc(-v / std::sqrt(2.0)) / 2;
    const double relative = v > -1 ? 0x1p-20 : v > -6 ? 0x1p-11 : 1;
    EXPECT_NEAR(got[i], want, 0x1.6p-22 * std::max(1.0, std::abs(v))) << v;
    EXPECT_NEAR(got[i], want, relative * std::abs(want) + 0x1p-120) << v;
  }
  EXPECT_THAT((map<f32>(Floats{inf, -inf, 3e38f, -3e38f, 0}, [](Tile t) { return gelu(t); })),
              ElementsAre(inf, 0, 3e38f, 0, 0));
  EXPECT_TRUE(std::isnan(map<f32>(Floats{nan}, [](Tile t) { return gelu(t); })[0]));
}

TEST(Functions, GeluByTanhIsWithinItsBound) {
  const auto by_tanh = [](double v) {
    return v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v))) / 2;
  };
  const Floats x = dense(), got = map<f32>(x, [](Tile t) { return gelu_tanh_approx(t); });
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(got[i], by_tanh(x[i]), 0x1p-11 * std::abs(x[i])) << x[i];
  EXPECT_THAT((map<f32>(Floats{inf, 3e38f, -3e38f, 0}, [](Tile t) { return gelu_tanh_approx(t); })),
              ElementsAre(inf, 3e38f, 0, 0));
  EXPECT_TRUE(std::isnan(map<f32>(Floats{-inf}, [](Tile t) { return gelu_tanh_approx(t); })[0]));
}

TEST(Functions, SigmoidKeepsItsPrecisionFarBelowZero) {
  Floats x = dense();
  for (int i = -1400; i < 1400; ++i) x.push_back(static_cast<float>(i) / 16);
  const Floats got = map<f32>(x, [](Tile t) { return sigmoid(t); });
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = 1 / (1 + std::exp(-static_cast<double>(x[i])));
    EXPECT_NEAR(got[i], want, 0x1p-21 * want + 0x1p-126) << x[i];
  }
  EXPECT_THAT((map<f32>(Floats{inf, -inf, 3e38f, -3e38f}, [](Tile t) { return sigmoid(t); })),
              ElementsAre(1, 0, 1, 0));
  EXPECT_THAT((map<f32>(Floats{inf, -200}, [](Tile t) { return silu(t); })), ElementsAre(inf, 0));
  EXPECT_TRUE(std::isnan(map<f32>(Floats{nan}, [](Tile t) { return sigmoid(t); })[0]));
}

TEST(Functions, CastsAndBits) {
  EXPECT_THAT((map<i32>(Floats{1.9f, -1.9f, 3e9f, -3e9f}, [](Tile t) { return cast<i32>(t); })),
              ElementsAre(1, -1, 2147483647, -2147483647 - 1));
  EXPECT_THAT((map<i32>(Floats{0.0f, -0.5f}, [](Tile t) { return where(cast<bool>(t), 1, 0); })),
              ElementsAre(0, 1));
  EXPECT_THAT((map<i32>(Floats{1.0f}, [](Tile t) { return bitcast<i32>(t); })),
              ElementsAre(0x3f800000));
  EXPECT_THAT((map<f32>(Floats{1.00390625f}, [](Tile t) { return cast<f32>(cast<bf16>(t)); })),
              ElementsAre(1.0f));
  EXPECT_THAT((map<f32>(Ints{3}, [](Tile t) { return t; })), ElementsAre(3.0f))
      << "storing an integer to floats converts";
}

TEST(Functions, SmallFloatsAreComputedInF32AndRoundedOnce) {
  const float x = 2.71875f;
  const auto k = kernel("silu", [](In<bf16, 1> in, Out<bf16, 1> out) {
    for (auto i : grid(out, 16)) out(i) = silu(in(i));
  });
  const Tensor in = Tensor::full({1}, x, DType::bf16, kHost), out = empty({1}, DType::bf16);
  test::run(k, in, out);
  EXPECT_EQ(
      out.to_doubles()[0],
      static_cast<double>(static_cast<float>(bf16(x / (1 + std::exp(-static_cast<double>(x)))))));
}

}  // namespace
}  // namespace tegula::operators_test
