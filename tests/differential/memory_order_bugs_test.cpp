// Mistakes that the pass memory_order could make, planted in programs of memory_programs.h: each
// barrier that it places left out, one access late, or before the loop it is in. Some
// order of warps must show it, by wrong values or a finding of the simulator.
#include <gtest/gtest.h>

#include "tests/differential/nth_op.h"
#include "tests/differential/planted_program.h"
#include "tests/differential/programs_between.h"

namespace tegula::memory_order_bugs_test {
namespace {

using namespace ir;

enum class Fault : std::uint8_t { None, LeftOut, Late, InFrontOfTheLoop };

/// The op of the region that a barrier guards, after it.
OpId next_access(const ir::Kernel& k, OpId barrier) {
  OpId op = k[barrier].next;
  while (op && !info(k[op].opcode).has(kReads | kWrites) && k[op].regions.empty()) op = k[op].next;
  return op;
}

/// False where the barrier cannot be moved so.
bool plant(ir::Kernel& k, OpId barrier, Fault fault) {
  if (fault == Fault::None) return true;
  if (fault == Fault::LeftOut) {
    k.erase(barrier);
    return true;
  }
  if (fault == Fault::Late) {
    const OpId access = next_access(k, barrier);
    if (!access) return false;
    k.unlink(barrier);
    test::insert_after(k, access, barrier);
    return true;
  }
  const OpId loop = k[k[barrier].parent].owner;
  if (!loop || k[loop].opcode != Opcode::For) return false;
  k.unlink(barrier);
  k.insert_before(loop, barrier);
  return true;
}

std::vector<OpId> barriers_in(const ir::Kernel& k) {
  std::vector<OpId> found;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode == Opcode::CtaBarrier) found.push_back(op);
  });
  return found;
}

/// Whether a fault at one of the barriers that the pass places shows; nothing where it cannot be
/// planted there, or there is no such barrier.
std::optional<bool> shows(const test::PlantedProgram& p, std::size_t barrier, Fault fault) {
  bool planted = false;
  std::vector<OpId> before;
  const ir::Kernel simt = p.compile([&](std::string_view pass, ir::Kernel& k, bool is_behind) {
    if (pass != "memory_order") return;
    if (!is_behind) {
      before = barriers_in(k);
      return;
    }
    std::vector<OpId> placed = barriers_in(k);
    std::erase_if(placed, [&](OpId op) { return std::ranges::count(before, op) > 0; });
    planted = fault == Fault::None || (barrier < placed.size() && plant(k, placed[barrier], fault));
  });
  if (!planted) return std::nullopt;
  return !p.how_caught(simt).empty();
}

/// One program a CTA; kernels have no tensor maps: the arguments are given as they are.
constexpr test::MakeProgram kPrograms[] = {test::reversed,
                                           test::shifted,
                                           test::by_pointer,
                                           test::transposed,
                                           test::recurrence_shifted,
                                           test::nested_loops,
                                           test::stored_before_a_loop,
                                           test::read_in_a_branch,
                                           test::stored_in_a_branch,
                                           test::scalar_out_and_in,
                                           test::row_sums_out_and_in,
                                           test::scatter_and_box,
                                           test::box_and_scatter,
                                           test::histogram,
                                           test::old_values,
                                           test::lock,
                                           test::ticket_and_flag};

TEST(MemoryOrderBugs, CorrectKernelsAreNotReported) {
  for (const test::MakeProgram make : kPrograms) {
    const test::PlantedProgram p(make);
    EXPECT_EQ(shows(p, 0, Fault::None), std::optional(false)) << p.name();
  }
}

void expect_found(Fault fault, int at_least) {
  int planted = 0;
  for (const test::MakeProgram make : kPrograms) {
    const test::PlantedProgram p(make);
    for (std::size_t barrier = 0; barrier < 4; ++barrier) {
      const auto shown = shows(p, barrier, fault);
      if (!shown) continue;
      ++planted;
      EXPECT_TRUE(*shown) << p.name() << ", barrier " << barrier;
    }
  }
  EXPECT_GE(planted, at_least);
}

TEST(MemoryOrderBugs, ABarrierLeftOut) { expect_found(Fault::LeftOut, 16); }
TEST(MemoryOrderBugs, ABarrierAfterTheAccess) { expect_found(Fault::Late, 14); }
TEST(MemoryOrderBugs, ABarrierBeforeTheLoop) { expect_found(Fault::InFrontOfTheLoop, 2); }

}  // namespace
}  // namespace tegula::memory_order_bugs_test
