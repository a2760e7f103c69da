// Terms that scores add to each element of a score tile, in the code for one thread: sums of rows,
// columns and positions are recognised, in whatever form they were written.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/math.h"
#include "tests/differential/devices.h"

namespace tegula::test::score_terms_test {
using namespace kernels;
namespace {

/// Scores that a thread has of a block of 128 x 128.
constexpr double kElements = 64;

struct PerElement {
  double ops = 0;          ///< elementwise ops of floats
  double conversions = 0;  ///< from integers
};

/// Counts ops of the loop over blocks. Values of one register or two are rows' and programs'.
PerElement work_of(const Score& score) {
  const auto tensor = [] { return Tensor::zeros({1, 1, 128, 128}, DType::bf16, Device::sim()); };
  const Attention attention({.mask = masks::causal(), .score = score});
  attention(Stream(Device::sim()), tensor(), tensor(), tensor(), tensor());
  const ir::Kernel k = ir::parse(attention.dump("optimize"), "attention");
  PerElement work;
  ir::walk(k, k.body(), [&](ir::OpId loop) {
    if (k[loop].attrs.s(ir::AttrName::loop) != "steps") return;
    ir::walk(k, k[loop].regions[0], [&](ir::OpId op) {
      const ir::OpData& d = k[op];
      if (ir::info(d.opcode).family != ir::Family::Elementwise) return;
      const ir::Type type = k.type(d.results[0]);
      if (type.is_pointer() || type.dtype() != DType::f32) return;
      const bool converts =
          d.opcode == ir::Opcode::Cast && !is_float(k.type(d.operands[0]).dtype());
      (converts ? work.conversions : work.ops) += static_cast<double>(type.count()) / kElements;
    });
  });
  return work;
}

TEST(ScoreTerms, CostOfTheRemainder) {
  const auto f32s = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::f32, Device::sim());
  };
  const double none = work_of(nullptr).ops;
  EXPECT_GT(none, 3);
  const auto with_weight = [](Tile s, Tile, Tile h, Tile q, Tile kv) {
    return s + cast<f32>(kv - q) * exp2(cast<f32>(h) * -0.5f);
  };
  const auto apart = [](Tile s, Tile, Tile, Tile q, Tile kv) {
    return s - 0.1f * cast<f32>(q) + 0.1f * cast<f32>(kv);
  };
  const auto of_query = [t = f32s({128})](Tile s, Tile, Tile, Tile q, Tile) {
    return s + view<f32, 1>(t)(q);
  };
  const auto same = [](Tile s, Tile, Tile, Tile, Tile) { return s; };
  // The accumulator of the first MMA starts from terms of positions. After another function of the
  // score it does not: an fma an element, and one a column for each two rows.
  constexpr double positions = 0, positions_behind = 1.5;
  const std::vector<std::tuple<const char*, Score, double>> wanted{
      {"the score itself", same, 0},
      {"head bias", scores::head_bias(f32s({1})), 0},
      {"bias of queries", of_query, 0},
      {"alibi", scores::alibi(4), positions},
      {"alibi of a tensor", scores::alibi(f32s({1})), positions},
      {"relative bias", scores::relative_bias(0.1f), positions},
      {"a user's", with_weight, positions},
      {"a user's, q and kv apart", apart, positions},
      {"softcap approximate", scores::softcap(30.0f, scores::Tanh::approximate), 2},
      {"softcap of a scalar", scores::softcap(Scalar<f32>(30.0f), scores::Tanh::approximate), 2},
      {"softcap", scores::softcap(30.0f), 4},
      {"both", scores::compose(scores::softcap(30.0f, scores::Tanh::approximate), scores::alibi(4)),
       positions_behind + 2}};
  for (const auto& [name, score, ops] : wanted) {
    const PerElement work = work_of(score);
    EXPECT_NEAR(work.ops - none, ops, 0.3) << name;
    EXPECT_LT(work.conversions, 0.1) << name;
  }
}

}  // namespace
}  // namespace tegula::test::score_terms_test
