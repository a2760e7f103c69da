// Attention on the GPU, by either back end; twins: tests/fuzz/attention_test.cpp and
// tests/differential/attention on the simulator.
#include <random>

#include "runtime/context.h"
#include "tests/differential/attention/varlen_tensors.h"
#include "tests/fuzz/random_attention.h"
#include "tests/gpu/by_back_end.h"
#include "tests/gpu/recorded_graph.h"

namespace tegula::test::attention_test {
namespace {

class AttentionOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, AttentionOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AttentionOnGpu, RandomConfigurations) {
  run_random_configs(number_from_env("TEGULA_FUZZ_SEED", 240),
                     number_from_env("TEGULA_FUZZ_PROGRAMS", 40), Device::cuda());
}

TEST_P(AttentionOnGpu, LongSequences) {
  const Attention causal({.mask = masks::causal()});
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  for (const auto& [q, kv] : {std::pair{1023, 1024}, {1024, 1023}, {2048, 2048}, {4097, 513}})
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(testing::Message() << q << " " << kv << " " << name(dtype));
      const Tensors t({.heads = 2, .seqlen_q = q, .seqlen_kv = kv, .dim = 128, .head_dim_v = 128},
                      dtype, Order::bshd, Device::cuda());
      causal(Stream(Device::cuda()), t.Q, t.K, t.V, t.O, t.Lse);
      expect_attention(host, t);
      if (HasFatalFailure()) return;
    }
}

/// Keys and values that no row of a tile may attend to hold NaN and infinities.
TEST_P(AttentionOnGpu, HiddenValues) {
  const Device gpu = Device::cuda();
  const Attention causal({.mask = masks::causal()});
  Scalar<i32> seqlen_q = 1, seqlen_kv = 5000;
  const Attention cache({.mask = masks::causal_bottom_right(seqlen_q, seqlen_kv)});
  HostAttention below_diagonal, in_cache;
  below_diagonal.mask = [](int, int, int q, int kv) { return q >= kv; };
  in_cache.mask = [](int, int, int, int kv) { return kv < 5000; };
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int d : {64, 96, 128, 256}) {
      SCOPED_TRACE(testing::Message() << d << " " << name(dtype));
      for (const int queries : {128, 300}) {
        const Tensors t({.heads = 4,
                         .kv_heads = 2,
                         .seqlen_q = queries,
                         .seqlen_kv = 700,
                         .dim = d,
                         .head_dim_v = d},
                        dtype, Order::bshd, gpu);
        spoil(t, {{queries, 700}});
        causal(Stream(gpu), t.Q, t.K, t.V, t.O, t.Lse);
        expect_attention(below_diagonal, t);
        if (HasFatalFailure()) return;
      }
      const Tensors t({.heads = 8, .kv_heads = 2, .seqlen_kv = 6000, .dim = d, .head_dim_v = d},
                      dtype, Order::bshd, gpu);
      spoil(t, {{5000, 6000}});
      cache(Stream(gpu), t.Q, t.K, t.V, t.O, t.Lse);
      expect_attention(in_cache, t);
      if (HasFatalFailure()) return;
    }
}

/// The same for the rows of the next packed sequence and for spare rows after the last one.
TEST_P(AttentionOnGpu, HiddenValuesOfSequences) {
  const Lengths lengths{{70, 0, 1033}, {50, 40, 1150}};
  const Attention causal({.mask = masks::causal()}), all(AttentionSpec{});
  HostAttention below_diagonal;
  below_diagonal.mask = [](int, int, int q, int kv) { return q >= kv; };
  for (const int d : {64, 128, 256})
    for (const auto& [attention, host] :
         {std::pair{causal, below_diagonal}, {all, HostAttention{}}}) {
      const Packed p(lengths, 2, 1, d, d, DType::bf16, Device::cuda(), /*spare=*/64);
      spoil(p.all, {{50, 90}, {1240, 1304}}, 0);
      attention.varlen(Stream(Device::cuda()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                       p.all.extras());
      p.expect(host);
      if (HasFatalFailure()) return;
    }
}

/// Lengths of sequences with up to `queries` queries and any number of keys; some have no queries.
Lengths few_queries(std::uint64_t seed, i32 queries, bool at_end) {
  std::mt19937_64 random(seed);
  Lengths l;
  for (int b = 0; b < 12; ++b) {
    const auto any = [&](i32 n) { return static_cast<i32>(random() % static_cast<unsigned>(n)); };
    const i32 kv = b % 5 == 3 ? b % 2 : b == 7 ? 4000 : 1 + any(900), q = 1 + any(queries);
    l.kv.push_back(kv);
    l.q.push_back(b % 4 == 2 ? 0 : at_end ? std::min(q, kv) : q);
  }
  return l;
}

HostAttention causal_at_end(const Lengths& l) {
  HostAttention host;
  host.mask = [l](int b, int, int q, int kv) {
    const auto i = static_cast<std::size_t>(b);
    return q + l.kv[i] - l.q[i] >= kv;
  };
  return host;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(
      a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// Heads of a group are rows of one tile, and programs share the keys of long sequences; memory
/// after the keys of a sequence is not finite. All calls give the same bits.
TEST_P(AttentionOnGpu, FewQueriesOfSequences) {
  for (const auto& [group, dim, head_dim_v, split_kv] : {std::tuple{1, 64, 64, 2},
                                                         {4, 128, 128, 1},
                                                         {5, 192, 128, 2},
                                                         {8, 256, 256, 2},
                                                         {71, 128, 128, 2}}) {
    SCOPED_TRACE(testing::Message() << "group " << group << ", split_kv " << split_kv);
    const i32 queries = dim == 256 || group == 71 ? 1 : 4;
    const bool at_end = group != 4;
    const Lengths l = few_queries(static_cast<std::uint64_t>(group), queries, at_end);
    const std::int64_t kv_heads = group == 71 ? 1 : 2;
    const Packed p(l, kv_heads * group, kv_heads, dim, head_dim_v,
                   group == 5 ? DType::f16 : DType::bf16, Device::cuda(), 64);
    p.spoil_unattended();
    AttentionSpec spec;
    if (at_end) spec = {.mask = masks::causal(), .align_bottom_right = true};
    const Attention attention(spec, {.split_kv = split_kv});
    p.run(attention);
    p.expect(at_end ? causal_at_end(l) : HostAttention());
    if (HasFatalFailure()) return;
    const auto first = p.all.O.to_doubles();
    for (int i = 0; i < 20; ++i) {
      p.run(attention);
      ASSERT_TRUE(same_bits(first, p.all.O.to_doubles())) << i;
    }
  }
}

/// A graph of one call serves other lengths and numbers of queries: grid and workspace depend on
/// extents only.
TEST_P(AttentionOnGpu, ReplaysOtherSequences) {
  const Device gpu = Device::cuda();
  const Stream stream = Stream::create(gpu);
  const Attention attention({.mask = masks::causal(), .align_bottom_right = true}, {.split_kv = 2});
  const auto rows = [&](std::int64_t count, std::int64_t heads) {
    return Tensor::full({count, heads, 64}, NAN, DType::bf16, gpu);
  };
  const Tensor Q = rows(40, 8), O = rows(40, 8), K = rows(30000, 2), V = rows(30000, 2),
               lse = Tensor::full({40, 8}, NAN, DType::f32, gpu),
               max = Tensor::full({40, 8}, NAN, DType::f32, gpu);
  const std::vector<i32> none(13, 0);
  const CuSeqlens lengths{Tensor::from(none, gpu), Tensor::from(none, gpu), 3};
  const auto launch = [&] { attention.varlen(stream, Q, K, V, O, lengths, {lse, max, {}}); };
  launch();
  stream.synchronize();
  const RecordedGraph graph(stream, launch);
  for (std::uint64_t seed = 1; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    const Lengths l = few_queries(seed, 3, true);
    const Packed p(l, 8, 2, 64, 64, DType::bf16, gpu);
    p.spoil_unattended();
    const auto copy = [&](const Tensor& to, const Tensor& from) {
      to.slice(0, 0, from.size(0)).copy_from(from, stream);
    };
    copy(Q, p.all.Q), copy(K, p.all.K), copy(V, p.all.V);
    copy(lengths.q, p.lengths.q), copy(lengths.kv, p.lengths.kv);
    graph.replay(stream);
    stream.synchronize();
    const std::int64_t used = p.q_starts.back();
    p.all.O.slice(0, 0, used).copy_from(O.slice(0, 0, used));
    p.all.Lse.slice(0, 0, used).copy_from(lse.slice(0, 0, used));
    p.all.Max.slice(0, 0, used).copy_from(max.slice(0, 0, used));
    p.expect(causal_at_end(l));
    if (HasFatalFailure()) return;
  }
}

/// The largest number of sequences, and keys of more than 2^31 elements.
TEST_P(AttentionOnGpu, ManySequencesAndKeys) {
  const Device gpu = Device::cuda();
  const Attention packed({}, {.split_kv = 2}), apart({}, {.pack_gqa = false});
  constexpr i32 kSequences = 1 << 16;
  Lengths many;
  for (i32 b = 0; b < kSequences; ++b) many.q.push_back(1), many.kv.push_back(b % 5);
  many.kv[77] = 9000;
  const Packed p(many, 8, 2, 64, 64, DType::bf16, gpu);
  p.run(apart);
  const auto want = p.all.O.to_doubles();
  p.all.O.fill(NAN);
  p.run(packed);
  const auto got = p.all.O.to_doubles();
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= 0.02 * (1 + std::abs(want[i])) ||
                (std::isnan(got[i]) && std::isnan(want[i])))
        << i << ": " << got[i] << " " << want[i];

  constexpr std::int64_t kKeys = (1 << 21) + 5000;
  constexpr i32 kLast = 3000;
  const Tensor K = Tensor::zeros({kKeys, 8, 128}, DType::bf16, gpu),
               Q = Tensor::normal({1, 32, 128}, DType::bf16, 0, 1, 1, gpu), O = Q.clone(),
               lse = Tensor::zeros({1, 32}, DType::f32, gpu),
               own = K.slice(0, kKeys - kLast, kKeys);
  own.copy_from(Tensor::normal({kLast, 8, 128}, DType::bf16, 0, 1, 2, gpu));
  const auto numbers = [&](const std::vector<i32>& of) { return Tensor::from(of, gpu); };
  packed.varlen(Stream(gpu), Q, K, K, O,
                {numbers({0, 0, 1}), numbers({0, kKeys - kLast, kKeys}), 1}, {.lse = lse});
  for (int h = 0; h < 32; ++h) {
    const auto row = [&](const Tensor& t) { return t.select(1, h); };
    expect_head(
        {}, {row(Q), own.select(1, h / 4), own.select(1, h / 4), row(O), row(lse), Tensor()}, 1, h);
    if (HasFatalFailure()) return;
  }
}

/// Several clusters share the keys of a tile, on streams at once; a graph of a stream which
/// has run nothing before replays there and, next to that stream's own calls, on another one. That
/// they are several is looked for: of more heads one cluster would do for all.
TEST_P(AttentionOnGpu, SharedKeysOnStreamsAndInGraphs) {
  const Attention attention(AttentionSpec{});
  const auto inputs = [] {
    return Tensors({.seqlen_q = 1, .seqlen_kv = 8192, .dim = 128, .head_dim_v = 128}, DType::bf16,
                   Order::bhsd, Device::cuda());
  };
  const Tensors first = inputs(), second = inputs(), third = inputs(), fourth = inputs();
  const Stream stream = Stream::create(Device::cuda()), other = Stream::create(Device::cuda()),
               recorded = Stream::create(Device::cuda());
  const auto run = [&](const Stream& on, const Tensors& t) {
    attention(on, t.Q, t.K, t.V, t.O, t.Lse);
  };
  run(stream, first);
  stream.synchronize();
  EXPECT_TRUE(meets_in_memory(attention));
  const RecordedGraph graph(recorded, [&] { run(recorded, third); });
  EXPECT_TRUE(meets_in_memory(attention));
  for (int again = 0; again < 20; ++again) {
    run(stream, first);
    run(other, second);
    run(recorded, fourth);
    graph.replay(again % 2 == 0 ? recorded : other);
  }
  for (const Stream& each : {stream, other, recorded}) each.synchronize();
  for (const Tensors* t : {&first, &second, &third, &fourth}) expect_attention({}, *t);
}

/// A graph writes the list of a mask anew in each replay, for the table that the mask then reads.
TEST_P(AttentionOnGpu, EvaluatedListsInGraphs) {
  constexpr int kCell = 128, kCells = 8;
  const Tensor table = Tensor::zeros({kCells, kCells}, DType::i32, Device::cuda());
  std::vector<i32> kept;
  HostAttention host;
  host.mask = [&](int, int, int q, int kv) {
    return kept[static_cast<std::size_t>(q / kCell * kCells + kv / kCell)] != 0;
  };
  const Mask mask = [table](const Tile&, const Tile&, const Tile& q, const Tile& kv) {
    return view<i32, 2>(table)(q / kCell, kv / kCell) != 0;
  };
  const Tensors t({.heads = 2, .seqlen_q = 1000, .seqlen_kv = 1024, .dim = 128, .head_dim_v = 128},
                  DType::bf16, Order::bhsd, Device::cuda());
  const Stream stream = Stream::create(Device::cuda());
  const Attention maker({.mask = mask});
  const BlockList list = maker.block_list(stream, t.Q, t.K);
  const Attention listed({.mask = mask, .blocks = list});
  const auto run = [&] {
    maker.write_block_list(stream, t.Q, t.K, list);
    listed(stream, t.Q, t.K, t.V, t.O, t.Lse);
  };
  run();
  stream.synchronize();
  const RecordedGraph graph(stream, run);
  for (int n = 1; n < 5; ++n) {
    kept.clear();
    for (int i = 0; i < kCells * kCells; ++i) kept.push_back(i * i * n % 7 % 2);
    table.copy_from(Tensor::from(kept, table.shape(), Device::cuda()));
    graph.replay(stream);
    stream.synchronize();
    expect_attention(host, t);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tegula::test::attention_test
