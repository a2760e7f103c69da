// Consecutive sequences of different lengths: FlashAttention's cu_seqlens.
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/attention_reference.h"
#include "tests/differential/attention/varlen_tensors.h"

namespace tegula::test::varlen_test {
using namespace kernels;
namespace {

class Varlen : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Varlen, testing::ValuesIn(devices()), device_name);

TEST_P(Varlen, SequencesDoNotSeeEachOther) {
  // Each sequence has its own offset, so that its last query attends to its last key.
  const Lengths lengths{{1, 113, 0, 128, 17, 200, 5}, {7, 203, 9, 128, 0, 150, 260}};
  const Tensor shift = Tensor::from(std::vector<i32>{6, 90, 9, 0, -17, -50, 255}, GetParam());
  const std::vector<int> host_shift{6, 90, 9, 0, -17, -50, 255};
  const Mask causal = [shift](Tile b, Tile, Tile q, Tile kv) {
    return q + view<i32, 1>(shift)(b) >= kv;
  };
  const Attention attention({.mask = causal, .score = [](Tile s, Tile b, Tile h, Tile q, Tile kv) {
                               return s + cast<f32>(kv - q) * 0.01f * cast<f32>(b + h);
                             }});
  HostAttention host;
  host.mask = [&](int b, int, int q, int kv) {
    return q + host_shift[static_cast<std::size_t>(b)] >= kv;
  };
  host.score = [](double s, int b, int h, int q, int kv) { return s + (kv - q) * 0.01 * (b + h); };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Packed p(lengths, 4, 2, 64, dtype == DType::bf16 ? 64 : 40, dtype, GetParam());
    attention.varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                     p.all.extras());
    p.expect(host);
    if (HasFatalFailure()) return;
  }
}

/// FlashAttention's causal masks: the last query of a sequence sees its last key.
TEST_P(Varlen, QueriesAtTheEnd) {
  const Lengths lengths{{1, 113, 0, 128, 17}, {7, 203, 9, 128, 217}};
  HostAttention host;
  host.mask = [&](int b, int, int q, int kv) {
    const auto i = static_cast<std::size_t>(b);
    return q + lengths.kv[i] - lengths.q[i] >= kv;
  };
  const Attention attention({.mask = masks::causal(), .align_bottom_right = true});
  const Packed p(lengths, 2, 2, 64, 64, DType::bf16, GetParam());
  attention.varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                   p.all.extras());
  p.expect(host);
}

/// Some of a few queries, some empty, one that is longer than all others, whole tiles, nothing at
/// the end, tiles behind it: every tile belongs to the sequence whose queries it has.
TEST_P(Varlen, ManyShortSequences) {
  Lengths lengths;
  for (int i = 0; i < 75; ++i) lengths.q.push_back(i % 11 == 3 ? 0 : i * i % 17);
  lengths.q[20] = 300, lengths.q[40] = 128, lengths.q[41] = 256, lengths.q[74] = 0;
  lengths.kv = lengths.q;
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t spare : {3, 700}) {
    const Packed p(lengths, 2, 1, 64, 64, DType::bf16, GetParam(), spare);
    attention.varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                     p.all.extras());
    p.expect(host);
    if (HasFatalFailure()) return;
  }
}

/// The longest sequence is a bound: a caller may give the largest that a model has, at every call.
TEST_P(Varlen, AnyBoundOfTheQueries) {
  const Lengths lengths{{1, 70, 0, 33}, {9, 70, 4, 50}};
  HostAttention near, far;
  near.mask = [](int, int, int q, int kv) { return q >= kv; };
  far.mask = [](int, int, int q, int kv) { return (q - kv) / 16 % 2 == 0; };
  const Attention causal({.mask = masks::causal()}),
      holes({.mask = [](Tile, Tile, Tile q, Tile kv) { return (q - kv) / 16 % 2 == 0; }});
  for (const std::int64_t bound : {70L, 104L, 105L, 1L << 20, 1L << 40}) {
    SCOPED_TRACE(bound);
    for (const auto& [attention, host] : {std::pair{&causal, &near}, {&holes, &far}}) {
      Packed p(lengths, 2, 1, 64, 64, DType::bf16, GetParam());
      p.lengths.max_seqlen_q = bound;
      attention->varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                        p.all.extras());
      p.expect(*host);
      if (HasFatalFailure()) return;
    }
  }
}

/// No sequences, and sequences without queries among rows and without rows.
TEST_P(Varlen, EmptyCalls) {
  const Attention attention(AttentionSpec{});
  for (const auto& [lengths, spare] : std::initializer_list<std::pair<Lengths, std::int64_t>>{
           {{}, 700}, {{{0, 0}, {5, 9}}, 700}, {{{0, 0}, {5, 9}}, 0}}) {
    const Packed p(lengths, 2, 1, 64, 64, DType::bf16, GetParam(), spare);
    attention.varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                     p.all.extras());
    p.expect({});
    if (HasFatalFailure()) return;
  }
}

TEST_P(Varlen, LengthsChangeWithoutCompiling) {
  const Attention attention({.mask = masks::sliding_window(40)});
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv && q - kv <= 40; };
  const std::vector<float> sinks{0.5f, 2.0f, -1.0f};
  host.sink = [&](int h) { return sinks[static_cast<std::size_t>(h)]; };
  for (const Lengths& l : {Lengths{{64, 128}, {64, 128}},
                           {{129, 3, 65}, {129, 3, 65}},
                           {{1}, {1}},
                           {{0, 0, 33, 2}, {4, 0, 33, 2}}}) {
    const Packed p(l, 3, 1, 128, 128, DType::bf16, GetParam());
    attention.varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                     p.all.extras(Tensor::from(sinks, GetParam())));
    p.expect(host);
    if (HasFatalFailure()) return;
    const std::string why = attention.explain();
    EXPECT_EQ(why.find("compiled", why.find("compiled") + 1), std::string::npos) << why;
    if (GetParam().kind == DeviceKind::sim) {
      EXPECT_NE(why.find("dot by wgmma"), std::string::npos) << why;
      // The producer warp itself reads where a sequence begins.
      EXPECT_NE(attention.dump("optimize").find("roles"), std::string::npos);
    }
  }
}

/// Relative to each tile's first block, and computed again where scores rise by more than floats
/// hold (head 1): tiles without queries, sequences without keys, rows of the next sequence.
TEST_P(Varlen, NeverRescaled) {
  const Lengths lengths{{1, 113, 0, 128, 17, 300, 5, 40}, {7, 203, 9, 400, 217, 300, 260, 0}};
  HostAttention host;
  host.mask = [&](int b, int, int q, int kv) {
    const auto i = static_cast<std::size_t>(b);
    return q + lengths.kv[i] - lengths.q[i] >= kv;
  };
  AttentionSpec spec{.mask = masks::causal(), .align_bottom_right = true};
  const Lengths causal{{1, 113, 0, 128, 17, 300, 5}, {7, 203, 9, 400, 217, 300, 260}};
  for (const bool scored : {false, true}) {
    if (scored) {
      spec.mask = {}, spec.align_bottom_right = false, host.mask = HostAttention().mask;
      spec.score = [](Tile s, Tile, Tile h, Tile, Tile kv) { return s - cast<f32>(kv * h); };
      host.score = [](double s, int, int h, int, int kv) { return s - kv * h; };
    }
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(testing::Message() << name(dtype) << scored);
      Packed p(scored ? lengths : causal, 2, 1, 64, 64, dtype, GetParam(), scored ? 3 : 700);
      p.all.Max = {};
      attention(spec, {}, {.rescaling = Rescaling::never})
          .varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                  {.lse = p.all.Lse});
      p.expect(host);
      if (HasFatalFailure()) return;
    }
  }
}

/// Rows of a list are tiles of a sequence, and blocks are counted from its first key. Rows that a
/// sequence does not have name blocks that do not exist.
TEST_P(Varlen, ListsOfTheCaller) {
  const Lengths lengths{{1, 113, 0, 128, 300}, {7, 203, 9, 128, 260}};
  constexpr int kRows = 4, kBlocks = 3, kBlock = 128;  // a row more than the longest sequence has
  const auto is_listed = [](int b, int m, int n) { return (b + m + n) % 2 == 0; };
  std::vector<i32> blocks, counts, full;
  for (std::size_t b = 0; b < lengths.q.size(); ++b)
    for (int m = 0; m < kRows; ++m) {
      std::vector<i32> whole, ragged;
      for (int n = 0; n * kBlock < lengths.kv[b]; ++n)
        if (is_listed(static_cast<int>(b), m, n))
          ((n + 1) * kBlock <= lengths.kv[b] ? whole : ragged).push_back(n);
      const bool exists = m * kBlock < lengths.q[b];
      full.push_back(exists ? static_cast<i32>(whole.size()) : 99);
      counts.push_back(exists ? static_cast<i32>(whole.size() + ragged.size()) : 99);
      whole.insert(whole.end(), ragged.begin(), ragged.end());
      whole.resize(kBlocks, 99);
      blocks.insert(blocks.end(), whole.begin(), whole.end());
    }
  const Dims rows{static_cast<std::int64_t>(lengths.q.size()), 1, kRows};
  HostAttention host;
  host.mask = [&](int b, int, int q, int kv) { return is_listed(b, q / kBlock, kv / kBlock); };
  for (const bool has_full : {true, false}) {
    BlockList list{Tensor::from(blocks, {rows[0], 1, kRows, kBlocks}, GetParam()),
                   Tensor::from(counts, rows, GetParam())};
    if (has_full) list.full_kv_num_blocks = Tensor::from(full, rows, GetParam());
    const Packed p(lengths, 4, 2, 64, 40, DType::bf16, GetParam());
    attention({.blocks = list})
        .varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths, p.all.extras());
    p.expect(host);
    if (HasFatalFailure()) return;
  }
}

/// The list of a mask that no analysis solves is made by evaluating it in every sequence.
TEST_P(Varlen, EvaluatedLists) {
  const Lengths lengths{{1, 113, 0, 128, 300, 20}, {7, 203, 9, 128, 260, 90}};
  constexpr int kCell = 64, kCells = 5;
  std::vector<i32> kept;
  for (int i = 0; i < 6 * kCells * kCells; ++i) kept.push_back(i * i % 7 % 2);
  const Tensor table = Tensor::from(kept, {6, kCells, kCells}, GetParam());
  for (const bool align : {false, true}) {
    Lengths used = lengths;
    if (align) used.q[4] = 260;
    HostAttention host;
    host.mask = [&](int b, int, int q, int kv) {
      const auto i = static_cast<std::size_t>(b);
      if (align) q += used.kv[i] - used.q[i];
      return kept[static_cast<std::size_t>((b * kCells + q / kCell) * kCells + kv / kCell)] != 0;
    };
    const Attention attn = attention(
        {.mask = [&](Tile b, Tile, Tile q,
                     Tile kv) { return view<i32, 3>(table)(b, q / kCell, kv / kCell) != 0; },
         .align_bottom_right = align});
    const Packed p(used, 2, 2, 64, 64, DType::bf16, GetParam());
    attn.varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths, p.all.extras());
    p.expect(host);
    if (HasFatalFailure()) return;
    EXPECT_NE(attn.explain().find("by evaluating the mask"), std::string::npos) << attn.explain();
  }
}

}  // namespace
}  // namespace tegula::test::varlen_test
