// A pass that fails leaves the traced kernel and the command that replays it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ir/text.h"
#include "runtime/jit_verbs.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::runtime::reproducer_test {
namespace {

TEST(Reproducer, IsTheTracedKernel) {
  // Already in SIMT form, which no pass over tiles takes.
  Compilation k;
  k.tile = ir::parse("kernel @broken simt target(sm_90a) () {\n}\n", "broken.tir");
  k.target = ir::Target("sm_90a");
  try {
    optimize(k, {});
    FAIL() << "nothing was thrown";
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("takes tile form, the kernel is in simt form"));
    EXPECT_THAT(e.reproducer(),
                ::testing::StartsWith("tegula opt --target sm_90a --backend llvm --emit optimize"));
    const std::string file = e.reproducer().substr(e.reproducer().rfind(' ') + 1);
    EXPECT_EQ(read_file(file), ir::print(k.tile));
    std::filesystem::remove(file);
  }
  CompileRequest planned;
  k.planned = planned.planned = ir::parse_plan_request("stages=2");
  try {
    optimize(k, planned);
    FAIL() << "nothing was thrown";
  } catch (const InternalError& e) {
    EXPECT_THAT(e.reproducer(), ::testing::StartsWith("TEGULA_PLAN=\"stages=2\" tegula opt "));
    std::filesystem::remove(e.reproducer().substr(e.reproducer().rfind(' ') + 1));
  }
}

}  // namespace
}  // namespace tegula::runtime::reproducer_test
