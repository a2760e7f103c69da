// Reading the access of an op and writing it again, for every op that accesses a box of a view.
#include "ir/access.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"

namespace tegula::ir::access_test {
namespace {

constexpr const char* kTileForm = R"(
kernel @boxes tile target(sm_90a) (%x: view<?x?xf32, in> [arg = 0], %y: view<?x?xf32, inout> [arg = 1], %n: view<?xf32, in> [arg = 2], %s: view<f32, inout> [arg = 3], %i: i32 [arg = 4], %j: i32 [arg = 5]) {
  %lines = arange [start = 0] : tile<4xi32>
  %box = load_view %x, %i, %j [axes = [0, 1], in_bounds = [1], offset_divisibility = 4] : tile<4x8xf32>
  %row = load_view %x, %i, %j, %j, %i [axes = [1], in_bounds = []] : tile<8xf32>
  %rows = load_view %x, %lines, %j [axes = [0, 1]] : tile<4x8xf32>
  %one = load_view %n, %i [axes = []] : f32
  %end = load_view %n, %i, %j [axes = [0], in_bounds = []] : tile<8xf32>
  %all = load_view %s [axes = []] : f32
  store_view %y, %box, %i, %j [axes = [1, 0], kind = "add"]
  store_view %y, %rows, %lines, %j, %i, %j [axes = [0, 1], in_bounds = [1]]
  %old = atomic_view %y, %row, %i, %j [axes = [1], kind = "max"] : tile<8xf32>
}
)";

constexpr const char* kMachineForm = R"(
kernel @copies machine target(sm_90a) threads(128) (%x: view<?x?xf32, in> [arg = 0], %n: view<?xf32, in> [arg = 1], %i: i32 [arg = 2], %j: i32 [arg = 3], %both: i1 [arg = 4]) {
  %full = smem_alloc : smem<2xi64, #swz<2:8; order=[0]; rows=[plain:16]>>
  %tiles = smem_alloc : smem<2x8x32xf32, #swz<2x8x32:4; order=[2,1,0]; rows=[plain:128]>>
  %lines = smem_alloc : smem<2x32xf32, #swz<2x32:4; order=[1,0]; rows=[plain:128]>>
  copy_async %tiles, %i, %x, %i, %j [axes = [0, 1]]
  copy_async %tiles, %i, %x, %i, %j, %j, %i [axes = [0, 1], in_bounds = [0]]
  copy_tma %tiles, %i, %full, %x, %i, %j [axes = [1, 0], offset_divisibility = 8]
  copy_tma %tiles, %i, %full, %x, %i, %j, %both [axes = [0, 1]]
  copy_tma %tiles, %i, %full, %x, %i, %j, %j, %i, %both [axes = [0, 1], in_bounds = []]
  copy_tma %tiles, %i, %full, %x, %i, %j, %j, %i, %i [axes = [0, 1], in_bounds = [1]]
  copy_tma %lines, %i, %full, %n, %i, %both [axes = [0]]
  copy_tma %lines, %i, %full, %n, %i, %j [axes = [0], in_bounds = []]
}
)";

std::vector<OpId> accesses_in(const Kernel& k) {
  return ops_where(k, k.body(), [&](OpId op) { return is_access(k[op].opcode); });
}

TEST(Access, IsWrittenAsItWasRead) {
  for (const char* text : {kTileForm, kMachineForm}) {
    Kernel k = parse(text);
    const std::string before = print(k);
    verify_or_throw(k);
    for (const OpId op : accesses_in(k)) {
      const BoxAccess a = access_of(k, k[op]);
      k[op].operands.clear();
      for (const AttrName name :
           {AttrName::axes, AttrName::in_bounds, AttrName::offset_divisibility})
        k[op].attrs.erase(name);
      set_access(k[op], a);
    }
    EXPECT_EQ(print(k), before);
  }
}

TEST(Access, EveryOpWithAxesIsRead) {
  std::set<Opcode> tested;
  for (const char* text : {kTileForm, kMachineForm}) {
    const Kernel k = parse(text);
    for (const OpId op : accesses_in(k)) tested.insert(k[op].opcode);
  }
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Opcode>(i);
    const bool has_axes = info(op).doc.find("attr axes") != std::string_view::npos;
    EXPECT_EQ(is_access(op), has_axes) << info(op).name;
    EXPECT_EQ(tested.contains(op), has_axes) << info(op).name;
  }
}

TEST(Access, DescribesEachAxis) {
  const Kernel k = parse(kTileForm);
  const auto ops = accesses_in(k);
  const BoxAccess row = access_of(k, k[ops[1]]), rows = access_of(k, k[ops[2]]);
  EXPECT_EQ(row.axes[0].kind, AccessAxis::Kind::Scalar);
  EXPECT_EQ(row.axes[0].tile_dim, -1);
  EXPECT_EQ(row.axes[1].kind, AccessAxis::Kind::Box);
  EXPECT_EQ(row.axes[1].extent, 8);
  EXPECT_EQ(row.axes[1].limit, row.axes[0].offset);
  EXPECT_EQ(row.gathered_dim(), -1);
  EXPECT_TRUE(rows.axes[0].is_gathered());
  EXPECT_EQ(rows.gathered_dim(), 0);
  const Kernel machine = parse(kMachineForm);
  const BoxAccess copy = access_of(machine, machine[accesses_in(machine)[2]]);
  EXPECT_EQ(copy.axes[0].extent, 32);
  EXPECT_EQ(copy.along_dim(0).extent, 8);
  EXPECT_EQ(copy.divisor, 8);
}

/// Two pages of 4 rows each: a box for each page, and the number of rows that exist.
TEST(Access, DividesPagesIntoBoxes) {
  const Kernel k = parse(kMachineForm);
  const BoxAccess pages = access_of(k, k[accesses_in(k)[5]]);
  const Value i = k.params()[2].value, j = k.params()[3].value;
  ASSERT_EQ(pages.boxes(), 2u);
  EXPECT_EQ(pages.rows, i);
  EXPECT_FALSE(pages.has_limits());
  EXPECT_FALSE(pages.multicast);
  const BoxAccess first = pages.box(0), second = pages.box(1);
  EXPECT_EQ(first.axes[0].offset, i);
  EXPECT_EQ(first.axes[1].offset, j);
  EXPECT_EQ(second.axes[0].offset, j);
  EXPECT_EQ(second.axes[1].offset, i);
  for (const BoxAccess& box : {first, second}) {
    EXPECT_EQ(box.boxes(), 1u);
    EXPECT_EQ(box.axes[0].extent, 4);
    EXPECT_EQ(box.axes[1].extent, 32);
    EXPECT_TRUE(box.axes[1].in_bounds);
  }
}

TEST(Access, NamesOneOperand) {
  for (const char* text : {kTileForm, kMachineForm}) {
    const Kernel k = parse(text);
    for (const OpId op : accesses_in(k)) {
      const BoxAccess a = access_of(k, k[op]);
      EXPECT_EQ(accessed_view(k[op]), a.view);
      EXPECT_TRUE(!a.stored || stored_value(k[op]) == a.stored);
      EXPECT_TRUE(a.target.empty() || filled_tile(k[op]) == a.target[0]);
    }
  }
}

}  // namespace
}  // namespace tegula::ir::access_test
