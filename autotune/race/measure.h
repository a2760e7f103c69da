#pragma once
// The interface between a race and whatever runs the candidates: a GPU, a worker process, the
// simulated times of a test.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tegula::autotune {

enum class Verdict : std::uint8_t {
  ok,
  refused,  ///< does not compile, or the device cannot launch it
  wrong,    ///< computes other results than the reference
  fault,    ///< ended the context or the process that ran it
  timeout,
};
const char* name(Verdict verdict);

/// A compiled candidate.
struct Prepared {
  Verdict verdict = Verdict::ok;
  std::string why;   ///< where it is not ok
  std::string code;  ///< hash of the machine code
  std::int64_t shared_bytes = 0;
  int registers = 0;
  /// Spills, waits that the assembler put in, slower instructions: raced only if all are.
  bool is_degraded = false;
  int threads = 0;  ///< of a CTA
};

struct CheckResult {
  Verdict verdict = Verdict::ok;
  std::string why;
};

/// One candidate's samples of a round; ratios[i] compares with the reference of the same
/// repetition. Empty where it failed.
struct Samples {
  Verdict verdict = Verdict::ok;
  double ns = 0;  ///< median
  std::vector<double> ratios;
};

struct Round {
  std::vector<Samples> of;  ///< as the candidates were asked for
  /// Share by which the reference's time moved within the round: candidates' ratios are off by no
  /// more, whichever half of the repetitions they come from.
  double drift = 0;
  double clock_mhz = 0, watts = 0;
};

/// Candidates are numbers; 0 is the reference, which each repetition of a round runs, too.
class Measure {
 public:
  virtual ~Measure() = default;
  /// Compiles candidates; many at one time is better.
  virtual std::vector<Prepared> prepare(std::span<const int> candidates) = 0;
  /// Runs a prepared candidate once: whether it leaves alone what is not its own, so that it may
  /// run beside others.
  virtual CheckResult try_once(int candidate) = 0;
  /// Runs it and compares its results with the reference's.
  virtual CheckResult check(int candidate) = 0;
  /// Runs each candidate and the reference `repetitions` times, interleaved, in an order that
  /// `seed` shuffles.
  virtual Round round(std::span<const int> candidates, int repetitions, std::uint64_t seed) = 0;
  /// The race is over with these.
  virtual void forget(int candidate) { (void)candidate; }
  /// Nanoseconds of a call of the reference; 0 before the first round.
  virtual double reference_ns() const { return 0; }
};

}  // namespace tegula::autotune
