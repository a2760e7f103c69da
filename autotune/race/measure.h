#pragma once
// Interface between a race and the code that runs the candidates: on a GPU, in a worker process, or
// with the simulated times of a test.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tegula::autotune {

enum class Verdict : std::uint8_t {
  ok,
  refused,  ///< does not compile, or cannot be launched on the device
  wrong,    ///< results differ from those of the reference
  fault,    ///< terminated the context or the process that ran it
  timeout,
};
const char* name(Verdict verdict);

/// A compiled candidate.
struct Prepared {
  Verdict verdict = Verdict::ok;
  std::string why;   ///< reason if the verdict is not ok
  std::string code;  ///< hash of the machine code
  std::int64_t shared_bytes = 0;
  int registers = 0;
  /// Code has spills, waits inserted by the assembler or slow instructions. Raced only if all do.
  bool is_degraded = false;
  int threads = 0;  ///< per CTA
};

struct CheckResult {
  Verdict verdict = Verdict::ok;
  std::string why;
};

/// Samples of one candidate in a round. ratios[i] is relative to the reference in the same
/// repetition. Empty if the candidate failed.
struct Samples {
  Verdict verdict = Verdict::ok;
  double ns = 0;  ///< median
  std::vector<double> ratios;
};

struct Round {
  std::vector<Samples> of;  ///< in the order of the requested candidates
  /// Relative change of the reference's time within the round: an upper bound on the error of the
  /// ratios, whichever half of the repetitions they come from.
  double drift = 0;
  double clock_mhz = 0, watts = 0;
};

/// Runs candidates, which are numbers. 0 is the reference, which also runs in each repetition.
class Measure {
 public:
  virtual ~Measure() = default;
  /// Compiles candidates. Large batches compile in parallel.
  virtual std::vector<Prepared> prepare(std::span<const int> candidates) = 0;
  /// Runs a prepared candidate once, and checks that it writes only to its own memory, so that it
  /// may run together with others.
  virtual CheckResult try_once(int candidate) = 0;
  /// Runs a candidate and compares its results with those of the reference.
  virtual CheckResult check(int candidate) = 0;
  /// Runs each candidate and the reference `repetitions` times, interleaved, in an order shuffled
  /// by `seed`.
  virtual Round round(std::span<const int> candidates, int repetitions, std::uint64_t seed) = 0;
  /// Releases a candidate that the race no longer needs.
  virtual void forget(int candidate) { (void)candidate; }
  /// Returns the nanoseconds of a call of the reference; 0 before the first round.
  virtual double reference_ns() const { return 0; }
};

}  // namespace tegula::autotune
