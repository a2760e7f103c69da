#include "autotune/calibration/calibrate.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

#include "autotune/race/statistics.h"
#include "autotune/user/launch_measure.h"
#include "runtime/context.h"
#include "support/errors.h"
#include "support/warnings.h"
#include "tegula/tegula.h"

namespace tegula::autotune {
namespace {

constexpr std::int64_t kCopied = std::int64_t{1} << 26;  // f32: several times the size of any L2
constexpr std::int64_t kInL2 = std::int64_t{1} << 21;    // f32: fits in any L2
constexpr int kBlock = 4096, kGemmRows = 128, kGemmColumns = 256, kDepth = 64, kLaps = 1024;
constexpr std::int64_t kSpinNs = 200'000;
constexpr int kProgramsOfSm = 2;

/// Measures one GPU. The clock is read first, while the GPU is cool, and the tensor cores last,
/// because they drive it to its power limit.
class Calibration {
 public:
  explicit Calibration(Device gpu)
      : gpu_(gpu),
        stream_(Stream::create(gpu)),
        timer_(make_timer(stream_)),
        sms_(runtime::device_properties(gpu.index).sm_count) {}

  MeasuredRates run() {
    MeasuredRates r;
    r.launch_us = launch_ns() / 1000;
    r.clock_ghz = clock_ghz();
    r.copy_gbs = copy_gbs();
    r.l2_gbs = l2_gbs(r.launch_us * 1000);
    r.tensor_tflops = tensor_tflops(r.launch_us * 1000);
    for (const double rate : {r.clock_ghz, r.copy_gbs, r.l2_gbs, r.tensor_tflops, r.launch_us})
      if (!std::isfinite(rate) || rate <= 0)
        throw DeviceError(
            diagnostic(ErrorId::measuring, {}, {},
                       "a calibration measured a rate that is not positive: " + text_of_rates(r),
                       "repeat it while nothing else uses the GPU"));
    return r;
  }

 private:
  static std::string text_of_rates(const MeasuredRates& r);

  /// Returns the median of `samples` samples of `calls` calls each, in nanoseconds per call.
  template <class Call>
  double ns_of(int samples, int calls, const Call& call) {
    call();  // compiles and loads the kernel
    for (int i = 0; i < samples; ++i) timer_->add(calls, [&](int) { call(); });
    return median(timer_->finish());
  }

  double launch_ns() {
    const auto nothing = kernel("calibrate_launch", [](Out<f32, 1> y) {
      for (auto i : grid(y, 32)) y(i) = zeros<f32>(32);
    });
    const Tensor y = Tensor::empty({32}, DType::f32, gpu_);
    return ns_of(21, 1, [&] { nothing(stream_, y); });
  }

  double clock_ghz() {
    const auto spin = kernel("calibrate_clock", [](Out<u64, 2> took) {
      for (auto r : grid(rows(took), 1)) {
        const Tile cycles = sm_clock(), begin = global_timer();
        Tile now = begin;
        while_([&] { return now - begin < kSpinNs; }, [&] { now = global_timer(); });
        took(r, slice(0, 1)) = sm_clock() - cycles;
        took(r, slice(1, 1)) = now - begin;
      }
    });
    const Tensor took = Tensor::empty({1, 2}, DType::u64, gpu_);
    for (int i = 0; i < 3; ++i) spin(stream_, took);
    stream_.synchronize();
    const std::vector<double> read = took.to_doubles();
    return read[0] / read[1];
  }

  double copy_gbs() {
    const auto copy = kernel("calibrate_copy", [](In<f32, 1> x, Out<f32, 1> y) {
      for (auto i : grid(y, kBlock)) y(i) = x(i);
    });
    const Tensor x = Tensor::empty({kCopied}, DType::f32, gpu_),
                 y = Tensor::empty({kCopied}, DType::f32, gpu_);
    return 2.0 * kCopied * sizeof(float) / ns_of(11, 1, [&] { copy(stream_, x, y); });
  }

  /// Every program reads the same lines, so that each line comes from memory once.
  double l2_gbs(double launch_ns) {
    const auto read = kernel("calibrate_l2", [](In<f32, 2> x, Out<f32, 1> sums) {
      for (auto i : grid(sums, kBlock)) {
        auto sum = zeros<f32>(kBlock);
        for (auto k : steps(x.cols(), kBlock)) sum = sum + x(0, k);
        sums(i) = sum;
      }
    });
    const std::int64_t programs = kProgramsOfSm * sms_;
    const Tensor x = Tensor::empty({1, kInL2}, DType::f32, gpu_),
                 sums = Tensor::empty({programs * kBlock}, DType::f32, gpu_);
    const double ns = ns_of(11, 1, [&] { read(stream_, x, sums); });
    return static_cast<double>(programs) * kInL2 * sizeof(float) / (ns - launch_ns);
  }

  /// Multiplies tiles in shared memory repeatedly until the GPU is warm.
  double tensor_tflops(double launch_ns) {
    const int rows = kGemmRows, columns = has_wgmma(gpu_) ? kGemmColumns : kGemmColumns / 2;
    const auto multiply = kernel("calibrate_tensor", [columns](In<bf16, 2> A, In<bf16, 2> B,
                                                               Out<f32, 2> C, Scalar<i32> laps) {
      for (auto [m, n] : grid(C, rows, columns)) {
        const Tile a = A(m, slice(0, kDepth)), b = B(slice(0, kDepth), n);
        auto acc = zeros<f32>(rows, columns);
        for (auto lap : steps(laps, 1)) {
          (void)lap;
          acc = dot(a, b, acc);
        }
        C(m, n) = acc;
      }
    });
    const std::int64_t tiles = sms_;
    const Tensor A = Tensor::normal({tiles * rows, kDepth}, DType::bf16, 0, 1, 1, gpu_),
                 B = Tensor::normal({kDepth, columns}, DType::bf16, 0, 1, 2, gpu_),
                 C = Tensor::empty({tiles * rows, columns}, DType::f32, gpu_);
    const double flops = 2.0 * static_cast<double>(tiles) * rows * columns * kDepth * kLaps;
    constexpr int kSamples = 40, kCalls = 16;  // about a third of a second
    const auto call = [&] { multiply(stream_, A, B, C, kLaps); };
    call();
    for (int i = 0; i < kSamples; ++i) timer_->add(kCalls, [&](int) { call(); });
    const std::vector<double> times = timer_->finish();
    const double warm = median({times.end() - kSamples / 4, times.end()});
    return flops / (warm - launch_ns) / 1000;
  }

  Device gpu_;
  Stream stream_;
  std::unique_ptr<CallTimer> timer_;
  int sms_;
};

std::string Calibration::text_of_rates(const MeasuredRates& r) {
  std::string text;
  MeasuredRates::each_field(r, [&](const char* name, const double& rate) {
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(rate);
  });
  return text;
}

}  // namespace

MeasuredRates measure_rates(Device gpu) {
  const WarningsMuted muted;
  return Calibration(gpu).run();
}

bool needs_calibration(Device device) {
  return device.kind == DeviceKind::cuda && !find_profile(device.index).is_exact &&
         !known_rates(device);
}

void calibrate_unknown(Device device) {
  static std::mutex mutex;
  static auto* const tried = new std::set<int>;
  const std::lock_guard lock(mutex);
  if (!needs_calibration(device) || !tried->insert(device.index).second) return;
  try {
    keep_rates(device, measure_rates(device));
  } catch (const Error&) {
    // Choices then use the nearest row, as `tegula doctor` reports.
  }
}

}  // namespace tegula::autotune
