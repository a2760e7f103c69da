#include "tools/report_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace tegula::tools {
namespace {

using nlohmann::json;

ReportedShape& shape_named(ReportedRun& run, const std::string& name) {
  const auto at = std::ranges::find(run.shapes, name, &ReportedShape::shape);
  if (at != run.shapes.end()) return *at;
  run.shapes.emplace_back().shape = name;
  return run.shapes.back();
}

void add_candidate(ReportedRun& run, const json& e) {
  ReportedShape& shape = shape_named(run, e.at("shape").get<std::string>());
  ReportedCandidate c;
  e.at("config").get_to(c.config);
  e.at("us").get_to(c.us);
  e.at("ratio").get_to(c.ratio);
  e.at("seconds").get_to(c.seconds);
  c.estimate_us = e.value("estimate_us", 0.0);
  c.registers = e.value("registers", 0);
  c.threads = e.value("threads", 0);
  c.shared_bytes = e.value("shared_bytes", 0L);
  // A setting is timed in several rounds; the last one is the most precise.
  const auto at = std::ranges::find(shape.candidates, c.config, &ReportedCandidate::config);
  if (at == shape.candidates.end())
    shape.candidates.push_back(std::move(c));
  else
    *at = std::move(c);
}

void add_shape(ReportedRun& run, const json& e) {
  ReportedShape& shape = shape_named(run, e.at("shape").get<std::string>());
  e.at("verdict").get_to(shape.verdict);
  shape.why = e.value("why", std::string());
  shape.config = e.value("config", std::string());
  shape.us = e.value("us", 0.0);
  shape.ratio = e.value("ratio", 1.0);
  shape.ratio_high = e.value("ratio_high", 1.0);
  shape.default_us = shape.ratio > 0 ? shape.us / shape.ratio : 0;
  shape.bytes = e.value("bytes", 0.0);
  shape.flops = e.value("flops", 0.0);
  shape.rejected = e.value("rejected", std::vector<std::string>());
}

void add_device(ReportedRun& run, const json& e) {
  ReportedDevice& d = run.device;
  d.name = e.value("name", std::string());
  d.registers_per_sm = e.value("registers_per_sm", 0);
  d.shared_per_sm = e.value("shared_per_sm", 0L);
  d.bytes_per_s = e.value("bytes_per_s", 0.0);
  d.flops_per_s = e.value("flops_per_s", 0.0);
}

}  // namespace

std::map<std::string, std::string> ReportedCandidate::values() const {
  std::map<std::string, std::string> out;
  std::istringstream words(config);
  for (std::string word; words >> word;)
    if (const std::size_t at = word.find('='); at != word.npos)
      out[word.substr(0, at)] = word.substr(at + 1);
  return out;
}

ReportedRun read_run(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(fmt::format("{} cannot be read", file.string()));
  ReportedRun run;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    try {
      const json e = json::parse(line);
      const auto event = e.at("event").get<std::string>();
      if (event == "candidate") add_candidate(run, e);
      if (event == "shape") add_shape(run, e);
      if (event == "device") add_device(run, e);
    } catch (const json::exception& e) {
      throw std::runtime_error(fmt::format("{}:{}: not an event of `tegula tune --json`: {}",
                                           file.string(), number, e.what()));
    }
  }
  return run;
}

Occupancy occupancy_of(const ReportedCandidate& c, const ReportedDevice& device) {
  if (c.threads == 0) return {};
  constexpr int kGranularity = 8;  // register allocation granularity per thread
  const int registers = (c.registers + kGranularity - 1) / kGranularity * kGranularity;
  Occupancy least{device.threads_per_sm / c.threads, "threads"};
  const auto limit = [&](long ctas, const char* limiter) {
    if (ctas < least.ctas) least = {static_cast<int>(ctas), limiter};
  };
  if (registers > 0 && device.registers_per_sm > 0)
    limit(device.registers_per_sm / (registers * c.threads), "registers");
  if (c.shared_bytes > 0 && device.shared_per_sm > 0)
    limit(device.shared_per_sm / (c.shared_bytes + 1024),
          "shared memory");  // the driver reserves 1 KiB
  return least;
}

}  // namespace tegula::tools
