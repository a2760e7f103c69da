// Attention to caches in pages, and storing to them, against attention in f64.
#include <memory>
#include <thread>

#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/differential/attention/paged_tensors.h"
#include "tests/differential/reserved_memory.h"

namespace tegula::test::paged_test {
using namespace kernels;
namespace {

class Paged : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Paged, testing::ValuesIn(devices()), device_name);

/// Returns lengths next to those of whole pages, with and without queries, and a long one.
Lengths around(i32 rows) {
  Lengths l{{1, 0, 0, 1, 2, 3, 70, 5}, {1, 0, rows, rows - 1, rows, rows + 1, 201, 90}};
  for (std::size_t b = 0; b < l.q.size(); ++b) l.q[b] = std::min(l.q[b], l.kv[b]);
  return l;
}

/// Returns the same with at most one query per request, as in decoding.
Lengths decoding(i32 rows) {
  Lengths l = around(rows);
  for (i32& n : l.q) n = std::min(n, 1);
  return l;
}

HostAttention host_causal() {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  return host;
}

TEST_P(Paged, PagesOfAnySize) {
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t rows : {1, 16, 24, 64}) {
    SCOPED_TRACE(rows);
    const auto order = rows == 24 ? PageOrder::hnd : PageOrder::nhd;
    const PagedRequests p({.rows = rows, .order = order}, around(static_cast<i32>(rows)),
                          GetParam());
    p.run(attention);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// With one query per request, the heads of a group are rows of a tile: any number of heads.
TEST_P(Paged, DecodesGroupsOfHeads) {
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t group : {1, 4, 7}) {
    SCOPED_TRACE(group);
    const PagedRequests p({.heads = 2 * group, .kv_heads = 2, .dim = 80, .head_dim_v = 48},
                          decoding(16), GetParam(), 7, group == 7 ? DType::f16 : DType::bf16);
    p.run(attention);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// The same kernel serves other lengths, numbers of requests and of pages.
TEST_P(Paged, CompilesOnceForAllLengths) {
  const Attention attention({.mask = masks::causal()});
  const auto compiled = [&](const Lengths& l, std::uint64_t seed) {
    const PagedRequests p({.dim = 88, .head_dim_v = 40}, l, GetParam(), seed);
    p.run(attention);
    p.expect(host_causal());
    return times_compiled(attention);
  };
  EXPECT_EQ(compiled({{1, 1}, {20, 7}}, 1), 1);
  EXPECT_EQ(compiled({{0, 1, 1}, {0, 133, 1}}, 2), 1);
  EXPECT_EQ(compiled({{1, 1, 0, 1, 1}, {64, 65, 3, 16, 90}}, 3), 1);
  EXPECT_EQ(compiled({{1, 1, 1, 1, 1}, {2, 65, 3, 16, 1}}, 4), 1);
}

/// Threads share one object; each has separate requests, a separate cache and a separate stream.
TEST_P(Paged, OneObjectInTwoThreads) {
  const Attention attention({.mask = masks::causal()});
  std::vector<std::unique_ptr<PagedRequests>> steps;
  for (const i32 rows : {16, 64, 16, 8})
    steps.push_back(std::make_unique<PagedRequests>(
        CacheExtents{.rows = rows}, rows == 64 ? around(64) : decoding(rows), GetParam(),
        static_cast<std::uint64_t>(steps.size() + 1)));
  const auto run = [&](std::size_t first) {
    for (std::size_t i = first; i < steps.size(); i += 2) {
      const Stream stream = Stream::create(GetParam());
      steps[i]->run(attention, stream);
      stream.synchronize();
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  for (const auto& p : steps) {
    p->expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Masks and scores see the request, the query head and positions in the request.
TEST_P(Paged, MasksAndScoresSeePositions) {
  const Mask near = [](Tile, Tile, Tile q, Tile kv) { return q - kv < 50; };
  const Attention attention({.mask = masks::and_(masks::causal(), near),
                             .score = [](Tile s, Tile b, Tile h, Tile q, Tile kv) {
                               return s + cast<f32>(kv - q) * 0.01f * cast<f32>(b + h);
                             }});
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv && q - kv < 50; };
  host.score = [](double s, int b, int h, int q, int kv) { return s + (kv - q) * 0.01 * (b + h); };
  host.sink = [](int h) { return 0.5 * h; };
  const Tensor sinks = Tensor::from(std::vector<float>{0, 0.5, 1, 1.5}, GetParam());
  for (const Lengths& l : {around(16), decoding(16), Lengths{{4, 2}, {90, 20}}}) {
    const PagedRequests p({}, l, GetParam());
    p.run(attention, Stream(GetParam()), sinks);
    p.expect(host);
    if (HasFatalFailure()) return;
  }
}

/// TMA loads pages of 16 rows and more, also where a window begins within a page; threads copy the
/// rows of others.
TEST_P(Paged, LoadsWholePagesByTma) {
  const Mask near = [](Tile, Tile, Tile q, Tile kv) { return q - kv < 70; };
  for (const std::int64_t rows : {4, 16, 256})
    for (const bool is_window : {false, true}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, window " << is_window);
      const Attention attention(
          {.mask = is_window ? masks::and_(masks::causal(), near) : masks::causal()});
      HostAttention host;
      host.mask = [&](int, int, int q, int kv) { return q >= kv && (!is_window || q - kv < 70); };
      const PagedRequests p({.rows = rows}, is_window ? around(100) : decoding(100), GetParam());
      p.run(attention);
      p.expect(host);
      if (HasFatalFailure()) return;
      if (GetParam().kind != DeviceKind::sim) continue;
      const std::string how = attention.explain();
      EXPECT_EQ(how.find("pipelined by cp.async") != std::string::npos, rows == 4) << how;
    }
}

/// Without a mask, queries also see the keys after their own position.
TEST_P(Paged, WithoutMaskOrTable) {
  const Attention attention({});
  for (const bool has_table : {true, false})
    for (const auto order : {PageOrder::nhd, PageOrder::hnd}) {
      const PagedRequests p({.rows = has_table ? 16 : 210, .order = order, .has_table = has_table},
                            around(16), GetParam());
      p.run(attention);
      p.expect({});
      if (HasFatalFailure()) return;
    }
}

/// Random batches: empty requests, requests without queries, pages that requests share.
TEST_P(Paged, RandomBatches) {
  const Attention attention({.mask = masks::causal()});
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](int n) { return static_cast<i32>(random() % static_cast<unsigned>(n)); };
    Lengths l;
    for (int b = 0; b < 9; ++b) {
      l.kv.push_back(below(4) == 0 ? 0 : below(150) + 1);
      l.q.push_back(std::min(l.kv.back(), below(3) == 0 ? 0 : below(seed % 2 == 0 ? 2 : 40)));
    }
    constexpr std::int64_t kRows[] = {8, 16, 48, 128};
    const PagedRequests p({.rows = kRows[seed % 4], .heads = 3, .kv_heads = seed < 5 ? 1 : 3}, l,
                          GetParam(), seed);
    p.run(attention);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Each request is attended to as a dense call does, with other normalizations than softmax, too.
TEST_P(Paged, EqualsDenseCalls) {
  const PagedRequests p({}, around(16), GetParam());
  for (const auto weighting :
       {AttentionNormalization::none, AttentionNormalization::stick_breaking}) {
    const Attention attention(
        {.mask = masks::causal(), .align_bottom_right = true, .weighting = weighting});
    attention.paged(Stream(GetParam()), p.Q, p.cache, p.O, p.batch);
    for (std::size_t b = 0; b < p.lengths.q.size(); ++b) {
      if (p.lengths.q[b] == 0) continue;
      const auto dense = [](const Tensor& rows) {  // [1, heads, rows, dim]
        return rows.reshape({1, rows.size(0), rows.size(1), rows.size(2)}).permute({0, 2, 1, 3});
      };
      const auto queries = [&](const Tensor& t) {
        return dense(t.slice(0, p.q_starts[b], p.q_starts[b + 1]));
      };
      const Tensor got = queries(p.O), O = Tensor::empty(got.shape(), got.dtype(), GetParam());
      attention(queries(p.Q), dense(p.gathered(p.cache.k, b)), dense(p.gathered(p.cache.v, b)), O);
      const auto want = O.to_doubles(), have = got.to_doubles();
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(have[i], want[i], 0.02 * (1 + std::abs(want[i]))) << "request " << b;
    }
  }
}

/// Keys of a page that a request does not have are zeros: of a full one, and of the last one.
TEST_P(Paged, MissingPagesAreZero) {
  for (const std::int64_t entry : {1, 2}) {
    const PagedRequests p({}, {{1}, {40}}, GetParam());
    p.cache.table.slice(1, entry, entry + 1).fill(-1);
    p.run(Attention({}));
    const auto [page, row] = p.at(0, 16 * entry);
    for (const Tensor& t : {p.cache.k, p.cache.v}) t.select(0, page).fill(0);
    p.expect({});
    EXPECT_EQ(row, 0);
    if (HasFatalFailure()) return;
  }
}

/// More keys than the table has pages for are reported, and reduced to those that it has.
TEST_P(Paged, LengthsEndWithTheTable) {
  const Attention attention({.mask = masks::causal()});
  for (const i32 queries : {1, 20}) {
    const PagedRequests p({}, {{queries, 1}, {48, 20}}, GetParam());
    p.batch.kv_lengths.slice(0, 0, 1).fill(60);
    const auto run = [&] { p.run(attention); };
    EXPECT_EQ(finding_of(run).substr(0, 5), GetParam().kind == DeviceKind::cuda ? "" : "T1690");
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Tiles that need most of shared memory: the table of distances is allocated after the keys, so
/// results cannot be exchanged in the memory of the keys before their stores.
TEST_P(Paged, LargeTilesWithTablesOfDistances) {
  const Tensor table = Tensor::normal({8, 2}, DType::f32, 0, 1, 78, GetParam());
  const Attention attention({.mask = masks::causal(), .score = scores::t5_bias(table, 5, false)},
                            {.tiles = AttentionTileShape{128, 112}});
  const PagedRequests p({.rows = 1, .heads = 2, .kv_heads = 2, .dim = 128, .head_dim_v = 128},
                        {{70, 3}, {120, 130}}, GetParam());
  p.run(attention);
  HostAttention host = host_causal();
  host.score = [t = table.to_doubles()](double s, int, int h, int q, int kv) {
    // The buckets from 4 on, of eight, are one apart up to a distance of 5.
    const int distance = q - kv, bucket = distance < 4 ? distance : distance == 4 ? 4 : 7;
    return s + t[static_cast<std::size_t>(bucket * 2 + h)];
  };
  p.expect(host);
}

/// Masks hide the same keys of caches of more than 2^31 elements. Hidden blocks, whose values are
/// NaN, are not visited.
TEST_P(Paged, SkipsHiddenKeysOfLargeCaches) {
  constexpr std::int64_t kApart = (std::int64_t{1} << 30) + 512;  // elements of a page to the next
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "the memory is the host's";
  const ReservedMemory memory(std::size_t{2 * kApart + 64 * 64} * 2);
  if (!memory.is_there()) GTEST_SKIP() << "no address space for 4 GiB";
  const PagedRequests p({.rows = 64, .kv_heads = 1}, {{1}, {150}}, GetParam());
  const Tensor k = Tensor::borrow(memory.data(), {3, 64, 1, 64}, DType::bf16, GetParam(),
                                  {kApart, 64, 64, 1}),
               v = Tensor::full({3, 64, 1, 64}, NAN, DType::bf16, GetParam());
  for (const std::int64_t page : {0, 1, 2}) {
    k.select(0, page).copy_from(p.cache.k.select(0, p.table[page]));
    if (page > 0) v.select(0, page).copy_from(p.cache.v.select(0, p.table[page]));
  }
  const KvCache large{k, v, Tensor::from(std::vector<i32>{0, 1, 2}, {1, 3}, GetParam())};
  const Mask near = [](Tile, Tile, Tile q, Tile kv) { return q - kv < 40; };
  for (const Mask& mask : {near, masks::and_(masks::causal(), near), masks::sliding_window(30)}) {
    const Attention attention({.mask = mask});
    p.run(attention);
    const std::vector<double> want = p.O.to_doubles();
    attention.paged(Stream(GetParam()), p.Q, large, p.O, p.batch, {p.Lse, p.Max, {}});
    const std::vector<double> got = p.O.to_doubles();
    for (std::size_t i = 0; i < 4 * 64; ++i) ASSERT_EQ(got[i], want[i]) << i;
  }
}

/// Rows of pages that begin more than 2^32 bytes after the cache: threads copy pages of 24 rows,
/// TMA loads those of 32. The first pages are never read.
TEST_P(Paged, AppendsToLargeCachesAndReadsThem) {
  constexpr std::int64_t kApart = (std::int64_t{1} << 31) + 512;  // elements of a page to the next
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "the memory is the host's";
  for (const i32 rows : {24, 32}) {
    SCOPED_TRACE(rows);
    const ReservedMemory memory(std::size_t{3 * kApart} * 2);
    if (!memory.is_there()) GTEST_SKIP() << "no address space for 12 GiB";
    const PagedRequests p({.rows = rows, .kv_heads = 1, .shares_pages = false}, {{2}, {rows + 5}},
                          GetParam());
    const auto large = [&](std::int64_t first) {
      auto* const at = static_cast<std::uint16_t*>(memory.data()) + first;
      return Tensor::borrow(at, {3, rows, 1, 64}, DType::bf16, GetParam(), {kApart, 64, 64, 1});
    };
    const KvCache cache{large(0), large(64 * 64),
                        Tensor::from(std::vector<i32>{1, 2}, {1, 2}, GetParam())};
    const Tensor K = Tensor::normal({2, 1, 64}, DType::bf16, 0, 1, 11, GetParam()),
                 V = Tensor::normal({2, 1, 64}, DType::bf16, 0, 1, 12, GetParam());
    for (const auto& [of, to] : {std::pair{p.cache.k, cache.k}, {p.cache.v, cache.v}}) {
      for (const std::int64_t page : {1, 2})
        to.select(0, page).copy_from(of.select(0, p.table[static_cast<std::size_t>(page - 1)]));
    }
    append(Stream(GetParam()), K, V, cache, p.batch);
    append(Stream(GetParam()), K, V, p.cache, p.batch);
    const Attention attention({.mask = masks::causal()});
    attention.paged(Stream(GetParam()), p.Q, cache, p.O, p.batch, {p.Lse, p.Max, {}});
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Appends to pages that end in the middle, begin a page, or span several.
TEST_P(Paged, AppendsKeysAndValues) {
  for (const std::int64_t rows : {1, 16, 24}) {
    SCOPED_TRACE(rows);
    Lengths l{{1, 0, 17, 1, 40, 1}, {33, 0, 49, 1, 40, 48}};
    const PagedRequests p({.rows = rows, .head_dim_v = 40, .shares_pages = false}, l, GetParam(), 1,
                          DType::f16);
    const std::int64_t tokens = p.q_starts.back();
    const auto fresh = [&](const Tensor& pages, std::uint64_t seed) {
      return Tensor::normal({tokens, pages.size(2), pages.size(3)}, DType::f16, 0, 1, seed,
                            GetParam());
    };
    const Tensor K = fresh(p.cache.k, 11), V = fresh(p.cache.v, 12);
    const std::vector<Tensor> before{p.cache.k.clone(), p.cache.v.clone()};
    append(Stream(GetParam()), K, V, p.cache, p.batch);
    for (const auto& [now, old, rows_of] :
         {std::tuple{p.cache.k, before[0], K}, {p.cache.v, before[1], V}}) {
      for (std::size_t b = 0; b < l.kv.size(); ++b)
        for (i32 i = 0; i < l.q[b]; ++i) {
          const auto [page, row] = p.at(b, l.kv[b] - l.q[b] + i);
          old.select(0, page).select(0, row).copy_from(rows_of.select(0, p.q_starts[b] + i));
        }
      const auto got = now.to_doubles(), want = old.to_doubles();
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << i;
    }
  }
}

/// `cpu` and `sim` check the contents of tables and lengths.
TEST_P(Paged, ReportsWrongTablesAndLengths) {
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "reads zeros";
  const Attention attention({.mask = masks::causal()});
  const PagedRequests p({.rows = 16, .shares_pages = false}, {{1, 3}, {40, 20}}, GetParam());
  const Stream stream(GetParam());
  const auto call = [&](const KvBatch& batch) {
    return finding_of([&] { attention.paged(stream, p.Q, p.cache, p.O, batch); });
  };
  const int line = __LINE__ - 2;
  const auto lengths = [&](const std::vector<i32>& kv) {
    return KvBatch{p.batch.q_offsets, Tensor::from(kv, GetParam()), p.batch.max_seqlen_q};
  };
  EXPECT_EQ(call(p.batch), "");
  EXPECT_EQ(call(lengths({40, 2})), at_line("T1691", line));
  EXPECT_EQ(call(lengths({40, -1})), at_line("T1691", line));
  EXPECT_EQ(call(lengths({49, 20})), at_line("T1690", line));
  EXPECT_EQ(call({Tensor::from(std::vector<i32>{1, 0, 3}, GetParam()), p.batch.kv_lengths, 3}),
            at_line("T1691", line));
  const Tensor K = Tensor::zeros({4, 2, 64}, DType::bf16, GetParam());
  const auto add = [&] { return finding_of([&] { append(stream, K, K, p.cache, p.batch); }); };
  const int add_line = __LINE__ - 1;
  EXPECT_EQ(add(), "");
  p.cache.table.slice(0, 1, 2).copy_from(p.cache.table.slice(0, 0, 1).contiguous());
  EXPECT_EQ(add(), "") << "other rows of a shared page";
  p.cache.table.slice(0, 1, 2).slice(1, 1, 2).fill(static_cast<double>(p.cache.k.size(0)));
  EXPECT_EQ(call(p.batch), at_line("T1689", line));
  EXPECT_EQ(add(), at_line("T1689", add_line));
}

/// Two requests store to one row of a page that they share.
TEST_P(Paged, ReportsRowsThatTwoRequestsAppend) {
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "one of the rows remains";
  const PagedRequests p({.rows = 16, .shares_pages = true}, {{1, 1}, {10, 10}}, GetParam());
  const Tensor K = Tensor::normal({2, 2, 64}, DType::bf16, 0, 1, 1, GetParam());
  const auto add = [&] { append(Stream(GetParam()), K, K, p.cache, p.batch); };
  EXPECT_EQ(finding_of(add), at_line("T1301", __LINE__ - 1));
}

}  // namespace
}  // namespace tegula::test::paged_test
