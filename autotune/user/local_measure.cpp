// Measurements in this process.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "autotune/race/statistics.h"
#include "autotune/user/launch_measure.h"
#include "runtime/context.h"
#include "tegula/error.h"

namespace tegula::autotune {
namespace {

constexpr double kMinSampleNs = 20'000;  // the resolution of events dominates shorter samples
constexpr int kMaxCallsOfSample = 64;
constexpr int kMaxCopies = 16;
constexpr std::chrono::milliseconds kMinWarmUp{150}, kMaxWarmUp{400};

class LocalMeasure : public LaunchMeasure {
 public:
  LocalMeasure(const MeasuredTensors& tensors, Device device, LaunchOptions options)
      : tensors_(tensors), stream_(device), options_(options) {}

  void load(int candidate, LoadedCandidate of) override;
  CheckResult try_once(int candidate) override;
  CheckResult check(int candidate) override;
  Round round(std::span<const int> candidates, int repetitions, std::uint64_t seed) override;
  void forget(int candidate) override { loaded_.erase(candidate); }
  double reference_ns() const override { return reference_ns_; }

 private:
  struct Candidate {
    LoadedCandidate of;
    std::vector<Tensor> made;
    std::vector<std::vector<BoundArgs>> on_copy;  ///< arguments of the launches, by copy
  };
  void run(int candidate, int copy) const;
  void make_copies();
  void bind(Candidate& c) const;
  void warm_up();
  std::vector<double> times_of_reference(int samples);

  const MeasuredTensors& tensors_;
  Stream stream_;
  LaunchOptions options_;
  std::map<int, Candidate> loaded_;
  std::vector<std::unique_ptr<ArgumentCopy>> copies_;
  std::vector<Tensor> wanted_;    ///< outputs of the reference
  std::vector<Tensor> found_[2];  ///< outputs of the two checked runs
  std::unique_ptr<CallTimer> timer_;
  double reference_ns_ = 0;
  /// True while the reference gives the same bits each time; then candidates must, too.
  bool promises_bits_ = true;
};

void LocalMeasure::bind(Candidate& c) const {
  for (const std::int64_t bytes : c.of.made) {
    c.made.push_back(Tensor::empty({bytes}, DType::u8, stream_.device()));
    fill_bytes(c.made.back(), 0, stream_);
  }
  for (const auto& copy : copies_) {
    std::vector<BoundArgs>& bound = c.on_copy.emplace_back();
    for (const MeasuredLaunch& l : c.of.launches) bound.push_back(copy->bind(l.args, c.made));
  }
}

void LocalMeasure::load(int candidate, LoadedCandidate of) {
  for (const MeasuredLaunch& l : of.launches) l.kernel->prepare(stream_);
  if (copies_.empty()) make_copies();
  for (const auto& copy : copies_) copy->add(tensors_, stream_);
  Candidate& c = loaded_[candidate] = {std::move(of), {}, {}};
  bind(c);
}

void LocalMeasure::run(int candidate, int copy) const {
  const Candidate& c = loaded_.at(candidate);
  const std::size_t at = static_cast<std::size_t>(copy) % copies_.size();
  for (std::size_t i = 0; i < c.of.launches.size(); ++i)
    c.of.launches[i].kernel->launch(stream_, c.on_copy[at][i].args);
}

/// Makes enough copies to exceed twice the L2, so that no call finds its inputs there, but to use
/// at most a quarter of the free memory.
void LocalMeasure::make_copies() {
  const std::int64_t bytes = std::max<std::int64_t>(1, bytes_of(tensors_));
  int count = 1;
  if (stream_.device().kind == DeviceKind::cuda) {
    const auto l2 =
        static_cast<std::int64_t>(runtime::device_properties(stream_.device().index).l2_bytes);
    std::size_t free = 0, all = 0;
    const runtime::ContextScope scope(stream_.device().index);
    runtime::check(runtime::driver().mem_info(&free, &all), "cuMemGetInfo");
    const std::int64_t wanted = 2 * l2 / bytes + 1;
    const std::int64_t fits =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(free / 4) / bytes);
    count = static_cast<int>(std::min<std::int64_t>({wanted, fits, kMaxCopies}));
  }
  for (int i = 0; i < count; ++i) copies_.push_back(std::make_unique<ArgumentCopy>());
}

CheckResult LocalMeasure::try_once(int candidate) {
  const ArgumentCopy& copy = *copies_.front();
  try {
    copy.reset(stream_);
    run(candidate, 0);
    stream_.synchronize();
  } catch (const Error& e) {
    return {Verdict::fault, e.what()};
  }
  if (const std::string damage = copy.red_zone_damage(stream_); !damage.empty())
    return {Verdict::wrong, damage};
  return {};
}

CheckResult LocalMeasure::check(int candidate) {
  const ArgumentCopy& copy = *copies_.front();
  try {
    for (std::vector<Tensor>& o : found_) {
      copy.reset(stream_);
      run(candidate, 0);
      stream_.synchronize();
      copy.outputs(stream_, o);
    }
  } catch (const Error& e) {
    if (candidate == 0) throw;
    return {Verdict::fault, e.what()};
  }
  const Difference again = compare(found_[1], found_[0], tensors_);
  if (candidate == 0) {
    wanted_ = std::exchange(found_[0], {});
    promises_bits_ = again.is_equal && !options_.may_change_bits;
    return {};
  }
  if (!again.is_equal && promises_bits_)
    return {Verdict::wrong, "its second run differs: " + again.text};
  const Difference d = compare(found_[0], wanted_, tensors_);
  if (!d.is_close) return {Verdict::wrong, d.text};
  if (!d.is_equal && promises_bits_)
    return {Verdict::wrong, "its bits differ from the defaults': " + d.text};
  return {};
}

/// Returns the calls per sample, by the nanoseconds of the reference.
int calls_of_sample(double reference_ns) {
  if (reference_ns == 0) return 1;
  return std::clamp(static_cast<int>(std::ceil(kMinSampleNs / reference_ns)), 1, kMaxCallsOfSample);
}

std::vector<double> LocalMeasure::times_of_reference(int samples) {
  const int calls = calls_of_sample(reference_ns_);
  for (int i = 0; i < samples; ++i) timer_->add(calls, [&](int c) { run(0, i + c); });
  return timer_->finish();
}

/// Runs the reference until its time changes by less than 1 % over three rounds.
void LocalMeasure::warm_up() {
  timer_ = make_timer(stream_);
  reference_ns_ = median(times_of_reference(3));
  if (stream_.device().on_host()) return;
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::steady_clock::now() - begin; };
  for (int steady = 0; (steady < 3 || elapsed() < kMinWarmUp) && elapsed() < kMaxWarmUp;) {
    const double now = median(times_of_reference(8));
    steady = std::abs(now - reference_ns_) < 0.01 * now ? steady + 1 : 0;
    reference_ns_ = now;
  }
}

Round LocalMeasure::round(std::span<const int> candidates, int repetitions, std::uint64_t seed) {
  if (timer_ == nullptr) warm_up();
  const int calls = calls_of_sample(reference_ns_);
  std::vector<int> order(candidates.begin(), candidates.end());
  order.push_back(0);
  std::map<int, std::vector<double>> times;
  std::mt19937_64 random(seed);
  for (int r = 0; r < repetitions; ++r) {
    std::ranges::shuffle(order, random);
    for (const int id : order) timer_->add(calls, [&](int c) { run(id, r + c); });
    const std::vector<double> took = timer_->finish();
    for (std::size_t i = 0; i < order.size(); ++i) times[order[i]].push_back(took[i]);
  }
  const std::vector<double>& reference = times[0];
  reference_ns_ = median(reference);
  Round out;
  for (const int id : candidates) {
    Samples s;
    s.ns = median(times[id]);
    for (std::size_t i = 0; i < reference.size(); ++i)
      s.ratios.push_back(times[id][i] / reference[i]);
    out.of.push_back(std::move(s));
  }
  const auto half = reference.begin() + static_cast<std::ptrdiff_t>(reference.size() / 2);
  // The host's devices share their cores with other processes, and few samples are not significant:
  // only ratios are used then.
  if (!stream_.device().on_host() && repetitions >= 15)
    out.drift = std::abs(median({reference.begin(), half}) / median({half, reference.end()}) - 1);
  return out;
}

}  // namespace

std::unique_ptr<LaunchMeasure> measure_here(const MeasuredTensors& tensors, Device device,
                                            LaunchOptions options) {
  return std::make_unique<LocalMeasure>(tensors, device, options);
}

}  // namespace tegula::autotune
