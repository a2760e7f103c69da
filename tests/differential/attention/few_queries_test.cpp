// Packed sequences with few queries: the heads of a group are rows of one tile, and programs share
// the keys of long sequences, against attention in f64.
#include <thread>

#include "tegula/kernels/masks.h"
#include "tests/differential/attention/paged_tensors.h"

namespace tegula::test::few_queries_test {
using namespace kernels;
namespace {

class FewQueries : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, FewQueries, testing::ValuesIn(devices()), device_name);

constexpr AttentionSchedule kDivided{.split_kv = 8}, kUndivided{.split_kv = 1};

/// Sequences of so many queries, or of fewer, up to their number of keys if they are `at_end`. A
/// sequence of three keys without queries follows each of them.
Lengths ragged(i32 queries, const std::vector<i32>& keys, bool at_end) {
  Lengths l;
  for (const i32 n : keys) {
    const i32 some = 1 + n % queries;
    l.kv.insert(l.kv.end(), {n, 3});
    l.q.insert(l.q.end(), {at_end ? std::min(some, n) : some, 0});
  }
  return l;
}

HostAttention host_causal_at_end(const Lengths& l) {
  HostAttention host;
  host.mask = [l](int b, int, int q, int kv) {
    const auto i = static_cast<std::size_t>(b);
    return q + l.kv[i] - l.q[i] >= kv;
  };
  return host;
}

/// Groups and head dims, by parts of the keys or not, aligned at either end. Memory after the keys
/// of each sequence is not finite.
TEST_P(FewQueries, EqualsAttentionInDoubles) {
  const std::pair<std::int64_t, std::int64_t> dims[] = {
      {64, 64}, {128, 128}, {192, 128}, {256, 256}};
  int number = 0;
  for (const std::int64_t group : {1, 4, 5, 8, 71})
    for (const auto& [dim, head_dim_v] : dims) {
      const bool at_end = number % 2 == 0, is_divided = number % 3 != 0;
      const i32 queries = dim <= 192 && group < 71 ? std::max<i32>(1, number % 5) : 1;
      SCOPED_TRACE(testing::Message()
                   << "group " << group << ", head dims " << dim << " and " << head_dim_v
                   << ", queries " << queries << at_end << is_divided);
      const i32 longest = number % 6 == 1 ? 2000 : 700;
      const bool is_skipped = number % 5 == 0 || number % 5 == 3;  // the simulator takes long
      ++number;
      if (is_skipped && GetParam().kind == DeviceKind::sim) continue;
      const Lengths l = ragged(queries, {0, 1, 63, 64, 65, 300, longest}, at_end);
      const std::int64_t kv_heads = group < 71 ? 2 : 1;
      const Packed p(l, kv_heads * group, kv_heads, dim, head_dim_v,
                     group == 5 ? DType::f16 : DType::bf16, GetParam());
      p.spoil_unattended();
      AttentionSpec spec;
      if (at_end) spec = {.mask = masks::causal(), .align_bottom_right = true};
      const Attention attention(spec, is_divided ? kDivided : kUndivided);
      p.run(attention);
      EXPECT_EQ(meets_in_memory(attention, p.all.Q.dtype()), is_divided);
      p.expect(at_end ? host_causal_at_end(l) : HostAttention());
      if (HasFatalFailure()) return;
    }
}

/// Positions are those of the sequence: windows from the first query on, and from the last one.
TEST_P(FewQueries, WindowsSinksAndScores) {
  const Lengths l = ragged(4, {700, 40, 1, 900}, true);
  const Tensor bias = Tensor::normal({8, 4}, DType::f32, 0, 1, 7, GetParam()),
               sinks = Tensor::from(std::vector<float>{0, 0.5, 1, 1.5}, GetParam());
  const auto table = bias.to_doubles();
  for (const bool at_end : {false, true})
    for (const AttentionSchedule& schedule : {kDivided, kUndivided}) {
      SCOPED_TRACE(testing::Message() << at_end << schedule.split_kv.value());
      const Attention attention(
          {.mask = [](Tile, Tile, Tile q, Tile kv) { return kv - q < 500 && q - kv < 300; },
           .score =
               [bias](Tile s, Tile b, Tile h, Tile q, Tile kv) {
                 return s + view<f32, 2>(bias)(b, h) + cast<f32>(kv - q) * 0.01f;
               },
           .align_bottom_right = at_end},
          schedule);
      HostAttention host;
      const auto shift = [&l, at_end](int b) {
        const auto i = static_cast<std::size_t>(b);
        return at_end ? l.kv[i] - l.q[i] : 0;
      };
      host.mask = [&](int b, int, int q, int kv) {
        return kv - q - shift(b) < 500 && q + shift(b) - kv < 300;
      };
      host.score = [&](double s, int b, int h, int q, int kv) {
        return s + table[static_cast<std::size_t>(b * 4 + h)] + (kv - q - shift(b)) * 0.01;
      };
      host.sink = [](int h) { return 0.5 * h; };
      const Packed p(l, 4, 2, 64, 64, DType::bf16, GetParam());
      p.spoil_unattended();
      p.run(attention, sinks);
      p.expect(host);
      if (HasFatalFailure()) return;
    }
}

/// Other lengths and other numbers of sequences need no other kernel and no other list: the call
/// writes the list. A bound of the queries is enough.
TEST_P(FewQueries, LengthsChangeWithoutCompiling) {
  const Attention attention({.mask = masks::causal(), .align_bottom_right = true}, kDivided);
  for (const std::vector<i32>& keys :
       {std::vector<i32>{1500, 1}, {3, 4, 5}, {0, 900, 7, 1}, {64}}) {
    const Lengths l = ragged(3, keys, true);
    Packed p(l, 4, 2, 72, 40, DType::bf16, GetParam());
    p.lengths.max_seqlen_q = 5;
    p.spoil_unattended();
    p.run(attention);
    p.expect(host_causal_at_end(l));
    if (HasFatalFailure()) return;
    EXPECT_EQ(times_compiled(attention), 1);
  }
}

/// More sequences than the list's kernel processes at a time, most of them with few keys.
TEST_P(FewQueries, ManySequences) {
  Lengths l;
  for (int b = 0; b < 700; ++b) l.q.push_back(b % 5 == 2 ? 0 : 1), l.kv.push_back(b % 7);
  l.kv[3] = 900, l.kv[600] = 1100;
  const Packed p(l, 2, 1, 64, 64, DType::bf16, GetParam());
  p.spoil_unattended();
  p.run(Attention(AttentionSpec{}, kDivided));
  p.expect({});
}

TEST_P(FewQueries, WithoutKeysOrQueries) {
  for (const AttentionSchedule& schedule : {kDivided, kUndivided})
    for (const auto& [lengths, spare] : std::initializer_list<std::pair<Lengths, std::int64_t>>{
             {{}, 9}, {{{0, 0}, {5, 9}}, 9}, {{{0, 0}, {5, 9}}, 0}, {{{1, 2}, {0, 0}}, 0}}) {
      const Packed p(lengths, 4, 2, 64, 64, DType::bf16, GetParam(), spare);
      p.run(Attention(AttentionSpec{}, schedule));
      p.expect({});
      if (HasFatalFailure()) return;
    }
}

/// The call divides the keys if memory has room for many of them per sequence, and queries are few.
TEST_P(FewQueries, ChoosesTheForm) {
  const auto form_of = [&](std::int64_t keys, i32 queries, const AttentionSchedule& schedule) {
    const Packed p({{queries}, {3}}, 4, 2, 64, 64, DType::bf16, GetParam(), keys);
    const Attention attention({}, schedule);
    p.run(attention);
    return meets_in_memory(attention) ? "divided" : "undivided";
  };
  EXPECT_STREQ(form_of(5000, 1, {}), "divided");
  EXPECT_STREQ(form_of(500, 1, {}), "undivided");
  EXPECT_STREQ(form_of(5000, 40, {}), "undivided");
  EXPECT_STREQ(form_of(5000, 1, {.pack_gqa = false}), "undivided");
  EXPECT_STREQ(form_of(5000, 1, {.tiles = AttentionTileShape{64, 64}}), "undivided");
}

/// Neither the order in which programs finish nor the call that writes the list changes results.
TEST_P(FewQueries, SameBitsInEveryRun) {
  const Attention attention({.mask = masks::causal(), .align_bottom_right = true}, kDivided);
  const Packed p(ragged(2, {1500, 3, 1999, 640}, true), 4, 2, 64, 64, DType::bf16, GetParam());
  p.run(attention);
  const auto first = p.all.O.to_doubles();
  const int runs = GetParam().kind == DeviceKind::cuda ? 100 : 1;
  for (int i = 0; i < runs; ++i) {
    p.all.O.fill(NAN);
    p.run(attention);
    const auto again = p.all.O.to_doubles();
    for (std::size_t e = 0; e < first.size(); ++e)
      ASSERT_TRUE(first[e] == again[e] || (std::isnan(first[e]) && std::isnan(again[e]))) << e;
  }
}

/// Two threads call one object; their lists and partial results are apart.
TEST_P(FewQueries, TwoStreams) {
  const Attention attention(AttentionSpec{}, kDivided);
  const Lengths lengths[] = {ragged(1, {900, 3}, true), ragged(1, {3, 5, 800}, true)};
  const Packed first(lengths[0], 4, 2, 64, 64, DType::bf16, GetParam()),
      second(lengths[1], 4, 2, 64, 64, DType::bf16, GetParam());
  const auto run = [&](const Packed& p) {
    const Stream stream = Stream::create(GetParam());
    for (int i = 0; i < 2; ++i)
      attention.varlen(stream, p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths, p.all.extras());
    stream.synchronize();
  };
  std::thread other(run, second);
  run(first);
  other.join();
  first.expect({});
  second.expect({});
}

/// `max_seqlen_q` is a bound, on which the rows of a tile depend.
TEST_P(FewQueries, ReportsMoreQueriesThanTheBound) {
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "lengths are not checked";
  Packed p({{2, 3}, {70, 70}}, 4, 2, 64, 64, DType::bf16, GetParam());
  p.lengths.max_seqlen_q = 2;
  const Attention attention(AttentionSpec{});
  const auto call = [&] { p.run(attention); };
  EXPECT_NE(finding_of(call).find("T1691"), std::string::npos);
}

}  // namespace
}  // namespace tegula::test::few_queries_test
