// tegula audit: compares the choices of the model and the tuner with many configurations, which are
// measured independently of both.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "autotune/calls/audit.h"
#include "autotune/race/stored_race.h"
#include "dsl/export/arguments.h"
#include "tools/call_shapes.h"
#include "tools/commands.h"
#include "tools/one_of.h"
#include "tools/rank_correlation.h"

namespace tegula::tools {
namespace {

constexpr double kClose = 1.03;
constexpr std::size_t kFirst = 12;  // the model's candidates for a tuner

struct AuditArgs {
  std::vector<std::string> libraries;
  std::string shapes, device, events, budget = "quick";
  autotune::AuditOptions options;
};

/// Results of one decision.
struct Found {
  int timed = 0;
  double first_ratio = 0;  ///< best of the model's first choices relative to the best of the set
  double correlation = 0;
  double worst_tuning = 0, spread = 0;  ///< ratios to the best; spread between tunings
};

Found found_of(const autotune::Audit& a) {
  Found f;
  std::vector<double> estimates, times;
  double best = std::numeric_limits<double>::infinity(), best_first = best;
  for (std::size_t i = 0; i < a.configs.size(); ++i) {
    const autotune::AuditedConfig& c = a.configs[i];
    if (c.ratio <= 0) continue;
    estimates.push_back(c.estimate_us), times.push_back(c.ratio);
    best = std::min(best, c.ratio);
    if (i < kFirst && static_cast<int>(i) < a.inside) best_first = std::min(best_first, c.ratio);
  }
  f.timed = static_cast<int>(times.size());
  f.first_ratio = best_first / best;
  f.correlation = rank_correlation(estimates, times);
  double least = std::numeric_limits<double>::infinity();
  for (const autotune::AuditedTuning& t : a.tunings) {
    f.worst_tuning = std::max(f.worst_tuning, t.ratio);
    least = std::min(least, t.ratio);
  }
  if (!a.tunings.empty()) f.spread = f.worst_tuning / least - 1;
  return f;
}

nlohmann::json json_of(const std::string& shape, const autotune::Audit& a, const Found& f) {
  nlohmann::json configs = nlohmann::json::array(), tunings = nlohmann::json::array();
  for (const autotune::AuditedConfig& c : a.configs)
    configs.push_back({{"config", c.config},
                       {"estimate_us", c.estimate_us},
                       {"us", c.us},
                       {"ratio", c.ratio},
                       {"why", c.why}});
  for (const autotune::AuditedTuning& t : a.tunings)
    tunings.push_back({{"config", t.config},
                       {"seconds", t.seconds},
                       {"candidates", t.candidates},
                       {"is_low_confidence", t.is_low_confidence},
                       {"ratio", t.ratio},
                       {"low", t.low},
                       {"high", t.high}});
  return {{"shape", shape},
          {"family", a.family},
          {"problem", a.problem},
          {"inside", a.inside},
          {"best", a.best},
          {"is_complete", a.is_complete},
          {"model_ratio", a.model_ratio},
          {"first_ratio", f.first_ratio},
          {"correlation", f.correlation},
          {"configs", std::move(configs)},
          {"tunings", std::move(tunings)}};
}

class AuditRun {
 public:
  explicit AuditRun(const AuditArgs& args) : args_(args) {
    if (!args.events.empty()) events_.open(args.events, std::ios::app);
  }

  void shape(const CallShape& shape, Device device) {
    const std::string name = shape.callable + " " + shape.text;
    autotune::AuditOptions options = args_.options;
    options.seconds = seconds_left();
    if (options.seconds <= 0) return fmt::print("{}: not reached\n", name);
    const detail::Exported& callee = exported_of(shape);
    const auto call = call_of(shape, callee, device, false);
    const c::Arguments arguments(callee, call->args);
    const Stream stream(arguments.device());
    const auto all = autotune::audit(
        [&] { callee.callable().call(stream, arguments.host(), callee.loc()); }, options);
    for (const autotune::Audit& a : all) tell(name, a);
  }

  void summary() const {
    if (tunings_.empty()) return fmt::print("no decision is complete\n");
    std::vector<double> tunings = tunings_;
    std::ranges::sort(tunings);
    const auto close = std::ranges::count_if(firsts_, [](double r) { return r <= kClose; });
    fmt::print(
        "{} decisions: tuned {:.3f} of the best (median), {:.3f} (worst); the model's first {} "
        "contain one within 3 % for {} of {}; rank correlation {:.2f} (mean); tunings differ by "
        "{:.1f} % at most\n",
        firsts_.size(), tunings[tunings.size() / 2], tunings.back(), kFirst, close, firsts_.size(),
        std::accumulate(correlations_.begin(), correlations_.end(), 0.0) /
            static_cast<double>(correlations_.size()),
        100 * widest_);
  }

 private:
  double seconds_left() const {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
    return args_.options.seconds - took.count();
  }

  void tell(const std::string& name, const autotune::Audit& a) {
    const Found f = found_of(a);
    if (events_.is_open()) events_ << json_of(name, a, f).dump() << std::endl;
    fmt::print("{} {}: {} of {} timed, best {}\n", name, a.family, f.timed, a.configs.size(),
               a.is_complete ? a.best : "unknown yet: run it again");
    if (!a.is_complete) return;
    firsts_.push_back(f.first_ratio);
    correlations_.push_back(f.correlation);
    widest_ = std::max(widest_, f.spread);
    fmt::print(
        "    model's choice {:.3f} of the best, its first {} {:.3f}, rank correlation {:.2f}\n",
        a.model_ratio, kFirst, f.first_ratio, f.correlation);
    for (const autotune::AuditedTuning& t : a.tunings) {
      tunings_.push_back(t.ratio);
      fmt::print("    tuned in {:.1f} s: {:.3f} [{:.3f}, {:.3f}] of the best, {} timed{}, {}\n",
                 t.seconds, t.ratio, t.low, t.high, t.candidates,
                 t.is_low_confidence ? ", low confidence" : "", t.config);
    }
  }

  const AuditArgs& args_;
  std::ofstream events_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<double> tunings_, firsts_, correlations_;
  double widest_ = 0;
};

int audit(AuditArgs& args) {
  open_libraries(args.libraries);
  const TuneBudget budget = args.budget == "full" ? TuneBudget::full : TuneBudget::quick;
  args.options.limits = autotune::limits_of(budget);
  AuditRun run(args);
  int failed = 0;
  const Device device = args.device.empty() ? Device::best() : Device::parse(args.device, {});
  for (const CallShape& shape : read_shapes(args.shapes)) {
    try {
      run.shape(shape, device);
    } catch (const std::exception& e) {
      ++failed;
      fmt::print("{} {}: failed: {}\n", shape.callable, shape.text, e.what());
    }
  }
  run.summary();
  return failed == 0 ? 0 : 3;
}

}  // namespace

void add_audit(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand(
      "audit", "Compare the model and the tuner with many configurations of the library's calls");
  command->footer(
      "For each decision of a call, --configurations are measured once, half of them random, half "
      "the\n"
      "model's first; independent tunings are then measured against the best of them. Timings\n"
      "are stored by machine code: run the command again if it runs out of time.\n"
      "Example:\n  tegula audit --lib libtegula_bench.so --shapes bench/audit_shapes.txt "
      "--configurations 64 --seconds 150");
  const auto args = std::make_shared<AuditArgs>();
  command->add_option("--lib", args->libraries, "Libraries that export the callables")->required();
  command->add_option("--shapes", args->shapes, "File of calls, as for `tegula tune`")->required();
  command
      ->add_option("--configurations", args->options.configurations,
                   "Configurations measured per decision")
      ->capture_default_str();
  command->add_option("--tunings", args->options.tunings, "Independent tunings per decision")
      ->capture_default_str();
  command
      ->add_option("--seconds", args->options.seconds, "Seconds after which no measurement starts")
      ->capture_default_str();
  command->add_option("--budget", args->budget, "Budget of each tuning")
      ->check(one_of({"quick", "full"}))
      ->capture_default_str();
  command->add_option("--device", args->device, "GPU; default: the best one");
  command->add_option("-o,--output", args->events, "Append lines of JSON to this file");
  command->add_flag("--may-change-bits", args->options.may_change_bits,
                    "Also measure configurations whose results differ in the last bits");
  command->callback([args, &exit_code] { exit_code = audit(*args); });
}

}  // namespace tegula::tools
