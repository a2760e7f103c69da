// Which blocks attention visits under every mask of the library, and what it computes there.
#include <iomanip>
#include <iostream>
#include <numeric>

#include "kernels/attention/mask_bounds.h"
#include "kernels/attention/visits.h"
#include "kernels/attention/way.h"
#include "tests/differential/attention_expected.h"
#include "tests/property/mask_catalogue.h"
#include "tests/property/mask_lambdas.h"

namespace tegula {
namespace {

using catalogue::Case;
using test::AttentionInputs;

constexpr std::int64_t kMaxLength = catalogue::kLength;

/// Keys [first, first + block) that a tile of queries visits.
struct Step {
  std::int64_t first;
  bool is_masked;
};
struct Visited {
  AttentionTiles tiles;
  std::int64_t queries, keys;
  std::vector<std::vector<Step>> rows;  ///< by tile of queries
};

/// Runs the loop of attention, and notes every step.
template <class MakeVisits>
void note_steps(const Out<i32, 2>& steps_of, MakeVisits make) {
  for (auto m : grid({steps_of.dim(0)}, 1)) {
    const Visits visits = make(m);
    Tile i = full<i32>(0);
    for (auto step : visits.steps()) {
      steps_of(m, i) = visits.block(step).first() * 2 + where(visits.needs_mask(step, true), 1, 0);
      i = i + 1;
    }
  }
}

Tensor steps_by_list(const Mask& mask, const Tensor& steps, AttentionTiles tiles,
                     std::int64_t queries, std::int64_t keys) {
  const Device device = steps.device();
  const Stream stream(device);
  const Tensor Q = Tensor::zeros({1, 1, queries, 1}, DType::bf16, device),
               K = Tensor::zeros({1, 1, keys, 1}, DType::bf16, device);
  const DerivedLists derived(trace_mask_source(mask));
  const ListArgs lists = derived.make(stream, Q, K, tiles);
  const auto probe = kernel(
      "probe", [tiles](In<i32, 4> blocks, In<i32, 3> counts, In<i32, 3> whole, Out<i32, 2> out) {
        note_steps(out, [&](const Index& m) {
          const Index zero = slice(full<i32>(0), 1);
          return Visits::list({blocks, counts, whole, true}, zero, zero, m.first(), tiles.keys);
        });
      });
  probe(stream, lists.blocks, lists.counts, lists.full, steps);
  return steps;
}

Tensor steps_by_range(const Mask& mask, const Tensor& steps, AttentionTiles tiles,
                      std::int64_t keys) {
  const auto probe = kernel("probe", [tiles, mask](Scalar<i32> length, Out<i32, 2> out) {
    const MaskBounds bounds(mask);
    note_steps(out, [&](const Index& m) {
      const Tile first = m.first() * tiles.queries, end = length;
      return Visits::range(bounds.record(first, first + (tiles.queries - 1), end), end, tiles.keys);
    });
  });
  probe(Stream(steps.device()), static_cast<i32>(keys), steps);
  return steps;
}

Visited visited(const Mask& mask, Device device, AttentionTiles tiles, std::int64_t queries,
                std::int64_t keys) {
  const std::int64_t rows = (queries + tiles.queries - 1) / tiles.queries,
                     most = keys / tiles.keys + 2;
  const Tensor none = Tensor::full({rows, most}, -1, DType::i32, device);
  const auto steps = Way({.mask = mask}).is_listed()
                         ? steps_by_list(mask, none, tiles, queries, keys)
                         : steps_by_range(mask, none, tiles, keys);
  const auto noted = steps.to_vector<i32>();
  Visited v{tiles, queries, keys, {}};
  for (std::int64_t m = 0; m < rows; ++m) {
    auto& row = v.rows.emplace_back();
    for (std::int64_t i = 0; i < most; ++i)
      if (const i32 x = noted[static_cast<std::size_t>(m * most + i)]; x >= 0)
        row.push_back({x / 2, x % 2 != 0});
  }
  return v;
}

struct Counts {
  std::int64_t cover = 0, visited = 0, partial = 0, masked = 0;
};

/// What the pairs of queries [q0, q1) and keys [kv0, kv1) are.
ir::Coverage coverage(const Case& c, std::int64_t q0, std::int64_t q1, std::int64_t kv0,
                      std::int64_t kv1) {
  bool all = true, any = false;
  for (std::int64_t q = q0; q < q1; ++q)
    for (std::int64_t kv = kv0; kv < kv1; ++kv) {
      const bool sees = c.want(static_cast<int>(q), static_cast<int>(kv));
      all = all && sees;
      any = any || sees;
    }
  return any ? all ? ir::Coverage::Full : ir::Coverage::Partial : ir::Coverage::Empty;
}

/// Every visible pair is visited once, and what has no mask holds visible pairs only.
Counts check(const Case& c, const Visited& v) {
  Counts n;
  for (std::size_t m = 0; m < v.rows.size(); ++m) {
    const std::int64_t q0 = static_cast<std::int64_t>(m) * v.tiles.queries,
                       q1 = std::min<std::int64_t>(v.queries, q0 + v.tiles.queries);
    std::vector<int> times(static_cast<std::size_t>(v.keys));
    for (const Step& s : v.rows[m]) {
      const std::int64_t end = s.first + v.tiles.keys, kv1 = std::min(v.keys, end);
      for (std::int64_t kv = s.first; kv < kv1; ++kv) ++times[static_cast<std::size_t>(kv)];
      const bool is_full = end <= v.keys && coverage(c, q0, q1, s.first, kv1) == ir::Coverage::Full;
      EXPECT_TRUE(s.is_masked || is_full) << c.name << ": " << m << ", keys from " << s.first;
      n.visited += 1;
      n.masked += s.is_masked;
    }
    for (std::int64_t kv = 0; kv < v.keys; ++kv) {
      const int seen = coverage(c, q0, q1, kv, kv + 1) != ir::Coverage::Empty;
      const int t = times[static_cast<std::size_t>(kv)];
      EXPECT_TRUE(seen <= t && t <= 1) << c.name << ": tile " << m << ", key " << kv << ": " << t;
    }
    for (std::int64_t kv = 0; kv < v.keys; kv += v.tiles.keys) {
      const std::int64_t kv1 = std::min(v.keys, kv + v.tiles.keys);
      const ir::Coverage of = coverage(c, q0, q1, kv, kv1);
      n.cover += of != ir::Coverage::Empty;
      n.partial += of == ir::Coverage::Partial;
    }
  }
  return n;
}

class MaskVisits : public ::testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, MaskVisits, ::testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(MaskVisits, AreThoseOfTheBestCover) {
  for (const Case& c : catalogue::cases(GetParam())) {
    const Way way({.mask = c.mask});
    std::cout << std::left << std::setw(20) << c.name << " " << c.mask_class << " "
              << (way.is_listed() ? "list " : "range") << std::right;
    for (const AttentionTiles tiles : {AttentionTiles{128, 128}, {128, 64}, {64, 32}}) {
      const Counts n = check(c, visited(c.mask, GetParam(), tiles, kMaxLength, kMaxLength));
      std::cout << "  " << tiles.queries << "x" << tiles.keys << ": " << std::setw(3) << n.visited
                << " of " << std::setw(3) << n.cover << ", masks " << std::setw(3) << n.masked
                << " of " << std::setw(3) << n.partial;
      EXPECT_LE(static_cast<double>(n.visited), 1.05 * static_cast<double>(n.cover)) << c.name;
    }
    std::cout << "\n";
    // Lengths that no block divides.
    check(c, visited(c.mask, GetParam(), {64, 48}, 700, 650));
  }
}

TEST(MaskVisitsOfLambdas, HoldEveryVisiblePair) {
  std::mt19937 random(3);
  int listed = 0, with_gaps = 0;
  for (int i = 0; i < 600; ++i) {
    const auto [mask, sees] = testing::random_mask(random, 3);
    const Case c{"random", mask, [&](int q, int kv) { return sees(q, kv); }, "", 0, 0};
    check(c, visited(mask, Device::cpu(), {16, 16}, 61, 87));
    const Way way({.mask = mask});
    listed += way.is_listed();
    with_gaps += way.text().find("closed ranges") != std::string::npos;
    if (HasFailure()) FAIL() << "mask " << i;
  }
  EXPECT_GT(listed, 5);
  EXPECT_GT(with_gaps, 20);
}

}  // namespace
}  // namespace tegula
