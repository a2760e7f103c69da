// derivative(), adjoints() and with_gradient() in kernels: what they record, refuse and give.
#include "tegula/derivative.h"

#include <gmock/gmock.h>

#include <cmath>

#include "run_on_host.h"
#include "support/env.h"
#include "tegula/error.h"
#include "tegula/functions.h"

namespace tegula::derivative_test {
namespace {

using test::empty;
using test::host;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Function = std::function<Tile(const Tile&)>;

/// Returns dy times the derivative of f at the values, for dy = 2.
std::vector<float> doubled_slopes(const Function& f, const std::vector<float>& at) {
  const auto n = static_cast<std::int64_t>(at.size());
  const Tensor y = empty({n});
  test::run(kernel("k",
                   [&](In<f32, 1> x, Out<f32, 1> out) {
                     for (auto i : grid(out, 16)) {
                       const Tile v = x(i);
                       out(i) = derivative(f(v), v, full<f32>(2, 16));
                     }
                   }),
            host(at), y);
  return y.to_vector<float>();
}

/// Returns the ops of one kind in the trace of y = f(x) and its derivative.
std::ptrdiff_t count(const Function& f, ir::Opcode op, bool with_value = false) {
  const Trace trace = kernel("k", [&](In<f32, 1> x, In<f32, 1> dy, Out<f32, 1> y, Out<f32, 1> dx) {
                        for (auto i : grid(y, 16)) {
                          const Tile v = x(i), value = f(v);
                          if (with_value) y(i) = value;
                          dx(i) = derivative(value, v, dy(i));
                        }
                      }).trace(empty({16}), empty({16}), empty({16}), empty({16}));
  const ir::Kernel& k = trace.kernel();
  return std::ssize(ir::ops_where(k, k.body(), [&](ir::OpId o) {
    return k[o].opcode == op && k.type(k[o].results[0]).is_tile();
  }));
}

TEST(Derivative, ComposedFunctions) {
  const auto cubic = [](const Tile& x) { return x * x * x - 2.0f * x; };
  EXPECT_THAT(doubled_slopes(cubic, {0, 1, -2}), ElementsAre(-4, 2, 20));
  EXPECT_THAT(doubled_slopes([](const Tile& x) { return max(x, 0.0f); }, {0, 1, -2}),
              ElementsAre(0, 2, 0));
  const auto guarded = [](const Tile& x) { return where(x > 0.0f, log(x), x); };
  EXPECT_THAT(doubled_slopes(guarded, {0, 4, -2}), ElementsAre(2, 0.5f, 2));
}

TEST(Derivative, ZerosWithoutADependence) {
  EXPECT_THAT(doubled_slopes([](const Tile& x) { return floor(x) + 0.0f * floor(x); }, {0.5, 1.5}),
              ElementsAre(0, 0));
  EXPECT_THAT(doubled_slopes([](const Tile&) { return full<f32>(3, 16); }, {0.5, 1.5}),
              ElementsAre(0, 0));
}

TEST(Derivative, ASumIsTheAdjointItself) {
  bool is_same = false;
  kernel("k", [&](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 16)) {
      const Tile v = x(i), dy = full<f32>(1, 16);
      const std::size_t before = dsl::Tracer::current()->kernel.op_count();
      const Adjoints found = adjoints(v + 3.0f, dy, std::array{v, dy});
      is_same = dsl::Tracer::current()->value(*found.of[0]) == dsl::Tracer::current()->value(dy);
      EXPECT_FALSE(found.of[1]);
      EXPECT_EQ(dsl::Tracer::current()->kernel.op_count(), before + 2);  // the constant and the sum
      y(i) = *found.of[0];
    }
  }).trace(empty({16}), empty({16}));
  EXPECT_TRUE(is_same);
}

TEST(Derivative, ByTheStatedSlope) {
  const auto stated = [](const Tile& x) {
    return with_gradient(bitcast<f32>(bitcast<i32>(x) & ~1), x, 5.0f) * 2.0f;
  };
  EXPECT_THAT(doubled_slopes(stated, {1, 2}), ElementsAre(20, 20));
  const auto nested = [](const Tile& x) {
    const Tile u = x * 3.0f, v = x * x;
    return with_gradient(with_gradient(u * v, u, v), v, u);
  };
  EXPECT_THAT(doubled_slopes(nested, {1, 2}), ElementsAre(18, 72));  // 9 x^2
  // A slope that is a tile makes the scalars tiles; the adjoint of a scalar is the sum.
  const Tensor y = empty({16}), d = empty({1});
  test::run(kernel("k",
                   [](In<f32, 1> x, Out<f32, 1> out, Out<f32, 1> slope) {
                     for (auto i : grid(out, 16)) {
                       const Tile scale = full<f32>(4);
                       const Tile value = with_gradient(scale, scale, x(i));
                       out(i) = value;
                       slope(0) = derivative(value, scale, full<f32>(1, 16));
                     }
                   }),
            host(std::vector<float>(16, 0.5f)), y, d);
  EXPECT_THAT(y.to_vector<float>(), testing::Each(4));
  EXPECT_THAT(d.to_vector<float>(), ElementsAre(8));
}

TEST(Derivative, ActivationsCostFewOps) {
  using enum ir::Opcode;
  for (const Function& f : {Function(sigmoid), Function(silu), Function(gelu)})
    EXPECT_EQ(count(f, Div) + count(f, Log2), 0);
  EXPECT_EQ(count(sigmoid, Select), 0);
  EXPECT_EQ(count(sigmoid, Mul), 3);  // one of the power, one of the slope, and by dy
  EXPECT_EQ(count(sigmoid, Exp2), 1);
  EXPECT_EQ(count(silu, Exp2, true), 1);
}

TEST(Derivative, InLoopsAndBranches) {
  const auto branch = [](const Tile& x) {
    Tile y = x;
    if_(sum(x, 0) > 0.0f, [&] { y = x * x; }, [&] { y = -x; });
    return y;
  };
  EXPECT_THAT(doubled_slopes(branch, std::vector<float>(16, 3)), testing::Each(12));
  EXPECT_THAT(doubled_slopes(branch, std::vector<float>(16, -3)), testing::Each(-2));
  const auto power = [](const Tile& x) {
    Tile y = x;
    for (auto n : steps(3, 1)) y = y * x + cast<f32>(n.first());
    return y;
  };
  EXPECT_THAT(doubled_slopes(power, {2}), ElementsAre(2 * (4 * 8 + 1)));
  const auto series = [](const Tile& x) {
    Tile y = x;
    for (auto n : steps(100, 1)) y = y + x * cast<f32>(n.first());
    return y;
  };
  EXPECT_THAT(doubled_slopes(series, {2}), ElementsAre(2 * (1 + 4950)));
  // The derivative is taken inside of the loop that computes the function.
  const Tensor y = empty({16});
  test::run(kernel("k",
                   [](In<f32, 1> x, Out<f32, 1> out) {
                     for (auto i : grid(out, 16)) {
                       const Tile v = x(i);
                       Tile total = zeros<f32>(16);
                       for (auto n : steps(4, 1))
                         total += derivative(v * v * cast<f32>(n.first()), v, full<f32>(1, 16));
                       out(i) = total;
                     }
                   }),
            host(std::vector<float>(16, 5)), y);
  EXPECT_THAT(y.to_vector<float>(), testing::Each(60));
}

TEST(Derivative, HasTheTypeOfTheAdjoint) {
  kernel("k", [](In<bf16, 1> x, In<f64, 1> dy, Out<f32, 1> y) {
    for (auto i : grid(y, 16)) {
      const Tile v = x(i);
      EXPECT_EQ(derivative(v * v, v, v).dtype(), DType::f32);
      EXPECT_EQ(derivative(v * v, v, dy(i)).dtype(), DType::f64);
      EXPECT_EQ(derivative(floor(v), v, 1.0f).dtype(), DType::f32);
      EXPECT_EQ(derivative(sin(v) + erf(v) + log(v), v, dy(i)).dtype(), DType::f64);
      EXPECT_EQ(derivative(sum(v, 0), v, 1.0f).shape(), std::vector<std::int64_t>{16});
      y(i) = cast<f32>(v);
    }
  }).trace(empty({16}, DType::bf16), empty({16}, DType::f64), empty({16}));
}

TEST(Derivative, WorksEagerly) {
  Env e = env();
  e.eager = true;
  const EnvOverride on(e);
  const Tensor y = empty({16});
  kernel("k", [](In<f32, 1> x, Out<f32, 1> out) {
    for (auto i : grid(out, 16)) {
      const Tile v = x(i);
      out(i) = derivative(silu(v) * v, v, full<f32>(1, 16));
    }
  })(host(std::vector<float>(16, 0)), y);
  EXPECT_THAT(y.to_vector<float>(), testing::Each(0));
}

// ---- captures
/// Traces s * rows[q] + pairs[q - kv + 8, 1] + c s + 3 unused and stores what `store` gets.
void with_captures(const Tensor& rows, const Tensor& pairs, const Scalar<f32>& c,
                   const std::function<bool(const CaptureSource&)>& wants,
                   const std::function<void(const Adjoints&, const Index&, const Index&)>& store,
                   const Tensor& out) {
  test::run(kernel("k",
                   [&](In<f32, 2> x, Out<f32, 2> y) {
                     for (auto [q, kv] : grid(y, 8, 4)) {
                       const Tile s = x(q, kv), row = view<f32, 1>(rows)(q);
                       const Tile at = expand(q, 1) - expand(kv, 0) + 8;
                       const Tile value = s * expand(row, 1) + view<f32, 2>(pairs)(at, 1) + c * s;
                       store(adjoints(value, full<f32>(2, 8, 4), std::span(&s, 1), wants), q, kv);
                       y(q, kv) = value;
                     }
                   }),
            host({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4,
                  1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4})
                .reshape({8, 4}),
            out);
}

TEST(CapturedAdjoints, RowsPairsAndScalars) {
  const Tensor rows = host({1, 2, 3, 4, 5, 6, 7, 8}), y = empty({8, 4}), of_rows = empty({8}),
               of_pairs = empty({8, 4}), places = empty({8, 4}), of_scalar = empty({1});
  const Tensor pairs = Tensor::zeros({17, 2}, DType::f32, test::kHost);
  const Scalar<f32> c(0.5f);
  std::size_t count = 0;
  with_captures(
      rows, pairs, c, [](const CaptureSource&) { return true; },
      [&](const Adjoints& found, const Index& q, const Index& kv) {
        count = found.captured.size();
        for (const CaptureAdjoint& a : found.captured) {
          if (a.source.scalar) {
            view_out<f32, 1>(of_scalar)(0) = a.adjoint;
          } else if (a.source.tensor == &rows) {
            EXPECT_THAT(a.axes, ElementsAre(0));
            view_out<f32, 1>(of_rows)(q) = a.adjoint;
          } else {
            ASSERT_EQ(a.source.tensor, &pairs);
            ASSERT_EQ(a.offsets.size(), 2U);
            view_out<f32, 2>(of_pairs)(q, kv) = a.adjoint;
            view_out<f32, 2>(places)(q, kv) = cast<f32>(a.offsets[0] * 10 + a.offsets[1]);
          }
        }
      },
      y);
  EXPECT_EQ(count, 3U);
  EXPECT_THAT(of_rows.to_vector<float>(), testing::Each(20));  // 2 (1 + 2 + 3 + 4)
  EXPECT_THAT(of_scalar.to_vector<float>(), ElementsAre(160));
  EXPECT_THAT(of_pairs.to_vector<float>(), testing::Each(2));
  EXPECT_EQ(places.to_vector<float>()[6], (1 - 2 + 8) * 10 + 1);
}

TEST(CapturedAdjoints, OnlyRequestedOnes) {
  const Tensor rows = host({1, 2, 3, 4, 5, 6, 7, 8}), y = empty({8, 4});
  const Tensor pairs = Tensor::zeros({17, 2}, DType::f32, test::kHost);
  const auto sources = [&](const std::function<bool(const CaptureSource&)>& wants) {
    std::vector<const Tensor*> all;
    with_captures(
        rows, pairs, Scalar<f32>(1.0f), wants,
        [&](const Adjoints& found, const Index&, const Index&) {
          all.clear();
          for (const CaptureAdjoint& a : found.captured) all.push_back(a.source.tensor);
        },
        y);
    return all;
  };
  EXPECT_THAT(sources(nullptr), ElementsAre());
  EXPECT_THAT(sources([&](const CaptureSource& c) { return c.tensor == &pairs; }),
              ElementsAre(&pairs));
}

TEST(ScoreCaptures, AxesOfTheirReads) {
  using Axes = std::optional<std::array<int, 4>>;
  const Tensor full = Tensor::zeros({2, 3, 4, 5}, DType::bf16, test::kHost),
               vector = Tensor::zeros({5}, DType::f32, test::kHost),
               distances = Tensor::zeros({9, 3}, DType::f32, test::kHost),
               places = Tensor::zeros({4}, DType::i32, test::kHost);
  const Scalar<f32> factor(1.0f);
  const ScoreFunction score([&](Tile s, Tile b, Tile h, Tile q, Tile kv) {
    const auto v = view<f32, 1>(vector);
    return s * factor + cast<f32>(view<bf16, 4>(full)(b, 0, kv, q)) + (v(kv) - v(q)) +
           view<f32, 2>(distances)(q - kv, h) + cast<f32>(view<i32, 1>(places)(q));
  });
  std::map<const void*, Axes> axes;
  for (const ScoreCapture& c : score.captures())
    axes[c.source.scalar ? static_cast<const void*>(c.source.scalar.get()) : c.source.tensor] =
        c.axes;
  EXPECT_EQ(axes, (std::map<const void*, Axes>{{factor.cell().get(), std::array{-1, -1, -1, -1}},
                                               {&full, std::array{0, -1, 3, 2}},
                                               {&vector, std::nullopt},
                                               {&distances, std::nullopt}}));
  EXPECT_TRUE(ScoreFunction(Score()).captures().empty());
}

// ---- refusals
std::string refusal_of(const Function& f, const char* code, unsigned& line) {
  try {
    doubled_slopes(f, {1});
  } catch (const CompileError& e) {
    EXPECT_EQ(e.diagnostic().code, code) << e.what();
    EXPECT_THAT(e.diagnostic().loc.file, HasSubstr("derivative_test.cpp"));
    line = e.diagnostic().loc.line;
    return e.what();
  }
  return "none";
}

TEST(Derivative, RefusesWhereTheUserWroteIt) {
  unsigned line = 0;
  const unsigned here = __LINE__;
  const auto bits = [](const Tile& x) {
    const Tile word = bitcast<i32>(x) + 1;
    return bitcast<f32>(word) * x;  // here + 3
  };
  EXPECT_THAT(refusal_of(bits, "T1022", line), HasSubstr("`bitcast` has no derivative"));
  EXPECT_EQ(line, here + 3);
  const auto halving = [](const Tile& x) {
    Tile y = x;
    while_([&] { return any(y > 1.0f); }, [&] { y = y * 0.5f; });  // here + 9
    return y;
  };
  EXPECT_THAT(refusal_of(halving, "T1022", line), HasSubstr("`while` has no derivative"));
  EXPECT_EQ(line, here + 9);
  const auto product = [](const Tile& x) {
    Tile y = x;
    for (auto n : steps(100, 1)) y = y * x + cast<f32>(n.first());  // here + 16
    return y;
  };
  EXPECT_THAT(refusal_of(product, "T1022", line), HasSubstr("not a sum"));
  EXPECT_EQ(line, here + 16);
  const auto scanned = [](const Tile& x) { return cumsum(x, 0); };
  EXPECT_THAT(refusal_of(scanned, "T1022", line), HasSubstr("`scan`"));
  const auto whole = [](const Tile& x) { return cast<i32>(x); };
  EXPECT_THAT(refusal_of(whole, "T1023", line), HasSubstr("y cannot be"));
  const auto total = [](const Tile& x) { return sum(x, 0); };
  EXPECT_THAT(refusal_of(total, "T1023", line), HasSubstr("dy cannot be"));
  const auto stated = [](const Tile& x) { return with_gradient(x, cast<i32>(x), x); };
  EXPECT_THAT(refusal_of(stated, "T1023", line), HasSubstr("with_gradient: x cannot be"));
}

TEST(Derivative, AcceptsTheSameWithoutADependence) {
  unsigned line = 0;
  const auto sign_bit = [](const Tile& x) { return where(bitcast<i32>(x) < 0, -x, x); };
  EXPECT_EQ(refusal_of(sign_bit, "", line), "none");
  const auto counted = [](const Tile& x) {
    Tile n = full<f32>(8);
    while_([&] { return n > 1.0f; }, [&] { n = n * 0.5f; });
    return x * n;
  };
  EXPECT_EQ(refusal_of(counted, "", line), "none");
  const auto ranked = [](const Tile& x) { return x * cast<f32>(cumsum(cast<i32>(x > 0.0f), 0)); };
  EXPECT_EQ(refusal_of(ranked, "", line), "none");
}

TEST(Derivative, AcrossIterationsIsRefused) {
  const auto k = kernel("k", [](In<f32, 1> x, Out<f32, 1> out) {
    for (auto i : grid(out, 16)) {
      const Tile v = x(i);
      Tile y = v;
      for (auto n : steps(x.dim(0), 1)) {
        y = y * cast<f32>(n.first());
        out(i) = derivative(y, v, full<f32>(1, 16));
      }
    }
  });
  EXPECT_THROW(k.trace(empty({32}), empty({32})), CompileError);
}

// ---- score functions
TEST(ScoreSlopes, HaveAKind) {
  using enum ScoreSlope;
  using Arg = const Tile&;
  const auto kind = [](const Score& f) { return ScoreFunction(f).slope(); };
  const Tensor t = host({1, 2, 3});
  const Scalar<f32> c(2.0f);
  EXPECT_EQ(kind([](Arg, Arg, Arg, Arg q, Arg) { return cast<f32>(q); }), zero);
  EXPECT_EQ(kind([&](Arg s, Arg, Arg h, Arg, Arg) { return s + view<f32, 1>(t)(h); }), one);
  EXPECT_EQ(kind([&](Arg s, Arg, Arg h, Arg, Arg) { return s * view<f32, 1>(t)(h); }), uniform);
  EXPECT_EQ(kind([&](Arg s, Arg, Arg, Arg, Arg) { return s * c; }), uniform);
  EXPECT_EQ(kind([&](Arg s, Arg, Arg, Arg q, Arg) { return s * view<f32, 1>(t)(q); }), query);
  EXPECT_EQ(kind([&](Arg s, Arg, Arg, Arg, Arg kv) { return s * view<f32, 1>(t)(kv); }), key);
  EXPECT_EQ(kind([&](Arg s, Arg, Arg, Arg q, Arg kv) { return s * cast<f32>(q - kv); }), pair);
  EXPECT_EQ(kind([&](Arg s, Arg, Arg, Arg, Arg) { return tanh(s); }), pair);
  EXPECT_EQ(kind([](Arg s, Arg, Arg, Arg q, Arg kv) { return where(q >= kv, s, -inf); }), pair);
  EXPECT_THROW(ScoreFunction([](Arg s, Arg, Arg, Arg, Arg) {
                 return bitcast<f32>(bitcast<i32>(s) + 1);
               }).slope(),
               CompileError);
}

}  // namespace
}  // namespace tegula::derivative_test
