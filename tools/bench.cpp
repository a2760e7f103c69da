// tegula bench: suites of the benchmark library that need no reference implementation.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "tegula/device.h"
#include "tegula/error.h"
#include "tools/commands.h"
#include "tools/one_of.h"

#ifdef TEGULA_HAS_BENCH
#include "bench/bench.h"
#endif

namespace tegula::tools {
namespace {

struct BenchOptions {
  std::string suite, filter;
  int repeats = 20;
  bool json = false, list = false;
};

#ifdef TEGULA_HAS_BENCH

std::vector<std::string> launch_lines(int rounds) {
  if (Device::cuda_count() == 0)
    throw DeviceError(
        "the suite 'launch' needs a GPU, and the driver lists none; 'compile' works here");
  return {tegula::bench::launch_figures(rounds)};
}

using Suite = std::vector<std::string> (*)(int repeats);
const std::map<std::string, Suite>& suites() {
  static const std::map<std::string, Suite> table{{"compile", &tegula::bench::compile_figures},
                                                  {"launch", &launch_lines}};
  return table;
}

/// Prints a line of JSON in readable form, with right-aligned numbers under their names.
void print_readable(const nlohmann::json& row) {
  fmt::print("{}\n", row.at("case").get<std::string>());
  for (const auto& [key, value] : row.items()) {
    if (key == "case" || key == "suite") continue;
    if (value.is_number_float())
      fmt::print("  {:<32}{:12.3f}\n", key, value.get<double>());
    else
      fmt::print("  {:<32}{:>12}\n", key,
                 value.is_string() ? value.get<std::string>() : value.dump());
  }
}

void print_names() {
  fmt::print("suites of this program:\n");
  for (const auto& [name, suite] : suites()) fmt::print("  {}\n", name);
  fmt::print("cases that bench/peers.py runs against their peers:\n");
  for (const auto& c : tegula::bench::cases()) fmt::print("  {}\n", c.name);
}

int bench(const BenchOptions& o) {
  if (o.list) return print_names(), 0;
  if (o.suite.empty())
    throw CompileError(Diagnostic{"", "which suite?", {}, {}, "tegula bench --list names them"});
  const std::regex filter(o.filter);
  for (const std::string& line : suites().at(o.suite)(o.repeats)) {
    const auto row = nlohmann::json::parse(line);
    if (!std::regex_search(row.at("case").get<std::string>(), filter)) continue;
    if (o.json)
      fmt::print("{}\n", line);
    else
      print_readable(row);
  }
  return 0;
}

#else

int bench(const BenchOptions&) {
  throw DeviceError("this build has no benchmark library; build the target tegula_bench");
}

#endif

}  // namespace

void add_bench(CLI::App& program, int& exit_code) {
  CLI::App* c = program.add_subcommand(
      "bench", "Measure: compile (each verb and pass), launch (excess over the bare driver call)");
  auto o = std::make_shared<BenchOptions>();
  c->add_option("SUITE", o->suite, "compile or launch; ratios to peers come from bench/peers.py")
      ->check(one_of({"compile", "launch"}));
  c->add_option("--filter", o->filter, "Run only cases whose name matches this regular expression");
  c->add_option("--repeats", o->repeats, "Samples of each median")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  c->add_flag("--json", o->json, "Print one JSON line per case");
  c->add_flag("--list", o->list, "List the suites and cases");
  c->callback([o, &exit_code] { exit_code = bench(*o); });
}

}  // namespace tegula::tools
