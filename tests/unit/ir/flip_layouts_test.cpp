// Layouts for chains of flips: which bits of an element's number registers hold, and that shared
// memory between two layouts is free of bank conflicts.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"
#include "ir/layout/swizzle.h"
#include "ir/passes/layouts/flip_layouts.h"
#include "ir/text.h"

namespace tegula::ir::flip_layouts_test {
namespace {

/// One flip: of `extent` elements that are `stride` apart.
struct Stage {
  int extent, stride;
};

std::string num(int n) { return std::to_string(n); }

/// A sum of a tile and its flip after the other, from %s0, a tile of `columns` elements.
std::string chain(int columns, const std::vector<Stage>& stages) {
  std::string text = "kernel @chain tile target(sm_90a) () {\n  %s0 = const [value = 1.0] : tile<" +
                     num(columns) + "xf32>\n";
  int i = 0;
  for (const auto [extent, stride] : stages) {
    const std::string at = num(i), e = num(extent);
    const std::string box = num(columns / (extent * stride)) + "x" + e + "x" + num(stride);
    text += "  %t" + at + " = reshape %s" + at + " : tile<" + box + "xf32>\n";
    text += "  %n" + at + " = arange [start = 0] : tile<" + e + "xi32>\n";
    text += "  %m" + at + " = const [value = " + num(extent - 1) + "] : tile<" + e + "xi32>\n";
    text += "  %r" + at + " = sub %m" + at + ", %n" + at + " : tile<" + e + "xi32>\n";
    text += "  %q" + at + " = reshape %r" + at + " : tile<1x" + e + "x1xi32>\n";
    text += "  %i" + at + " = broadcast %q" + at + " : tile<" + box + "xi32>\n";
    text +=
        "  %g" + at + " = gather %t" + at + ", %i" + at + " [axis = 1] : tile<" + box + "xf32>\n";
    text += "  %a" + at + " = add %t" + at + ", %g" + at + " : tile<" + box + "xf32>\n";
    text += "  %s" + num(++i) + " = reshape %a" + at + " : tile<" + num(columns) + "xf32>\n";
  }
  return text + "}\n";
}

std::vector<Stage> butterflies(int columns) {
  std::vector<Stage> stages;
  for (int stride = 1; stride < columns; stride *= 2) stages.push_back({2, stride});
  return stages;
}

LinearLayout loaded(int columns, int warps) { return coalesced({columns}, 8, warps, {0}); }

/// Layouts of the flips' tiles in the order of the chain, as lines; that of the load where a tile
/// stays.
std::vector<LinearLayout> layouts(int columns, const std::vector<Stage>& stages, int warps) {
  const Kernel k = parse(chain(columns, stages), "chain");
  const Uses uses(k);
  const LinearLayout home = loaded(columns, warps);
  std::vector<LinearLayout> out;
  std::unordered_map<Value, const LinearLayout*> chosen;
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    if (chosen.empty() && d.opcode == Opcode::Const)
      chosen = flip_layouts(k, uses, d.results[0], home);
    if (d.opcode != Opcode::Gather) return;
    const LinearLayout* own = chosen.at(d.operands[0]);
    out.push_back(own ? *reshape(*own, {columns}) : home);
  });
  return out;
}

std::vector<LinearLayout> butterfly_layouts(int columns, int warps) {
  return layouts(columns, butterflies(columns), warps);
}

BitVector register_bits(const LinearLayout& line) {
  BitVector bits = 0;
  for (BitVector bit : line.packed_bases(HwDim::Register)) bits |= bit;
  return bits;
}

/// Layouts that follow each other, of `lines` and then at the store.
std::vector<LinearLayout> without_repeats(std::vector<LinearLayout> lines, int columns, int warps) {
  lines.insert(lines.begin(), loaded(columns, warps));
  lines.push_back(loaded(columns, warps));
  lines.erase(std::ranges::unique(lines).begin(), lines.end());
  return lines;
}

TEST(FlipLayouts, RegistersHoldTheOperandsOfLongButterflies) {
  for (const auto& [columns, warps] : {std::pair{4096, 4},
                                       {8192, 4},
                                       {8192, 8},
                                       {16384, 8},
                                       {16384, 16},
                                       {32768, 16},
                                       {32768, 32}}) {
    SCOPED_TRACE(num(columns) + " columns, warps " + num(warps));
    const std::vector<LinearLayout> lines = butterfly_layouts(columns, warps);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_TRUE(register_bits(lines[i]) >> i & 1) << "flip " << i << ": " << lines[i].str();
      EXPECT_TRUE(lines[i].is_bijective());
    }
    const std::vector<LinearLayout> visited = without_repeats(lines, columns, warps);
    ASSERT_EQ(visited.size(), 4U);  // three conversions
    for (std::size_t i = 1; i < visited.size(); ++i) {
      const auto exchange = synthesize_exchange(visited[i - 1], visited[i], 4);
      ASSERT_TRUE(exchange);
      EXPECT_EQ(exchange->write_use.extra() + exchange->read_use.extra(), 0) << visited[i].str();
    }
  }
}

TEST(FlipLayouts, LastFlipsFindTheLayoutOfTheLoad) {
  EXPECT_EQ(butterfly_layouts(16384, 16).back(), loaded(16384, 16));
}

TEST(FlipLayouts, RegistersLeftOverKeepNeighbours) {
  EXPECT_EQ(register_bits(butterfly_layouts(8192, 4).back()), BitVector{0b1'1110'0000'0011});
}

TEST(FlipLayouts, ExchangesThatCostLessStay) {
  for (const auto& [columns, warps] : {std::pair{1024, 1}, {2048, 2}})
    for (const LinearLayout& line : butterfly_layouts(columns, warps))
      EXPECT_EQ(line, loaded(columns, warps)) << columns;
  for (const int stride : {8, 256})
    EXPECT_EQ(layouts(4096, {{2, stride}}, 4).front(), loaded(4096, 4)) << stride;
}

/// Flips of four bits each, which lanes and warps share: the second layout has those of the last.
TEST(FlipLayouts, FlipsOfSeveralBits) {
  const std::vector<Stage> stages{{16, 64}, {16, 64}, {16, 256}, {16, 256}, {16, 64}, {16, 64}};
  const std::vector<LinearLayout> lines = layouts(4096, stages, 4);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto bits = static_cast<BitVector>(15 * stages[i].stride);
    EXPECT_EQ(register_bits(lines[i]) & bits, bits) << "flip " << i << ": " << lines[i].str();
  }
  // More bits than registers have: no layout helps.
  const std::vector<Stage> wide(6, {256, 8});
  EXPECT_EQ(layouts(4096, wide, 4).back(), loaded(4096, 4));
}

/// Extents that are not powers of two have no bits to flip.
TEST(FlipLayouts, OddExtentsStay) {
  const std::vector<Stage> stages(6, {2, 256});
  EXPECT_NE(layouts(4096, stages, 4).back(), loaded(4096, 4));
  const Kernel k = parse(chain(3 * 4096, stages), "chain");
  Value first;
  walk(k, k.body(), [&](OpId op) {
    if (!first && k[op].opcode == Opcode::Const) first = k[op].results[0];
  });
  const auto chosen = flip_layouts(k, Uses(k), first, loaded(3 * 4096, 4));
  EXPECT_TRUE(chosen.contains(first));  // so that no other tile of the chain starts a search
  for (const auto& [tile, own] : chosen) EXPECT_EQ(own, nullptr);
}

}  // namespace
}  // namespace tegula::ir::flip_layouts_test
