// Faults that the simulator finds in the hand-written texts, on the GPU: each is no false alarm,
// because results are wrong there or the launch fails. Those that could leave a CTA waiting for
// ever are left to the simulator.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tegula/error.h"
#include "tegula/stream.h"
#include "tests/gpu/simt_launch.h"
#include "tests/replaced.h"

namespace tegula::test {
namespace {

struct Fault {
  const char* name;
  const char* text;
  std::string from, to;
};

class PlantedFaults : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
    if (runtime::device_properties(0).compute() != 90) GTEST_SKIP() << "not an sm_90 GPU";
  }
};
INSTANTIATE_TEST_SUITE_P(BackEnds, PlantedFaults, testing::Bool(),
                         [](const auto& i) { return std::string(i.param ? "nvrtc" : "llvm"); });

using Words = std::vector<bf16>;

/// Two waves of tiles, so that slots, staging buffers and phases are used again.
Words gemm(const Built& b, const ir::Kernel& k) {
  constexpr int M = 2048, N = 4096, K = 1024;
  const Tensor a = Tensor::integers({M, K}, DType::bf16, -4, 4, 1, Device::cuda()),
               w = Tensor::integers({N, K}, DType::bf16, -4, 4, 2, Device::cuda()),
               d = Tensor::full({M, N}, 0, DType::bf16, Device::cuda());
  Args()
      .map(a, {64, 128})
      .map(w, {64, 256})
      .map(d, {64, 64})
      .add(K / 64)
      .add(M / 128)
      .add(N / 256)
      .add(8)
      .launch(b, k, {132, 1, 1});
  Stream(Device::cuda()).synchronize();
  return d.to_vector<bf16>();
}

Words attention(const Built& b, const ir::Kernel& k) {
  constexpr int BH = 16, S = 1024, D = 128;
  const auto integers = [&](int bound, int seed) {
    return Tensor::integers({BH, S, D}, DType::bf16, -bound, bound, seed, Device::cuda());
  };
  const Tensor q = integers(2, 1), keys = integers(2, 2), v = integers(8, 3),
               o = Tensor::full({BH, S, D}, 0, DType::bf16, Device::cuda()),
               lse = Tensor::full({BH, S}, 0, DType::f32, Device::cuda());
  Args()
      .map(q, {64, 128, 1})
      .map(keys, {64, 128, 1})
      .map(v, {64, 128, 1})
      .map(o, {64, 64, 1})
      .add(lse.data())
      .add(S)
      .add(S / 128)
      .add(0.25f)
      .launch(b, k, {S / 128, BH, 1});
  Stream(Device::cuda()).synchronize();
  return o.to_vector<bf16>();
}

bool is_same(const Words& a, const Words& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(bf16)) == 0;
}

const std::vector<Fault> kFaults{
    {"reads operands before they are there", "gemm.tir", "mbar_wait %full_s, %phase", "pin"},
    {"stores before all warps have staged", "gemm.tir",
     "fence_proxy_async\n      bar_sync %bar_id [count = 128]", "fence_proxy_async"},
    {"stages over what a store still reads", "gemm.tir",
     "if %lead { tma_wait [count = 1, read = 1] } { }\n      bar_sync %bar_id [count = 128]\n      "
     "stmatrix %st_addr0, %regs2",
     "stmatrix %st_addr0, %regs2"},
    {"reads values before they are there", "attention.tir", "mbar_wait %vfull, %vphase", "pin"},
    {"stores before all warps have staged", "attention.tir", "bar_sync %epi_bar [count = 128]",
     "pin"},
};

constexpr int kWrong = 3;

/// In a process of its own, since a launch that fails ends its context: leaves with kWrong where a
/// launch fails or a result is wrong.
[[noreturn]] void show(const Fault& f, bool nvrtc) {
  const auto run = f.text == std::string("gemm.tir") ? gemm : attention;
  const ir::Kernel k = read_kernel(f.text),
                   faulty = ir::parse(replaced(read_text(f.text), f.from, f.to), f.text);
  const Built b = build(k, nvrtc), with_fault = build(faulty, nvrtc);
  const Words right = run(b, k);
  if (!is_same(right, run(b, k))) std::_Exit(1);
  try {
    for (int launch = 0; launch < 50; ++launch)
      if (!is_same(run(with_fault, faulty), right)) std::_Exit(kWrong);
  } catch (const DeviceError&) {
    std::_Exit(kWrong);
  }
  std::_Exit(0);
}

TEST_P(PlantedFaults, AreSeen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Fault& f : kFaults) {
    SCOPED_TRACE(testing::Message() << f.text << ": " << f.name);
    EXPECT_EXIT(show(f, GetParam()), testing::ExitedWithCode(kWrong), "");
  }
}

}  // namespace
}  // namespace tegula::test
