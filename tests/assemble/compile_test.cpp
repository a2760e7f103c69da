// Kernel::compile(): machine code for a target that need not be present.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "dsl/instance.h"
#include "runtime/assemble.h"
#include "runtime/jit_verbs.h"
#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::compile_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Env without_cache() {
  Env settings = env();
  settings.cache = "off";
  return settings;
}

auto scale() {
  return kernel("scale", [](In<f32, 2> x, Out<f32, 2> y, Scalar<f32> factor) {
    for (auto [r, c] : grid(y, 16, 32)) y(r, c) = x(r, c) * factor;
  });
}

TEST(Compile, GivesPtxOfShapesAlone) {
  const Artefact a = scale().compile("sm_90a", spec<f32>(1024, 512), spec<f32>(1024, 512), 2.0f);
  EXPECT_EQ(a.name(), "scale");
  EXPECT_EQ(a.target(), "sm_90a");
  EXPECT_THAT(a.ptx(), HasSubstr(".target sm_90a"));
  EXPECT_THAT(a.ptx(), HasSubstr(".entry scale"));
  EXPECT_THAT(a.warnings(), IsEmpty());
  EXPECT_THAT(a.explain(), HasSubstr("plan {"));
}

TEST(Compile, TakesTensorsOfAnyDevice) {
  const Tensor host = Tensor::zeros({1024, 512}, DType::f32, Device::cpu());
  const auto k = scale();
  const std::string of_specs =
      k.compile("sm_80", spec<f32>(1024, 512), spec<f32>(1024, 512), 2.0f).ptx();
  EXPECT_EQ(k.compile("sm_80", host, host.clone(), 2.0f).ptx(), of_specs);
  EXPECT_THAT(of_specs, HasSubstr(".target sm_80"));
}

/// Another class of arguments is other code: rows that no vector of four elements divides.
TEST(Compile, StridesAndExtentsCount) {
  const auto k = scale();
  const std::string aligned = k.compile("sm_90a", spec<f32>(64, 64), spec<f32>(64, 64), 2.0f).ptx();
  const TensorSpec odd({64, 64}, DType::f32, {65, 1});
  EXPECT_THAT(aligned, HasSubstr(".v4"));
  EXPECT_THAT(k.compile("sm_90a", odd, odd, 2.0f).ptx(), Not(HasSubstr(".v4")));
}

TEST(Compile, LeavesOutOptionalArguments) {
  const auto k = kernel("maybe", [](In<f32, 1> x, std::optional<In<f32, 1>> bias, Out<f32, 1> y) {
    for (auto i : grid(y, 128)) y(i) = bias ? x(i) + (*bias)(i) : Tile(x(i));
  });
  const TensorSpec x = spec<f32>(4096);
  EXPECT_NE(k.compile("sm_90a", x, x, x).ptx(), k.compile("sm_90a", x, Tensor(), x).ptx());
}

TEST(Compile, CubinsAreElfFilesOfTheAssembler) {
  if (!runtime::find_ptxas()) GTEST_SKIP() << "no ptxas here";
  const Artefact a = scale().compile("sm_90a", spec<f32>(64, 64), spec<f32>(64, 64), 2.0f);
  ASSERT_TRUE(a.has_cubin());
  ASSERT_GT(a.cubin().size(), 64u);
  EXPECT_EQ(std::memcmp(a.cubin().data(), "\177ELF", 4), 0);
  EXPECT_THAT(a.explain(), HasSubstr("registers "));
}

/// As compile() leaves it on a machine without ptxas, where the verb `assemble` does nothing.
TEST(Compile, WithoutAnAssemblerThereIsPtx) {
  runtime::CompileRequest request;
  request.device = Device::cuda();
  request.target = ir::Target("sm_90a");
  request.backend = runtime::Backend::Llvm;
  request.trace = [] {
    const Trace t = scale().trace(spec<f32>(64, 64).described(), spec<f32>(64, 64).described(), 2);
    return ir::clone(t.kernel());
  };
  runtime::Compilation c;
  runtime::key(c, request);
  runtime::trace(c, request);
  runtime::optimize(c, request);
  runtime::emit(c, request);
  const Artefact a(runtime::finish(std::move(c)), {});
  EXPECT_FALSE(a.has_cubin());
  EXPECT_THAT(a.ptx(), HasSubstr(".entry scale"));
  try {
    a.cubin();
    FAIL() << "nothing was thrown";
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.diagnostic().message, runtime::missing_ptxas_text());
  }
}

TEST(Compile, NamesTheDimensionsThatDiffer) {
  const auto k = scale().named("x[M, N]", "y[M, N]", "factor");
  try {
    k.compile("sm_90a", spec<f32>(64, 64), spec<f32>(64, 128), 2.0f);
    FAIL() << "nothing was thrown";
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("T0709")) << e.what();
  }
}

/// Nothing requests a driver, and GPUs that come later share the code.
TEST(Compile, GpusOfOneTargetShareIt) {
  const EnvOverride scope(without_cache());
  const auto k = kernel("shared_by_gpus", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 128)) y(i) = x(i) * 3.0f;
  });
  const Artefact a = k.compile("sm_90a", spec<f32>(4096), spec<f32>(4096));
  const runtime::testing::MockDriver driver;
  runtime::testing::mock().devices = 2;
  runtime::testing::mock().argument_count = 0;
  std::vector<std::shared_ptr<const runtime::CompiledKernel>> kernels;
  for (const int gpu : {0, 1}) {
    const auto tensor = [&](std::uintptr_t at) {
      return Tensor::borrow(reinterpret_cast<void*>(at << 40), {4096}, DType::f32,
                            Device::cuda(gpu));
    };
    k(tensor(1), tensor(2));
    kernels.push_back(k.instance().launcher.latest());
  }
  EXPECT_EQ(kernels[0], kernels[1]);
  EXPECT_EQ(kernels[0]->dump("ptx"), a.ptx());
  EXPECT_THAT(k.explain(), HasSubstr("reused: first call"));
  EXPECT_THAT(k.explain(), HasSubstr("reused: another device"));
  EXPECT_THAT(k.explain(), Not(HasSubstr("compiled: ")));
  EXPECT_EQ(runtime::testing::mock().launches.size(), 2u);
}

}  // namespace
}  // namespace tegula::compile_test
