// Faults that the simulator finds in the hand-written texts, on the GPU: each is no false alarm,
// because results are wrong there or the launch fails. Those that could leave a CTA waiting for
// ever are left to the simulator.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tegula/error.h"
#include "tegula/stream.h"
#include "tests/gpu/by_back_end.h"
#include "tests/gpu/simt_launch.h"
#include "tests/replaced.h"

namespace tegula::test::planted_faults_test {
namespace {

struct Fault {
  const char* name;
  std::string from, to;
};

class PlantedFaults : public OnHopper {};
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

bool is_same(const Words& a, const Words& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(bf16)) == 0;
}

const std::vector<Fault> kFaults{
    {"reads operands before they are there", "mbar_wait %full_s, %phase", "pin"},
    {"stages over what a store still reads",
     "if %lead { tma_wait [count = 1, read = 1] } { }\n      bar_sync %bar_id [count = 128]\n      "
     "stmatrix %st_addr0, %regs2",
     "stmatrix %st_addr0, %regs2"},
};

constexpr int kWrong = 3;
constexpr const char* kText = "gemm.tir";

/// In a process of its own, since a launch that fails ends its context: leaves with kWrong where a
/// launch fails or a result is wrong.
[[noreturn]] void show(const Fault& f, bool nvrtc) {
  const ir::Kernel k = read_kernel(kText),
                   faulty = ir::parse(replaced(read_text(kText), f.from, f.to), kText);
  const Built b = build(k, nvrtc), with_fault = build(faulty, nvrtc);
  const Words right = gemm(b, k);
  if (!is_same(right, gemm(b, k))) std::_Exit(1);
  try {
    for (int launch = 0; launch < 50; ++launch)
      if (!is_same(gemm(with_fault, faulty), right)) std::_Exit(kWrong);
  } catch (const DeviceError&) {
    std::_Exit(kWrong);
  }
  std::_Exit(0);
}

TEST_P(PlantedFaults, AreSeen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const Fault& f : kFaults) {
    SCOPED_TRACE(f.name);
    EXPECT_EXIT(show(f, GetParam()), testing::ExitedWithCode(kWrong), "");
  }
}

}  // namespace
}  // namespace tegula::test::planted_faults_test
