#pragma once
// Events of `tegula tune --json`, as drawn by `tegula report`.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tegula::tools {

/// A setting that was timed.
struct ReportedCandidate {
  std::string config;  ///< "BM=64 BN=128"
  double us = 0, ratio = 1, seconds = 0;
  double estimate_us = 0;  ///< by the model; 0 without a model
  int registers = 0, threads = 0;
  long shared_bytes = 0;

  /// Returns the values by name, such as "64" or "cluster".
  std::map<std::string, std::string> values() const;
};

struct ReportedShape {
  std::string shape, verdict, config, why;
  double us = 0, ratio = 1, ratio_high = 1, default_us = 0;
  double bytes = 0, flops = 0;  ///< per call; 0 if unknown
  std::vector<ReportedCandidate> candidates;
  std::vector<std::string> rejected;
};

/// Limits of the GPU of the run, for occupancy and roofline; 0 if unknown.
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

/// Reads a run. Throws std::runtime_error with file and line for an invalid event.
ReportedRun read_run(const std::filesystem::path& file);

/// Resident CTAs per SM, and the limiting resource: registers, shared memory or threads.
struct Occupancy {
  int ctas = 0;
  const char* limiter = "unknown";
};
Occupancy occupancy_of(const ReportedCandidate& c, const ReportedDevice& device);

}  // namespace tegula::tools
