// Configurations of attention's backward pass that a tuner may choose give the gradients of double
// precision.
#include <functional>
#include <initializer_list>
#include <string>

#include "autotune/calls/decision.h"
#include "tegula/attention_backward_config.h"
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/backward_reference.h"

namespace tegula::test::backward_configurations_test {
using namespace kernels;
namespace {

class BackwardConfigurations : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, BackwardConfigurations, testing::ValuesIn(devices()),
                         device_name);

using Config = AttentionBackwardConfig;

/// Checks the call with each of its decisions changed.
void check_changed(const AttentionSpec& spec, const BackwardCase& c,
                   const AttentionNumerics& numerics, const std::function<void(Config&)>& change) {
  const autotune::DecisionScope::Given none;
  autotune::DecisionScope::Given given;
  {
    const autotune::DecisionScope scope(none);
    c.run(Attention(spec, {}, numerics));
    for (const autotune::Decision& d : scope.noted()) {
      if (d.family != "attention_backward") continue;
      Config config = autotune::parse<Config>(d.by_default).value();
      change(config);
      const std::string text = autotune::text_of(config);
      ASSERT_NE(text, d.by_default);
      ASSERT_TRUE(d.is_usable(text, true)) << text;
      given[d.key()] = text;
    }
  }
  ASSERT_FALSE(given.empty());
  SCOPED_TRACE(given.begin()->second);
  for (const Tensor& t : {c.dQ, c.dK, c.dV}) t.fill(NAN);
  const autotune::DecisionScope scope(given);
  check_backward(spec, c, numerics);
}

TEST_P(BackwardConfigurations, OfACausalMask) {
  for (const int kv_heads : {2, 1})
    for (const bool deterministic : {false, true})
      for (const auto& change : std::initializer_list<std::function<void(Config&)>>{
               [](Config& c) { c.heads_last = !c.heads_last; }, [](Config& c) { c.block_kv = 64; },
               [](Config& c) { c.block_q = 32, c.stages = 3, c.heads_last = true; }}) {
        BackwardCase c({.batch = 2,
                        .heads = 2,
                        .kv_heads = kv_heads,
                        .seqlen_q = 140,
                        .seqlen_kv = 200,
                        .dim = 64,
                        .head_dim_v = 16},
                       GetParam());
        c.host.mask = [](int, int, int q, int kv) { return q >= kv; };
        check_changed({.mask = masks::causal()}, c, {.deterministic = deterministic}, change);
        if (HasFatalFailure()) return;
      }
}

TEST_P(BackwardConfigurations, LaunchesOfWideHeads) {
  const Extents e{.heads = 2, .seqlen_q = 100, .seqlen_kv = 140, .dim = 192, .head_dim_v = 128};
  const BackwardCase full(e, GetParam());
  check_changed({}, full, {}, [](Config& x) { x.launches = 1, x.block_q = 32; });
  BackwardCase causal(e, GetParam());
  causal.host.mask = [](int, int, int q, int kv) { return q >= kv; };
  check_backward({.mask = masks::causal()}, causal);  // that of calls without a tuner
  check_changed({.mask = masks::causal()}, causal, {},
                [](Config& x) { x.launches = 2, x.block_q = 64; });
}

/// Lists have rows of the configuration's keys.
TEST_P(BackwardConfigurations, OfEvaluatedLists) {
  constexpr int kBlocks = 4;
  const Tensor table = Tensor::integers({2, kBlocks, kBlocks}, DType::i32, 0, 2, 5, GetParam());
  const auto kept = table.to_doubles();
  for (const int kv_heads : {2, 1}) {
    BackwardCase c({.heads = 2,
                    .kv_heads = kv_heads,
                    .seqlen_q = 200,
                    .seqlen_kv = 190,
                    .dim = 16,
                    .head_dim_v = 16},
                   GetParam());
    c.host.mask = [=](int, int h, int q, int kv) {
      return kept[static_cast<std::size_t>((h * kBlocks + q / 64) * kBlocks + kv / 64)] != 0;
    };
    const AttentionSpec spec{.mask = [=](Tile, Tile h, Tile q, Tile kv) {
      return fill_absent(view<i32, 3>(table)(h, q / 64, kv / 64), 0) != 0;
    }};
    check_changed(spec, c, {}, [](Config& x) { x.block_kv = 64, x.heads_last = !x.heads_last; });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tegula::test::backward_configurations_test
