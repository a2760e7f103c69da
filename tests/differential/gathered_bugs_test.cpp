// Bugs that the lowering of persistent tiles of gathered rows could have, planted in its code: the
// simulator finds each, under its name or by a wrong result. Clusters of two multicast the other
// operand.
#include <gtest/gtest.h>

#include <cstdio>

#include "ir/builder.h"
#include "tests/differential/nth_op.h"
#include "tests/differential/planted_program.h"

namespace tegula::ir::gathered_bugs_test {
namespace {

/// Segments of two tiles, none and one, six steps each; some rows are none.
test::MemoryProgram gathered_segments(Device device) {
  const auto kernel =
      tegula::kernel("gathered_segments", [](In<bf16, 2> A, In<bf16, 3> B, In<i32, 1> offsets,
                                             In<i32, 1> from, Out<f32, 2> C) {
        C.partial();
        for (auto [s, m] : grid(segments(offsets, from.dim(0)), 128)) {
          const Tile rows = from(m);
          Tile sum = zeros<f32>(128, 64);
          for (auto k : steps(A.cols(), 32)) sum = dot(A(rows, k), B(s, k, all), sum);
          C(m, all) = sum;
        }
      }).with_plan({.stages = 4, .persistent = true, .multicast = true});
  constexpr int kRows = 420, kDepth = 192, kColumns = 64;
  const auto args_on = [](Device d) {
    std::vector<i32> from;
    for (int i = 0; i < kRows; ++i) from.push_back(i % 13 == 4 ? -1 : i * 7 % 90);
    return std::vector<Tensor>{Tensor::integers({90, kDepth}, DType::bf16, -3, 4, 1, d),
                               Tensor::integers({4, kDepth, kColumns}, DType::bf16, -3, 4, 2, d),
                               Tensor::from(std::vector<i32>{0, 200, 200, 300, kRows}, d),
                               Tensor::from(from, d),
                               Tensor::zeros({kRows, kColumns}, DType::f32, d)};
  };
  static const std::vector<double> want = [&] {
    const std::vector<Tensor> a = args_on(Device::cpu());
    kernel(Stream(Device::cpu()), a[0], a[1], a[2], a[3], a[4]);
    return a[4].to_doubles();
  }();
  test::MemoryProgram p =
      test::memory_program<5>("gathered_segments", 0, kernel, args_on(device), 4, want);
  p.programs = 2;
  return p;
}

/// The wait for a step's rows; a fence and a barrier follow it.
OpId wait_for_rows(const Kernel& k) { return test::all_ops(k, Opcode::CpAsyncWait).front(); }
/// The wait for a tile's last MMAs, which precedes the barrier before the next copies.
OpId end_of_tile(const Kernel& k) {
  for (OpId wait : test::all_ops(k, Opcode::WgmmaWait))
    if (k[wait].attrs.i(AttrName::count) == 0) return wait;
  return {};
}
/// The commit of a step's copies, those of the prologue first.
OpId commit_of_step(const Kernel& k) { return test::all_ops(k, Opcode::CpAsyncCommit).back(); }

bool goes_to_both(const OpData& d) { return d.attrs.i(AttrName::cluster_ctas) == 2; }

struct Bug {
  const char* name;
  void (*plant)(Kernel&);
};

const Bug kBugs[] = {
    {"rows are not waited for", [](Kernel& k) { k.erase(wait_for_rows(k)); }},
    {"the wait leaves a group too many",
     [](Kernel& k) {
       const OpId wait = wait_for_rows(k);
       k[wait].attrs.set(AttrName::count, k[wait].attrs.i(AttrName::count) + 1);
     }},
    {"no fence behind the wait",
     [](Kernel& k) { k.erase(test::next_op(k, wait_for_rows(k), Opcode::FenceProxyAsync)); }},
    {"no barrier behind the wait",
     [](Kernel& k) { k.erase(test::next_op(k, wait_for_rows(k), Opcode::BarSync)); }},
    {"copies of a step are no group", [](Kernel& k) { k.erase(commit_of_step(k)); }},
    {"a tile's last MMAs are not waited for",
     [](Kernel& k) {
       const OpId wait = end_of_tile(k);
       k[wait].attrs.set(AttrName::count, std::int64_t{1});
     }},
    {"a half for its own CTA alone",
     [](Kernel& k) {
       for (OpId load : test::all_ops(k, Opcode::TmaLoad))
         if (goes_to_both(k[load])) return k[load].attrs.erase(AttrName::cluster_ctas);
     }},
    {"tiles of two segments taken for neighbours",
     [](Kernel& k) {
       for (OpId load : test::all_ops(k, Opcode::TmaLoad)) {
         if (!goes_to_both(k[load])) continue;
         const OpId branch = k[k[load].parent].owner;
         const Value in_step = k[k[k[branch].operands[0]].def].operands[0];
         k[branch].operands[0] = in_step;
       }
     }},
    {"releases counted as those of one CTA",
     [](Kernel& k) {
       for (OpId init : test::all_ops(k, Opcode::MbarInit))
         if (k[init].attrs.i(AttrName::count) == 16)
           k[init].attrs.set(AttrName::count, std::int64_t{8});
     }},
};

TEST(GatheredBugs, EachIsFound) {
  const test::PlantedProgram program(gathered_segments);
  const Kernel sound = program.compile([](std::string_view, Kernel&, bool) {});
  ASSERT_EQ(sound.info.cluster, 2);
  ASSERT_EQ(program.how_caught(sound), "");
  for (const Bug& bug : kBugs) {
    SCOPED_TRACE(bug.name);
    Kernel k = clone(sound);
    bug.plant(k);
    const std::string how = program.how_caught(k);
    std::printf("%-50s %s\n", bug.name, how.c_str());
    EXPECT_NE(how, "");
  }
}

/// Each tile has the rows of the first one.
TEST(GatheredBugs, IndexTileOfAnotherTile) {
  const test::PlantedProgram program(gathered_segments);
  const Kernel k = program.compile([](std::string_view pass, Kernel& machine, bool is_behind) {
    if (pass != "make_persistent" || !is_behind) return;
    for (OpId load : test::all_ops(machine, Opcode::LoadView))
      if (machine.type(machine[load].results[0]).is_tile() &&
          machine.type(machine[load].results[0]).dtype() == DType::i32) {
        Builder b(machine, load);
        const Value first = b.i32(0);
        machine[load].operands[1] = first;
      }
  });
  EXPECT_EQ(program.how_caught(k), "wrong values");
}

}  // namespace
}  // namespace tegula::ir::gathered_bugs_test
