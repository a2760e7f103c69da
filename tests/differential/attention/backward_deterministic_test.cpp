// AttentionNumerics::deterministic: gradients against double precision, equal bits in repeated
// runs, and calls that are refused.
#include "tests/differential/attention/packed_backward.h"

#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"

namespace tegula::test::backward_deterministic_test {
using namespace kernels;
namespace {

constexpr AttentionNumerics kDeterministic{.deterministic = true};

class BackwardDeterministic : public testing::TestWithParam<Device> {
 protected:
  /// Programs of `sim` run on two threads, in an order that differs between runs.
  template <class Case>
  static void expect_equal_runs(const Attention& attention, const Case& c) {
    std::vector<std::vector<double>> first;
    for (int run = 0; run < 2; ++run) {
      c.run(attention);
      std::vector<std::vector<double>> now;
      for (const Tensor& t : {c.dQ, c.dK, c.dV, c.dsinks})
        if (t.defined()) now.push_back(t.to_doubles());
      for (const CapturedGradient& g : c.captured) now.push_back(g.into.to_doubles());
      for (std::vector<double>& values : now)
        for (double& x : values) x = std::isnan(x) ? 1e300 : x;  // rows that are not written
      if (run == 0) first = now;
      ASSERT_EQ(now, first) << run;
    }
  }
  static void check(const AttentionSpec& spec, const BackwardCase& c) {
    SCOPED_TRACE(c.extents.str());
    expect_equal_runs(Attention(spec, {}, kDeterministic), c);
    expect_backward(c);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, BackwardDeterministic, testing::ValuesIn(devices()), device_name);

TEST_P(BackwardDeterministic, HeadDimsAndGroups) {
  struct Case {
    int heads, kv_heads, q, kv, dim, head_dim_v;
    DType dtype;
    bool has_sinks = false;
  };
  for (const Case& k : {Case{2, 1, 130, 200, 64, 64, DType::bf16, true},
                        {2, 2, 129, 129, 16, 32, DType::bf16},
                        {5, 1, 65, 140, 40, 24, DType::f16},
                        {2, 1, 20, 130, 192, 128, DType::bf16},
                        {1, 1, 20, 40, 256, 256, DType::bf16},
                        {1, 1, 1, 64, 16, 256, DType::bf16}}) {
    BackwardCase c({.heads = k.heads,
                    .kv_heads = k.kv_heads,
                    .seqlen_q = k.q,
                    .seqlen_kv = k.kv,
                    .dim = k.dim,
                    .head_dim_v = k.head_dim_v},
                   GetParam(), k.dtype);
    if (k.has_sinks) c.with_sinks();
    c.host.mask = [by = k.kv - k.q](int, int, int q, int kv) { return q + by >= kv; };
    check({.mask = masks::causal(), .align_bottom_right = true}, c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardDeterministic, EmptyCalls) {
  for (const auto& [q, kv] : {std::pair{0, 70}, {70, 0}, {0, 0}}) {
    const BackwardCase c({.heads = 2, .kv_heads = 1, .seqlen_q = q, .seqlen_kv = kv}, GetParam());
    check({}, c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(BackwardDeterministic, MasksOfAllKinds) {
  constexpr int kLength = 200;
  const auto document = [](int i) { return i < 70 ? 0 : i < 75 ? 1 : 2; };
  std::vector<i32> ids;
  ids.reserve(kLength);
  for (int i = 0; i < kLength; ++i) ids.push_back(document(i));
  const Tensor of_position = Tensor::from(ids, Dims{kLength}, GetParam()),
               first = Tensor::from(std::vector<i32>{0, 70, 75}, Dims{3}, GetParam()),
               table = Tensor::integers({2, 5, 5}, DType::i32, 0, 2, 5, GetParam());
  struct Case {
    const char* name;
    Mask mask;
    std::function<bool(int h, int q, int kv)> host;
  };
  const std::vector<double> kept = table.to_doubles();
  for (const Case& k :
       {Case{"window", masks::window(50, 20),
             [](int, int q, int kv) { return kv >= q - 50 && kv <= q + 20; }},
        {"sink window", masks::sink_window(4, 100),
         [](int, int q, int kv) { return q >= kv && (kv < 4 || q - kv <= 100); }},
        {"documents", masks::packed_causal(of_position, first),
         [=](int, int q, int kv) { return q >= kv && document(q) == document(kv); }},
        {"table",
         [=](Tile, Tile h, Tile q, Tile kv) {
           return fill_absent(view<i32, 3>(table)(h, q / 64, kv / 64), 0) != 0;
         },
         [=](int h, int q, int kv) {
           return kept[static_cast<std::size_t>((h * 5 + q / 64) * 5 + kv / 64)] != 0;
         }}}) {
    SCOPED_TRACE(k.name);
    BackwardCase c({.heads = 2,
                    .kv_heads = 1,
                    .seqlen_q = kLength,
                    .seqlen_kv = kLength,
                    .dim = 16,
                    .head_dim_v = 16},
                   GetParam());
    c.host.mask = [&](int, int h, int q, int kv) { return k.host(h, q, kv); };
    check({.mask = k.mask}, c);
    if (HasFatalFailure()) return;
  }
}

/// The mask moves ids of queries between warps in partial blocks alone. Warpgroups that took turns
/// at the products met there, and waited for each other.
TEST_P(BackwardDeterministic, IdsOfQueries) {
  std::vector<i32> of_position;
  of_position.reserve(512);
  for (int i = 0; i < 512; ++i) of_position.push_back(i / 20);
  const Tensor ids = Tensor::from(of_position, Dims{512}, GetParam());
  BackwardCase c({.heads = 3, .seqlen_q = 14, .seqlen_kv = 84, .dim = 16, .head_dim_v = 16},
                 GetParam(), DType::f16);
  c.host.mask = [](int, int, int q, int kv) { return q / 20 == kv / 20; };
  check({.mask = [&](Tile, Tile, Tile q,
                     Tile kv) { return view<i32, 1>(ids)(q) == view<i32, 1>(ids)(kv); }},
        c);
}

TEST_P(BackwardDeterministic, PackedSequences) {
  const Lengths same{{70, 1, 0, 64}, {70, 1, 0, 64}}, other{{5, 0, 70}, {140, 40, 75}};
  const std::vector<i32> of_position(512, 0), starts(1, 0);
  const Tensor ids = Tensor::from(of_position, Dims{512}, GetParam()),
               first = Tensor::from(starts, Dims{1}, GetParam());
  struct Case {
    const Lengths& lengths;
    Mask mask;
    bool is_shifted;
    std::int64_t kv_heads;
  };
  for (const Case& k : {Case{same, masks::causal(), false, 1},
                        {other, masks::causal(), true, 2},
                        {other, masks::packed_causal(ids, first), false, 1}}) {
    const AttentionSpec spec{.mask = k.mask, .align_bottom_right = k.is_shifted};
    const PackedBackward c(k.lengths, 2, k.kv_heads, 16, 24, GetParam());
    expect_equal_runs(Attention(spec, {}, kDeterministic), c);
    if (HasFatalFailure()) return;
    const auto got = c.dQ.to_doubles();
    c.run(Attention(spec));
    const auto want = c.dQ.to_doubles();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(want[i]) && std::isnan(got[i])) continue;  // a row that is not written
      ASSERT_NEAR(got[i], want[i], 1e-2 * std::abs(want[i]) + 1e-3) << i;
    }
  }
}

/// Gradients whose elements are stored once, or are the sum of one program.
TEST_P(BackwardDeterministic, Captures) {
  BackwardCase c({.batch = 2,
                  .heads = 2,
                  .kv_heads = 2,
                  .seqlen_q = 70,
                  .seqlen_kv = 140,
                  .dim = 16,
                  .head_dim_v = 16},
                 GetParam());
  const Tensor bias = Tensor::normal({2, 2, 70, 140}, DType::f32, 0, 1, 3, GetParam()),
               keys = Tensor::normal({2, 2, 140}, DType::f32, 0, 1, 4, GetParam());
  c.host.score = [b = bias.to_doubles(), f = keys.to_doubles()](double s, int e, int h, int q,
                                                                int kv) {
    const int row = e * 2 + h;
    return s + b[static_cast<std::size_t>((row * 70 + q) * 140 + kv)] +
           f[static_cast<std::size_t>(row * 140 + kv)];
  };
  const Score of_keys = [&keys](const Tile& s, const Tile& b, const Tile& h, const Tile&,
                                const Tile& kv) { return s + view<f32, 3>(keys)(b, h, kv); };
  const auto output = [&](const Tensor& like) {
    return Tensor::full(like.shape(), NAN, DType::f32, GetParam());
  };
  c.captured = {{bias, output(bias)}, {keys, output(keys)}};
  check({.score = scores::compose(scores::bias(bias), of_keys)}, c);
}

TEST_P(BackwardDeterministic, RefusedCalls) {
  const auto expect_refused = [](const Attention& attention, const BackwardCase& c,
                                 const char* text) {
    try {
      c.run(attention);
      ADD_FAILURE() << "no error: " << text;
    } catch (const CompileError& e) {
      EXPECT_NE(std::string(e.what()).find("T1662"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  BackwardCase c({.heads = 2, .kv_heads = 1, .seqlen_q = 20, .seqlen_kv = 20}, GetParam());
  const BlockList list = Attention({}).block_list(Stream(GetParam()), c.Q, c.K);
  c.blocks = Attention({}).block_list(Stream(GetParam()), c.Q, c.K, BlockListRows::keys);
  expect_refused(Attention({.blocks = list}, {}, kDeterministic), c, "deterministic");
  check({}, c);  // a list of keys alone is visited
  c.blocks = {};
  const Scalar<f32> cap = 3.0f;
  const Tensor table = Tensor::zeros({2}, DType::f32, GetParam()),
               keys = Tensor::zeros({1, 2, 20}, DType::f32, GetParam());
  const Tensor of_cap = Tensor::zeros({1}, DType::f32, GetParam());
  c.captured = {{cap, of_cap}};
  expect_refused(Attention({.score = scores::softcap(cap)}, {}, kDeterministic), c, "captured[0]");
  c.captured = {{table, table}};
  expect_refused(Attention({.score = scores::head_temperature(table)}, {}, kDeterministic), c,
                 "captured[0]");
  c.captured = {{keys, keys}};  // several heads of a group add to one element's memory
  const Score of_keys = [&keys](const Tile& s, const Tile& b, const Tile& h, const Tile&,
                                const Tile& kv) { return s + view<f32, 3>(keys)(b, h, kv); };
  expect_refused(Attention({.score = of_keys}, {}, kDeterministic), c, "captured[0]");
  c.captured = {};
  c.run(Attention({.score = of_keys}, {}, kDeterministic));
}

}  // namespace
}  // namespace tegula::test::backward_deterministic_test
