// Times of calls: by events on a GPU, by the CPU time of the process on the host.
#include <algorithm>
#include <ctime>
#include <utility>

#include "autotune/user/launch_measure.h"
#include "runtime/context.h"
#include "runtime/driver_api.h"

namespace tegula::autotune {
namespace {

using runtime::check;
using runtime::driver;

/// The simulator and the interpreter finish before a call returns. Unlike wall time, their CPU time
/// does not depend on other load of the host.
class HostTimer : public CallTimer {
 public:
  void add(int calls, const std::function<void(int)>& call) override {
    const double begin = cpu_ns();
    for (int i = 0; i < calls; ++i) call(i);
    times_.push_back((cpu_ns() - begin) / calls);
  }
  std::vector<double> finish() override { return std::exchange(times_, {}); }

 private:
  static double cpu_ns() { return 1e9 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

  std::vector<double> times_;
};

class Event {
 public:
  Event() { check(driver().event_create(&event_, 0), "cuEventCreate"); }
  ~Event() {
    if (event_ != nullptr) driver().event_destroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  void record(void* stream) {
    check(driver().event_record(event_, static_cast<runtime::cu::Stream>(stream)), "cuEventRecord");
  }
  double ns_since(const Event& begin) const {
    check(driver().event_synchronize(event_), "cuEventSynchronize");
    float ms = 0;
    check(driver().event_elapsed(&ms, begin.event_, event_), "cuEventElapsedTime");
    return static_cast<double>(ms) * 1e6;
  }

 private:
  runtime::cu::Event event_ = nullptr;
};

/// Before each sample, a buffer of several times the L2 size is overwritten. This evicts all lines
/// from the L2 and gives the host time to queue the sample, so that the device does not wait for
/// launches.
class GpuTimer : public CallTimer {
 public:
  explicit GpuTimer(const Stream& stream)
      : stream_(stream),
        flushed_(Tensor::empty({flush_bytes(stream.device())}, DType::u8, stream.device())) {}

  void add(int calls, const std::function<void(int)>& call) override {
    const runtime::ContextScope scope(stream_.device().index);
    fill_bytes(flushed_, static_cast<unsigned char>(samples_.size() % 256), stream_);
    samples_.push_back({Event(), Event(), calls});
    Sample& sample = samples_.back();
    sample.begin.record(stream_.handle());
    for (int i = 0; i < calls; ++i) call(i);
    sample.end.record(stream_.handle());
  }

  std::vector<double> finish() override {
    const runtime::ContextScope scope(stream_.device().index);
    std::vector<double> times;
    for (const Sample& s : samples_) times.push_back(s.end.ns_since(s.begin) / s.calls);
    samples_.clear();
    return times;
  }

 private:
  struct Sample {
    Event begin, end;
    int calls;
  };
  static std::int64_t flush_bytes(Device device) {
    constexpr std::int64_t kTimesL2 = 4;
    const auto l2 = static_cast<std::int64_t>(runtime::device_properties(device.index).l2_bytes);
    return std::max(kTimesL2 * l2, std::int64_t{64} << 20);
  }

  Stream stream_;
  Tensor flushed_;
  std::vector<Sample> samples_;
};

}  // namespace

std::unique_ptr<CallTimer> make_timer(const Stream& stream) {
  if (stream.device().kind == DeviceKind::cuda) return std::make_unique<GpuTimer>(stream);
  return std::make_unique<HostTimer>();
}

}  // namespace tegula::autotune
