// The cases of masks and scores run and give what attention gives, on the host.
#include "bench/attention_cases.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/tegula.h"

namespace tegula::bench::attention_cases_test {
using namespace kernels;
namespace {

constexpr int kHeads = 2, kLength = 40;

TEST(AttentionCases, ComputeTheirNamedFunction) {
  const Device cpu = Device::cpu();
  const Dims shape{1, kHeads, kLength, 16};
  const auto random = [&](std::uint64_t seed) {
    return Tensor::normal(shape, DType::bf16, 0, 1, seed, cpu);
  };
  std::vector<i32> ids;
  for (int i = 0; i < kLength; ++i) ids.push_back(i / 15);
  const Tensor document = Tensor::from(ids, cpu),
               starts = Tensor::from(std::vector<i32>{0, 15, 30}, cpu);
  const Tensor table = Tensor::normal({8, kHeads}, DType::f32, 0, 1, 4, cpu),
               distances = Tensor::normal({kLength + 3, kHeads}, DType::f32, 0, 1, 5, cpu),
               bias = Tensor::normal({1, kHeads, kLength, kLength}, DType::bf16, 0, 1, 6, cpu);
  const Tensor cells = Tensor::from(std::vector<i32>{1, 1, 0, 0, 1, 1, 1, 0, 1}, {3, 3}, cpu);
  const Mask causal = masks::causal(),
             of_cells = [cells](const Tile&, const Tile&, const Tile& q, const Tile& kv) {
               return view<i32, 2>(cells)(q / 16, kv / 16) != 0;
             };
  const std::vector<std::pair<AttentionSetup, double>> wanted{
      {AttentionSpec{.mask = masks::sliding_window(9)}, 9},
      {AttentionSpec{.mask = masks::prefix_lm(12)}, 12},
      {AttentionSpec{.mask = masks::packed_causal(document, starts)}, 0},
      {AttentionSpec{.mask = causal, .score = scores::alibi(kHeads)}, 0},
      {AttentionSpec{.mask = causal, .score = scores::softcap(2.0f)}, 2},
      {AttentionSpec{.mask = causal, .score = scores::softcap(2.0f, scores::Tanh::approximate)}, 2},
      {AttentionSpec{.mask = causal, .score = scores::t5_bias(table, 20, false)}, 20},
      {AttentionSpec{.mask = causal, .score = scores::distance_bias(distances, 3)}, 3},
      {AttentionSpec{.mask = of_cells}, 16},
      {AttentionSpec{.mask = of_cells}, 16},
      {AttentionSpec{.mask = causal}, 192'012'801},
      {AttentionSetup(AttentionSpec{}, {.split_kv = 4}), 4},
      {AttentionSpec{.score = scores::bias(bias)}, 5}};
  const auto cases = attention_cases();
  constexpr std::size_t kBackward = 9, kVarlen = 2;  // after the others
  ASSERT_EQ(cases.size(), wanted.size() + kBackward + kVarlen);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    const Tensor q = random(1), k = random(2), v = random(3),
                 got = Tensor::empty(shape, DType::bf16, cpu),
                 want = Tensor::empty(shape, DType::bf16, cpu),
                 lse = Tensor::empty({1, kHeads, kLength}, DType::f32, cpu);
    std::vector<Tensor> tensors{q, k, v, got, lse, document, starts};
    if (wanted[i].first.spec.score) tensors[5] = wanted[i].second == 3 ? distances : table;
    if (wanted[i].second == 16) tensors[5] = cells;
    if (wanted[i].second == 5) tensors[5] = bias;
    cases[i].run(Stream(cpu), tensors, wanted[i].second);
    wanted[i].first.made()(q, k, v, want);
    EXPECT_EQ(got.to_doubles(), want.to_doubles());
  }
}

/// The gradients of a bias and of a table sum to 0: a constant does not change a softmax.
TEST(AttentionCases, GradientsOfTables) {
  const Device cpu = Device::cpu();
  const auto random = [&](const Dims& shape, DType dtype) {
    return Tensor::normal(shape, dtype, 0, 1, 1, cpu);
  };
  const Tensor q = random({1, kHeads, kLength, 16}, DType::bf16), o = random(q.shape(), q.dtype()),
               lse = random({1, kHeads, kLength}, DType::f32),
               bias = random({1, kHeads, kLength, kLength}, DType::f32),
               table = random({kLength + 3, kHeads}, DType::f32);
  for (const auto& [name, of, number] :
       {std::tuple{"attention_bias", bias, 0.0}, {"attention_distances_causal", table, 3.0}}) {
    const auto empty = [&] { return Tensor::empty(q.shape(), q.dtype(), cpu); };
    const Tensor gradient = Tensor::full(of.shape(), NAN, DType::f32, cpu), dq = empty(),
                 dk = empty(), dv = empty();
    std::vector<Tensor> tensors{q, q, q, o, lse, of};
    find_case(name).run(Stream(cpu), tensors, number);
    for (const Tensor& t : {q, dq, dk, dv, gradient}) tensors.push_back(t);
    find_case(std::string(name) + "_backward").run(Stream(cpu), tensors, number);
    double sum = 0, size = 0;
    for (const double x : gradient.to_doubles()) sum += x, size += std::abs(x);
    EXPECT_GT(size, 1);
    EXPECT_NEAR(sum, 0, 0.01 * size);
  }
}

/// Three sequences, each as it is by itself.
TEST(AttentionCases, ConsecutiveSequences) {
  const Device cpu = Device::cpu();
  const std::vector<i32> begins{0, 15, 16, kLength};
  const Dims shape{kLength, kHeads, 16};
  const Tensor q = Tensor::normal(shape, DType::bf16, 0, 1, 1, cpu),
               got = Tensor::empty(shape, DType::bf16, cpu),
               want = Tensor::empty(shape, DType::bf16, cpu),
               lse = Tensor::empty({kLength, kHeads}, DType::f32, cpu);
  const std::vector<Tensor> tensors{q, q, q, got, lse, Tensor::from(begins, cpu)};
  for (const bool is_causal : {false, true}) {
    find_case(is_causal ? "attention_varlen_causal" : "attention_varlen")
        .run(Stream(cpu), tensors, 24);
    const Attention alone({.mask = is_causal ? masks::causal() : Mask()});
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      const auto of_sequence = [&](const Tensor& t) {
        return t.slice(0, begins[i], begins[i + 1]).transpose(0, 1).with_rank(4);
      };
      alone(of_sequence(q), of_sequence(q), of_sequence(q), of_sequence(want));
    }
    EXPECT_EQ(got.to_doubles(), want.to_doubles()) << is_causal;
  }
}

}  // namespace
}  // namespace tegula::bench::attention_cases_test
