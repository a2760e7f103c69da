// Block lists that kernels make by evaluating a mask: against every pair, and attention over them
// against sums in double.
#include <algorithm>
#include <iostream>
#include <random>
#include <thread>

#include "tegula/kernels/block_patterns.h"
#include "tegula/kernels/masks.h"
#include "tests/differential/attention_expected.h"

namespace tegula::evaluated_lists_test {
using namespace kernels;
namespace {

using test::AttentionInputs;
using test::expect_near;

constexpr unsigned kSeed = 46;

/// A mask, and the same on the host.
struct Case {
  std::string name;
  Mask mask;
  test::Sees sees;
};

/// A table [batch or 1, heads or 1, cells of queries, cells of keys] that names the cells of pairs
/// that are kept.
struct CellTable {
  Dims shape;
  int q_cell, kv_cell;
  std::vector<i32> kept;
  Tensor entries;

  CellTable(const Dims& of, int of_q, int of_kv, Device device)
      : shape(of), q_cell(of_q), kv_cell(of_kv), entries(Tensor::zeros(of, DType::i32, device)) {}

  /// Draws the cells anew: each is kept with probability `percent`.
  void draw(std::mt19937& random, unsigned percent) {
    kept.resize(static_cast<std::size_t>(entries.numel()));
    for (i32& k : kept) k = random() % 100 < percent;
    entries.copy_from(Tensor::from(kept, shape, entries.device()));
  }
  Mask mask() const {
    return [=, table = entries, on_b = shape[0] > 1, on_h = shape[1] > 1, q_n = q_cell,
            kv_n = kv_cell](const Tile& b, const Tile& h, const Tile& q, const Tile& kv) {
      const auto t = view<i32, 4>(table);
      const Tile zero = full<i32>(0);
      return t(on_b ? b : zero, on_h ? h : zero, q / q_n, kv / kv_n) != 0;
    };
  }
  bool sees(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t kv) const {
    const std::int64_t row = (shape[0] > 1 ? b : 0) * shape[1] + (shape[1] > 1 ? h : 0);
    return kept[static_cast<std::size_t>((row * shape[2] + q / q_cell) * shape[3] +
                                         kv / kv_cell)] != 0;
  }
};

/// The entries of a row of a list.
struct RowEntries {
  std::vector<i32> full, partial;
  friend bool operator==(const RowEntries&, const RowEntries&) = default;
};

RowEntries row_of(const BlockList& list, std::int64_t b, std::int64_t h, std::int64_t m) {
  const auto entries = list.kv_indices.select(0, b).select(0, h).select(0, m).to_vector<i32>();
  const auto at = static_cast<std::size_t>(m);
  const auto count = list.kv_num_blocks.select(0, b).select(0, h).to_vector<i32>()[at],
             full = list.full_kv_num_blocks.select(0, b).select(0, h).to_vector<i32>()[at];
  return {{entries.begin(), entries.begin() + full},
          {entries.begin() + full, entries.begin() + count}};
}

/// Extents of a call, and whether its last query is at the last key.
struct Extents {
  std::int64_t batch, heads, queries, keys;
  bool align = false;
};

/// Returns what a row must contain: `of_keys` for the transposed list.
RowEntries expected_row(const Case& c, const Extents& x, const BlockList& list, bool of_keys,
                        std::int64_t b, std::int64_t h, std::int64_t m) {
  const std::int64_t rows = of_keys ? x.keys : x.queries, columns = of_keys ? x.queries : x.keys,
                     block_m = of_keys ? list.block_kv : list.block_q,
                     block_n = of_keys ? list.block_q : list.block_kv;
  RowEntries row;
  for (std::int64_t n = 0; n * block_n < columns; ++n) {
    bool all = true, any = false;
    for (std::int64_t i = m * block_m; i < std::min(rows, (m + 1) * block_m); ++i)
      for (std::int64_t j = n * block_n; j < std::min(columns, (n + 1) * block_n); ++j) {
        const std::int64_t q = (of_keys ? j : i) + (x.align ? x.keys - x.queries : 0);
        const bool sees = c.sees(b, h, q, of_keys ? i : j);
        all = all && sees, any = any || sees;
      }
    if (!any) continue;
    const bool is_full = all && (n + 1) * block_n <= columns;
    (is_full ? row.full : row.partial).push_back(static_cast<i32>(n));
  }
  return row;
}

void expect_rows(const Case& c, const Extents& x, const BlockList& list, bool of_keys) {
  const Dims& shape = list.kv_num_blocks.shape();
  for (std::int64_t b = 0; b < x.batch; ++b)
    for (std::int64_t h = 0; h < x.heads; ++h)
      for (std::int64_t m = 0; m < shape[2]; ++m)
        ASSERT_EQ(row_of(list, shape[0] > 1 ? b : 0, shape[1] > 1 ? h : 0, m),
                  expected_row(c, x, list, of_keys, b, h, m))
            << c.name << ": " << b << ' ' << h << ' ' << m << " of " << x.queries << " x " << x.keys
            << (of_keys ? ", transposed" : "");
}

class EvaluatedLists : public ::testing::TestWithParam<Device> {
 protected:
  static Device device() { return GetParam(); }
  static Tensor of(const Dims& shape) { return Tensor::zeros(shape, DType::bf16, device()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, EvaluatedLists, ::testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(EvaluatedLists, AgreeWithEveryPair) {
  std::mt19937 random(kSeed);
  CellTable per_head({1, 2, 10, 10}, 48, 40, device()), per_batch({2, 1, 8, 4}, 64, 128, device());
  per_head.draw(random, 60), per_batch.draw(random, 50);
  const auto by = [](const CellTable& t) {
    return [&t](auto b, auto h, auto q, auto kv) { return t.sees(b, h, q, kv); };
  };
  const std::vector<Case> cases{
      {"none", [](Tile, Tile, Tile q, Tile) { return q < 0; }, [](auto...) { return false; }},
      {"all", [](Tile, Tile, Tile, Tile) { return Tile(true); }, [](auto...) { return true; }},
      {"causal", masks::causal(), [](auto, auto, auto q, auto kv) { return q >= kv; }},
      {"(q * kv) % 1000 < 400", [](Tile, Tile, Tile q, Tile kv) { return q * kv % 1000 < 400; },
       [](auto, auto, auto q, auto kv) { return q * kv % 1000 < 400; }},
      {"q >> 6 != kv / 64 / 2", [](Tile, Tile, Tile q, Tile kv) { return (q >> 6) != kv / 64 / 2; },
       [](auto, auto, auto q, auto kv) { return q / 64 != kv / 128; }},
      {"kv / 100 + h != 1", [](Tile, Tile h, Tile, Tile kv) { return kv / 100 + h != 1; },
       [](auto, auto h, auto, auto kv) { return kv / 100 + h != 1; }},
      {"i8(q) / 2 < 20", [](Tile, Tile, Tile q, Tile) { return cast<i8>(q) / 2 < 20; },
       [](auto, auto, auto q, auto) { return static_cast<std::int8_t>(q) / 2 < 20; }},
      {"cells per head", per_head.mask(), by(per_head)},
      {"cells per batch entry", per_batch.mask(), by(per_batch)}};
  for (const Case& c : cases)
    for (const bool align : {false, true}) {
      const Attention attn = attention({.mask = c.mask, .align_bottom_right = align});
      for (const auto& [queries, keys] : {std::pair{130, 300}, {256, 384}, {1, 5}}) {
        const Extents x{2, 2, queries, keys, align};
        for (const BlockListRows rows : {BlockListRows::queries, BlockListRows::keys})
          expect_rows(c, x,
                      attn.block_list(Stream(device()), of({2, 2, queries, 16}),
                                      of({2, 1, keys, 16}), rows),
                      rows == BlockListRows::keys);
        if (HasFatalFailure()) return;
      }
    }
}

TEST_P(EvaluatedLists, OtherBlocks) {
  const Case c{"causal", masks::causal(), [](auto, auto, auto q, auto kv) { return q >= kv; }};
  const Extents x{1, 2, 200, 310};
  for (const auto& [block_q, block_kv] : {std::pair{16, 48}, {64, 176}, {128, 80}}) {
    const BlockMaskShape grid{
        .seqlen_q = x.queries, .seqlen_kv = x.keys, .block_q = block_q, .block_kv = block_kv};
    const BlockList list = empty_block_list(grid, grid.kv_blocks(), device());
    BlockList transposed = list;
    const Dims rows{1, 1, grid.kv_blocks()};
    transposed.kv_indices =
        Tensor::zeros({1, 1, grid.kv_blocks(), grid.q_blocks()}, DType::i32, device());
    transposed.kv_num_blocks = Tensor::zeros(rows, DType::i32, device());
    transposed.full_kv_num_blocks = Tensor::zeros(rows, DType::i32, device());
    const Attention attn = attention({.mask = c.mask, .blocks = list});
    const Tensor Q = of({1, 2, x.queries, 16}), K = of({1, 2, x.keys, 16});
    attn.write_block_list(Stream(device()), Q, K, list);
    expect_rows(c, x, list, false);
    attn.write_block_list(Stream(device()), Q, K, transposed, BlockListRows::keys);
    expect_rows(c, x, transposed, true);
    EXPECT_EQ(attn.block_list(Stream(device()), Q, K).block_kv, block_kv);
    if (HasFatalFailure()) return;
  }
}

/// Without queries or keys nothing is kept.
TEST_P(EvaluatedLists, Nothing) {
  const Attention attn = attention({.mask = masks::causal()});
  const Tensor none = of({1, 1, 0, 16}), some = of({1, 1, 200, 16});
  const BlockList no_keys = attn.block_list(Stream(device()), some, none),
                  no_queries = attn.block_list(Stream(device()), none, some);
  EXPECT_EQ(no_keys.kv_num_blocks.to_vector<i32>(), (std::vector<i32>{0, 0}));
  EXPECT_EQ(no_queries.kv_num_blocks.numel(), 0);
}

/// 100 random tables (52 in the simulator), in lists that the caller keeps, and in lists that calls
/// make.
TEST_P(EvaluatedLists, GiveTheSumsOfRandomTables) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937 random(kSeed);
  struct Shape {
    Dims table, heads;
    int q_cell, kv_cell;
    std::int64_t queries, keys;
  };
  const int step = device().kind == DeviceKind::sim ? 2 : 1;
  for (const Shape& s : {Shape{{1, 1, 2, 3}, {1, 2}, 128, 128, 200, 300},
                         {{1, 2, 3, 3}, {1, 2}, 64, 96, 130, 260},
                         {{2, 1, 1, 3}, {2, 1}, 100, 128, 66, 384},
                         {{2, 2, 3, 4}, {2, 2}, 64, 64, 129, 193}}) {
    CellTable table(s.table, s.q_cell, s.kv_cell, device());
    const AttentionInputs in(s.heads, 1, s.queries, s.keys, 16, device());
    const Attention attn = attention({.mask = table.mask()});
    const BlockList list = attn.block_list(Stream(device()), in.Q, in.K);
    const Attention listed = attention({.mask = table.mask(), .blocks = list});
    for (int i = 0; i < 25; i += step) {
      table.draw(random, i * 100 / 24);  // from no cell to all
      const auto want =
          in.expected([&](auto b, auto h, auto q, auto kv) { return table.sees(b, h, q, kv); });
      attn.write_block_list(Stream(device()), in.Q, in.K, list);
      expect_near(in.run(listed), want);
      if (i % 4 == 0) expect_near(in.run(attn), want);
      if (HasFatalFailure()) return;
    }
    const std::string text = attn.explain();
    EXPECT_NE(text.find("keys visited: a block list made by evaluating the mask"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("attention_block_coverage"), std::string::npos) << text;
  }
}

/// Few queries share a tile's keys instead, solved masks keep their ranges, and what the caller
/// states is not derived.
TEST_P(EvaluatedLists, AreMadeWhereTheyPay) {
  const CellTable table({1, 1, 4, 4}, 64, 64, device());
  const Mask pairs = [](const Tile&, const Tile& h, const Tile& q, const Tile& kv) {
    return (q * kv + h) % 3 != 0;
  };
  const auto is_evaluated = [&](const AttentionSpec& spec, std::int64_t queries,
                                const AttentionSchedule& how = {}) {
    const AttentionInputs in({1, 2}, 1, queries, 200, 16, device());
    const Attention attn = attention(spec, how);
    in.run(attn);
    return attn.explain().find("by evaluating") != std::string::npos;
  };
  EXPECT_TRUE(is_evaluated({.mask = table.mask()}, 200));
  EXPECT_FALSE(is_evaluated({.mask = table.mask()}, 64));
  EXPECT_FALSE(is_evaluated({.mask = table.mask()}, 200, {.tiles = AttentionTileShape{}}));
  EXPECT_FALSE(is_evaluated({.mask = table.mask(), .kv_range = causal_range}, 200));
  EXPECT_FALSE(is_evaluated({.mask = masks::causal()}, 200));
  EXPECT_FALSE(is_evaluated({.mask = pairs}, 200)) << "as many evaluations as pairs";
}

TEST(MaskDependence, IsTheSetOfReadIndices) {
  const Scalar<i32> n = 64;
  struct Wanted {
    Mask mask;
    bool on_batch, on_head;
    int query_step, key_step;
  };
  const Wanted wanted[]{
      {[](Tile, Tile, Tile q, Tile kv) { return q / 128 >= kv; }, false, false, 128, 1},
      {[](Tile b, Tile, Tile q, Tile) { return q / 64 + q / 96 == b; }, true, false, 32, 0},
      {[](Tile, Tile h, Tile q, Tile kv) { return (q >> 6) + h > cast<i64>(kv) / 48; }, false, true,
       64, 48},
      {[](Tile, Tile, Tile q, Tile kv) { return cast<i16>(q) / 128 == kv % 128; }, false, false, 1,
       1},
      {[n](Tile, Tile, Tile q, Tile kv) { return q / n.value() == kv / -4; }, false, false, 1, 1},
      {[](Tile, Tile, Tile q, Tile kv) { return 128 / (q + 1) == (kv / 32 + kv); }, false, false, 1,
       1}};
  for (const Wanted& w : wanted) {
    const MaskDependence of = MaskDependence::of(w.mask);
    const auto at = &w - wanted;
    EXPECT_EQ(of.on_batch, w.on_batch) << at;
    EXPECT_EQ(of.on_head, w.on_head) << at;
    EXPECT_EQ(of.query_step, w.query_step) << at;
    EXPECT_EQ(of.key_step, w.key_step) << at;
  }
}

TEST(EvaluatedListsOfCallers, RejectListsThatDoNotFit) {
  const Device cpu = Device::cpu();
  const CellTable table({2, 1, 2, 3}, 128, 128, cpu);
  const AttentionInputs in({2, 1}, 1, 200, 300, 16, cpu), longer({2, 1}, 1, 300, 300, 16, cpu);
  const Attention attn = attention({.mask = table.mask()});
  const Stream stream(cpu);
  const BlockList list = attn.block_list(stream, in.Q, in.K);
  const Attention listed = attention({.mask = table.mask(), .blocks = list});
  const auto expect = [](const char* text, const auto& call) {
    try {
      call();
      ADD_FAILURE() << "not refused: " << text;
    } catch (const CompileError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  expect("T1621", [&] { longer.run(listed); });
  expect("T1621", [&] { attn.write_block_list(stream, longer.Q, longer.K, list); });
  BlockList wrong = list;
  wrong.block_q = 64;
  expect("T1621", [&] { in.run(attention({.mask = table.mask(), .blocks = wrong})); });
  expect("T1621", [&] { attn.write_block_list(stream, in.Q, in.K, wrong); });
  wrong.block_q = 100;
  expect("T1622", [&] { attn.write_block_list(stream, in.Q, in.K, wrong); });
  wrong = list, wrong.full_kv_num_blocks = {};
  expect("T1621", [&] { attn.write_block_list(stream, in.Q, in.K, wrong); });
  wrong = list, wrong.kv_indices = list.kv_indices.slice(3, 0, 2);
  expect("T1621", [&] { attn.write_block_list(stream, in.Q, in.K, wrong); });
  wrong = list, wrong.kv_num_blocks = list.kv_num_blocks.slice(0, 0, 1);
  expect("T1621", [&] { attn.write_block_list(stream, in.Q, in.K, wrong); });
  expect("T1620", [&] {
    wrong.kv_num_blocks = Tensor::zeros({2, 1, 2}, DType::i64, cpu);
    attn.write_block_list(stream, in.Q, in.K, wrong);
  });
  expect("T1602", [&] { attn.block_list(stream, in.Q.select(0, 0), in.K); });
  expect("T1611", [&] {
    attention({.mask = table.mask(), .align_bottom_right = true})
        .block_list(stream, longer.Q, in.K.slice(2, 0, 100));
  });
  expect("T1614", [&] {
    attention({.mask = masks::causal(), .weighting = AttentionNormalization::stick_breaking})
        .block_list(stream, in.Q, in.K);
  });
  expect("T1615", [&] {
    attention({.mask = masks::causal(), .kv_range = causal_range}).block_list(stream, in.Q, in.K);
  });
  expect("T1662", [&] {
    attention({.mask = [](Tile, Tile, Tile q, Tile) {
      return cast<f32>(q);
    }}).block_list(stream, in.Q, in.K);
  });
  // All objects are as usable as before.
  attn.write_block_list(stream, in.Q, in.K, list);
  expect_near(in.run(listed), in.expected([](auto...) { return false; }));
}

TEST_P(EvaluatedLists, ThreadsOnTheirStreams) {
  std::mt19937 random(kSeed);
  CellTable table({1, 2, 3, 4}, 64, 64, device());
  table.draw(random, 50);
  const Attention attn = attention({.mask = table.mask()});
  const AttentionInputs in({1, 2}, 1, 150, 250, 16, device());
  const auto want =
      in.expected([&](auto b, auto h, auto q, auto kv) { return table.sees(b, h, q, kv); });
  std::vector<std::vector<double>> got(2);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < got.size(); ++t)
    threads.emplace_back([&, t] {
      const Stream stream =
          device().kind == DeviceKind::cuda ? Stream::create(device()) : Stream(device());
      for (int i = 0; i < 3; ++i) {
        const BlockList list = attn.block_list(stream, in.Q, in.K);
        const Tensor O = Tensor::empty(in.Q.shape(), DType::bf16, device());
        const Attention listed = attention({.mask = table.mask(), .blocks = list});
        const Attention& used = i == 1 ? attn : listed;
        used(stream, in.Q, in.K, in.V, O);
        stream.synchronize();
        got[t] = O.to_doubles();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const auto& of_thread : got) expect_near(of_thread, want);
}

}  // namespace
}  // namespace tegula::evaluated_lists_test
