// Derivatives of ops against central differences in f64, by the interpreter; ties, masks, regions
// and ops without derivative.
#include "ir/differentiate.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "ir/infer.h"
#include "tegula/error.h"
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::differentiate_test {
namespace {

using enum Opcode;
using Values = std::span<const Value>;
using Body = std::function<Value(Builder&, Values)>;
using Rows = std::vector<std::vector<double>>;

constexpr int kElements = 64;

/// A kernel that computes y = body(x0, ..) of tiles of 64 elements, or of their types; `gradients`:
/// also the adjoint of each x for an adjoint of 1, zeros where there is none.
struct GradientKernel {
  Kernel kernel;
  std::vector<Value> x, gradients;
  Value y;

  GradientKernel(const Body& body, std::size_t inputs, DType dtype, bool with_gradients)
      : kernel(parse(header(inputs, dtype, with_gradients), "test")) {
    for (OpId op : kernel.ops(kernel.body()))
      if (kernel[op].opcode == LoadView) x.push_back(kernel[op].results[0]);
    Builder b(kernel);
    y = body(b, x);
    const Value zero = b.i32(0);
    const auto store = [&](std::size_t to, Value v) {
      b.effect(StoreView, {kernel.params()[to].value, v, zero}, {{AttrName::axes, Ints{0}}});
    };
    store(inputs, b.cast(y, dtype));
    if (!with_gradients) return;
    const Type type = kernel.type(y).with_dtype(dtype);
    const ValueAdjoints found = differentiate(b, y, b.constant(type, 1.0), x);
    for (std::size_t i = 0; i < inputs; ++i) {
      const auto at = found.of.find(x[i]);
      gradients.push_back(at == found.of.end() ? Value() : at->second);
      store(inputs + 1 + i, gradients[i] ? gradients[i] : b.zero(type));
    }
    verify_or_throw(kernel);
  }

  static std::string header(std::size_t inputs, DType dtype, bool with_gradients) {
    const std::string type(name(dtype));
    std::string params, loads;
    const std::size_t outputs = with_gradients ? inputs + 1 : 1;
    for (std::size_t i = 0; i < inputs + outputs; ++i)
      params += fmt::format("{}%p{}: view<64x{}, {}> [arg = {}]", i == 0 ? "" : ", ", i, type,
                            i < inputs ? "in" : "out", i);
    for (std::size_t i = 0; i < inputs; ++i)
      loads += fmt::format("%x{} = load_view %p{}, %zero [axes = [0]] : tile<64x{}>\n", i, i, type);
    return fmt::format(
        "kernel @k tile target(sm_90a) ({}) {{\n%zero = const [value = 0] : i32\n{}}}\n", params,
        loads);
  }
};

/// Returns the outputs: y, and gradients if the program has them.
template <class T>
Rows outputs_of(const GradientKernel& p, const Rows& inputs) {
  std::vector<HostTensor<T>> tensors;
  for (const Param& param : p.kernel.params()) {
    const std::size_t i = tensors.size();
    std::vector<T> values;
    if (i < inputs.size()) values.assign(inputs[i].begin(), inputs[i].end());
    tensors.emplace_back(Ints{kElements}, std::move(values));
    (void)param;
  }
  std::vector<EvalArg> args;
  for (auto& t : tensors) args.push_back(t.view());
  const EvalReport report = evaluate(p.kernel, args);
  EXPECT_TRUE(report.clean()) << report.str();
  Rows rows;
  for (std::size_t i = inputs.size(); i < tensors.size(); ++i) rows.push_back(tensors[i].values());
  return rows;
}

Rows gradients_of(const Body& body, const Rows& inputs) {
  Rows rows = outputs_of<f32>(GradientKernel(body, inputs.size(), DType::f32, true), inputs);
  rows.erase(rows.begin());
  return rows;
}

/// Numbers in [low, high], rounded to f32.
std::vector<double> drawn(double low, double high, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> of(low, high);
  std::vector<double> all(kElements);
  for (double& v : all) v = static_cast<float>(of(random));
  return all;
}

void expect_central_differences(const char* what, const Body& body, const Rows& inputs) {
  const Rows found = gradients_of(body, inputs);
  const GradientKernel wide(body, inputs.size(), DType::f64, false);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Rows above = inputs, below = inputs;
    constexpr double kStep = 1e-5;
    for (std::size_t n = 0; n < kElements; ++n) above[i][n] += kStep, below[i][n] -= kStep;
    const Rows high = outputs_of<f64>(wide, above), low = outputs_of<f64>(wide, below);
    for (std::size_t n = 0; n < kElements; ++n) {
      const double expected = (high[0][n] - low[0][n]) / (2 * kStep);
      EXPECT_NEAR(found[i][n], expected, 1e-4 * std::abs(expected) + 2e-6)
          << what << ", input " << i << " of " << inputs[i][n];
    }
  }
}

struct Range {
  double low, high;
};
struct Case {
  Body body;
  std::vector<Range> of;
};

Body unary(Opcode op, AttrInits attrs = {}) {
  const AttrList list = attr_list(attrs);
  return [=](Builder& b, Values x) {
    return b.kernel()[b.create(op, std::vector{x[0]}, list)].results[0];
  };
}
Body binary(Opcode op) {
  return [=](Builder& b, Values x) { return b.op(op, {x[0], x[1]}); };
}
Value number(Builder& b, Values x, double v) {
  return b.constant(Type::scalar(b.kernel().type(x[0]).dtype()), v);
}
Value positive(Builder& b, Values x, Value v) { return b.cmp("gt", v, number(b, x, 0)); }

/// One case for each op with a rule; those of memory and regions are tested below.
std::map<Opcode, Case> cases() {
  const auto reshaped = [](Builder& b, Values x) {
    const Value square =
        b.op(Reshape, {b.mul(x[0], x[0])}, Type::tile(b.kernel().type(x[0]).elem(), Ints{8, 8}));
    const Value turned = b.op(Permute, {square}, {{AttrName::order, Ints{1, 0}}});
    return b.op(Reshape, {b.mul(turned, square)}, b.kernel().type(x[0]));
  };
  const auto summed = [](Builder& b, Values x) {
    const Value sum =
        b.op(Reduce, {b.mul(x[0], x[0])}, {{AttrName::axis, 0}, {AttrName::kind, "sum"}});
    return b.op(Splat, {b.mul(sum, number(b, x, 0.01))}, b.kernel().type(x[0]));
  };
  const auto expanded = [](Builder& b, Values x) {
    const Type pairs = Type::tile(b.kernel().type(x[0]).elem(), Ints{64, 3});
    const Value line = b.op(ExpandDims, {b.op(Exp2, {x[0]})}, {{AttrName::axis, 1}});
    const Value all = b.op(Broadcast, {line}, pairs);
    return b.op(Reduce, {b.mul(all, all)}, {{AttrName::axis, 1}, {AttrName::kind, "sum"}});
  };
  const auto filled = [](Builder& b, Values x) {
    const Type type = b.kernel().type(x[0]);
    const Value square = b.mul(x[0], x[0]);
    const Value part = b.op(Crop, {square, b.i32(0), b.i32(40)}, type, {{AttrName::axis, 0}});
    return b.op(FillAbsent, {part, number(b, x, 3)}, type);
  };
  return {
      {Add, {binary(Add), {{-2, 2}, {-2, 2}}}},
      {Sub, {binary(Sub), {{-2, 2}, {-2, 2}}}},
      {Mul, {binary(Mul), {{-2, 2}, {-2, 2}}}},
      {Div, {binary(Div), {{-2, 2}, {0.5, 2}}}},
      {Fma,
       {[](Builder& b, Values x) { return b.op(Fma, {x[0], x[1], x[0]}); }, {{-2, 2}, {-2, 2}}}},
      {Min, {binary(Min), {{-2, 2}, {-2, 2}}}},
      {Max, {binary(Max), {{-2, 2}, {-2, 2}}}},
      {Neg, {unary(Neg), {{-2, 2}}}},
      {Abs, {unary(Abs), {{-2, 2}}}},
      {Select,
       {[](Builder& b, Values x) {
          return b.select(positive(b, x, x[0]), b.mul(x[0], x[1]), b.op(Exp2, {x[1]}));
        },
        {{-2, 2}, {-2, 2}}}},
      {Cast,
       {[](Builder& b, Values x) {
          const DType type = b.kernel().type(x[0]).dtype();
          return b.mul(b.cast(b.cast(x[0], DType::f64), type), x[0]);
        },
        {{-2, 2}}}},
      {Exp2, {unary(Exp2), {{-4, 4}}}},
      {Log2, {unary(Log2), {{0.1, 4}}}},
      {Sqrt, {unary(Sqrt), {{0.1, 4}}}},
      {Rsqrt, {unary(Rsqrt), {{0.1, 4}}}},
      {Rcp, {unary(Rcp, {{AttrName::approx, 1}}), {{0.2, 4}}}},
      {TanhApprox, {unary(TanhApprox), {{-3, 3}}}},
      {SinApprox, {unary(SinApprox), {{-3, 3}}}},
      {CosApprox, {unary(CosApprox), {{-3, 3}}}},
      {Exp, {unary(Exp), {{-3, 3}}}},
      {Log, {unary(Log), {{0.1, 4}}}},
      {Sin, {unary(Sin), {{-9, 9}}}},
      {Cos, {unary(Cos), {{-9, 9}}}},
      {Tanh, {unary(Tanh), {{-3, 3}}}},
      {Erf, {unary(Erf), {{-3, 3}}}},
      {WithGradient,
       {[](Builder& b, Values x) {
          return b.op(WithGradient, {b.mul(x[0], x[0]), x[0], b.add(x[0], x[0])});
        },
        {{-2, 2}}}},
      {Splat, {summed, {{-2, 2}}}},
      {Reduce, {summed, {{-2, 2}}}},
      {Broadcast, {expanded, {{-2, 2}}}},
      {ExpandDims, {expanded, {{-2, 2}}}},
      {Reshape, {reshaped, {{-2, 2}}}},
      {Permute, {reshaped, {{-2, 2}}}},
      {FillAbsent, {filled, {{-2, 2}}}},
      {Crop, {filled, {{-2, 2}}}},
  };
}

/// Derivatives of elements that meet elsewhere are summed, so differences must move all at once.
bool mixes_elements(Opcode op) {
  return op == Splat || op == Reduce || op == Reshape || op == Permute;
}

TEST(Differentiate, EveryRuleAgreesWithCentralDifferences) {
  const auto all = cases();
  for (const auto& [op, c] : all) {
    if (mixes_elements(op)) continue;
    Rows inputs;
    auto seed = static_cast<unsigned>(op) * 7;
    for (const Range& r : c.of) inputs.push_back(drawn(r.low, r.high, seed++));
    expect_central_differences(std::string(info(op).mnemonic).c_str(), c.body, inputs);
  }
  const std::set<Opcode> elsewhere{For, If, LoadView, Load};
#define VJP(Name) \
  EXPECT_TRUE(all.contains(Name) || elsewhere.contains(Name)) << "no case of " << #Name;
#define INACTIVE(Name, why)
#define REFUSED(Name, why)
#include "ir/vjp.def"
}

TEST(Differentiate, SumsOverElementsThatMeet) {
  const auto all = cases();
  for (const Opcode op : {Splat, Reshape}) {
    const Rows inputs{drawn(-2, 2, 5)};
    const Rows found = gradients_of(all.at(op).body, inputs);
    const GradientKernel wide(all.at(op).body, 1, DType::f64, false);
    for (std::size_t n = 0; n < kElements; n += 9) {
      const auto total = [&](double step) {
        Rows moved = inputs;
        moved[0][n] += step;
        const Rows y = outputs_of<f64>(wide, moved);
        return std::accumulate(y[0].begin(), y[0].end(), 0.0);
      };
      const double expected = (total(1e-5) - total(-1e-5)) / 2e-5;
      EXPECT_NEAR(found[0][n], expected, 1e-4 * std::abs(expected) + 1e-5) << info(op).mnemonic;
    }
  }
}

/// Derivatives at the first of the values.
std::vector<double> slopes_at(const Body& body, std::vector<double> at) {
  Rows inputs;
  for (double v : at) inputs.emplace_back(kElements, v);
  std::vector<double> slopes;
  for (const auto& row : gradients_of(body, inputs)) slopes.push_back(row[0]);
  return slopes;
}

TEST(Differentiate, TiesGoToTheConstantOrTheSecond) {
  using testing::ElementsAre;
  const auto relu = [](Builder& b, Values x) { return b.op(Max, {x[0], number(b, x, 0)}); };
  const auto turned = [](Builder& b, Values x) { return b.op(Max, {number(b, x, 0), x[0]}); };
  const auto capped = [](Builder& b, Values x) { return b.op(Min, {x[0], number(b, x, 1)}); };
  for (const Body& f : {Body(relu), Body(turned)}) {
    EXPECT_THAT(slopes_at(f, {0}), ElementsAre(0));
    EXPECT_THAT(slopes_at(f, {2}), ElementsAre(1));
    EXPECT_THAT(slopes_at(f, {-2}), ElementsAre(0));
    EXPECT_THAT(slopes_at(f, {NAN}), ElementsAre(0));  // the number is the result
  }
  EXPECT_THAT(slopes_at(capped, {1}), ElementsAre(0));
  EXPECT_THAT(slopes_at(binary(Max), {3, 3}), ElementsAre(0, 1));
  EXPECT_THAT(slopes_at(binary(Min), {3, 3}), ElementsAre(0, 1));
  EXPECT_THAT(slopes_at(binary(Max), {3, NAN}), ElementsAre(1, 0));
  EXPECT_THAT(slopes_at(binary(Max), {NAN, 3}), ElementsAre(0, 1));
  EXPECT_THAT(slopes_at(unary(Abs), {0}), ElementsAre(0));
  EXPECT_THAT(slopes_at(unary(Floor), {0.5}), ElementsAre(0));
}

TEST(Differentiate, ValuesExcludedByASelectDoNotReachTheResult) {
  const auto guarded = [](Opcode op) {
    return [=](Builder& b, Values x) {
      return b.select(positive(b, x, x[0]), b.op(op, {x[0]}), number(b, x, 0));
    };
  };
  for (const Opcode op : {Rcp, Sqrt, Rsqrt, Log, Log2})
    for (const double at : {0.0, -0.0, -1.0, -static_cast<double>(INFINITY)})
      EXPECT_EQ(slopes_at(guarded(op), {at})[0], 0) << info(op).mnemonic << " at " << at;
  // Two selects, and a value that both of their sides use.
  const auto nested = [](Builder& b, Values x) {
    const Value root = b.op(Sqrt, {x[0]}), big = b.cmp("gt", x[0], number(b, x, 4));
    const Value inner = b.select(big, b.op(Log, {root}), b.op(Rcp, {root}));
    return b.add(b.select(positive(b, x, x[0]), inner, x[0]), b.mul(x[0], x[0]));
  };
  EXPECT_EQ(slopes_at(nested, {-3})[0], 1 - 6);
  EXPECT_EQ(slopes_at(nested, {0})[0], 1);
  EXPECT_NEAR(slopes_at(nested, {16})[0], 0.5 / 16 + 32, 1e-5);
  EXPECT_NEAR(slopes_at(nested, {1})[0], -0.5 + 2, 1e-6);
  // By the result of a Max, and through an absent element.
  const auto softened = [](Builder& b, Values x) {
    return b.op(Max, {b.op(Log, {x[0]}), number(b, x, -5)});
  };
  EXPECT_EQ(slopes_at(softened, {0})[0], 0);
}

TEST(Differentiate, ASlopeOfOneEmitsNothing) {
  GradientKernel p([](Builder& b, Values x) { return b.add(x[0], x[1]); }, 2, DType::f32, false);
  Builder b(p.kernel);
  const Value dy = b.zero(p.kernel.type(p.y));
  const std::size_t ops = p.kernel.op_count();
  const ValueAdjoints found = differentiate(b, p.y, dy, std::span(p.x).first(1));
  EXPECT_EQ(found.of.at(p.x[0]), dy);
  EXPECT_EQ(found.of.size(), 1U);
  EXPECT_EQ(p.kernel.op_count(), ops);
}

TEST(Differentiate, FactorsOfOneAndDoubleMinusesDisappear) {
  GradientKernel p([](Builder& b, Values x) { return b.op(Neg, {b.sub(x[1], b.mul(x[0], x[1]))}); },
                   2, DType::f32, true);
  EXPECT_EQ(p.gradients[0], p.x[1]);
}

TEST(Differentiate, IndependentValuesHaveNoAdjoint) {
  const auto steps = [](Builder& b, Values x) {
    const Value whole = b.cast(b.cast(x[0], DType::i32), b.kernel().type(x[0]).dtype());
    return b.add(b.op(Floor, {x[0]}), b.add(whole, b.select(positive(b, x, x[0]), x[1], x[1])));
  };
  GradientKernel p(steps, 2, DType::f32, true);
  EXPECT_FALSE(p.gradients[0]);
  EXPECT_TRUE(p.gradients[1]);
}

TEST(Differentiate, TheTwoSidesOfASelectMeetInOneSelect) {
  GradientKernel p(
      [](Builder& b, Values x) {
        return b.select(positive(b, x, x[1]), b.mul(x[0], x[1]), b.op(Exp2, {x[0]}));
      },
      2, DType::f32, true);
  const auto selects =
      ops_where(p.kernel, p.kernel.body(), [&](OpId op) { return p.kernel[op].opcode == Select; });
  EXPECT_EQ(selects.size(), 3U) << print(p.kernel);  // the function, and one for each input
}

TEST(Differentiate, SlopesThatWereGivenReplaceDerivatives) {
  const auto product = [](Builder& b, Values x) {
    const Value y = b.mul(x[0], x[1]);
    return b.op(WithGradient, {b.op(WithGradient, {y, x[0], number(b, x, 5)}), x[1], x[0]});
  };
  EXPECT_THAT(slopes_at(product, {2, 3}), testing::ElementsAre(5, 2));
  // A value that is computed of bits, which nothing follows.
  const auto bits = [](Builder& b, Values x) {
    const Type type = b.kernel().type(x[0]);
    const bool wide = type.dtype() == DType::f64;
    const Value word = b.op(Bitcast, {x[0]}, type.with_dtype(wide ? DType::i64 : DType::i32));
    return b.op(WithGradient, {b.op(Bitcast, {word}, type), x[0], b.add(x[0], x[0])});
  };
  EXPECT_THAT(slopes_at(bits, {3}), testing::ElementsAre(6));
}

TEST(Differentiate, ADerivativeHasADerivative) {
  const Body cube = [](Builder& b, Values x) {
    const Value y = b.mul(b.mul(x[0], x[0]), b.op(Exp2, {x[0]}));
    const Value one = b.constant(b.kernel().type(y), 1.0);
    return differentiate(b, y, one, x).of.at(x[0]);
  };
  expect_central_differences("the second derivative", cube, {drawn(-2, 2, 11)});
}

}  // namespace
}  // namespace tegula::ir::differentiate_test
