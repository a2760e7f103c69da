#pragma once
// Rows of the tuner's store. Columns, checksum and text of a row derive from one visitor.
#include <cstdint>
#include <string>

namespace tegula::autotune {

/// Numerics of winners: those that keep the bits of the default configuration, and any.
inline constexpr const char* kSameBits = "as the defaults";
inline constexpr const char* kAnyBits = "any";

/// A problem on one class of GPU. All texts are canonical.
struct TuningKey {
  std::string device;  ///< device class: name, compute capability, SMs, L2, memory, clocks
  std::string family;
  std::int64_t version = 1;  ///< of the family; incremented when the meaning of an axis changes
  std::string problem;
  std::string numerics;  ///< kSameBits or kAnyBits; empty for rows other than configurations

  template <class Self, class Visit>
  static void each_field(Self& self, Visit&& visit) {
    visit("device", self.device);
    visit("family", self.family);
    visit("version", self.version);
    visit("problem", self.problem);
    visit("numerics", self.numerics);
  }
  friend auto operator<=>(const TuningKey&, const TuningKey&) = default;
};

/// The configuration that was measured to be the fastest.
struct Winner {
  static constexpr const char* kTable = "winner";
  static constexpr int kKeyFields = 5;

  TuningKey key;
  std::string config;
  std::string code;             ///< hash of its machine code
  double ratio = 1;             ///< time relative to that of the reference
  double ratio_high = 1;        ///< upper end of the ratio's 95 % interval
  std::int64_t candidates = 0;  ///< number of compared configurations
  std::string tools;            ///< compiler that produced it
  std::int64_t at = 0;          ///< seconds since 1970; not used for ordering

  template <class Self, class Visit>
  static void each_field(Self& self, Visit&& visit) {
    TuningKey::each_field(self.key, visit);
    visit("config", self.config);
    visit("code", self.code);
    visit("ratio", self.ratio);
    visit("ratio_high", self.ratio_high);
    visit("candidates", self.candidates);
    visit("tools", self.tools);
    visit("at", self.at);
  }
  friend bool operator==(const Winner&, const Winner&) = default;
};

/// Timing of one machine code. The key contains the code instead of the configuration, so that the
/// timing stays valid if a new compiler generates the same code.
struct Timing {
  static constexpr const char* kTable = "timing";
  static constexpr int kKeyFields = 7;

  TuningKey key;
  std::string policy;  ///< how it was measured
  std::string code;    ///< hash of the machine code
  double ns = 0;
  double ratio = 1;   ///< relative to the reference in the same rounds
  double spread = 0;  ///< standard error of the ratio
  std::int64_t samples = 0;
  double clock_mhz = 0, watts = 0;
  std::string verdict;  ///< ok, wrong, fault, timeout or low (confidence)
  std::int64_t at = 0;

  template <class Self, class Visit>
  static void each_field(Self& self, Visit&& visit) {
    TuningKey::each_field(self.key, visit);
    visit("policy", self.policy);
    visit("code", self.code);
    visit("ns", self.ns);
    visit("ratio", self.ratio);
    visit("spread", self.spread);
    visit("samples", self.samples);
    visit("clock_mhz", self.clock_mhz);
    visit("watts", self.watts);
    visit("verdict", self.verdict);
    visit("at", self.at);
  }
  friend bool operator==(const Timing&, const Timing&) = default;
};

/// A key that a process is tuning.
struct Pending {
  static constexpr const char* kTable = "pending";
  static constexpr int kKeyFields = 5;

  TuningKey key;
  std::string host;
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< start of the process, in clock ticks after boot
  std::int64_t at = 0;

  template <class Self, class Visit>
  static void each_field(Self& self, Visit&& visit) {
    TuningKey::each_field(self.key, visit);
    visit("host", self.host);
    visit("pid", self.pid);
    visit("started", self.started);
    visit("at", self.at);
  }
  friend bool operator==(const Pending&, const Pending&) = default;
};

}  // namespace tegula::autotune
