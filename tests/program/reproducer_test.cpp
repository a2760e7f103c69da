// The reproducer of a failing pass, replayed by the program, fails in the same way, whatever
// decided the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "ir/text.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::runtime::reproducer_test {
namespace {

using testing::HasSubstr;

constexpr const char* kFault = "pass check_channels: internal error: deadlock: no op completes";

/// All passes, and tiles assigned twice: ping-pong warpgroups then wait for ever. Other plans than
/// such survive it.
std::vector<ir::Pass> dealing_twice() {
  std::vector<ir::Pass> passes = optimize_passes();
  const auto make_persistent = std::ranges::find(passes, "make_persistent", &ir::Pass::name);
  const ir::Pass again = *make_persistent;
  passes.insert(make_persistent, again);
  return passes;
}

/// As EnvOverride needs it.
Env env_with(std::string plan) {
  Env changed = env();
  changed.plan = std::move(plan);
  return changed;
}

ir::Kernel product() {
  const std::string file = std::string(TEGULA_SOURCE_DIR) + "/tests/unit/dsl/golden/matmul.tir";
  return ir::parse(read_file(file), file);
}

struct Outcome {
  std::string message, reproducer;
  ir::Plan plan;
};

/// Compiles the matmul.
Outcome outcome(const CompileRequest& request, const std::vector<ir::Pass>& passes) {
  Compilation k;
  k.tile = product();
  k.target = ir::Target("sm_90a");
  k.planned = planned_by(request);
  try {
    optimize_by(k, request, request.plan, passes);
  } catch (const InternalError& e) {
    return {e.message(), e.reproducer(), {}};
  }
  return {"", "", k.plan};
}

/// The text that the command prints, on both outputs. `tegula` is the program of this build.
std::string output_of(const std::string& command) {
  const std::string folder = std::filesystem::path(TEGULA_PROGRAM).parent_path().string();
  const std::string line = "{ PATH='" + folder + "':\"$PATH\"; " + command + "; } 2>&1";
  std::FILE* pipe = ::popen(line.c_str(), "r");
  std::string out;
  std::array<char, 4096> part;
  while (const std::size_t n = std::fread(part.data(), 1, part.size(), pipe))
    out.append(part.data(), n);
  ::pclose(pipe);
  return out;
}

std::string file_of(const std::string& reproducer) {
  return reproducer.substr(reproducer.rfind(' ') + 1);
}

/// The passes fail; the command fails alike, and so does its own output: the kernel before the pass
/// that failed, and on its first line how to run that one.
void expect_replayed(const Outcome& failed) {
  EXPECT_THAT(failed.message, HasSubstr(kFault));
  const std::string replayed = output_of(failed.reproducer);
  EXPECT_THAT(replayed, HasSubstr(failed.message)) << failed.reproducer;
  constexpr std::string_view kReproduce = "reproduce: ";
  const std::size_t at = replayed.find(kReproduce);
  ASSERT_NE(at, replayed.npos) << replayed;
  const std::string before_pass = file_of(failed.reproducer);
  write_file(before_pass, replayed.substr(at + kReproduce.size()));
  EXPECT_THAT(read_file(before_pass),
              testing::StartsWith("; tegula opt --plan=\"plan { num_warps=4"));
  EXPECT_THAT(output_of("tegula opt " + before_pass), HasSubstr(failed.message));
  std::filesystem::remove(before_pass);
}

TEST(Reproducer, ThePlanThatIsChosenSurvives) {
  EXPECT_EQ(outcome({}, dealing_twice()).message, "");
}

TEST(Reproducer, FieldsFromTheKernel) {
  CompileRequest request;
  request.planned = ir::parse_plan_request("pingpong=1");
  expect_replayed(outcome(request, dealing_twice()));
}

TEST(Reproducer, FieldsFromTheEnvironment) {
  std::optional<EnvOverride> scope(std::in_place, env_with("pingpong=1"));
  const Outcome failed = outcome({}, dealing_twice());
  scope.reset();
  expect_replayed(failed);
}

TEST(Reproducer, AWholePlan) {
  CompileRequest asked;
  asked.planned = ir::parse_plan_request("pingpong=1");
  CompileRequest request;
  request.plan = outcome(asked, optimize_passes()).plan;
  ASSERT_TRUE(request.plan->pingpong);
  expect_replayed(outcome(request, dealing_twice()));
}

/// The pass `plan` itself is run again with the fields it was to heed.
TEST(Reproducer, HeaderWithFields) {
  const std::string file =
      (std::filesystem::temp_directory_path() / "tegula-header-of-fields.tir").string();
  write_file(file, "; TEGULA_PLAN=\"stages=2, num_warps=4\" tegula opt --passes=plan THIS_FILE\n" +
                       ir::print(product()));
  EXPECT_THAT(output_of("tegula opt --remarks --target sm_90a " + file),
              HasSubstr("plan { num_warps=4 min_ctas_per_sm=1 stages=2 "));
  std::filesystem::remove(file);
}

/// A trace as TEGULA_DUMP writes it leads to the passes' result as TEGULA_DUMP writes it.
TEST(Reproducer, ADumpedTraceIsOne) {
  const auto folder = std::filesystem::temp_directory_path() / "tegula-replayed-dump";
  Env dumping = env();
  dumping.dump = "all:" + folder.string();
  const EnvOverride scope(dumping);
  CompileRequest request;
  request.device = Device::sim();
  request.target = ir::Target("sm_90a");
  request.planned = ir::parse_plan_request("stages=3 producer_warps=0 persistent=0");
  request.trace = [] { return product(); };
  compile(request);
  const std::string of_passes = read_file(folder / "matmul" / "02-optimize.tir");
  EXPECT_THAT(of_passes, HasSubstr("wgmma"));
  EXPECT_EQ(output_of("tegula opt --locations " + (folder / "matmul" / "01-trace.tir").string()),
            of_passes);
  // Nothing is emitted for sim, and so there are no empty files.
  EXPECT_FALSE(std::filesystem::exists(folder / "matmul" / "04.ptx"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tegula::runtime::reproducer_test
