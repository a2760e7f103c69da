// Cases of routing take the tensors of each call.
#include <gtest/gtest.h>

#include <vector>

#include "bench/bench.h"

namespace tegula::bench::moe_cases_test {
namespace {

/// A layer that kept the first call's bias would read memory that the second call's results have.
TEST(MoeCases, EachCallHasItsBias) {
  constexpr std::int64_t kTokens = 40, kExperts = 64, kChosen = 8;
  const Device sim = Device::sim();
  const auto ids_by = [&](std::int64_t first_of_best) {
    std::vector<f32> bias(kExperts, 0.0f);
    for (std::int64_t e = 0; e < kChosen; ++e)
      bias[static_cast<std::size_t>(first_of_best + e)] = 4.0f;
    const auto integers = [&](const Dims& shape) { return Tensor::zeros(shape, DType::i32, sim); };
    const std::vector<Tensor> t{Tensor::normal({kTokens, kExperts}, DType::f32, 0, 1, 1, sim),
                                integers({kTokens, kChosen}),
                                Tensor::zeros({kTokens, kChosen}, DType::f32, sim),
                                integers({kTokens, kChosen}),
                                integers({kTokens * kChosen}),
                                integers({kExperts + 1}),
                                integers({4, kExperts + 1}),
                                Tensor::from(bias, sim)};
    find_case("moe_router_deepseek_v3").run(Stream(sim), t, 0);
    return t[1].to_vector<i32>();
  };
  for (const std::int64_t first : {8, 32})
    for (const i32 id : ids_by(first)) {
      ASSERT_GE(id, first);
      ASSERT_LT(id, first + kChosen);
    }
}

/// In one launch and two, the same rows as the layer's.
TEST(MoeCases, FormsOfRoutingComputeTheSame) {
  constexpr std::int64_t kTokens = 150, kExperts = 256, kChosen = 8;
  const Device sim = Device::sim();
  const Tensor logits = Tensor::normal({kTokens, kExperts}, DType::f32, 0, 1, 1, sim);
  const auto routed = [&](const char* name, const Tensor& counts, double code) {
    const auto integers = [&](const Dims& shape) { return Tensor::zeros(shape, DType::i32, sim); };
    const std::vector<Tensor> t{logits,
                                integers({kTokens, kChosen}),
                                Tensor::zeros({kTokens, kChosen}, DType::f32, sim),
                                integers({kTokens, kChosen}),
                                integers({kTokens * kChosen}),
                                integers({kExperts + 1}),
                                integers({4, kExperts + 1}),
                                counts};
    find_case(name).run(Stream(sim), t, code);
    std::vector<double> all;
    for (const std::size_t i : {1, 2, 3, 4, 5, 6})
      for (const double v : t[i].to_doubles()) all.push_back(v);
    return all;
  };
  const auto want = routed("moe_router", {}, kChosen);
  for (const int block : {8, 16})
    for (const int code : {1'000, 4'000, 101'000}) {
      const Tensor counts =
          Tensor::zeros({(kTokens + block - 1) / block, kExperts}, DType::u16, sim);
      EXPECT_EQ(routed("moe_routing_form", counts, code + block), want) << block << ", " << code;
    }
}

}  // namespace
}  // namespace tegula::bench::moe_cases_test
