// Calibration of a GPU without a row, on a mock driver: kernels take the time that such a GPU would
// need, and choices use the measured rates.
#include <gmock/gmock.h>

#include <cstring>
#include <map>

#include "autotune/calibration/calibrate.h"
#include "autotune/profiles/profile_finding.h"
#include "autotune/profiles/rows.h"
#include "runtime/doctor.h"
#include "tegula/matmul_config.h"
#include "tests/unit/autotune/own_store.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::autotune::calibration_test {
namespace {

namespace cu = runtime::cu;
using runtime::testing::mock;
using ::testing::HasSubstr;

constexpr Device kGpu = Device::cuda(0);
constexpr MeasuredRates kSeen{
    .clock_ghz = 1.5, .copy_gbs = 2000, .l2_gbs = 3000, .tensor_tflops = 400, .launch_us = 4};

/// Nanoseconds of each kernel on a GPU of 132 SMs with the rates kSeen.
double ns_of(const std::string& name) {
  const double launch = kSeen.launch_us * 1000;
  if (name.starts_with("calibrate_copy")) return 8.0 * (1 << 26) / kSeen.copy_gbs;
  if (name.starts_with("calibrate_l2")) return launch + 264.0 * (8 << 20) / kSeen.l2_gbs;
  if (name.starts_with("calibrate_tensor"))
    return launch + 2.0 * 132 * 128 * 256 * 64 * 1024 / kSeen.tensor_tflops / 1000;
  return launch;
}

struct SimulatedGpu {
  std::vector<std::string> kernels;
  std::map<void*, double> events;
  double now_ns = 0;
  bool fails = false;
};
SimulatedGpu& gpu() {
  static SimulatedGpu state;
  return state;
}

/// The cycles and nanoseconds that the clock kernel writes to its two words.
void write_clock() {
  for (const auto& [address, bytes] : mock().live_memory)
    if (bytes == 2 * sizeof(std::uint64_t)) {
      auto* const took = reinterpret_cast<std::uint64_t*>(address);
      took[0] = static_cast<std::uint64_t>(200'000 * kSeen.clock_ghz), took[1] = 200'000;
    }
}

void install_gpu(runtime::Driver& d) {
  d.event_create = [](cu::Event* event, unsigned) {
    static std::uintptr_t next = 0x8000;
    *event = reinterpret_cast<cu::Event>(++next);
    return cu::kSuccess;
  };
  d.event_destroy = [](cu::Event) { return cu::kSuccess; };
  d.event_record = [](cu::Event event, cu::Stream) {
    gpu().events[event] = gpu().now_ns;
    return cu::kSuccess;
  };
  d.event_synchronize = [](cu::Event) { return cu::kSuccess; };
  d.event_elapsed = [](float* ms, cu::Event begin, cu::Event end) {
    *ms = static_cast<float>((gpu().events.at(end) - gpu().events.at(begin)) * 1e-6);
    return cu::kSuccess;
  };
  d.set_bytes = [](cu::DevicePtr, unsigned char, std::size_t, cu::Stream) { return cu::kSuccess; };
  d.library_kernel = [](cu::Kernel* kernel, cu::Library, const char* name) {
    gpu().kernels.emplace_back(name);
    *kernel = reinterpret_cast<cu::Kernel>(gpu().kernels.size());
    return cu::kSuccess;
  };
  d.kernel_function = [](cu::Function* function, cu::Kernel kernel) {
    *function = reinterpret_cast<cu::Function>(kernel);
    return cu::kSuccess;
  };
  d.launch_kernel = [](const cu::LaunchConfig*, cu::Function function, void**, void**) {
    if (gpu().fails) return static_cast<cu::Result>(700);
    const std::string& name = gpu().kernels.at(reinterpret_cast<std::uintptr_t>(function) - 1);
    gpu().now_ns += ns_of(name);
    if (name.starts_with("calibrate_clock")) write_clock();
    return cu::kSuccess;
  };
}

class CalibrationTest : public tegula::test::OwnStore {
 protected:
  CalibrationTest() {
    gpu() = {};
    mock().sms = 132;
    install_gpu(driver_.table);
  }
  runtime::testing::MockDriver driver_;
};

void expect_seen(const MeasuredRates& r) {
  EXPECT_NEAR(r.clock_ghz, kSeen.clock_ghz, 1e-3);
  EXPECT_NEAR(r.copy_gbs, kSeen.copy_gbs, 1);
  EXPECT_NEAR(r.l2_gbs, kSeen.l2_gbs, 1);
  EXPECT_NEAR(r.tensor_tflops, kSeen.tensor_tflops, 1);
  EXPECT_NEAR(r.launch_us, kSeen.launch_us, 1e-2);
}

TEST_F(CalibrationTest, MeasuresOnceForLaterProcesses) {
  if (!runtime::diagnose().finding("LLVM").present) GTEST_SKIP() << "nothing compiles";
  in_process([&] {
    EXPECT_TRUE(needs_calibration(kGpu));
    EXPECT_THAT(examine_profiles(runtime::diagnose().gpus).detail, HasSubstr("nearest only"));
    calibrate_unknown(kGpu);
    EXPECT_FALSE(needs_calibration(kGpu));
    expect_seen(known_rates(kGpu).value());
    const double took = gpu().now_ns;
    EXPECT_LT(took, 1e9) << "about a second";
    calibrate_unknown(kGpu);
    EXPECT_EQ(gpu().now_ns, took) << "it is known";
    return true;
  });
  in_process([&] {
    EXPECT_EQ(gpu().now_ns, 0) << "another process";
    expect_seen(known_rates(kGpu).value());
    const runtime::DoctorCheck found = examine_profiles(runtime::diagnose().gpus);
    EXPECT_TRUE(found.present);
    EXPECT_THAT(found.detail, HasSubstr("cuda:0 calibrated from H200 SXM: copy 2000 GB/s"));
    const DeviceProfile own = device_profile(kGpu);
    EXPECT_FALSE(own.is_fitted);
    EXPECT_EQ(own.cost, scaled(kH200, kMeasuredOnH200, *known_rates(kGpu), 132).cost);
    return true;
  });
}

TEST_F(CalibrationTest, AFailureLeavesTheNearestRowAndIsNotRepeated) {
  if (!runtime::diagnose().finding("LLVM").present) GTEST_SKIP() << "nothing compiles";
  in_process([&] {
    gpu().fails = true;
    calibrate_unknown(kGpu);
    EXPECT_TRUE(needs_calibration(kGpu));
    gpu().fails = false;
    calibrate_unknown(kGpu);
    EXPECT_EQ(gpu().now_ns, 0);
    EXPECT_EQ(device_profile(kGpu).cost, find_profile(0).profile->cost);
    return true;
  });
}

TEST(ScaledProfile, ScalesEachRateByTheMeasuredRatio) {
  const MeasuredRates here{2, 4000, 6000, 800, 2}, half{2, 2000, 3000, 400, 4};
  const DeviceProfile& row = kH200;
  const DeviceProfile slow = scaled(row, here, half, row.num_sms);
  EXPECT_EQ(slow.cost.hbm_bytes, row.cost.hbm_bytes / 2);
  EXPECT_EQ(slow.cost.l2_lines, row.cost.l2_lines / 2);
  EXPECT_EQ(slow.cost.wgmma_share, row.cost.wgmma_share / 2);
  EXPECT_EQ(slow.cost.launch, row.cost.launch * 2);
  EXPECT_EQ(slow.clock_ghz, row.clock_ghz);
  EXPECT_EQ(slow.attention.memory_bytes_per_us, row.attention.memory_bytes_per_us / 2);
  EXPECT_FALSE(slow.is_fitted);
  EXPECT_EQ(scaled(row, here, here, row.num_sms).cost, row.cost);

  // Half the SMs with half the total rates: each SM is as fast.
  const DeviceProfile fewer = scaled(row, here, half, row.num_sms / 2);
  EXPECT_EQ(fewer.cost.l2_lines, row.cost.l2_lines);
  EXPECT_EQ(fewer.cost.wgmma_share, row.cost.wgmma_share);
  EXPECT_EQ(fewer.num_sms, row.num_sms / 2);

  // Half the clock at the same rates: twice as much per cycle.
  MeasuredRates slow_clock = here;
  slow_clock.clock_ghz = 1;
  const DeviceProfile s = scaled(row, here, slow_clock, row.num_sms);
  EXPECT_EQ(s.cost.hbm_bytes, row.cost.hbm_bytes * 2);
  EXPECT_EQ(s.cost.launch, row.cost.launch / 2);
  EXPECT_EQ(s.clock_ghz, row.clock_ghz / 2);
}

/// Choices follow the rates: with slow tensor cores and fast memory, k need not be split.
TEST(ScaledProfile, DecidesConfigurations) {
  const MeasuredRates here{2, 4000, 6000, 800, 2};
  MeasuredRates other = here;
  other.launch_us = 200;  // a second kernel takes as long as the whole product
  const MatmulProblem p{.m = 64, .n = 1024, .k = 16384, .b_k_major = true};
  const DeviceProfile slow = scaled(kH200, here, other, kH200.num_sms);
  EXPECT_GT(slow.cost.launch, 50 * kH200.cost.launch);
  EXPECT_NE(choose_matmul(p, slow).split, SplitK::partials);
}

TEST(MeasuredRatesOfAKnownModel, AreNotUsed) {
  EXPECT_FALSE(needs_calibration(Device::sim()));
  EXPECT_FALSE(needs_calibration(Device::cpu()));
}

}  // namespace
}  // namespace tegula::autotune::calibration_test
