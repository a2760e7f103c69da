// rank_configs [--fit ROUNDS] [--choices] FILE.jsonl...: reports how well the cost model ranks
// measured configurations of GEMMs (bench/results/sweeps, by bench/matmul_search.py,
// bench/sweep.py, searches that name configurations by MatmulConfig::str() and `tegula audit`), on
// each half of the shapes. --fit adds a random search over the rates on the first half, and prints
// the rates. --choices prints a line for each sweep. Files with "h100" in their name are from that
// GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <sstream>

#include "autotune/matmul/space.h"
#include "autotune/matmul/work.h"
#include "autotune/profiles/rows.h"

namespace tegula::autotune {
namespace {

struct Measured {
  MatmulConfig config;
  double us = 0;
  Work work;
};
/// One shape with all its configurations, measured side by side.
struct Sweep {
  const DeviceProfile* gpu = nullptr;
  MatmulProblem problem;
  std::vector<Measured> configs;
  double best = 0;

  void add(Measured x) {
    x.work = work_of(problem, x.config, limits_of(*gpu).target);
    best = configs.empty() ? x.us : std::min(best, x.us);
    configs.push_back(std::move(x));
  }
};

/// Parses the names of bench/matmul_search.py: "128x192/2 stages 5 cluster", "128x128 alternate".
bool read_name(const std::string& name, int sms, MatmulConfig& c) {
  static const std::regex form(
      "(\\d+)x(\\d+)(?:/(\\d+))?( alternate)?( streamed 1)?(?: stages (\\d+))?( cluster)?( "
      "multicast)?"
      "( swapped)?");
  std::smatch m;
  if (!std::regex_match(name, m, form)) return false;
  c.bm = std::stoi(m[1]), c.bn = std::stoi(m[2]);
  if (m[6].matched) c.stages = std::stoi(m[6]);
  c.pingpong = m[4].matched, c.swap_ab = m[9].matched;
  if (m[8].matched) c.multicast = Multicast::b;
  if (m[3].matched && std::stoi(m[3]) > 1)
    c.parts = std::stoi(m[3]), c.split = m[7].matched ? SplitK::cluster : SplitK::partials;
  if (m[5].matched) c.parts = sms, c.split = SplitK::stream;
  return true;
}

/// Parses the names of `bench/sweep.py few_rows`: columns, k per iteration, parts, stages.
bool read_few_rows(const std::string& name, std::int64_t m, MatmulConfig& c) {
  c.bm = m <= 16 ? 16 : 32;
  if (m > 32 || std::sscanf(name.c_str(), "%d %d %d %d", &c.bn, &c.bk, &c.parts, &c.stages) != 4)
    return false;
  if (c.parts > 1) c.split = SplitK::cluster;
  return true;
}

/// Parses the texts of MatmulConfig::str().
bool read_text(const std::string& text, MatmulConfig& c) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  if (std::sscanf(word.c_str(), "%dx%dx%d", &c.bm, &c.bn, &c.bk) != 3) return false;
  while (words >> word) {
    if (word == "cluster_split_k" || word == "split_k") {
      c.split = word == "split_k" ? SplitK::partials : SplitK::cluster;
      words >> c.parts;
    } else if (word == "multicast") {
      words >> word;
      c.multicast = Multicast::b;
    } else if (word == "stages") {
      words >> c.stages;
    } else if (word == "swap_ab") {
      c.swap_ab = true;
    } else if (word == "pingpong") {
      c.pingpong = true;
    } else if (word == "tma_store") {
      c.tma_store = true;
    } else {
      return false;
    }
  }
  return true;
}

/// Sets the number of stages of all configurations if the name of the file contains it ("stages4").
void read_stages(const std::string& path, const MatmulProblem& p, MatmulConfig& c,
                 const DeviceProfile& gpu) {
  constexpr std::string_view kName = "-stages";
  const auto at = path.find(kName);
  if (at == path.npos || c.stages != 0 || c.pingpong) return;
  c.stages = std::min(path[at + kName.size()] - '0', stages_that_fit(p, c, limits_of(gpu).target));
}

/// Parses a row of `tegula audit`: texts of the problem and of configurations.
std::optional<Sweep> read_audit(const nlohmann::json& row, const DeviceProfile& gpu) {
  if (row["family"] != "matmul") return std::nullopt;
  const auto problem = parse<MatmulProblem>(row["problem"].get<std::string>());
  if (!problem) return std::nullopt;
  Sweep s;
  s.gpu = &gpu, s.problem = *problem;
  for (const auto& entry : row["configs"]) {
    const auto config = parse<MatmulConfig>(entry["config"].get<std::string>());
    const bool is_timed = entry["us"].is_number() && entry["us"].get<double>() > 0;
    if (!config || !is_timed || !entry["why"].get<std::string>().empty()) continue;
    Measured x;
    x.config = *config, x.us = entry["us"].get<double>();
    s.add(std::move(x));
  }
  return s;
}

std::vector<Sweep> read_sweeps(const std::string& path, const DeviceProfile& gpu) {
  std::vector<Sweep> sweeps;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    line = std::regex_replace(line, std::regex("\\b(Infinity|NaN)\\b"), "null");
    const auto row = nlohmann::json::parse(line);
    if (row.contains("configs")) {
      if (auto s = read_audit(row, gpu); s && s->configs.size() >= 3)
        sweeps.push_back(std::move(*s));
      continue;
    }
    long m = 0, n = 0, k = 0;
    const bool is_few_rows = !row.contains("shape");
    if (!is_few_rows)
      m = row["shape"][0], n = row["shape"][1], k = row["shape"][2];
    else if (std::sscanf(std::string(row["case"]).c_str(), "few_rows %ldx%ldx%ld", &m, &n, &k) !=
                 3 ||
             std::string(row["case"]).find("turned") != std::string::npos)
      continue;
    Sweep s;
    s.gpu = &gpu;
    s.problem = {.m = m, .n = n, .k = k};
    s.problem.a_lines = line_phase(2 * k), s.problem.b_lines = line_phase(2 * n);
    s.problem.repacks_a = 2 * k % 16 != 0, s.problem.repacks_b = 2 * n % 16 != 0;
    const bool has_texts = row.contains("kind");
    if (has_texts && row["kind"] == "fp8") {  // A row-major, B column-major
      s.problem.operands = DType::f8e4m3, s.problem.b_k_major = true;
      s.problem.a_lines = s.problem.b_lines = line_phase(k);
      s.problem.repacks_a = s.problem.repacks_b = k % 16 != 0;
    }
    for (const auto& [name, us] : row["us"].items()) {
      Measured x;
      if (us.is_number()) x.us = us.get<double>();
      if (x.us <= 0 || !(has_texts     ? read_text(name, x.config)
                         : is_few_rows ? read_few_rows(name, m, x.config)
                                       : read_name(name, gpu.num_sms, x.config)))
        continue;
      read_stages(path, s.problem, x.config, gpu);
      s.add(std::move(x));
    }
    if (s.configs.size() >= 3) sweeps.push_back(std::move(s));
  }
  return sweeps;
}

/// Returns the indices of a sweep's configurations, sorted by `number`.
template <class Number>
std::vector<std::size_t> sorted(const Sweep& s, const Number& number) {
  std::vector<std::size_t> order(s.configs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, number);
  return order;
}

/// `rates` replace those of the fitted row only.
DeviceProfile profile_of(const Sweep& s, const CostRates& rates) {
  DeviceProfile gpu = *s.gpu;
  if (s.gpu == &host_profile()) gpu.cost = rates;
  return gpu;
}

struct Verdict {
  double correlation, first, best_of_4, best_of_12, error, expected;
};

Verdict judge(const Sweep& s, const CostRates& rates) {
  const DeviceProfile gpu = profile_of(s, rates);
  const std::size_t n = s.configs.size();
  std::vector<double> us(n), rank(n);
  for (std::size_t i = 0; i < n; ++i) us[i] = microseconds(cycles_of(s.configs[i].work, gpu), gpu);
  const auto by_model = sorted(s, [&](std::size_t i) { return us[i]; });
  const auto by_time = sorted(s, [&](std::size_t i) { return s.configs[i].us; });
  for (std::size_t i = 0; i < n; ++i) rank[by_time[i]] = static_cast<double>(i);
  double squares = 0, error = 0, weight = 0, expected = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double apart = rank[by_model[i]] - static_cast<double>(i);
    squares += apart * apart;
    const double chance = std::exp(-(us[i] / us[by_model[0]] - 1) / 0.015);
    weight += chance;
    expected += chance * std::min(std::log(s.configs[i].us / s.best), 0.7);
    error += std::pow(std::log(us[i] / s.configs[i].us), 2) / static_cast<double>(n);
  }
  const auto best_of = [&](std::size_t count) {
    double best = s.configs[by_model[0]].us;
    for (std::size_t i = 0; i < std::min(count, n); ++i)
      best = std::min(best, s.configs[by_model[i]].us);
    return best / s.best;
  };
  const auto d = static_cast<double>(n);
  return {1 - 6 * squares / (d * (d * d - 1)),
          best_of(1),
          best_of(4),
          best_of(12),
          error,
          expected / weight};
}

double objective(const std::vector<const Sweep*>& sweeps, const CostRates& rates) {
  double sum = 0;
  for (const Sweep* s : sweeps) {
    const Verdict v = judge(*s, rates);
    sum += 2 * v.expected + 0.1 * (1 - v.correlation) + 0.2 * v.error;
  }
  return sum / static_cast<double>(sweeps.size());
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

/// The configuration that the space chooses; its time relative to the best measured one, or 0 if it
/// was not measured.
struct Chosen {
  MatmulConfig config;
  double over_best = 0;
};

Chosen chosen_of(const Sweep& s, const CostRates& rates) {
  Chosen chosen{choose(s.problem, matmul_space(), profile_of(s, rates)).config};
  // Sweeps identified by names do not contain TMA stores.
  MatmulConfig without = chosen.config;
  without.tma_store = false;
  for (const MatmulConfig& c : {without, chosen.config})
    for (const Measured& x : s.configs)
      if (x.config == c) chosen.over_best = x.us / s.best;
  return chosen;
}

void print_choices(const std::vector<Sweep>& sweeps, const CostRates& rates) {
  for (const Sweep& s : sweeps) {
    const Verdict v = judge(s, rates);
    const Chosen chosen = chosen_of(s, rates);
    fmt::print("{} | {} | {} | {:.3f} | first {:.3f} | correlation {:.3f}\n", s.gpu->name,
               text_of(s.problem), chosen.config.str(), chosen.over_best, v.first, v.correlation);
  }
}

void report(const char* title, const std::vector<const Sweep*>& sweeps, const CostRates& rates) {
  std::vector<double> correlation, first, chosen;
  int near4 = 0, near12 = 0;
  for (const Sweep* s : sweeps) {
    const Verdict v = judge(*s, rates);
    correlation.push_back(v.correlation), first.push_back(v.first);
    near4 += v.best_of_4 <= 1.03, near12 += v.best_of_12 <= 1.03;
    if (const double over = chosen_of(*s, rates).over_best; over > 0) chosen.push_back(over);
  }
  const auto all = static_cast<double>(sweeps.size());
  const auto mean = [](const std::vector<double>& v) {
    return v.empty() ? 0 : std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  const auto line = [&](const std::vector<double>& v) {
    return fmt::format("{:.4f} (mean), {:.3f}, {:.3f} (90 %), {:.3f} (worst)", mean(v),
                       quantile(v, 0.5), quantile(v, 0.9), quantile(v, 1));
  };
  fmt::print(
      "{}: {} sweeps, rank correlation {:.2f} (median), {:.2f} (10 %)\n  model's first / "
      "best time: {}\n  within 3 % among the first 4: {:.2f}, 12: {:.2f}\n  the space's choice / "
      "best "
      "time, where measured ({}): {}\n",
      title, sweeps.size(), quantile(correlation, 0.5), quantile(correlation, 0.1), line(first),
      near4 / all, near12 / all, chosen.size(), line(chosen));
}

/// Changes a few rates at random per step; reverts steps that do not lower the objective.
CostRates fit(const std::vector<const Sweep*>& sweeps, CostRates rates, int rounds) {
  std::mt19937_64 bits(1);
  std::normal_distribution<double> normal;
  double best = objective(sweeps, rates);
  for (int round = 0; round < rounds; ++round) {
    CostRates tried = rates;
    std::vector<double*> fields;
    CostRates::each_field(tried, [&](const char*, double& rate) { fields.push_back(&rate); });
    const double width = round % 3 == 0 ? 0.3 : round % 3 == 1 ? 0.1 : 0.03;
    for (std::uint64_t i = 0; i <= bits() % 3; ++i)
      *fields[bits() % fields.size()] *= std::exp(width * normal(bits));
    const double value = objective(sweeps, tried);
    if (value < best) best = value, rates = tried;
  }
  return rates;
}

int run(int argc, char** argv) {
  int rounds = 0;
  bool lists_choices = false;
  std::vector<Sweep> sweeps;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--fit" && i + 1 < argc) {
      rounds = std::stoi(argv[++i]);
    } else if (argument == "--choices") {
      lists_choices = true;
    } else {
      const bool is_h100 = argument.find("h100") != std::string::npos;
      for (Sweep& s : read_sweeps(argument, is_h100 ? kH100 : host_profile()))
        sweeps.push_back(std::move(s));
    }
  }
  // Keep the sweeps of one shape in the same half.
  std::map<std::string, std::size_t> shapes;
  std::vector<const Sweep*> halves[2];
  for (const Sweep& s : sweeps)
    halves[shapes.try_emplace(text_of(s.problem), shapes.size()).first->second % 2].push_back(&s);
  if (halves[0].empty() || halves[1].empty()) {
    fmt::print(stderr, "usage: rank_configs [--fit ROUNDS] [--choices] FILE.jsonl...\n");
    return 1;
  }
  CostRates rates = host_profile().cost;
  if (rounds > 0) rates = fit(halves[0], rates, rounds);
  if (lists_choices) print_choices(sweeps, rates);
  report("fitted half", halves[0], rates);
  report("other half", halves[1], rates);
  if (rounds > 0) fmt::print("{}\n", text_of(rates));
  return 0;
}

}  // namespace
}  // namespace tegula::autotune

int main(int argc, char** argv) { return tegula::autotune::run(argc, argv); }
