#pragma once
// The rows of the tuner's store. One visitor a row gives its columns, its checksum and its text.
#include <cstdint>
#include <string>

namespace tegula::autotune {

/// Numerics of winners: those that keep the bits of the default configuration, and all.
inline constexpr const char* kSameBits = "as the defaults";
inline constexpr const char* kAnyBits = "any";

/// The problem that a configuration is for, on one kind of GPU. All texts are canonical.
struct TuningKey {
  std::string device;  ///< device class: name, compute capability, SMs, L2, memory, clocks
  std::string family;
  std::int64_t version = 1;  ///< of the family: rises when an axis changes its meaning
  std::string problem;
  std::string numerics;  ///< hash of what decides the bits of results; empty for no promise

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
  double ratio = 1;             ///< its time over that of the reference
  double ratio_high = 1;        ///< upper end of the ratio's 95 % interval
  std::int64_t candidates = 0;  ///< configurations that were compared
  std::string tools;            ///< compiler it was made by
  std::int64_t at = 0;          ///< seconds since 1970; nothing is ordered by it

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

/// One measured machine code. Keyed by the code and not by the configuration: a compiler that makes
/// the same code of it keeps the timing.
struct Timing {
  static constexpr const char* kTable = "timing";
  static constexpr int kKeyFields = 7;

  TuningKey key;
  std::string policy;  ///< how it was measured
  std::string code;    ///< hash of the machine code
  double ns = 0;
  double ratio = 1;   ///< over the reference of the same rounds
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
  std::int64_t started = 0;  ///< the process's start, in clock ticks after the machine's
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
