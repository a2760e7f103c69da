// Block lists made by kernels from random masks, against brute force: no block is left out that
// holds a visible pair, none is without a mask that holds another.
#include "dsl/block_mask/derived_block_lists.h"

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <numeric>
#include <optional>

#include "ir/analysis/mask/axes.h"
#include "ir/text.h"
#include "tegula/tegula.h"
#include "tests/property/mask_random.h"

namespace tegula::derived_lists_test {
namespace {

using ir::testing::BruteForce;
using ir::testing::MaskKernel;
using ir::testing::RandomMasks;

constexpr std::int64_t kQueries = 75, kKeys = 109, kBatch = 2, kHeads = 2;
constexpr BlockShape kTiles{16, 16};

/// A list's entry for a block of a row.
enum class Entry : std::uint8_t { Absent, Masked, Whole };

/// Columns [begin, end) of a row, or all.
struct Columns {
  std::size_t begin = 0;
  std::optional<std::size_t> end = {};
};

std::vector<Entry> entries(const BlockListArgs& lists, std::int64_t b, std::int64_t h,
                           std::int64_t m, std::int64_t blocks, const Columns& columns = {}) {
  const auto row = lists.blocks.select(0, b).select(0, h).select(0, m).to_vector<i32>();
  const auto one = [&](const Tensor& t) {
    return t.select(0, b).select(0, h).to_vector<i32>()[static_cast<std::size_t>(m)];
  };
  const i32 count = one(lists.counts), full = one(lists.full);
  std::vector<Entry> of(static_cast<std::size_t>(blocks));
  for (i32 i = 0; i < count; ++i) {
    const auto at = i < full
                        ? columns.begin + static_cast<std::size_t>(i)
                        : columns.end.value_or(row.size()) - 1 - static_cast<std::size_t>(i - full);
    Entry& e = of.at(static_cast<std::size_t>(row[at]));
    EXPECT_EQ(e, Entry::Absent) << "twice";
    e = i < full ? Entry::Whole : Entry::Masked;
  }
  return of;
}

struct Tally {
  std::int64_t blocks = 0, uniform = 0, decided = 0;
};

std::string show(const MaskKernel& m, const ir::MaskExpr& e, const ir::MaskBlock& b,
                 const std::array<std::int64_t, 3>& p) {
  std::string text = e.str() + "\nb " + std::to_string(b.batch) + ", h " + std::to_string(b.head);
  for (const std::int64_t v : {b.q0, b.q1, b.kv0, b.kv1, p[0], p[1], p[2]})
    text += " " + std::to_string(v);
  return text + "\n" + ir::print(m.kernel, {.locations = false});
}

/// The sources of the mask's numbers and tables.
struct Launch {
  MaskFunction source;
  Tensor table;

  Launch(const MaskKernel& m, const std::array<std::int64_t, 3>& p) {
    source.expr = m.import();
    for (const std::int64_t v : m.slots(source.expr, p)) {
      auto cell = std::make_shared<detail::ScalarCell>();
      cell->dtype = DType::i32;
      cell->bits = static_cast<std::uint32_t>(static_cast<i32>(v));
      source.numbers.push_back(std::move(cell));
      source.is_scalar.push_back(true);
    }
    std::vector<i32> entries(m.entries.begin(), m.entries.end());
    table = Tensor::from(entries, Device::cpu());
    source.tables.assign(source.expr.tables.size(), &table);
  }
};

void compare(const MaskKernel& m, const Launch& launch, const BlockListArgs& lists,
             const std::array<std::int64_t, 3>& p, Tally& tally) {
  const std::int64_t blocks = (kKeys + kTiles.block_kv - 1) / kTiles.block_kv,
                     rows = (kQueries + kTiles.block_q - 1) / kTiles.block_q;
  const ir::MaskAxisDependence sides(launch.source.expr, launch.source.is_scalar);
  for (std::int64_t b = 0; b < (sides.on_batch() ? kBatch : 1); ++b)
    for (std::int64_t h = 0; h < (sides.on_head() ? kHeads : 1); ++h)
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto of = entries(lists, b, h, row, blocks);
        for (std::int64_t j = 0; j < blocks; ++j) {
          const ir::MaskBlock block{b,
                                    h,
                                    row * kTiles.block_q,
                                    std::min(kQueries, (row + 1) * kTiles.block_q),
                                    j * kTiles.block_kv,
                                    std::min(kKeys, (j + 1) * kTiles.block_kv)};
          const BruteForce truth(m, block, p);
          if (truth.values.empty()) continue;
          const Entry e = of[static_cast<std::size_t>(j)];
          ASSERT_FALSE(e == Entry::Absent && truth.any) << show(m, launch.source.expr, block, p);
          ASSERT_FALSE(e == Entry::Whole && !truth.all) << show(m, launch.source.expr, block, p);
          const bool is_ragged = (j + 1) * kTiles.block_kv > kKeys;
          ASSERT_FALSE(e == Entry::Whole && is_ragged);
          tally.blocks += 1;
          tally.uniform += !truth.any || (truth.all && !is_ragged);
          tally.decided += e != Entry::Masked;
        }
      }
}

/// The lists of masks that `draw` gives.
Tally run(RandomMasks& random, int masks, const std::function<ir::Value(MaskKernel&)>& draw) {
  Tally tally;
  const Tensor Q = Tensor::zeros({kBatch, kHeads, kQueries, 1}, DType::bf16, Device::cpu()),
               K = Tensor::zeros({kBatch, kHeads, kKeys, 1}, DType::bf16, Device::cpu());
  for (int i = 0; i < masks && !::testing::Test::HasFatalFailure(); ++i) {
    SCOPED_TRACE(i);
    MaskKernel m;
    random.fill_table(m);
    m.root = draw(m);
    const auto p = random.params();
    const Launch launch(m, p);
    const DerivedBlockLists derived(launch.source);
    BlockListArgs lists;
    try {
      lists = derived.make(Stream(Device::cpu()), Q, K, kTiles, {});
    } catch (const std::exception& e) {
      // Such a mask has no value there, in attention neither.
      EXPECT_NE(std::string(e.what()).find("division by zero"), std::string::npos) << e.what();
      continue;
    }
    compare(m, launch, lists, p, tally);
  }
  std::cout << "lists of random masks: " << tally.blocks << " blocks, " << tally.decided << " of "
            << tally.uniform << " uniform ones decided\n";
  return tally;
}

TEST(DerivedBlockLists, SkipAndUnmaskOnlyCorrectBlocks) {
  RandomMasks random(21);
  const Tally tally = run(random, 1500, [&](MaskKernel& m) {
    return random.boolean(m, static_cast<int>(random.number(1, 4)));
  });
  EXPECT_GT(tally.blocks, 50000);
  EXPECT_GT(static_cast<double>(tally.decided), 0.8 * static_cast<double>(tally.uniform));
}

TEST(DerivedBlockLists, CoordinatesAndBits) {
  RandomMasks random(22);
  const Tally tally = run(random, 1600, [&](MaskKernel& m) {
    return random.chance(25) ? random.bit_test(m) : random.decoded(m);
  });
  EXPECT_GT(tally.blocks, 50000);
  EXPECT_GT(static_cast<double>(tally.decided), 0.6 * static_cast<double>(tally.uniform));
}

// ---- rows that are not the positions of one head
struct Rows {
  std::int64_t batch, head, queries, keys, shift;
  std::int64_t group = 1;
};

/// All pairs of a tile's rows, a row at a time, and a block.
struct RowsBruteForce {
  bool all = true, any = false, has_value = false;

  RowsBruteForce(const MaskKernel& m, const Rows& of, std::int64_t r0, std::int64_t kv0,
                 const std::array<std::int64_t, 3>& p) {
    for (auto r = r0; r < std::min(r0 + kTiles.block_q, of.queries * of.group); ++r) {
      const std::int64_t q = r % of.queries + of.shift;
      const BruteForce row(m,
                           {of.batch, of.head * of.group + r / of.queries, q, q + 1, kv0,
                            std::min(of.keys, kv0 + kTiles.block_kv)},
                           p);
      all = all && row.all, any = any || row.any, has_value = has_value || !row.values.empty();
    }
  }
};

void compare_rows(const MaskKernel& m, const BlockListArgs& lists, const Rows& of,
                  const std::array<std::int64_t, 3>& p, const Columns& columns, Tally& tally) {
  const std::int64_t blocks = (of.keys + kTiles.block_kv - 1) / kTiles.block_kv;
  for (std::int64_t row = 0; row * kTiles.block_q < of.queries * of.group; ++row) {
    const auto found = entries(lists, of.batch, of.head, row, blocks, columns);
    for (std::int64_t j = 0; j < blocks; ++j) {
      const RowsBruteForce truth(m, of, row * kTiles.block_q, j * kTiles.block_kv, p);
      if (!truth.has_value) continue;
      const Entry e = found[static_cast<std::size_t>(j)];
      const bool is_ragged = (j + 1) * kTiles.block_kv > of.keys;
      const auto text = [&] {
        return m.import().str() + ", b " + std::to_string(of.batch) + ", h " +
               std::to_string(of.head) + ", tile " + std::to_string(row) + ", block " +
               std::to_string(j);
      };
      ASSERT_FALSE(e == Entry::Absent && truth.any) << text();
      ASSERT_FALSE(e == Entry::Whole && (!truth.all || is_ragged)) << text();
      tally.blocks += 1;
      tally.uniform += !truth.any || (truth.all && !is_ragged);
      tally.decided += e != Entry::Masked;
    }
  }
}

/// Lists of random masks for calls of a kind, and what they are compared with.
Tally run_rows(int masks, std::uint64_t seed,
               const std::function<BlockListArgs(const DerivedBlockLists&)>& make,
               const std::function<void(const MaskKernel&, const BlockListArgs&,
                                        const std::array<std::int64_t, 3>&, Tally&)>& check) {
  RandomMasks random(seed);
  Tally tally;
  for (int i = 0; i < masks && !::testing::Test::HasFatalFailure(); ++i) {
    SCOPED_TRACE(i);
    MaskKernel m;
    random.fill_table(m);
    m.root = random.boolean(m, static_cast<int>(random.number(1, 4)));
    const auto p = random.params();
    const Launch launch(m, p);
    const DerivedBlockLists derived(launch.source);
    BlockListArgs lists;
    try {
      lists = make(derived);
    } catch (const std::exception& e) {
      EXPECT_NE(std::string(e.what()).find("division by zero"), std::string::npos) << e.what();
      continue;
    }
    check(m, lists, p, tally);
  }
  std::cout << "lists of random masks: " << tally.blocks << " blocks, " << tally.decided << " of "
            << tally.uniform << " uniform ones decided\n";
  return tally;
}

Tensor host(std::int64_t heads, std::int64_t rows) {
  return Tensor::zeros({kBatch, heads, rows, 1}, DType::bf16, Device::cpu());
}

TEST(DerivedBlockLists, OrderTilesByTheirNumberOfBlocks) {
  // 13 tiles of 16 queries, and of 300 queries packed with others.
  const Mask mask = [](Tile, Tile h, Tile q, Tile kv) { return q * 7 % 53 + h >= kv / 2; };
  for (const int group : {1, 7}) {
    const Tensor Q = host(kHeads, 200 * group), K = host(kHeads, kKeys);
    const BlockListArgs lists =
        DerivedBlockLists(trace_mask_function(mask))
            .make(Stream(Device::cpu()), Q, K, kTiles, {.group = group, .longest_first = true});
    const std::size_t tiles = (200 * static_cast<std::size_t>(group) + 15) / 16;
    for (int h = 0; h < kHeads; ++h) {
      const auto counts = lists.counts.select(0, 0).select(0, h).to_vector<i32>();
      auto order = lists.order.select(0, 0).select(0, h).to_vector<i32>();
      order.resize(tiles);
      std::vector<i32> want(tiles);
      std::iota(want.begin(), want.end(), 0);
      std::ranges::stable_sort(want, [&](i32 a, i32 b) {
        return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
      });
      EXPECT_EQ(order, want) << group << " heads to a tile, head " << h;
    }
  }
}

TEST(DerivedBlockLists, QueriesAtTheEnd) {
  const Tensor Q = host(kHeads, 37), K = host(kHeads, kKeys);
  const Tally tally = run_rows(
      500, 31,
      [&](const DerivedBlockLists& d) {
        return d.make(Stream(Device::cpu()), Q, K, kTiles, {.align_bottom_right = true});
      },
      [](const MaskKernel& m, const BlockListArgs& lists, const auto& p, Tally& t) {
        compare_rows(m, lists, {1, 1, 37, kKeys, kKeys - 37}, p, {}, t);
      });
  EXPECT_GT(tally.blocks, 8000);
  EXPECT_GT(static_cast<double>(tally.decided), 0.8 * static_cast<double>(tally.uniform));
}

TEST(DerivedBlockLists, PackedHeads) {
  for (const int group : {4, 7})
    for (const std::int64_t queries : {1, 5}) {
      SCOPED_TRACE(testing::Message() << group << " heads, " << queries << " queries");
      const Tensor Q = host(kHeads, group * queries), K = host(kHeads, kKeys);
      const Tally tally = run_rows(
          300, 32,
          [&](const DerivedBlockLists& d) {
            return d.make(Stream(Device::cpu()), Q, K, kTiles,
                          {.group = group, .align_bottom_right = true});
          },
          [&](const MaskKernel& m, const BlockListArgs& lists, const auto& p, Tally& t) {
            compare_rows(m, lists, {1, 1, queries, kKeys, kKeys - queries, group}, p, {}, t);
          });
      EXPECT_GT(tally.blocks, 1500);
      EXPECT_GT(static_cast<double>(tally.decided), 0.8 * static_cast<double>(tally.uniform));
    }
}

TEST(DerivedBlockLists, SequencesInOneTensor) {
  const std::vector<i32> q{0, 1, 34, 34, 53}, kv{0, 17, 66, 81, 164};
  const Tensor Q = host(kHeads, q.back() + 3).slice(0, 0, 1),
               K = host(kHeads, kv.back() + 3).slice(0, 0, 1);
  const CuSeqlens lengths{Tensor::from(q, Device::cpu()), Tensor::from(kv, Device::cpu()), 33};
  const Tally tally = run_rows(
      400, 33,
      [&](const DerivedBlockLists& d) {
        return d.make(Stream(Device::cpu()), Q, K, kTiles,
                      {.align_bottom_right = true, .lengths = lengths});
      },
      [&](const MaskKernel& m, const BlockListArgs& lists, const auto& p, Tally& t) {
        for (std::size_t s = 0; s + 1 < q.size(); ++s) {
          const std::int64_t queries = q[s + 1] - q[s], keys = kv[s + 1] - kv[s];
          const auto begin = static_cast<std::size_t>(kv[s] / kTiles.block_kv) + s,
                     blocks =
                         static_cast<std::size_t>((keys + kTiles.block_kv - 1) / kTiles.block_kv);
          compare_rows(m, lists, {static_cast<std::int64_t>(s), 1, queries, keys, keys - queries},
                       p, {begin, begin + blocks}, t);
        }
      });
  EXPECT_GT(tally.blocks, 6000);
  EXPECT_GT(static_cast<double>(tally.decided), 0.8 * static_cast<double>(tally.uniform));
}

// ---- results that leave their type
using Sees = std::function<bool(std::uint32_t q, std::uint32_t kv)>;

void expect_sound(const Mask& mask, const Sees& sees) {
  const Tensor Q = Tensor::zeros({1, 1, kQueries, 1}, DType::bf16, Device::cpu()),
               K = Tensor::zeros({1, 1, kKeys, 1}, DType::bf16, Device::cpu());
  const BlockListArgs lists =
      DerivedBlockLists(trace_mask_function(mask)).make(Stream(Device::cpu()), Q, K, kTiles, {});
  int decided = 0;
  for (std::int64_t q0 = 0; q0 < kQueries; q0 += kTiles.block_q) {
    const auto of = entries(lists, 0, 0, q0 / kTiles.block_q, (kKeys + 15) / 16);
    for (std::int64_t kv0 = 0; kv0 < kKeys; kv0 += kTiles.block_kv) {
      bool all = true, any = false;
      for (auto q = q0; q < std::min(kQueries, q0 + kTiles.block_q); ++q)
        for (auto kv = kv0; kv < std::min(kKeys, kv0 + kTiles.block_kv); ++kv) {
          const bool one = sees(static_cast<std::uint32_t>(q), static_cast<std::uint32_t>(kv));
          all = all && one;
          any = any || one;
        }
      const Entry e = of[static_cast<std::size_t>(kv0 / kTiles.block_kv)];
      EXPECT_FALSE(e == Entry::Absent && any) << q0 << ' ' << kv0;
      EXPECT_FALSE(e == Entry::Whole && !all) << q0 << ' ' << kv0;
      decided += e != Entry::Masked;
    }
  }
  EXPECT_GT(decided, 0) << "where nothing wraps, something is known";
}

bool is_natural(std::uint32_t x) { return static_cast<std::int32_t>(x) >= 0; }

TEST(DerivedBlockLists, DoNotBoundValuesThatWrapAround) {
  constexpr std::uint32_t kMost = 0x7fffffff;
  const Scalar<i32> large = static_cast<i32>(kMost - 60), factor = static_cast<i32>(kMost / 70);
  expect_sound([=](Tile, Tile, Tile q, Tile kv) { return q + large.value() + kv >= 0; },
               [](auto q, auto kv) { return is_natural(q + kMost - 60 + kv); });
  expect_sound([=](Tile, Tile, Tile q, Tile kv) { return (q + kv) * factor.value() >= 0; },
               [](auto q, auto kv) { return is_natural((q + kv) * (kMost / 70)); });
  expect_sound([=](Tile, Tile, Tile q, Tile kv) { return q - kv - large.value() < 0; },
               [](auto q, auto kv) { return !is_natural(q - kv - (kMost - 60)); });
  expect_sound([=](Tile, Tile, Tile q, Tile kv) { return q * kv * kv * 4096 >= 0; },
               [](auto q, auto kv) { return is_natural(q * kv * kv * 4096); });
  // The mask sees the value that one axis alone wraps to.
  expect_sound([=](Tile, Tile, Tile q, Tile kv) { return q + large.value() >= kv; },
               [](auto q, auto kv) {
                 return static_cast<std::int32_t>(q + kMost - 60) >= static_cast<std::int32_t>(kv);
               });
}

}  // namespace
}  // namespace tegula::derived_lists_test
