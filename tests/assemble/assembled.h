#pragma once
// Kernels of the library, traced on the host and assembled without a GPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "ir/text.h"
#include "runtime/doctor.h"
#include "runtime/jit_steps.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/kernels/matmul.h"
#include "tegula/tegula.h"

namespace tegula::test {

/// The tile form that a call traces on the host.
inline ir::Kernel traced(const std::string& name, const std::function<void()>& call) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tegula-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("no folder like " + pattern);
  const std::filesystem::path folder = pattern;
  Env dumping = env();
  dumping.dump = "trace:" + pattern;
  {
    const EnvOverride scope(dumping);
    call();
  }
  ir::Kernel kernel = ir::parse(read_file(folder / name / "01-trace.tir"), name);
  std::filesystem::remove_all(folder);
  return kernel;
}

/// Gives the plan.
inline ir::Plan expect_clean(const ir::Kernel& tile, const std::string& target, bool is_wgmma,
                             runtime::Backend backend = runtime::Backend::Llvm) {
  SCOPED_TRACE(target);
  runtime::CompileRequest request;
  request.target = target;
  request.backend = backend;
  runtime::CompiledKernel k;
  runtime::key(k, request);
  k.tile = ir::clone(tile);
  runtime::optimize(k, request);
  EXPECT_EQ(k.plan.wgmma, is_wgmma) << k.plan.str();
  runtime::emit(k, request);
  runtime::assemble(k, request);
  EXPECT_EQ(k.report.spill_stores + k.report.spill_loads, 0);
  EXPECT_EQ(k.report.stack, 0);
  EXPECT_TRUE(k.report.warnings.empty()) << testing::PrintToString(k.report.warnings);
  return k.plan;
}

inline Tensor host(std::initializer_list<std::int64_t> shape) {
  return Tensor::zeros(Dims(shape), DType::bf16, Device::cpu());
}

/// A product to be assembled.
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
