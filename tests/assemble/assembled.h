#pragma once
// Assembles kernels that the library made, and reads ptxas's report.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ir/analysis/channel_trace.h"
#include "ir/pipeline.h"
#include "ir/text.h"
#include "runtime/doctor.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/kernels/matmul.h"
#include "tegula/tegula.h"
#include "tests/compiled.h"

namespace tegula::test {
using namespace kernels;

/// The tile forms of kernels that a call traces on the host.
inline std::vector<ir::Kernel> all_traced(const std::vector<std::string>& names,
                                          const std::function<void()>& call) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tegula-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no folder like " + pattern);
  const std::filesystem::path folder = pattern;
  Env dumping = env();
  dumping.dump = "trace:" + pattern;
  {
    const EnvOverride scope(dumping);
    call();
  }
  std::vector<ir::Kernel> kernels;
  for (const std::string& name : names)
    kernels.push_back(ir::parse(read_file(folder / name / "01-trace.tir"), name));
  std::filesystem::remove_all(folder);
  return kernels;
}
inline ir::Kernel traced(const std::string& name, const std::function<void()>& call) {
  return std::move(all_traced({name}, call).front());
}

/// Whether the next kernel is assembled: each third one of a program, or with
/// TEGULA_TEST_ASSEMBLE=all each. Three and the two back ends have no common divisor, so that both
/// have their turn.
inline bool samples_next() {
  static int asked = 0;
  return asked++ % 3 == 0 || env().assemble == "all";
}

/// Takes a kernel through all passes, and, where it is sampled, through emitter and assembler.
/// Returns the plan. `plan_changes`: the fields that the kernel requests by `with_plan`.
inline ir::Plan expect_clean(const ir::Kernel& tile, const std::string& target, bool is_wgmma,
                             runtime::Backend backend = runtime::Backend::Llvm,
                             const std::string& plan_changes = {}) {
  SCOPED_TRACE(target);
  runtime::CompileRequest request;
  request.target = ir::Target::find(target).value();
  request.backend = backend;
  request.planned = ir::parse_plan_request(plan_changes);
  const bool is_assembled = samples_next();
  const runtime::Compilation k = is_assembled ? assembled(tile, request) : optimized(tile, request);
  EXPECT_EQ(k.plan.wgmma, is_wgmma) << k.plan.str();
  if (!is_assembled) return k.plan;
  EXPECT_EQ(k.report.spill_stores + k.report.spill_loads, 0);
  EXPECT_EQ(k.report.stack, 0);
  EXPECT_TRUE(k.report.warnings.empty()) << testing::PrintToString(k.report.warnings);
  return k.plan;
}

inline Tensor host(std::initializer_list<std::int64_t> shape) {
  return Tensor::zeros(Dims(shape), DType::bf16, Device::cpu());
}

/// Products that the checker of rings follows with extents of `steps` steps.
inline std::size_t products_followed(const ir::Kernel& tile, std::int64_t steps) {
  ir::Kernel k = ir::clone(tile);
  k.info.target = ir::Target("sm_90a");
  ir::PassContext context;
  for (const ir::Pass& pass : ir::ir_passes()) {
    if (pass.name == "check_channels") break;
    pass.run(k, context);
    k.info.form = pass.leaves;
  }
  const auto events = ir::channel_trace(k, ir::ChannelRole::Consumer, {steps * 128, steps});
  return static_cast<std::size_t>(
      std::ranges::count(events, ir::ChannelEvent::Kind::Mma, &ir::ChannelEvent::kind));
}

/// A matmul to be assembled.
struct Case {
  DType operands, result;
  MatmulConfig config;
  MatmulOptions options = {};
};

inline std::vector<runtime::Backend> here() {
  std::vector<runtime::Backend> backends{runtime::Backend::Llvm};
  if (runtime::diagnose().finding("NVRTC").present) backends.push_back(runtime::Backend::Nvrtc);
  return backends;
}

class Assembled : public testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::find_ptxas()) GTEST_SKIP() << "no ptxas here";
  }
};

}  // namespace tegula::test
