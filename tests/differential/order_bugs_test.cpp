// Forty mistakes that a compiler of sorts, ranks, scans by functions, gathers, scatters and parts
// of tiles could make, planted after the pass that would make them. The simulator must show each:
// by a finding, or by a result that differs from the interpreter's.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/builder.h"
#include "tests/differential/nth_op.h"
#include "tests/differential/text_program.h"

namespace tegula::order_bugs_test {
namespace {

using namespace ir;
using test::nth_op;

// ---- programs -----------------------------------------------------------------------------------
using test::TextProgram;

/// A ragged line of many ties across four warps, sorted, and its five largest.
const TextProgram kSorts{
    R"(kernel @sorts tile target(sm_90a) (%x: view<?x?xi32, in> [arg = 0], %v: view<?x?xi32, out> [arg = 1], %p: view<?x?xi32, out> [arg = 2], %q: view<?x?xi32, out> [arg = 3]) {
  %zero = const [value = 0] : i32
  %t = load_view %x, %zero, %zero [axes = [0, 1]] : tile<1x300xi32>
  %s, %at = sort %t [axis = 1] : tile<1x300xi32>, tile<1x300xi32>
  store_view %v, %s, %zero, %zero [axes = [0, 1]]
  store_view %p, %at, %zero, %zero [axes = [0, 1]]
  %b, %bt = sort %t [axis = 1, descending = 1, count = 5] : tile<1x5xi32>, tile<1x5xi32>
  store_view %q, %bt, %zero, %zero [axes = [0, 1]]
})",
    {{1, 270}, {1, 300}, {1, 300}, {1, 5}}};

/// Keys of six bins, and some of none.
const TextProgram kRanks{
    R"(kernel @ranks tile target(sm_90a) (%x: view<?xi32, in> [arg = 0], %r: view<?xi32, out> [arg = 1], %c: view<?xi32, out> [arg = 2]) {
  %zero = const [value = 0] : i32
  %seven = const [value = 7] : i32
  %t = load_view %x, %zero [axes = [0]] : tile<300xi32>
  %k = and %t, %seven
  %ranks, %counts = key_ranks %k [count = 6] : tile<300xi32>, tile<6xi32>
  store_view %r, %ranks, %zero [axes = [0]]
  store_view %c, %counts, %zero [axes = [0]]
})",
    {{290}, {300}, {6}}};

/// Affine maps composed, without the element itself.
const TextProgram kScans{
    R"(kernel @scans tile target(sm_90a) (%x: view<?xi32, in> [arg = 0], %y: view<?xi32, in> [arg = 1], %a: view<?xi32, out> [arg = 2], %b: view<?xi32, out> [arg = 3]) {
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %t = load_view %x, %zero [axes = [0]] : tile<600xi32>
  %u = load_view %y, %zero [axes = [0]] : tile<600xi32>
  %f, %g = scan_with %t, %u, %one, %zero [axis = 0, exclusive = 1, reverse = 0] : tile<600xi32>, tile<600xi32> { (%fa: i32, %fb: i32, %ga: i32, %gb: i32)
    %ab = mul %fa, %ga
    %m = mul %ga, %fb
    %s = add %m, %gb
    yield %ab, %s
  }
  store_view %a, %f, %zero [axes = [0]]
  store_view %b, %g, %zero [axes = [0]]
})",
    {{600}, {580}, {600}, {600}}};

/// Elements gathered through shared memory, added back, and a part of that.
const TextProgram kGathers{
    R"(kernel @gathers tile target(sm_90a) (%x: view<?x?xi32, in> [arg = 0], %i: view<?x?xi32, in> [arg = 1], %a: view<?x?xi32, out> [arg = 2], %b: view<?x?xi32, out> [arg = 3], %c: view<?x?xi32, out> [arg = 4]) {
  %zero = const [value = 0] : i32
  %mask = const [value = 63] : i32
  %t = load_view %x, %zero, %zero [axes = [0, 1]] : tile<4x64xi32>
  %j = load_view %i, %zero, %zero [axes = [0, 1]] : tile<4x48xi32>
  %k = and %j, %mask
  %g = gather %t, %k [axis = 1] : tile<4x48xi32>
  store_view %a, %g, %zero, %zero [axes = [0, 1]]
  %s = scatter %t, %k, %g [axis = 1, kind = "add"] : tile<4x64xi32>
  store_view %b, %s, %zero, %zero [axes = [0, 1]]
  %h = tile_slice %s [offsets = [1, 8]] : tile<2x40xi32>
  store_view %c, %h, %zero, %zero [axes = [0, 1]]
})",
    {{4, 64}, {3, 40}, {4, 48}, {4, 64}, {2, 40}}};

/// Places that a sort gives, sorted: which of them are there comes through shared memory, where
/// nothing was written for what pads 153 columns.
const TextProgram kPlaces{
    R"(kernel @places tile target(sm_90a) (%x: view<?xf32, in> [arg = 0], %q: view<?x?xi32, out> [arg = 1]) {
  %zero = const [value = 0] : i32
  %t = load_view %x, %zero [axes = [0]] : tile<80xf32>
  %ones = const [value = 1.0] : tile<23xf32>
  %twos = const [value = 2.0] : tile<50xf32>
  %all = tile_concat %t, %ones, %twos [axis = 0] : tile<153xf32>
  %nan = cmp %all, %all [pred = "ne"] : tile<153xi1>
  %row = expand_dims %nan [axis = 0] : tile<1x153xi1>
  %v, %at = sort %row [axis = 0, descending = 1] : tile<1x153xi1>, tile<1x153xi32>
  %w, %place = sort %at [axis = 1, descending = 1, count = 139] : tile<1x139xi32>, tile<1x139xi32>
  store_view %q, %place, %zero, %zero [axes = [0, 1]]
})",
    {{70}, {1, 139}}};

// ---- edits --------------------------------------------------------------------------------------
enum class Edit : std::uint8_t {
  erase,      ///< the op is left out
  becomes,    ///< its result is operand `number`
  swap,       ///< operands `number` and the next one are exchanged
  cut,        ///< operands from `number` on are left out
  compares,   ///< its predicate is `word`
  shuffles,   ///< its mode is `word`
  own_lane,   ///< a shuffle that reads its own lane
  reverse,    ///< its registers come in reverse
  next_word,  ///< its address is `number` bytes further on
  ascends,    ///< a sort in the other direction
};

struct Fault {
  const char* name;
  const TextProgram& program;
  const char* after;  ///< the pass that makes the mistake
  Edit edit;
  Opcode opcode;
  int nth = 0;
  int number = 0;
  std::string_view word = {};
};

Value added(ir::Kernel& k, OpId op, Value v, int number) {
  Builder b(k);
  b.before(op);
  return b.add(v, b.i32(number));
}

void plant(ir::Kernel& k, const Fault& f) {
  const OpId op = nth_op(k, f.opcode, f.nth);
  const auto number = static_cast<std::size_t>(f.number);
  switch (f.edit) {
    case Edit::erase:
      return k.erase(op);
    case Edit::becomes: {
      const Value v = k[op].operands[number];
      return k.replace_all_uses(k[op].results[0], v);
    }
    case Edit::swap:
      return std::swap(k[op].operands[number], k[op].operands[number + 1]);
    case Edit::cut:
      return k[op].operands.resize(number);
    case Edit::compares:
      return k[op].attrs.set(AttrName::pred, f.word);
    case Edit::shuffles:
      return k[op].attrs.set(AttrName::mode, f.word);
    case Edit::own_lane: {
      Builder b(k);
      b.before(op);
      const Value zero = b.i32(0);
      k[op].operands[1] = zero;
      return;
    }
    case Edit::reverse: {
      const auto given = k[op].attrs.ints(AttrName::indices);
      Ints order(given.begin(), given.end());
      std::ranges::reverse(order);
      return k[op].attrs.set(AttrName::indices, order);
    }
    case Edit::next_word: {
      const Value at = added(k, op, k[op].operands[0], f.number);
      k[op].operands[0] = at;
      return;
    }
    case Edit::ascends:
      return k[op].attrs.erase(AttrName::descending);
  }
}

constexpr const char* kMaterialize = "materialize_absence";
constexpr const char* kLower = "lower_simt";

const Fault kFaults[] = {
    {"of equal keys the larger index comes first", kSorts, kLower, Edit::compares, Opcode::Cmp, 147,
     0, "gt"},
    {"a comparator without the index", kSorts, kLower, Edit::becomes, Opcode::Or, 41},
    {"runs that are all in one direction", kSorts, kLower, Edit::becomes, Opcode::Xor, 3},
    {"both of two threads keep the better key", kSorts, kLower, Edit::becomes, Opcode::Xor, 5},
    {"an exchange of keys with the own lane", kSorts, kLower, Edit::own_lane, Opcode::Shfl},
    {"indices that are not exchanged", kSorts, kLower, Edit::becomes, Opcode::Shfl, 1},
    {"keys in other registers behind an exchange", kSorts, kLower, Edit::reverse, Opcode::Regs, 8},
    {"padding in place of elements", kSorts, kLower, Edit::swap, Opcode::Select, 0, 1},
    {"a sign that is not flipped", kSorts, kLower, Edit::becomes, Opcode::Xor, 1},
    {"no barrier in front of another warp's keys", kSorts, kLower, Edit::erase, Opcode::BarSync, 3},
    {"a descending sort that ascends", kSorts, kMaterialize, Edit::ascends, Opcode::Sort, 1},
    {"absent elements are sorted", kSorts, kMaterialize, Edit::cut, Opcode::Sort, 1, 1},
    {"counters are read before they are cleared", kRanks, kLower, Edit::erase, Opcode::WarpSync},
    {"a counter is written before all have read it", kRanks, kLower, Edit::erase, Opcode::WarpSync,
     1},
    {"the next round does not wait for the counter", kRanks, kLower, Edit::erase, Opcode::WarpSync,
     2},
    {"a counter takes the lanes for their number", kRanks, kLower, Edit::becomes, Opcode::Popc},
    {"keys that differ in the lowest bit are equal", kRanks, kLower, Edit::becomes, Opcode::And,
     15},
    {"a vote is read the wrong way round", kRanks, kLower, Edit::swap, Opcode::Select, 2, 1},
    {"an element counts itself", kRanks, kLower, Edit::becomes, Opcode::And, 20},
    {"keys of no bin are counted", kRanks, kLower, Edit::becomes, Opcode::And, 21, 1},
    {"ranks within the warp", kRanks, kLower, Edit::becomes, Opcode::Add, 46},
    {"counts without those of a warp", kRanks, kLower, Edit::becomes, Opcode::Add, 44},
    {"one bin more", kRanks, kLower, Edit::compares, Opcode::Cmp, 5, 0, "le"},
    {"no barrier in front of the other warps' counts", kRanks, kLower, Edit::erase, Opcode::BarSync,
     3},
    {"a shuffle in the other direction", kScans, kLower, Edit::shuffles, Opcode::Shfl, 0, 0,
     "down"},
    {"a lane does not take up its neighbour", kScans, kLower, Edit::compares, Opcode::Cmp, 4, 0,
     "gt"},
    {"a lane keeps its own part", kScans, kLower, Edit::swap, Opcode::Select, 0, 1},
    {"half of a pair is not combined", kScans, kLower, Edit::becomes, Opcode::Mul, 21, 1},
    {"no barrier in front of the warps' totals", kScans, kLower, Edit::erase, Opcode::BarSync, 5},
    {"every lane but the last writes the total", kScans, kLower, Edit::compares, Opcode::Cmp, 10, 0,
     "ne"},
    {"a warp leaves out the one before", kScans, kLower, Edit::compares, Opcode::Cmp, 12, 0, "gt"},
    {"an exclusive scan that counts the element", kScans, kLower, Edit::becomes, Opcode::Shfl, 10},
    {"the first lane of a warp has no prefix", kScans, kLower, Edit::becomes, Opcode::Or},
    {"no identity in front of the first element", kScans, kLower, Edit::becomes, Opcode::Select, 18,
     1},
    {"a gather does not wait for the tile", kGathers, kLower, Edit::erase, Opcode::BarSync, 3},
    {"a gather reads the next element", kGathers, kLower, Edit::next_word, Opcode::LdShared, 1, 4},
    {"indices count bytes", kGathers, kLower, Edit::becomes, Opcode::Mul, 13},
    {"an absent value is added", kGathers, kLower, Edit::becomes, Opcode::Select, 7, 1},
    {"a scatter does not wait for its indices", kGathers, kLower, Edit::erase, Opcode::BarSync, 5},
    {"a slice begins an element too late", kGathers, kLower, Edit::next_word, Opcode::LdShared, 4,
     4},
};
static_assert(std::size(kFaults) == 40);

TEST(OrderBugs, ThirtyEightOfFortyAreCaught) { EXPECT_GE(test::count_caught(kFaults, plant), 38); }

TEST(OrderBugs, PlacesThatASortGivesAreSorted) {
  const ir::Kernel tile = parse(kPlaces.text);
  fuzz::Arguments want = test::arguments(kPlaces, tile);
  ASSERT_EQ(fuzz::interpret(tile, want), "");
  EXPECT_EQ(test::how_caught(tile, fuzz::lowered(tile), kPlaces, want), "");
}

}  // namespace
}  // namespace tegula::order_bugs_test
