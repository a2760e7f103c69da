#include "autotune/user/in_process_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "autotune/race/statistics.h"
#include "runtime/context.h"
#include "support/warnings.h"

namespace tegula::autotune {
namespace {

constexpr double kMinSampleNs = 20'000;  // shorter ones are dominated by the events' resolution
constexpr int kMaxCallsOfSample = 64;
constexpr int kMaxCopies = 16;
constexpr std::chrono::milliseconds kMinWarmUp{150}, kMaxWarmUp{400};

}  // namespace

InProcessMeasure::InProcessMeasure(CallCandidates& candidates, std::span<const dsl::HostArg> args,
                                   Device device, Options options)
    : candidates_(candidates), args_(args), stream_(device), options_(std::move(options)) {}

InProcessMeasure::~InProcessMeasure() = default;

Prepared InProcessMeasure::prepare_one(int candidate) {
  try {
    const WarningsMuted muted;  // a loser's are nobody's concern
    return candidates_.compile(candidate, stream_);
  } catch (const Error& e) {
    if (candidate == 0) throw;  // the caller's own kernel
    Prepared refused;
    refused.verdict = Verdict::refused;
    refused.why = e.what();
    return refused;
  }
}

std::vector<Prepared> InProcessMeasure::prepare(std::span<const int> candidates) {
  std::vector<Prepared> out(candidates.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < candidates.size(); i = next++)
      out[i] = prepare_one(candidates[i]);
  };
  const std::size_t threads =
      std::min<std::size_t>(candidates.size(), std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  others.clear();
  prepared_ += static_cast<int>(candidates.size());
  if (options_.progress) options_.progress(fmt::format("compiled {} settings", prepared_));
  return out;
}

void InProcessMeasure::run(int candidate, int copy) const {
  candidates_.run(candidate, stream_,
                  copies_[static_cast<std::size_t>(copy) % copies_.size()]->args());
}

/// More than twice the L2 in all, so that no call finds its inputs there, and no more than a
/// quarter of the memory that is free.
void InProcessMeasure::make_copies() {
  const std::int64_t bytes = std::max<std::int64_t>(1, bytes_of(args_));
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
  for (int i = 0; i < count; ++i)
    copies_.push_back(std::make_unique<ArgumentCopy>(args_, candidates_.access(), stream_));
}

CheckResult InProcessMeasure::try_once(int candidate) {
  const ArgumentCopy& copy = *copies_.front();  // the reference was checked before
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

CheckResult InProcessMeasure::check(int candidate) {
  if (copies_.empty()) make_copies();
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
  const Difference again = compare(found_[1], found_[0], args_, candidates_.access());
  if (candidate == 0) {
    wanted_ = std::exchange(found_[0], {});
    promises_bits_ = again.is_equal && !options_.may_change_bits;
    return {};
  }
  if (!again.is_equal && promises_bits_)
    return {Verdict::wrong, "its second run differs: " + again.text};
  const Difference d = compare(found_[0], wanted_, args_, candidates_.access());
  if (!d.is_close) return {Verdict::wrong, d.text};
  if (!d.is_equal && promises_bits_)
    return {Verdict::wrong, "other bits than the defaults': " + d.text};
  return {};
}

std::vector<double> InProcessMeasure::times_of_reference(int samples) {
  const int calls = reference_ns_ == 0
                        ? 1
                        : std::clamp(static_cast<int>(std::ceil(kMinSampleNs / reference_ns_)), 1,
                                     kMaxCallsOfSample);
  for (int i = 0; i < samples; ++i) timer_->add(calls, [&](int c) { run(0, i + c); });
  return timer_->finish();
}

/// Until the reference's time moves by less than 1 % over three rounds.
void InProcessMeasure::warm_up() {
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

Round InProcessMeasure::round(std::span<const int> candidates, int repetitions,
                              std::uint64_t seed) {
  if (timer_ == nullptr) warm_up();
  const int calls =
      std::clamp(static_cast<int>(std::ceil(kMinSampleNs / reference_ns_)), 1, kMaxCallsOfSample);
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
  // The host's devices share their cores with others, and few samples say nothing: there ratios
  // alone must do.
  if (!stream_.device().on_host() && repetitions >= 15)
    out.drift = std::abs(median({reference.begin(), half}) / median({half, reference.end()}) - 1);
  if (options_.progress)
    options_.progress(fmt::format("timed {} settings {} times, defaults {:.2f} us",
                                  candidates.size(), repetitions, reference_ns_ / 1000));
  return out;
}

void InProcessMeasure::forget(int candidate) {
  if (candidate != 0) candidates_.forget(candidate);
}

}  // namespace tegula::autotune
