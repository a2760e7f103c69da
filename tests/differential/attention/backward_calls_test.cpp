// Calls of attention's backward pass: masks that need lists, strides, values that are not finite,
// errors, threads.
#include "tests/differential/attention/backward_reference.h"

#include <thread>

#include "tegula/kernels/masks.h"

namespace tegula::test::backward_calls_test {
using namespace kernels;
namespace {

class BackwardCalls : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, BackwardCalls, testing::ValuesIn(devices()), device_name);

TEST_P(BackwardCalls, MaskOfDocuments) {
  constexpr int kLength = 400;
  std::vector<i32> ids, starts;
  for (int i = 0; i < kLength; ++i) {
    const int begin = i < 70 ? 0 : i < 75 ? 70 : i < 300 ? 75 : 300;
    ids.push_back(begin == 0 ? 0 : begin == 70 ? 1 : begin == 75 ? 2 : 3);
  }
  starts = {0, 70, 75, 300};
  BackwardCase c({.heads = 2, .kv_heads = 1, .seqlen_q = kLength, .seqlen_kv = kLength},
                 GetParam());
  c.host.mask = [=](int, int, int q, int kv) {
    return q >= kv && ids[static_cast<std::size_t>(q)] == ids[static_cast<std::size_t>(kv)];
  };
  const Tensor of_position = Tensor::from(ids, Dims{kLength}, GetParam()),
               first = Tensor::from(starts, Dims{4}, GetParam());
  check_backward({.mask = masks::packed_causal(of_position, first)}, c);
}

/// Blocks named by a captured table, another one per head: the mask has to be evaluated.
TEST_P(BackwardCalls, MaskOfATable) {
  constexpr int kBlocks = 5;
  const Tensor table = Tensor::integers({2, kBlocks, kBlocks}, DType::i32, 0, 2, 5, GetParam());
  const auto kept = table.to_doubles();
  BackwardCase c({.heads = 2, .kv_heads = 1, .seqlen_q = 300, .seqlen_kv = 290}, GetParam());
  c.host.mask = [=](int, int h, int q, int kv) {
    return kept[static_cast<std::size_t>((h * kBlocks + q / 64) * kBlocks + kv / 64)] != 0;
  };
  check_backward({.mask =
                      [=](Tile, Tile h, Tile q, Tile kv) {
                        return fill_absent(view<i32, 3>(table)(h, q / 64, kv / 64), 0) != 0;
                      }},
                 c);
}

/// Lists that the caller keeps, of a mask that differs between heads.
TEST_P(BackwardCalls, ListsOfTheCaller) {
  const Mask mask = [](Tile, Tile h, Tile q, Tile kv) { return q >= kv && (kv / 64 + h) % 3 != 1; };
  for (const int kv_heads : {2, 1}) {
    SCOPED_TRACE(kv_heads);
    BackwardCase c({.heads = 2,
                    .kv_heads = kv_heads,
                    .seqlen_q = 200,
                    .seqlen_kv = 190,
                    .dim = 16,
                    .head_dim_v = 16},
                   GetParam());
    c.host.mask = [](int, int h, int q, int kv) { return q >= kv && (kv / 64 + h) % 3 != 1; };
    const Stream stream(GetParam());
    const Attention plain({.mask = mask});
    c.blocks = plain.block_list(stream, c.Q, c.K, BlockListRows::keys);
    EXPECT_EQ(c.blocks->block_q, 64);
    AttentionSpec spec{.mask = mask};
    if (kv_heads == 1) spec.blocks = plain.block_list(stream, c.Q, c.K);
    check_backward(spec, c);
    if (HasFatalFailure()) return;
  }
}

/// Blocks of 128 queries without a mask, as a kernel that selects blocks makes them.
TEST_P(BackwardCalls, SelectedBlocks) {
  constexpr int kBlocks = 3;
  const auto is_kept = [](int q, int kv) { return (q * 2 + kv) % 3 != 1; };
  const auto list_of = [&](bool of_keys) {
    std::vector<i32> indices(kBlocks * kBlocks), counts(kBlocks);
    for (int row = 0; row < kBlocks; ++row)
      for (int column = 0; column < kBlocks; ++column)
        if (of_keys ? is_kept(column, row) : is_kept(row, column)) {
          const auto at = static_cast<std::size_t>(row);
          indices[at * kBlocks + static_cast<std::size_t>(counts[at]++)] = column;
        }
    return BlockList{Tensor::from(indices, Dims{1, 1, kBlocks, kBlocks}, GetParam()),
                     Tensor::from(counts, Dims{1, 1, kBlocks}, GetParam())};
  };
  for (const int kv_heads : {2, 1}) {
    BackwardCase c({.heads = 2,
                    .kv_heads = kv_heads,
                    .seqlen_q = 300,
                    .seqlen_kv = 310,
                    .dim = 16,
                    .head_dim_v = 16},
                   GetParam());
    c.host.mask = [=](int, int, int q, int kv) { return is_kept(q / 128, kv / 128); };
    c.blocks = list_of(true);
    check_backward({.blocks = list_of(false)}, c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardCalls, StridesOfTheGradient) {
  BackwardCase c({.batch = 2, .heads = 2, .seqlen_q = 90, .seqlen_kv = 90}, GetParam());
  c.dO = Tensor::normal({2, 90, 2, 64}, DType::bf16, 0, 1, 3, GetParam()).transpose(1, 2);
  check_backward({}, c);
  c.dO = Tensor::full({1, 1, 1, 1}, 1, DType::bf16, GetParam()).broadcast_to({2, 2, 90, 64});
  check_backward({}, c);
}

/// Rows of tiles that are not visited may contain anything.
TEST_P(BackwardCalls, ValuesThatAreNotFinite) {
  constexpr std::size_t kRow = 64;
  BackwardCase c({.seqlen_q = 384, .seqlen_kv = 384}, GetParam());
  const Attention attention({.mask = masks::causal()});
  c.run(attention);
  const auto dQ = c.dQ.to_doubles(), dK = c.dK.to_doubles(), dV = c.dV.to_doubles();
  /// Makes a row of a tensor of the call not finite, and makes the call.
  const auto run_with = [&](Tensor BackwardCase::* tensor, std::size_t row) {
    BackwardCase poisoned = c;
    auto values = (c.*tensor).to_vector<bf16>();
    for (std::size_t d = 0; d < kRow; ++d) values[row * kRow + d] = bf16(d % 2 ? NAN : INFINITY);
    poisoned.*tensor = Tensor::from(values, (c.*tensor).shape(), GetParam());
    poisoned.run(attention);
  };
  const auto expect_kept = [&](const Tensor& gradient, const std::vector<double>& before,
                               std::size_t first, std::size_t end) {
    const auto got = gradient.to_doubles();
    for (std::size_t i = first * kRow; i < end * kRow; ++i) ASSERT_EQ(got[i], before[i]) << i;
  };
  for (Tensor BackwardCase::* of_query : {&BackwardCase::dO, &BackwardCase::Q}) {
    run_with(of_query, 10);
    expect_kept(c.dQ, dQ, 0, 10);
    expect_kept(c.dQ, dQ, 11, 128);
    expect_kept(c.dK, dK, 128, 384);
    expect_kept(c.dV, dV, 128, 384);
  }
  for (Tensor BackwardCase::* of_key : {&BackwardCase::V, &BackwardCase::K}) {
    run_with(of_key, 300);
    expect_kept(c.dQ, dQ, 0, 256);
  }
}

/// Scores and slopes of masked pairs may be infinite or NaN. The slopes of the first two differ
/// between pairs.
TEST_P(BackwardCalls, ScoresThatAreNotFinite) {
  const Mask mask = [](Tile, Tile, Tile q, Tile kv) { return q > kv; };
  const auto distance = [](int q, int kv) { return static_cast<double>(q - kv); };
  struct Case {
    const char* name;
    Score device;
    std::function<double(double s, double distance)> host;
  };
  for (const Case& k :
       {Case{"root",
             [](Tile s, Tile, Tile, Tile q, Tile kv) { return s * rsqrt(cast<f32>(q - kv)); },
             [](double s, double by) { return s / std::sqrt(by); }},
        {"logarithm",
         [](Tile s, Tile, Tile, Tile q, Tile kv) { return s * log(cast<f32>(q - kv)) * 0.25f; },
         [](double s, double by) { return s * std::log(by) * 0.25; }},
        {"term", [](Tile s, Tile, Tile, Tile q, Tile kv) { return s - log(cast<f32>(q - kv)); },
         [](double s, double by) { return s - std::log(by); }}})
    for (const auto weighting : {AttentionNormalization::softmax, AttentionNormalization::none})
      for (const bool is_deterministic : {false, true}) {
        SCOPED_TRACE(k.name);
        BackwardCase c({.heads = 2, .kv_heads = 1, .seqlen_q = 150, .seqlen_kv = 150}, GetParam());
        c.host.mask = [](int, int, int q, int kv) { return q > kv; };
        c.host.score = [&](double s, int, int, int q, int kv) {
          return k.host(s, distance(q, kv));
        };
        c.is_softmax = weighting == AttentionNormalization::softmax;
        check_backward({.mask = mask, .score = k.device, .weighting = weighting}, c,
                       {.deterministic = is_deterministic});
        if (HasFatalFailure()) return;
      }
}

TEST_P(BackwardCalls, OnlyRequestedGradients) {
  BackwardCase all({.heads = 2, .seqlen_q = 100, .seqlen_kv = 100}, GetParam());
  const Attention attention({.mask = masks::causal()});
  all.run(attention);
  for (int wanted = 0; wanted < 3; ++wanted) {
    SCOPED_TRACE(wanted);
    BackwardCase one({.heads = 2, .seqlen_q = 100, .seqlen_kv = 100}, GetParam());
    Tensor* const gradients[] = {&one.dQ, &one.dK, &one.dV};
    for (int i = 0; i < 3; ++i)
      if (i != wanted) *gradients[i] = Tensor();
    one.run(attention);
    const Tensor expected[] = {all.dQ, all.dK, all.dV};
    EXPECT_EQ(gradients[wanted]->to_doubles(), expected[wanted].to_doubles()) << wanted;
  }
}

TEST_P(BackwardCalls, Errors) {
  BackwardCase c({.seqlen_q = 20, .seqlen_kv = 20}, GetParam());
  const Attention attention({.mask = masks::causal()});
  const auto expect_refused = [&](const Attention& a, const AttentionSaved& saved,
                                  const AttentionGradients& of, const AttentionInputGradients& into,
                                  const char* text) {
    try {
      a.backward(Stream(GetParam()), c.Q, c.K, c.V, saved, of, into);
      ADD_FAILURE() << "no error: " << text;
    } catch (const CompileError& e) {
      EXPECT_NE(std::string(e.what()).find("T1662"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("backward_calls_test.cpp"), std::string::npos);
    }
  };
  const AttentionSaved saved{c.O, c.lse, {}};
  const AttentionInputGradients into{c.dQ, c.dK, c.dV, {}};
  expect_refused(attention, {c.O, {}, {}}, {c.dO, {}}, into, "lse");
  expect_refused(attention, saved, {}, into, "the gradient of O");
  expect_refused(attention, saved, {c.dO, {}}, {c.dO.slice(2, 0, 10), {}, {}, {}},
                 "the gradient of Q");
  expect_refused(attention, saved, {c.dO, {}}, {{}, {}, {}, c.lse}, "the gradient of sinks");
  expect_refused(Attention({.weighting = AttentionNormalization::stick_breaking}), saved,
                 {c.dO, {}}, into, "weighting");
  expect_refused(Attention({.kv_range = causal_range}), saved, {c.dO, {}}, into, "kv_range");
  const BlockList list = attention.block_list(Stream(GetParam()), c.Q, c.K);
  expect_refused(Attention({.blocks = list}), saved, {c.dO, {}}, into, "saved.blocks");
  BlockList other = list;
  other.block_kv = 64;
  expect_refused(attention, {c.O, c.lse, {}, other}, {c.dO, {}}, into, "128 keys");
  c.host.mask = [](int, int, int q, int kv) { return q >= kv; };
  c.run(attention);  // the object is usable after errors
  expect_backward(c);
  EXPECT_NE(attention.explain().find("queries visited: "), std::string::npos);
}

/// Two threads share one object, each alternating between two streams, including first calls.
TEST_P(BackwardCalls, TwoStreamsOfEachThread) {
  const Attention attention({.mask = masks::causal()}, {}, {.deterministic = true});
  std::vector<BackwardCase> cases;
  for (int i = 0; i < 4; ++i) {
    const int length = 60 + i % 2 * 70;  // two plans, of which each is first called by any thread
    const Extents extents{.seqlen_q = length, .seqlen_kv = length, .dim = 16, .head_dim_v = 16};
    cases.emplace_back(extents, GetParam(), DType::bf16, static_cast<std::uint64_t>(i + 1));
    cases.back().host.mask = [](int, int, int q, int kv) { return q >= kv; };
  }
  const auto calls = [&](std::size_t thread) {
    const std::array<Stream, 2> streams{Stream::create(GetParam()), Stream::create(GetParam())};
    for (int round = 0; round < 4; ++round)
      for (std::size_t s = 0; s < 2; ++s) cases[thread * 2 + s].run(attention, streams[s]);
    for (const Stream& s : streams) s.synchronize();
  };
  std::thread other(calls, 1);
  calls(0);
  other.join();
  for (const BackwardCase& c : cases) expect_backward(c);
}

TEST_P(BackwardCalls, ThreadsAndStreams) {
  const Attention attention({.mask = masks::causal()});
  std::vector<BackwardCase> cases;
  for (int i = 0; i < 3; ++i) {
    cases.emplace_back(Extents{.heads = 2, .seqlen_q = 70 + i, .seqlen_kv = 70 + i}, GetParam(),
                       DType::bf16, static_cast<std::uint64_t>(i + 1));
    cases.back().host.mask = [](int, int, int q, int kv) { return q >= kv; };
  }
  std::vector<std::thread> threads;
  threads.reserve(cases.size());
  for (const BackwardCase& c : cases) threads.emplace_back([&] { c.run(attention); });
  for (std::thread& t : threads) t.join();
  for (const BackwardCase& c : cases) expect_backward(c);
}

}  // namespace
}  // namespace tegula::test::backward_calls_test
