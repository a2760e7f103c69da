// 2^x by polynomial, over the whole range.
#include "codegen/lower/exp2.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/eval/eval.h"

namespace tegula::codegen {
namespace {

std::vector<float> powers(std::vector<float> in) {
  const auto count = static_cast<std::int64_t>(in.size());
  ir::Kernel k("powers");
  const auto view = [&](ir::Access access, std::int64_t arg) {
    ir::ViewFacts facts;
    facts.strides = facts.dim_div = facts.stride_div = {1};
    facts.access = access;
    return k.add_param("v", ir::Type::view(DType::f32, std::span(&count, 1), facts),
                       ir::attr_list({{ir::AttrName::arg, arg}}));
  };
  const ir::Value x = view(ir::Access::In, 0), y = view(ir::Access::Out, 1);
  ir::Builder b(k);
  const ir::AttrInit axes{ir::AttrName::axes, ir::Ints{0}};
  const ir::Value zero = b.i32(0),
                  tile = b.op(ir::Opcode::LoadView, {x, zero},
                              ir::Type::tile({DType::f32, false}, std::span(&count, 1)), {axes});
  b.effect(ir::Opcode::StoreView, {y, exp2_by_polynomial(b, tile), zero}, {axes});
  b.at_end(k.launch());
  b.yield(std::vector{b.i32(1), b.i32(1), b.i32(1)});
  std::vector<float> out(in.size());
  const auto tensor = [&](std::vector<float>& of) {
    return ir::TensorArg{of.data(), {count}, {1}, DType::f32};
  };
  EXPECT_EQ(ir::evaluate(k, std::vector<ir::EvalArg>{tensor(in), tensor(out)}).str(), "");
  return out;
}

TEST(Exp2ByPolynomial, KeepsToTwoUlp) {
  std::vector<float> in;
  for (int i = -126 * 400; i <= 127 * 400; ++i) in.push_back(static_cast<float>(i) / 400.0f);
  for (float x = 1; x > 1e-30f; x *= 0.83f) in.insert(in.end(), {x, -x});
  const std::vector<float> out = powers(in);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double exact = std::exp2(static_cast<double>(in[i]));
    const bool is_whole = in[i] == std::floor(in[i]);
    ASSERT_NEAR(out[i], exact, is_whole ? 0 : exact * 0x1p-22) << in[i];
  }
}

TEST(Exp2ByPolynomial, EndsOfTheRange) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> out =
      powers({-inf, -1e30f, -127, -126.7f, 128, inf, 1e30f, std::nanf("")});
  for (const std::size_t i : {0, 1, 2, 3}) EXPECT_EQ(out[i], 0) << i;
  for (const std::size_t i : {4, 5, 6}) EXPECT_EQ(out[i], inf) << i;
  EXPECT_TRUE(std::isnan(out[7]));
}

}  // namespace
}  // namespace tegula::codegen
