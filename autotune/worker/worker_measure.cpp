// The tuner's side. State that a candidate needs is sent again to a process that replaces a lost
// one.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "autotune/worker/isolated_measure.h"
#include "autotune/worker/messages.h"
#include "autotune/worker/worker_process.h"
#include "support/errors.h"

namespace tegula::autotune {
namespace {

using std::chrono::steady_clock;

constexpr double kSlowest = 20;  // multiple of the reference's time that a candidate may take
constexpr std::chrono::duration<double, std::milli> kSampleOverhead{0.5};  // added to each sample
constexpr int kWarmUpSamples = 200;

DeviceError lost_error(const std::string& what) {
  return DeviceError(diagnostic(ErrorId::measuring, {}, {}, what,
                                "TEGULA_TUNE_WORKER=off measures in this process"));
}

class WorkerMeasure : public LaunchMeasure {
 public:
  WorkerMeasure(const MeasuredTensors& tensors, Device device, WorkerOptions options)
      : tensors_(tensors), stream_(device), options_(std::move(options)) {
    start();
  }

  void load(int candidate, LoadedCandidate of) override;
  CheckResult try_once(int candidate) override { return run(candidate, "try"); }
  CheckResult check(int candidate) override { return run(candidate, "check"); }
  Round round(std::span<const int> candidates, int repetitions, std::uint64_t seed) override;
  void forget(int candidate) override;
  double reference_ns() const override { return reference_ns_; }

 private:
  void start();
  void bring_up();
  void make_ready(int candidate);
  void lose();
  CheckResult run(int candidate, const char* op);
  Round round_of_all(std::span<const int> candidates, int repetitions, std::uint64_t seed);
  WorkerMessage ask(const WorkerMessage& request, Deadline deadline);
  Deadline after(double seconds) const;
  Deadline first() const { return steady_clock::now() + options_.first_patience; }

  const MeasuredTensors& tensors_;
  Stream stream_;
  WorkerOptions options_;
  std::map<int, LoadedCandidate> candidates_;
  std::unique_ptr<WorkerProcess> process_;
  // State that has been sent to the process.
  bool has_started_ = false;
  std::size_t tensors_sent_ = 0;
  std::set<int> loaded_;
  bool is_reference_checked_ = false;

  bool was_checked_ = false;  ///< the reference was checked in some process
  int losses_ = 0;
  double reference_ns_ = 0, reference_seconds_ = 0;
};

Deadline WorkerMeasure::after(double seconds) const {
  return steady_clock::now() + options_.patience +
         std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
}

/// Starts a process without waiting, so that it creates its context while candidates are compiled.
void WorkerMeasure::start() {
  process_ = std::make_unique<WorkerProcess>(options_.program);
  WorkerMessage request;
  request.fields = {{"op", "start"},
                    {"device", stream_.device().str()},
                    {"may_change_bits", options_.may_change_bits}};
  try {
    process_->send(request, first());
  } catch (const WorkerLost&) {
    // bring_up() waits for the first answer, which reports why a process ended at once.
  }
}

void WorkerMeasure::lose() {
  process_ = nullptr;
  has_started_ = is_reference_checked_ = false;
  tensors_sent_ = 0;
  loaded_.clear();
}

WorkerMessage WorkerMeasure::ask(const WorkerMessage& request, Deadline deadline) {
  process_->send(request, deadline);
  return process_->receive(deadline);
}

/// Ensures that a process has all tensors and, if it was checked before, the reference. Throws
/// DeviceError if no process can be started, which is not the fault of a candidate.
void WorkerMeasure::bring_up() {
  try {
    if (process_ == nullptr) start();
    if (!std::exchange(has_started_, true)) process_->receive(first());
    for (; tensors_sent_ < tensors_.size(); ++tensors_sent_)
      ask(tensor_request(tensors_[tensors_sent_], stream_), first());
    if (!was_checked_ || is_reference_checked_) return;
    ask(load_request(0, candidates_.at(0)), first());
    loaded_.insert(0);
    WorkerMessage check;
    check.fields = {{"op", "check"}, {"candidate", 0}};
    ask(check, first());
    is_reference_checked_ = true;
  } catch (const WorkerLost& lost) {
    lose();
    throw lost_error("the worker process ended: " + lost.why);
  }
}

void WorkerMeasure::make_ready(int candidate) {
  bring_up();
  if (loaded_.contains(candidate)) return;
  ask(load_request(candidate, candidates_.at(candidate)), first());
  loaded_.insert(candidate);
}

void WorkerMeasure::load(int candidate, LoadedCandidate of) {
  candidates_[candidate] = std::move(of);
  loaded_.erase(candidate);
  try {
    make_ready(candidate);
  } catch (const WorkerLost& lost) {
    lose();
    ++losses_;
    throw lost_error("loading it ends the worker process: " + lost.why);
  }
}

CheckResult WorkerMeasure::run(int candidate, const char* op) {
  if (losses_ >= options_.max_losses && candidate != 0)
    return {Verdict::refused,
            fmt::format("not tried: {} candidates have ended the worker process", losses_)};
  try {
    make_ready(candidate);
    WorkerMessage request;
    request.fields = {{"op", op}, {"candidate", candidate}};
    const auto begin = steady_clock::now();
    const WorkerMessage answer =
        ask(request, candidate == 0 ? first() : after(kSlowest * reference_seconds_));
    if (candidate == 0) {
      was_checked_ = is_reference_checked_ = true;
      reference_seconds_ = std::chrono::duration<double>(steady_clock::now() - begin).count();
    }
    const CheckResult result = check_result_of(answer.fields);
    // A fault on a GPU destroys its context, so that the process is unusable.
    if (result.verdict == Verdict::fault && !stream_.device().on_host()) {
      lose();
      ++losses_;
    }
    return result;
  } catch (const WorkerLost& lost) {
    lose();
    ++losses_;
    if (candidate == 0) throw lost_error("the default values end the worker process: " + lost.why);
    return {lost.timed_out ? Verdict::timeout : Verdict::fault, lost.why};
  }
}

Round WorkerMeasure::round_of_all(std::span<const int> ids, int repetitions, std::uint64_t seed) {
  bring_up();
  for (const int id : ids) make_ready(id);
  WorkerMessage request;
  request.fields = {{"op", "round"},
                    {"candidates", std::vector<int>(ids.begin(), ids.end())},
                    {"repetitions", repetitions},
                    {"seed", seed}};
  const double of_one = kSampleOverhead.count() / 1000 +
                        (reference_ns_ > 0 ? reference_ns_ * 1e-9 : reference_seconds_);
  const auto samples = static_cast<double>(ids.size() + 1) * repetitions;
  const WorkerMessage answer = ask(request, after(kSlowest * of_one * (samples + kWarmUpSamples)));
  Round round = round_of(answer.fields);
  if (round.of.size() != ids.size()) throw WorkerLost{"an answer about other candidates"};
  answer.fields.at("reference_ns").get_to(reference_ns_);
  return round;
}

/// If the process is lost in a round of several candidates, each is timed in a separate round to
/// find the faulty one.
Round WorkerMeasure::round(std::span<const int> ids, int repetitions, std::uint64_t seed) {
  Verdict verdict = Verdict::fault;
  try {
    return round_of_all(ids, repetitions, seed);
  } catch (const WorkerLost& lost) {
    lose();
    if (lost.timed_out) verdict = Verdict::timeout;
    if (ids.empty()) throw lost_error("the default values end the worker process: " + lost.why);
  } catch (const DeviceError&) {
    // A driver error. After a fault, the context is lost.
    if (process_ == nullptr || ids.empty()) throw;
    lose();
  }
  Round out;
  if (ids.size() == 1) {
    round({}, repetitions, seed);  // throws if the reference is at fault
    out.of.resize(1);
    out.of.front().verdict = verdict;
    ++losses_;
    return out;
  }
  for (const int id : ids) {
    Round one = round(std::span(&id, 1), repetitions, seed);
    out.of.push_back(std::move(one.of.front()));
    out.drift = std::max(out.drift, one.drift);
  }
  return out;
}

void WorkerMeasure::forget(int candidate) {
  candidates_.erase(candidate);
  if (process_ == nullptr || loaded_.erase(candidate) == 0) return;
  WorkerMessage request;
  request.fields = {{"op", "forget"}, {"candidate", candidate}};
  try {
    ask(request, after(0));
  } catch (const WorkerLost&) {
    lose();
  }
}

}  // namespace

std::unique_ptr<LaunchMeasure> measure_in_worker(const MeasuredTensors& tensors, Device device,
                                                 WorkerOptions options) {
  return std::make_unique<WorkerMeasure>(tensors, device, std::move(options));
}

}  // namespace tegula::autotune
