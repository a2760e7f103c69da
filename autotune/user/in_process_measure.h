#pragma once
// Measuring in this process, on the device of the arguments: a candidate that hangs or faults takes
// the process with it.
#include <memory>
#include <string>
#include <vector>

#include "autotune/race/measure.h"
#include "autotune/user/argument_copies.h"
#include "autotune/user/call_candidates.h"

namespace tegula::autotune {

/// Runs calls and tells how long each took: by events of the device, or by the host's clock.
class CallTimer {
 public:
  virtual ~CallTimer() = default;
  /// Queues a sample: `call(i)` for i = 0 .. calls - 1, with a cold L2 before the first.
  virtual void add(int calls, const std::function<void(int)>& call) = 0;
  /// Waits; nanoseconds a call of each sample since the last finish().
  virtual std::vector<double> finish() = 0;
};
std::unique_ptr<CallTimer> make_timer(const Stream& stream);

class InProcessMeasure : public Measure {
 public:
  struct Options {
    bool may_change_bits = false;
    std::function<void(const std::string&)> progress;
  };
  /// Candidates and `args` must outlive this.
  InProcessMeasure(CallCandidates& candidates, std::span<const dsl::HostArg> args, Device device,
                   Options options);
  ~InProcessMeasure() override;

  std::vector<Prepared> prepare(std::span<const int> candidates) override;
  CheckResult try_once(int candidate) override;
  CheckResult check(int candidate) override;
  Round round(std::span<const int> candidates, int repetitions, std::uint64_t seed) override;
  void forget(int candidate) override;

  /// Nanoseconds of a call of the reference; 0 before the first round.
  double reference_ns() const { return reference_ns_; }

 private:
  Prepared prepare_one(int candidate);
  void run(int candidate, int copy) const;
  void make_copies();
  void warm_up();
  std::vector<double> times_of_reference(int samples);

  CallCandidates& candidates_;
  std::span<const dsl::HostArg> args_;
  Stream stream_;
  Options options_;
  int prepared_ = 0;
  std::vector<std::unique_ptr<ArgumentCopy>> copies_;
  std::vector<Tensor> wanted_;    ///< outputs of the reference
  std::vector<Tensor> found_[2];  ///< outputs of the two runs that are checked
  std::unique_ptr<CallTimer> timer_;
  double reference_ns_ = 0;
  /// The reference gives the same bits each time, and so must the others.
  bool promises_bits_ = true;
};

}  // namespace tegula::autotune
