// Kernel::tune() on a GPU that keeps books: a launch takes the less time, the more shared memory it
// has, and events tell that time.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/doctor.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::tuned_calls_test {
namespace {

namespace mocked = runtime::testing;
namespace cu = runtime::cu;

struct Clock {
  double ms = 0;
  std::vector<unsigned> shared_bytes;  ///< of every launch
};
Clock& clock_of_gpu() {
  static Clock one;
  return one;
}

/// Events hold the time at which they were recorded.
void install_clock(runtime::Driver& d) {
  d.event_create = [](cu::Event* event, unsigned) {
    *event = reinterpret_cast<cu::Event>(new double(0));
    return cu::kSuccess;
  };
  d.event_destroy = [](cu::Event event) {
    delete reinterpret_cast<double*>(event);
    return cu::kSuccess;
  };
  d.event_record = [](cu::Event event, cu::Stream) {
    *reinterpret_cast<double*>(event) = clock_of_gpu().ms;
    return cu::kSuccess;
  };
  d.event_synchronize = [](cu::Event) { return cu::kSuccess; };
  d.event_elapsed = [](float* ms, cu::Event begin, cu::Event end) {
    *ms = static_cast<float>(*reinterpret_cast<double*>(end) - *reinterpret_cast<double*>(begin));
    return cu::kSuccess;
  };
  d.launch_kernel = [](const cu::LaunchConfig* config, cu::Function, void**, void**) {
    clock_of_gpu().shared_bytes.push_back(config->shared_bytes);
    clock_of_gpu().ms += 1000.0 / (config->shared_bytes + 1000);
    return cu::kSuccess;
  };
  // Candidates are loaded by many threads, and the L2 is overwritten before each sample.
  d.kernel_set_attribute = [](cu::FunctionAttribute, int, cu::Kernel, cu::Device) {
    return cu::kSuccess;
  };
  d.set_bytes = [](cu::DevicePtr p, unsigned char byte, std::size_t n, cu::Stream) {
    std::memset(reinterpret_cast<void*>(p), byte, std::min(n, std::size_t{1} << 20));
    return cu::kSuccess;
  };
  d.host_alloc = [](void** out, std::size_t bytes, unsigned) {
    *out = std::malloc(bytes);
    return cu::kSuccess;
  };
  d.host_free = [](void* memory) {
    std::free(memory);
    return cu::kSuccess;
  };
  d.max_active_clusters = [](int* clusters, cu::Function, const cu::LaunchConfig*) {
    *clusters = 16;
    return cu::kSuccess;
  };
}

TEST(TunedCalls, TheFastestSettingIsFoundAndUsed) {
  if (!runtime::diagnose().finding("LLVM").present) GTEST_SKIP() << "no LLVM here";
  mocked::MockDriver driver;
  install_clock(driver.table);
  mocked::mock().sms = 132;
  const auto k = kernel("eight_lines", [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    const int BM = tune("BM", {64, 128}), BN = tune("BN", {64, 128}), BK = 64;
    for (auto [m, n] : grid(C, BM, BN, group_m(8))) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
  const Device gpu = Device::cuda(0);
  const Tensor A = Tensor::normal({256, 256}, DType::bf16, 0, 1, 1, gpu),
               B = Tensor::normal({256, 256}, DType::bf16, 0, 1, 2, gpu),
               C = Tensor::zeros({256, 256}, DType::bf16, gpu);
  const TuneResult r = k.tune(A, B, C);
  EXPECT_EQ(C.to_doubles(), std::vector<double>(256 * 256, 0))
      << "the user's tensor is not written";
  EXPECT_GE(r.candidates, 1);
  EXPECT_GT(r.us, 0);
  const std::vector<unsigned> tried = clock_of_gpu().shared_bytes;
  EXPECT_GT(tried.size(), 100u);
  k(A, B, C);
  EXPECT_EQ(clock_of_gpu().shared_bytes.back(), std::ranges::max(tried)) << str(r.tuning);
  EXPECT_EQ(r.ratio < 0.99, r.is_replaced);
}

}  // namespace
}  // namespace tegula::tuned_calls_test
