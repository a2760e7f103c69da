// Mistakes that the pass memory_order could make, planted in programs of memory_programs.h: each
// barrier that it places left out, one access late, or in front of the loop it stands in. Some
// order of warps must show it, by wrong values or a finding of the simulator.
#include <gtest/gtest.h>

#include "codegen/sim/simulator.h"
#include "runtime/jit.h"
#include "tests/differential/programs_between.h"

namespace tegula {
namespace {

using namespace ir;

enum class Fault : std::uint8_t { None, LeftOut, Late, InFrontOfTheLoop };

/// The op of the region that a barrier guards, behind it.
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
    k.insert_after(access, barrier);
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

/// A program whose compilation goes wrong at one of the barriers that the pass has placed.
class Planted {
 public:
  explicit Planted(test::MakeProgram make) : make_(make), program_(make(Device::sim())) {
    compiled_ = program_.call(Stream(Device::sim()));
  }

  const std::string& name() const { return program_.name; }

  /// Nothing where the fault cannot be planted there, or there is no such barrier.
  std::optional<bool> shows(std::size_t barrier, Fault fault) {
    ir::Kernel k = clone(compiled_->tile);
    k.info.target = compiled_->artefact().target;
    PassContext context;
    context.plan = compiled_->plan;
    bool planted = false;
    std::vector<OpId> before;
    for (const Pass& pass : runtime::optimize_passes()) {
      if (pass.name == "memory_order") before = barriers_in(k);
      pass.run(k, context);
      k.info.form = pass.leaves;
      if (pass.name != "memory_order") continue;
      std::vector<OpId> placed = barriers_in(k);
      std::erase_if(placed, [&](OpId op) { return std::ranges::count(before, op) > 0; });
      if (barrier >= placed.size() && fault != Fault::None) return std::nullopt;
      planted = fault == Fault::None || plant(k, placed[barrier], fault);
    }
    if (!planted) return std::nullopt;
    for (std::uint64_t seed = 1; seed <= 12; ++seed)
      if (!is_right(k, seed)) return true;
    return false;
  }

 private:
  bool is_right(const ir::Kernel& simt, std::uint64_t seed) const {
    const test::MemoryProgram p = make_(Device::sim());
    std::vector<runtime::LaunchArg> args;
    for (std::size_t i = 0; i < p.args.size(); ++i)
      args.push_back({&p.args[i], p.is_pointer[i]
                                      ? reinterpret_cast<std::uint64_t>(p.args[i].data())
                                      : std::uint64_t{0}});
    std::vector<codegen::TensorMap> maps;
    sim::SimOptions options;
    options.seed = seed;
    for (const Tensor& t : p.args) {
      const auto r = t.byte_range();
      options.ranges.push_back(
          {reinterpret_cast<const void*>(r.begin), reinterpret_cast<const void*>(r.end)});
    }
    for (int call = 0; call < p.calls; ++call) {
      const auto report =
          sim::simulate(simt, {p.programs, 1, 1},
                        runtime::sim_args(compiled_->artefact().recipe, args, maps), options);
      if (!report.findings.empty()) return false;
    }
    return p.args[p.result].to_doubles() == p.want;
  }

  test::MakeProgram make_;
  test::MemoryProgram program_;
  std::shared_ptr<const runtime::CompiledKernel> compiled_;
};

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

TEST(MemoryOrderBugs, NothingPlantedShowsNothing) {
  for (const test::MakeProgram make : kPrograms) {
    Planted p(make);
    EXPECT_EQ(p.shows(0, Fault::None), std::optional(false)) << p.name();
  }
}

void expect_found(Fault fault, int at_least) {
  int planted = 0;
  for (const test::MakeProgram make : kPrograms) {
    Planted p(make);
    for (std::size_t barrier = 0; barrier < 4; ++barrier) {
      const auto shown = p.shows(barrier, fault);
      if (!shown) continue;
      ++planted;
      EXPECT_TRUE(*shown) << p.name() << ", barrier " << barrier;
    }
  }
  EXPECT_GE(planted, at_least);
}

TEST(MemoryOrderBugs, ABarrierLeftOut) { expect_found(Fault::LeftOut, 16); }
TEST(MemoryOrderBugs, ABarrierBehindTheAccess) { expect_found(Fault::Late, 14); }
TEST(MemoryOrderBugs, ABarrierInFrontOfTheLoop) { expect_found(Fault::InFrontOfTheLoop, 2); }

}  // namespace
}  // namespace tegula
