// Sixty mistakes that the lowering of a Schedule could make, planted in the code of the twelve
// shapes of loops: fifteen kinds, each in four places. The check of the simt form or the simulator
// must catch each, by a finding or by a wrong result.
#include <gtest/gtest.h>

#include <cstdio>

#include "codegen/check/simt_check.h"
#include "tests/compiled.h"
#include "tests/differential/lowering_mistakes.h"
#include "tests/property/loop_shapes.h"

namespace tegula::ir::schedule_bugs_test {
namespace {

using mistakes::Kind;
using mistakes::kKinds;

/// More than any ring has slots.
constexpr int kIterations = 9;
constexpr std::size_t kPlacesOfKind = 4, kMistakes = 60, kFewestCaught = 58;

/// A shape's code, and what it computes.
struct CompiledShape {
  test::LoopShape shape;
  runtime::Compilation compiled;
  std::vector<std::vector<double>> want;

  std::string how_caught(const Kernel& simt, std::uint64_t orders) const {
    if (const auto faults = codegen::find_simt_faults(simt); !faults.empty())
      return "the check: " + std::string(sim::name(faults.front().kind));
    for (std::uint64_t seed = 1; seed <= orders; ++seed)
      if (const auto how = shape.fault(compiled.tile, simt, kIterations, want, seed); !how.empty())
        return how;
    return "";
  }
};

std::vector<CompiledShape> programs() {
  std::vector<CompiledShape> all;
  for (test::LoopShape& shape : test::loop_shapes()) {
    CompiledShape& p = all.emplace_back();
    p.want = shape.wanted(kIterations);
    Kernel tile = shape.traced();
    tile.info.target = Target("sm_90a");
    runtime::CompileRequest request;
    request.device = Device::sim();
    request.target = tile.info.target;
    p.compiled = test::optimized(tile, request);
    p.shape = std::move(shape);
  }
  return all;
}

class Mistakes {
 public:
  std::size_t planted = 0, caught = 0;

  /// In the first place of each shape, from the one on that the kind's number says, then in the
  /// second places.
  void plant(const Kind& kind, const std::vector<CompiledShape>& programs, std::size_t first) {
    std::size_t places = 0;
    for (std::size_t n = 0; n < kPlacesOfKind; ++n)
      for (std::size_t i = 0; i < programs.size() && places < kPlacesOfKind; ++i)
        places += plant_one(kind, programs[(first + i) % programs.size()], n);
    EXPECT_EQ(places, kPlacesOfKind) << kind.name;
  }

 private:
  bool plant_one(const Kind& kind, const CompiledShape& p, std::size_t n) {
    Kernel k = clone(p.compiled.simt);
    if (!kind.plant(k, n)) return false;
    const std::string how = p.how_caught(k, 8);
    std::printf("%-45s %-24s %s\n", kind.name, p.shape.name.c_str(), how.c_str());
    ++planted;
    caught += !how.empty();
    return true;
  }
};

TEST(ScheduleBugs, AreCaught) {
  const std::vector<CompiledShape> all = programs();
  for (const CompiledShape& p : all)
    ASSERT_EQ(p.how_caught(p.compiled.simt, 2), "") << p.shape.name;
  Mistakes mistakes;
  std::size_t first = 0;
  for (const Kind& kind : kKinds) mistakes.plant(kind, all, first++);
  EXPECT_EQ(mistakes.planted, kMistakes);
  EXPECT_GE(mistakes.caught, kFewestCaught);
}

}  // namespace
}  // namespace tegula::ir::schedule_bugs_test
