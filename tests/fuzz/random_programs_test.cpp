// Random tile programs: what the interpreter computes, the lowered program computes in the
// simulator. TEGULA_FUZZ_PROGRAMS and TEGULA_FUZZ_SEED choose other ones; a failure prints its seed
// and program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <thread>

#include "ir/op.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tegula/error.h"
#include "tests/fuzz/number_from_env.h"
#include "tests/fuzz/random_program_memory.h"
#include "tests/fuzz/reduce_program.h"

namespace tegula::fuzz::random_programs_test {
namespace {

struct Tally {
  std::map<std::string, std::int64_t> ops;
  std::map<int, std::int64_t> depths;  ///< programs by the depth of their deepest loop
  std::int64_t exact = 0, bounded = 0;
  std::map<std::string, std::int64_t>
      refused;  ///< programs the passes decline with a message to the user
  std::vector<std::pair<std::uint64_t, std::string>> failures;

  void add(const Tally& t) {
    for (const auto& [k, n] : t.ops) ops[k] += n;
    for (const auto& [k, n] : t.depths) depths[k] += n;
    for (const auto& [k, n] : t.refused) refused[k] += n;
    exact += t.exact;
    bounded += t.bounded;
    failures.insert(failures.end(), t.failures.begin(), t.failures.end());
  }
};

int loop_depth(const ir::Kernel& k, ir::RegionId region) {
  int deepest = 0;
  for (ir::OpId op : k.ops(region))
    for (ir::RegionId r : k[op].regions) {
      const bool loops = k[op].opcode == ir::Opcode::For || k[op].opcode == ir::Opcode::While;
      deepest = std::max(deepest, loop_depth(k, r) + (loops ? 1 : 0));
    }
  return deepest;
}

/// Every fourth program has three warpgroups: no power of two.
std::optional<ir::Plan> plan_of(std::uint64_t seed) {
  return seed / 2 % 4 == 0 ? std::optional(ir::Plan{.num_warps = 12}) : std::nullopt;
}

/// The fault found, or nothing.
std::string check(RandomProgram& p, std::uint64_t seed, Tally& tally) {
  ir::verify_or_throw(p.kernel);
  ir::walk(p.kernel, p.kernel.body(),
           [&](ir::OpId op) { ++tally.ops[std::string(ir::info(p.kernel[op].opcode).mnemonic)]; });
  ++tally.depths[loop_depth(p.kernel, p.kernel.body())];
  Arguments want = p.args, got = p.args;
  std::string declined;
  try {
    if (const std::string found = interpret(p.kernel, want); !found.empty())
      return "interpreter: " + found;
  } catch (const CompileError& e) {
    declined = e.what();
  }
  ir::Kernel simt("none");
  try {
    simt = lowered(p.kernel, plan_of(seed));
    if (!declined.empty()) return "the interpreter alone declines: " + declined;
  } catch (const CompileError& e) {
    if (!declined.empty() && declined != e.what())
      return declined + "\nis another error than " + e.what();
    ++tally.refused[std::string(e.what()).substr(0, 90)];
    return "";
  } catch (const InternalError& e) {
    const std::string known = known_gap(e.what());
    if (known.empty()) throw;
    ++tally.refused[known];
    return "";
  }
  const auto grid = ir::evaluate_launch(p.kernel, eval_args(got));
  const sim::Report report = simulate(simt, grid, got, seed);
  if (!report.clean()) return "simulator: " + report.str();
  const bool bounded = std::ranges::any_of(want, [](const Argument& a) { return a.tolerance > 0; });
  ++(bounded ? tally.bounded : tally.exact);
  return difference(want, got);
}

/// Ops of the tile form that no random program has, and the tests that have them.
const std::map<std::string_view, std::string_view>& drawn_elsewhere() {
  static const std::map<std::string_view, std::string_view> kOps{
      {"num_programs", "made for stream-K: differential_stream_k_test"},
      {"view_dim", "every grid of the language: differential_first_kernels_test"},
      {"cluster_rank", "feature `clusters`: differential_clusters_test"},
      {"cluster_gather", "feature `clusters`: differential_clusters_test"},
      {"cluster_id", "the tile of a grid in clusters: differential_clusters_test"},
      {"cluster_tile", "made by make_persistent: differential_multicast_test"},
      {"cluster_reduce_scatter", "needs exact sums: differential_clusters_test"},
      {"atomic_view", "as a reducing store here; old values: differential_atomic_tiles_test"},
      {"grid_barrier", "between two grids: differential_grid_barrier_test"},
      {"read_register", "not the same twice: differential_waiting_programs_test"},
      {"arrive_and_test_last", "programs together: differential_last_arriver_test"},
      {"assume", "differential_conditions_test, fuzz_conditions_test"},
      {"grid_dependency_wait", "of launches: gpu_dependent_launch_test"},
      {"grid_launch_dependents", "of launches: gpu_dependent_launch_test"},
      {"asm_elementwise", "inline PTX: differential_waiting_programs_test"},
      {"cta_barrier", "differential_memory_order_test"}};
  return kOps;
}

/// Ops that no program of the run has, and nobody says where they are tested.
std::vector<std::string> never_drawn(const Tally& all) {
  std::vector<std::string> found;
  for (const ir::OpInfo& row : ir::all_ops())
    if (row.family == ir::Family::Tile && !all.ops.contains(std::string(row.mnemonic)) &&
        !drawn_elsewhere().contains(row.mnemonic))
      found.emplace_back(row.mnemonic);
  return found;
}

void run_range(std::uint64_t first, std::uint64_t count, std::uint64_t stride, Tally& tally) {
  for (std::uint64_t i = 0; i < count; i += stride) {
    const std::uint64_t seed = first + i;
    std::optional<RandomProgram> p;
    std::string fault;
    try {
      p.emplace(seed);
      fault = check(*p, seed, tally);
    } catch (const std::exception& e) {
      fault = std::string("exception: ") + e.what();
    }
    if (!fault.empty())
      tally.failures.emplace_back(seed, fault + "\n" + (p ? ir::print(p->kernel) : "not made"));
    if (tally.failures.size() >= 20) return;
  }
}

/// The failing program of a seed, made small, as the text of a file test.
void print_reduced(std::uint64_t seed) try {
  RandomProgram r(seed);
  const Fails fails = [seed](const KernelCall& p) { return failure_of(p, plan_of(seed), seed); };
  const KernelCall p(std::move(r.kernel), std::move(r.args));
  if (!fails(p).empty())
    std::printf("seed %llu, reduced:\n%s\n", static_cast<unsigned long long>(seed),
                reduced_text(p, fails).c_str());
} catch (const std::exception& e) {
  std::printf("seed %llu is not reduced: %s\n", static_cast<unsigned long long>(seed), e.what());
}

TEST(RandomPrograms, InterpreterAndSimulatorAgree) {
  const std::uint64_t count = number_from_env("TEGULA_FUZZ_PROGRAMS", 2400),
                      first = number_from_env("TEGULA_FUZZ_SEED", 1);
  std::array<Tally, 2> tallies;
  std::thread other([&] { run_range(first + 1, count - 1, 2, tallies[1]); });
  run_range(first, count, 2, tallies[0]);
  other.join();
  Tally all;
  for (const Tally& t : tallies) all.add(t);
  std::printf("random programs: seeds %llu..%llu, %lld exact, %lld within bounds\nops:",
              static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + count - 1), static_cast<long long>(all.exact),
              static_cast<long long>(all.bounded));
  for (const auto& [name, n] : all.ops)
    std::printf(" %s=%lld", name.c_str(), static_cast<long long>(n));
  std::printf("\nnot drawn:");
  for (const auto& [name, where] : drawn_elsewhere())
    std::printf(" %s (%s);", std::string(name).c_str(), std::string(where).c_str());
  std::printf("\nloop depth:");
  for (const auto& [depth, n] : all.depths)
    std::printf(" %d=%lld", depth, static_cast<long long>(n));
  std::printf("\n");
  if (count >= 2000) {
    EXPECT_THAT(never_drawn(all), testing::IsEmpty());
  }
  std::int64_t refused = 0;
  for (const auto& [why, n] : all.refused) {
    std::printf("refused %lld: %s\n", static_cast<long long>(n), why.c_str());
    refused += n;
  }
  for (const auto& [seed, text] : all.failures) ADD_FAILURE() << "seed " << seed << ": " << text;
  for (std::size_t i = 0; i < std::min<std::size_t>(all.failures.size(), 4); ++i)
    print_reduced(all.failures[i].first);
  EXPECT_LE(refused, static_cast<std::int64_t>(count) / 100)
      << "too many programs were declined to prove anything";
}

}  // namespace
}  // namespace tegula::fuzz::random_programs_test
