// Attention on the GPU, by either back end; twins: tests/fuzz/attention_test.cpp and
// tests/differential/attention on the simulator.
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
