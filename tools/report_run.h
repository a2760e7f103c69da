#pragma once
// The events of `tegula tune --json` as `tegula report` draws them.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tegula::tools {

/// A setting that was timed.
struct ReportedCandidate {
  std::string config;  ///< "BM=64 BN=128"
  double us = 0, ratio = 1, seconds = 0;
  double estimate_us = 0;  ///< the model's; 0 where there is none
  int registers = 0, threads = 0;
  long shared_bytes = 0;

  /// "64" or "cluster", by name.
  std::map<std::string, std::string> values() const;
};

struct ReportedShape {
  std::string shape, verdict, config, why;
  double us = 0, ratio = 1, ratio_high = 1, default_us = 0;
  double bytes = 0, flops = 0;  ///< of a call; 0 where unknown
  std::vector<ReportedCandidate> candidates;
  std::vector<std::string> rejected;
};

/// Limits of the GPU that the run was on, for occupancy and roofline; 0 where unknown.
struct ReportedDevice {
  std::string name;
  int registers_per_sm = 0, threads_per_sm = 2048;
  long shared_per_sm = 0;
  double bytes_per_s = 0, flops_per_s = 0;
};

struct ReportedRun {
  ReportedDevice device;
  std::vector<ReportedShape> shapes;
};

/// Throws std::runtime_error with file and line for what is no event.
ReportedRun read_run(const std::filesystem::path& file);

/// The resource that lets no further CTA onto an SM: registers, shared memory or threads.
struct Occupancy {
  int ctas = 0;
  const char* limiter = "unknown";
};
Occupancy occupancy_of(const ReportedCandidate& c, const ReportedDevice& device);

}  // namespace tegula::tools
