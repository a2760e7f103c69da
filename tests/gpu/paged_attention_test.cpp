// Attention over paged caches on a GPU, launched and in recorded graphs; twin:
// tests/differential/attention/paged_test.cpp.
#include <cmath>
#include <random>
#include <thread>

#include "tegula/kernels/masks.h"
#include "tegula/poison.h"
#include "tests/fuzz/random_paged_attention.h"
#include "tests/gpu/by_back_end.h"
#include "tests/gpu/recorded_graph.h"

namespace tegula::test::paged_attention_test {
namespace {

class PagedOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, PagedOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

HostAttention host_causal() {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  return host;
}

/// Both have the same elements, some of which are NaN.
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(
      a, b, [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

Lengths random_lengths(std::uint64_t seed, i32 longest, i32 queries) {
  std::mt19937_64 random(seed);
  Lengths l;
  for (int b = 0; b < 12; ++b) {
    const i32 kv = b % 5 == 3 ? 0 : static_cast<i32>(random() % static_cast<unsigned>(longest)) + 1;
    l.kv.push_back(kv);
    l.q.push_back(std::min(kv, b % 4 == 2 ? 0 : static_cast<i32>(random() % queries) + 1));
  }
  return l;
}

/// Pages of any size, groups of heads and head dims, in prefill and in decoding.
TEST_P(PagedOnGpu, EqualsAttentionInDoubles) {
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t rows : {1, 16, 24, 64, 256})
    for (const i32 queries : {1, 150}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(queries) + " queries");
      const auto order = rows == 16 ? PageOrder::hnd : PageOrder::nhd;
      const std::int64_t group = rows == 1 ? 1 : rows == 24 ? 7 : 4, dim = rows == 64 ? 80 : 128;
      const PagedRequests p({.rows = rows,
                             .heads = 2 * group,
                             .kv_heads = 2,
                             .dim = dim,
                             .head_dim_v = dim,
                             .order = order},
                            random_lengths(static_cast<std::uint64_t>(rows), 700, queries),
                            Device::cuda(), 1, rows == 24 ? DType::f16 : DType::bf16);
      p.run(attention);
      p.expect(host_causal());
      if (HasFatalFailure()) return;
    }
}

/// The request's loads are copied ahead for wgmma, whole pages by TMA.
TEST_P(PagedOnGpu, CopiesPagesAhead) {
  for (const std::int64_t rows : {1, 16}) {
    const Attention attention({.mask = masks::causal()});
    const PagedRequests p({.rows = rows, .dim = 128, .head_dim_v = 128},
                          random_lengths(1, 500, 100), Device::cuda());
    p.run(attention);
    const bool by_threads = attention.explain().find("pipelined by cp.async") != std::string::npos;
    EXPECT_EQ(by_threads, rows == 1) << attention.explain();
  }
}

/// Returns lengths next to those of whole pages, blocks and parts of blocks.
Lengths around(i32 rows, i32 queries) {
  Lengths l;
  for (const i32 kv : {0, 1, rows - 1, rows, rows + 1, 2 * rows + 5, 127, 129, 300}) {
    l.kv.push_back(kv);
    l.q.push_back(std::min(kv, queries));
  }
  return l;
}

/// Requests end anywhere in their pages, which they share; the rows after the end are NaN, and so
/// are pages that no request needs. A large cache begins at the first byte of its allocation.
TEST_P(PagedOnGpu, PartlyFilledPages) {
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t rows : {16, 24, 32, 64, 128, 256})
    for (const i32 queries : {1, 70}) {
      if (queries > 1 && rows % 64 == 32) continue;
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(queries) + " queries");
      const PagedRequests p({.rows = rows}, around(static_cast<i32>(rows), queries), Device::cuda(),
                            2, DType::bf16, 2048 / rows);
      p.run(attention);
      p.expect(host_causal());
      if (HasFatalFailure()) return;
    }
}

/// Windows begin at any row of a page.
TEST_P(PagedOnGpu, WindowsOverPages) {
  for (const std::int64_t rows : {16, 64}) {
    const Mask near = [](Tile, Tile, Tile q, Tile kv) { return q - kv < 70; };
    const Attention attention({.mask = masks::and_(masks::causal(), near)});
    HostAttention host;
    host.mask = [](int, int, int q, int kv) { return q >= kv && q - kv < 70; };
    for (const i32 queries : {1, 40}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(queries) + " queries");
      const PagedRequests p({.rows = rows}, random_lengths(9, 700, queries), Device::cuda());
      p.run(attention);
      p.expect(host);
      if (HasFatalFailure()) return;
    }
  }
}

/// Keys and values of missing pages are zeros, whatever the first page contains.
TEST_P(PagedOnGpu, MissingPagesAreZero) {
  for (const std::int64_t rows : {16, 128}) {
    SCOPED_TRACE(rows);
    const auto keys = static_cast<i32>(3 * rows + 5);
    const PagedRequests p({.rows = rows}, {{1}, {keys}}, Device::cuda());
    const std::int64_t missing[] = {p.at(0, rows).first, p.at(0, keys - 1).first};
    p.cache.table.slice(1, 1, 2).fill(-1), p.cache.table.slice(1, 3, 4).fill(-1);
    for (const std::int64_t page : missing)
      for (const Tensor& t : {p.cache.k, p.cache.v}) t.select(0, page).fill(NAN);
    p.run(Attention({}));
    for (const std::int64_t page : missing)
      for (const Tensor& t : {p.cache.k, p.cache.v}) t.select(0, page).fill(0);
    p.expect({});
    if (HasFatalFailure()) return;
  }
}

/// Points of the grid of page rows, groups and head dims, with random layouts, masks, scores,
/// types, lengths next to those of pages and blocks, work lists and moved pages.
TEST_P(PagedOnGpu, RandomBatches) {
  run_batches(12, Device::cuda(), [](std::uint64_t seed, Dice& dice) {
    return random_batch(CacheAxes::of_grid(seed), dice, Device::cuda());
  });
}

/// Pages that begin more than 2^32 bytes after the cache: threads copy pages of 24 rows, TMA loads
/// those of 32. The first pages are never read.
TEST_P(PagedOnGpu, AppendsToLargeCachesAndReadsThem) {
  constexpr std::int64_t kApart = (std::int64_t{1} << 31) + 512;  // elements of a page to the next
  const Device gpu = Device::cuda();
  Tensor memory;
  try {
    memory = Tensor::empty({2 * kApart + 4 * 64 * 64}, DType::bf16, gpu);
  } catch (const DeviceError&) {
    GTEST_SKIP() << "no 9 GB of memory";
  }
  for (const i32 rows : {24, 32}) {
    SCOPED_TRACE(rows);
    const PagedRequests p({.rows = rows, .kv_heads = 1, .shares_pages = false}, {{2}, {rows + 5}},
                          gpu);
    const auto large = [&](std::int64_t first) {
      const Tensor from = memory.slice(0, first, memory.size(0));
      return Tensor::borrow(from.data(), {3, rows, 1, 64}, DType::bf16, gpu, {kApart, 64, 64, 1});
    };
    const KvCache cache{large(0), large(64 * 64),
                        Tensor::from(std::vector<i32>{1, 2}, {1, 2}, gpu)};
    const Tensor K = Tensor::normal({2, 1, 64}, DType::bf16, 0, 1, 11, gpu),
                 V = Tensor::normal({2, 1, 64}, DType::bf16, 0, 1, 12, gpu);
    for (const auto& [of, to] : {std::pair{p.cache.k, cache.k}, {p.cache.v, cache.v}})
      for (const std::int64_t page : {1, 2})
        to.select(0, page).copy_from(of.select(0, p.table[static_cast<std::size_t>(page - 1)]));
    append(Stream(gpu), K, V, cache, p.batch);
    append(Stream(gpu), K, V, p.cache, p.batch);
    const Attention attention({.mask = masks::causal()});
    attention.paged(Stream(gpu), p.Q, cache, p.O, p.batch, {p.Lse, p.Max, {}});
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// A released page is NaN; a request that does not have it is not affected.
TEST_P(PagedOnGpu, ReleasedPagesAreNaN) {
  const Device gpu = Device::cuda();
  const Attention attention({.mask = masks::causal()});
  const PagedRequests p({.shares_pages = false}, {{1, 1}, {50, 40}}, gpu);
  const std::int64_t page = p.at(1, 16).first;
  for (const Tensor& t : {p.cache.k, p.cache.v}) poison(t.slice(0, page, page + 1));
  p.run(attention);
  const auto row = [&](std::int64_t of) { return p.O.select(0, of).to_doubles(); };
  EXPECT_TRUE(std::ranges::all_of(row(1), [](double x) { return std::isnan(x); }));
  EXPECT_TRUE(std::ranges::none_of(row(0), [](double x) { return std::isnan(x); }));
}

/// Two threads call one object on separate streams; 100 calls give equal bits.
TEST_P(PagedOnGpu, TwoStreamsShareOneObject) {
  const Device gpu = Device::cuda();
  const Attention attention({.mask = masks::causal()});
  const PagedRequests steps[] = {
      PagedRequests({.dim = 128, .head_dim_v = 128}, random_lengths(3, 900, 1), gpu, 1),
      PagedRequests({.rows = 64}, random_lengths(4, 900, 70), gpu, 2)};
  std::vector<double> first[2], last[2];
  const auto run = [&](int i) {
    const PagedRequests& p = steps[i];
    const Stream stream = Stream::create(gpu);
    for (int call = 0; call < 100; ++call) {
      p.O.fill(NAN);
      Stream(gpu).synchronize();
      p.run(attention, stream);
      stream.synchronize();
      (call == 0 ? first : last)[i] = p.O.to_doubles();
      if (call > 0 && !same_bits(first[i], last[i])) return;
    }
  };
  for (const PagedRequests& p : steps) p.run(attention);  // compiles for this test's back end
  std::thread other(run, 1);
  run(0);
  other.join();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(same_bits(first[i], last[i])) << i;
    steps[i].expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// A graph of a rotation and attention: the angles follow from the lengths of the replay.
TEST_P(PagedOnGpu, ReplaysRotations) {
  const Device gpu = Device::cuda();
  const Stream stream = Stream::create(gpu);
  const RopeTables tables{.cos = Tensor::uniform({64, 32}, DType::f32, -1, 1, 7, gpu),
                          .sin = Tensor::uniform({64, 32}, DType::f32, -1, 1, 8, gpu)};
  const PagedRequests p({.rows = 16, .shares_pages = false}, {{1, 1, 1}, {60, 17, 33}}, gpu);
  const Tensor K = Tensor::normal({3, 2, 64}, DType::bf16, 0, 1, 9, gpu),
               V = Tensor::normal({3, 2, 64}, DType::bf16, 0, 1, 10, gpu), Q = p.Q.slice(0, 0, 3),
               out = Q.clone();
  const auto launch = [&](const RopeTables& rope, const Tensor& to) {
    append(stream, K, V, p.cache, p.batch, {.rope = rope, .Q = Q, .Q_out = to});
  };
  launch(tables, out);
  stream.synchronize();
  const RecordedGraph graph(stream, [&] { launch(tables, out); });
  for (const std::vector<i32>& kv : {std::vector<i32>{60, 17, 33}, {3, 1, 48}}) {
    RopeTables at = tables;
    at.positions = Tensor::from(std::vector<i32>{kv[0] - 1, kv[1] - 1, kv[2] - 1}, gpu);
    p.batch.kv_lengths.copy_from(Tensor::from(kv, gpu), stream);
    graph.replay(stream);
    const Tensor want = Q.clone(), keys = K.clone();
    rope(stream, RopePairs::half_split, Q, at, want);
    rope(stream, RopePairs::half_split, K, at, keys);
    stream.synchronize();
    EXPECT_EQ(out.to_doubles(), want.to_doubles());
    for (std::size_t b = 0; b < 3; ++b) {
      const auto [page, row] = p.at(b, kv[b] - 1);
      EXPECT_EQ(p.cache.k.select(0, page).select(0, row).to_doubles(),
                keys.select(0, static_cast<std::int64_t>(b)).to_doubles());
    }
  }
}

/// Long requests are divided; the parts are combined in their order, whichever thread ends last.
TEST_P(PagedOnGpu, DividesRequestsByWorkLists) {
  const Device gpu = Device::cuda();
  const Stream stream(gpu);
  const Attention attention({.mask = masks::causal()});
  for (const i32 queries : {1, 5}) {
    SCOPED_TRACE(queries);
    const Lengths l{{queries, 1, 0, queries}, {3000, 5, 0, 700}};
    PagedRequests p({.rows = 16}, l, gpu, 5, DType::bf16, 200);
    p.batch.schedule = Tensor::full({schedule_words(4, gpu)}, -1, DType::i32, gpu);
    attention.schedule(stream, p.Q, p.cache, p.batch, p.batch.schedule);
    p.run(attention);
    const auto first = p.O.to_doubles();
    for (int i = 0; i < 100; ++i) {
      p.run(attention);
      ASSERT_TRUE(same_bits(first, p.O.to_doubles())) << i;
    }
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Prompts and decoding requests in one call, which makes a launch for either kind.
TEST_P(PagedOnGpu, MixedStepsByWorkLists) {
  const Device gpu = Device::cuda();
  const Attention attention({.mask = masks::causal()});
  for (const auto& [group, dim] : {std::pair{1, 64}, {4, 128}, {8, 128}}) {
    SCOPED_TRACE(group);
    const Lengths l{{1, 300, 0, 1, 4, 70, 1, 33}, {3000, 900, 0, 5, 1700, 70, 0, 40}};
    PagedRequests p({.heads = 2 * group, .dim = dim, .head_dim_v = dim}, l, gpu, 5, DType::bf16,
                    200);
    p.batch.schedule = Tensor::full({schedule_words(8, gpu)}, -1, DType::i32, gpu);
    attention.schedule(Stream(gpu), p.Q, p.cache, p.batch, p.batch.schedule);
    p.run(attention);
    const auto first = p.O.to_doubles();
    for (int i = 0; i < 100; ++i) {
      p.O.fill(NAN);
      p.run(attention);
      ASSERT_TRUE(same_bits(first, p.O.to_doubles())) << i;
    }
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// A graph of attention by a list that was written before is replayed after a request changed from
/// a prompt to decoding: its rows are not stored, others are. With a new list, all are.
TEST_P(PagedOnGpu, ReplaysMixedStepsWithStaleLists) {
  const Device gpu = Device::cuda();
  const Stream stream = Stream::create(gpu);
  const Attention attention({.mask = masks::causal()});
  const auto step = [&](const std::vector<i32>& queries) {
    return PagedRequests({}, {queries, {2500, 800, 300, 1200}}, gpu, 5, DType::bf16, 200);
  };
  PagedRequests p = step({1, 300, 200, 1});
  p.batch.schedule = Tensor::full({schedule_words(4, gpu)}, -1, DType::i32, gpu);
  const auto attend = [&] {
    attention.paged(stream, p.Q, p.cache, p.O, p.batch, {p.Lse, p.Max, {}});
  };
  const auto schedule = [&] {
    attention.schedule(stream, p.Q, p.cache, p.batch, p.batch.schedule);
  };
  schedule();
  attend();
  stream.synchronize();
  const RecordedGraph graph(stream, attend);
  const PagedRequests later = step({200, 1, 300, 1});
  p.batch.q_offsets.copy_from(later.batch.q_offsets, stream);
  stream.synchronize();
  p.lengths = later.lengths, p.q_starts = later.q_starts;
  for (const Tensor& t : {p.O, p.Lse, p.Max}) t.fill(NAN);
  graph.replay(stream);
  stream.synchronize();
  const auto stale = p.Lse.to_doubles();
  for (std::size_t row = 0; row < 502; ++row)
    ASSERT_EQ(std::isnan(stale[row * 4]), row == 200) << row;
  schedule();
  graph.replay(stream);
  stream.synchronize();
  p.expect(host_causal());
}

/// Concurrent calls on two streams read one list and have separate partial results.
TEST_P(PagedOnGpu, TwoStreamsShareOneSchedule) {
  const Device gpu = Device::cuda();
  const Attention attention({.mask = masks::causal()});
  PagedRequests p({.rows = 16}, {{4, 2, 4}, {3000, 5, 1700}}, gpu, 5, DType::bf16, 200);
  p.batch.schedule = Tensor::full({schedule_words(3, gpu)}, -1, DType::i32, gpu);
  attention.schedule(Stream(gpu), p.Q, p.cache, p.batch, p.batch.schedule);
  attention.paged(Stream(gpu), p.Q, p.cache, p.O, p.batch);
  Stream(gpu).synchronize();
  const auto want = p.O.to_doubles();
  const std::vector<Stream> streams{Stream::create(gpu), Stream::create(gpu)};
  const std::vector<Tensor> outputs{p.O.clone(), p.O.clone()};
  for (int call = 0; call < 50; ++call) {
    for (const Tensor& O : outputs) O.fill(NAN);
    Stream(gpu).synchronize();
    for (int i = 0; i < 4; ++i)
      attention.paged(streams[i % 2], p.Q, p.cache, outputs[i % 2], p.batch);
    for (const Stream& s : streams) s.synchronize();
    for (const Tensor& O : outputs) ASSERT_TRUE(same_bits(O.to_doubles(), want)) << call;
  }
}

/// One graph of append, list and attention serves steps with other lengths, tables and contents;
/// requests that are missing have no queries and no keys.
TEST_P(PagedOnGpu, ReplaysWithOtherLengthsAndTables) {
  constexpr std::int64_t kColumns = 100;
  const Device gpu = Device::cuda();
  const Stream stream = Stream::create(gpu);
  const Attention attention({.mask = masks::causal()});
  for (const i32 queries : {1, 6, 40}) {
    SCOPED_TRACE(queries);
    const auto step = [&](std::uint64_t seed) {
      Lengths l = random_lengths(seed, 1560, queries);
      if (seed == 3) std::ranges::fill(l.q, 0), std::ranges::fill(l.kv, 0);
      l.q[0] = l.kv[0] = 0;
      return PagedRequests({.rows = 16, .shares_pages = false}, l, gpu, seed, DType::bf16,
                           kColumns);
    };
    PagedRequests fixed = step(1);
    constexpr std::int64_t kTokens = 12 * 40;
    const auto rows = [&](std::int64_t heads) {
      return Tensor::full({kTokens, heads, 64}, NAN, DType::bf16, gpu);
    };
    const Tensor Q = rows(4), O = rows(4), K = rows(2), V = rows(2),
                 lse = Tensor::full({kTokens, 4}, NAN, DType::f32, gpu),
                 max = Tensor::full({kTokens, 4}, NAN, DType::f32, gpu);
    fixed.batch.max_seqlen_q = queries;
    fixed.batch.schedule = Tensor::full({schedule_words(12, gpu)}, -1, DType::i32, gpu);
    const auto launch = [&] {
      append(stream, K, V, fixed.cache, fixed.batch);
      attention.schedule(stream, Q, fixed.cache, fixed.batch, fixed.batch.schedule);
      attention.paged(stream, Q, fixed.cache, O, fixed.batch, {lse, max, {}});
    };
    launch();
    stream.synchronize();
    const RecordedGraph graph(stream, launch);
    for (std::uint64_t seed = 1; seed < 8; ++seed) {
      SCOPED_TRACE(seed);
      PagedRequests p = step(seed);
      const std::int64_t used = p.q_starts.back();
      // The keys and values of the step come from `append`.
      fixed.cache.k.copy_from(p.cache.k, stream), fixed.cache.v.copy_from(p.cache.v, stream);
      fixed.cache.table.copy_from(p.cache.table, stream);
      fixed.batch.q_offsets.copy_from(p.batch.q_offsets, stream);
      fixed.batch.kv_lengths.copy_from(p.batch.kv_lengths, stream);
      Q.slice(0, 0, used).copy_from(p.Q.slice(0, 0, used), stream);
      stream.synchronize();
      for (std::size_t b = 0; b < p.lengths.kv.size(); ++b)
        for (i32 i = 0; i < p.lengths.q[b]; ++i) {
          const auto [page, row] = p.at(b, p.lengths.kv[b] - p.lengths.q[b] + i);
          for (const auto& [from, cache, to] :
               {std::tuple{p.cache.k, fixed.cache.k, K}, {p.cache.v, fixed.cache.v, V}}) {
            to.select(0, p.q_starts[b] + i).copy_from(from.select(0, page).select(0, row));
            cache.select(0, page).select(0, row).fill(NAN);
          }
        }
      graph.replay(stream);
      stream.synchronize();
      p.O.slice(0, 0, used).copy_from(O.slice(0, 0, used));
      p.Lse.slice(0, 0, used).copy_from(lse.slice(0, 0, used));
      p.Max.slice(0, 0, used).copy_from(max.slice(0, 0, used));
      p.expect(host_causal());
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tegula::test::paged_attention_test
