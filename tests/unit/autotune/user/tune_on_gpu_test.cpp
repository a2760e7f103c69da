// Kernel::tune() on a mock driver: launches take simulated time, which events report.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

#include "runtime/doctor.h"
#include "support/env.h"
#include "tegula/report.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::tune_on_gpu_test {
namespace {

namespace cu = runtime::cu;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr Device kGpu = Device::cuda(0);

/// A launch takes a microsecond for each CTA, and more as the device heats up: with a heating of
/// 5e-4 each launch takes 0.1 % longer than the one before, over 2000 of them, then less again.
struct SimulatedClock {
  double now_ms = 0, heating = 0;
  int launches = 0;
  std::map<void*, double> events;
};
SimulatedClock& simulated() {
  static SimulatedClock clock;
  return clock;
}

void install_clock(runtime::Driver& d) {
  d.event_create = [](cu::Event* event, unsigned) {
    static std::uintptr_t next = 0x8000;
    *event = reinterpret_cast<cu::Event>(++next);
    return cu::kSuccess;
  };
  d.event_destroy = [](cu::Event event) {
    simulated().events.erase(event);
    return cu::kSuccess;
  };
  d.event_record = [](cu::Event event, cu::Stream) {
    simulated().events[event] = simulated().now_ms;
    return cu::kSuccess;
  };
  d.event_synchronize = [](cu::Event) { return cu::kSuccess; };
  d.event_elapsed = [](float* ms, cu::Event begin, cu::Event end) {
    *ms = static_cast<float>(simulated().events.at(end) - simulated().events.at(begin));
    return cu::kSuccess;
  };
  d.launch_kernel = [](const cu::LaunchConfig* config, cu::Function, void**, void**) {
    SimulatedClock& c = simulated();
    const double heat = std::abs(std::fmod(++c.launches * c.heating, 2) - 1);
    c.now_ms += config->grid_x * config->grid_y * 1e-3 * std::exp(2 * heat);
    return cu::kSuccess;
  };
}

class TuneOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::diagnose().finding("LLVM").present) GTEST_SKIP() << "no LLVM here";
    simulated() = {};
    install_clock(driver_.table);
    driver_.table.missing.push_back({"cuMemHostAlloc", "pinned host memory", 2020});
    driver_.table.set_bytes = [](cu::DevicePtr p, unsigned char byte, std::size_t n, cu::Stream) {
      if (n < (1 << 20)) std::memset(reinterpret_cast<void*>(p), byte, n);  // not to flush the L2
      return cu::kSuccess;
    };
  }
  static Env without_store() {
    Env e = env();
    e.cache = "off";
    e.tune_worker = "off";  // a worker would find another driver
    return e;
  }

  EnvOverride override_{without_store()};
  runtime::testing::MockDriver driver_;
};

auto adding() {
  return kernel("adding", [](In<f32, 1> x, Out<f32, 1> y) {
    const int block = tune("BLOCK", {32, 256}, 32);
    for (auto i : grid(y, block)) y(i) = x(i) + 1.0f;
  });
}

TEST_F(TuneOnGpu, AFasterSettingWinsWhileTheDeviceSlowsDown) {
  for (const double heating : {0.0, 5e-4}) {
    simulated().heating = heating;
    const std::int64_t n = heating == 0 ? 4096 : 8192;
    const Tensor x = Tensor::empty({n}, DType::f32, kGpu), y = Tensor::empty({n}, DType::f32, kGpu);
    const TuneResult r = adding().tune(x, y);
    EXPECT_TRUE(r.is_replaced) << heating;
    EXPECT_FALSE(r.is_low_confidence);
    EXPECT_EQ(r.tuning.at("BLOCK"), 256);
    EXPECT_NEAR(r.ratio, 0.125, 0.01);
  }
}

TEST_F(TuneOnGpu, CodeThatPassesDegradeIsNotAssembled) {
  const Tensor x = Tensor::empty({512, 512}, DType::bf16, kGpu);
  const Tensor y = Tensor::empty({512, 512}, DType::bf16, kGpu);
  const auto k = kernel("tuned_tiles", [](In<bf16, 2> a, In<bf16, 2> b, Out<bf16, 2> c) {
    const int bn = tune("BN", {128, 256}), bm = tune("BM", {128, 256});
    for (auto [m, n] : grid(c, bm, bn)) {
      auto acc = zeros<f32>(bm, bn);
      for (auto i : steps(a.cols(), 64)) acc = dot(a(m, i), b(i, n), acc);
      c(m, n) = acc;
    }
  });
  const TuneResult r = k.tune(x, x, y);
  EXPECT_TRUE(r.is_replaced);
  EXPECT_THAT(r.rejected, Contains(HasSubstr("BM=256 BN=256: T1505 a dot runs as mma.sync")));
  int compiled = 0;
  std::istringstream report(compile_report());
  for (std::string line; std::getline(report, line);)
    compiled += line.find("tuned_tiles") != line.npos;
  EXPECT_EQ(compiled, 3);
}

}  // namespace
}  // namespace tegula::tune_on_gpu_test
