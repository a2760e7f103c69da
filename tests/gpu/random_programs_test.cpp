// Random tile programs on the GPU by LLVM and NVRTC: each gives what the interpreter gives, and
// both the same; twin: tests/fuzz/random_programs_test.cpp. TEGULA_FUZZ_PROGRAMS (2000 for a full
// run), TEGULA_FUZZ_SEED and TEGULA_FUZZ_FEATURES choose how many, which and what they may have.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>

#include "ir/text.h"
#include "runtime/doctor.h"
#include "support/env.h"
#include "tegula/error.h"
#include "tests/fuzz/number_from_env.h"
#include "tests/fuzz/on_device.h"
#include "tests/fuzz/random_program_memory.h"

namespace tegula::fuzz::random_programs_test {
namespace {

struct Outcomes {
  std::mutex mutex;
  std::map<std::string, int> refused, ops;
  std::vector<std::string> failures;
  int compared = 0;
};

/// The results of a back end, or nothing where the passes decline the program with a message.
std::optional<Arguments> by(runtime::Backend back_end, const RandomProgram& p, std::uint64_t seed,
                            Outcomes& all) {
  const std::optional<ir::Plan> plan =
      seed / 2 % 4 == 0 ? std::optional(ir::Plan{.num_warps = 12}) : std::nullopt;
  try {
    return launched(*compiled(p.kernel, {Device::cuda(), back_end, plan}), p.args);
  } catch (const CompileError& e) {
    const std::lock_guard lock(all.mutex);
    ++all.refused[std::string(e.what()).substr(0, 80)];
  } catch (const InternalError& e) {
    const std::string gap = known_gap(e.what());
    if (gap.empty()) throw;
    const std::lock_guard lock(all.mutex);
    ++all.refused[gap];
  }
  return std::nullopt;
}

/// By values, not bits: which zero an extreme of two is, the ISA leaves open.
std::string difference_without_tolerance(Arguments a, const Arguments& b) {
  for (Argument& each : a) each.tolerance = 0;
  return difference(a, b);
}

std::string check(const RandomProgram& p, std::uint64_t seed, bool has_nvrtc, Outcomes& all) {
  Arguments want = p.args;
  std::string declined;
  try {
    if (const std::string found = interpret(p.kernel, want); !found.empty())
      return "interpreter: " + found;
  } catch (const CompileError& e) {
    declined = e.what();
  }
  const auto llvm = by(runtime::Backend::Llvm, p, seed, all);
  if (!llvm) return "";
  if (!declined.empty()) return "the interpreter alone declines: " + declined;
  if (const std::string d = difference(want, *llvm); !d.empty()) return "LLVM (as simulator): " + d;
  if (has_nvrtc) {
    const auto nvrtc = by(runtime::Backend::Nvrtc, p, seed, all);
    if (!nvrtc) return "NVRTC declines what LLVM takes";
    if (const std::string d = difference(want, *nvrtc); !d.empty())
      return "NVRTC (as simulator): " + d;
    if (const std::string d = difference_without_tolerance(*llvm, *nvrtc); !d.empty())
      return "LLVM (as interpreter) and NVRTC (as simulator): " + d;
  }
  const std::lock_guard lock(all.mutex);
  ++all.compared;
  ir::walk(p.kernel, p.kernel.body(),
           [&](ir::OpId op) { ++all.ops[std::string(ir::info(p.kernel[op].opcode).mnemonic)]; });
  return "";
}

void work(std::atomic<std::uint64_t>& next, std::uint64_t end, bool has_nvrtc, Outcomes& all) {
  for (std::uint64_t seed = next++; seed < end; seed = next++) {
    std::string fault, text;
    try {
      const RandomProgram p(seed);
      text = ir::print(p.kernel);
      fault = check(p, seed, has_nvrtc, all);
    } catch (const std::exception& e) {
      fault = std::string("exception: ") + e.what();
    }
    if (fault.empty()) continue;
    const std::lock_guard lock(all.mutex);
    all.failures.push_back("TEGULA_FUZZ_SEED=" + std::to_string(seed) + ": " + fault + "\n" + text);
    if (all.failures.size() >= 20) next = end;
  }
}

TEST(RandomProgramsOnGpu, BothBackEndsAgreeWithTheInterpreter) {
  if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
  if (env().backend == "nvrtc") GTEST_SKIP() << "runs both back ends where LLVM is asked for";
  const std::uint64_t first = number_from_env("TEGULA_FUZZ_SEED", 1),
                      count = number_from_env("TEGULA_FUZZ_PROGRAMS", 300);
  const bool has_nvrtc = runtime::diagnose().finding("NVRTC").present;
  Outcomes all;
  std::atomic<std::uint64_t> next = first;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::min(16u, std::thread::hardware_concurrency())); ++i)
    threads.emplace_back([&] { work(next, first + count, has_nvrtc, all); });
  for (std::thread& t : threads) t.join();
  std::printf("random programs on the GPU: %d of %llu compared, by %s\nops:", all.compared,
              static_cast<unsigned long long>(count), has_nvrtc ? "LLVM and NVRTC" : "LLVM alone");
  for (const auto& [name, n] : all.ops) std::printf(" %s=%d", name.c_str(), n);
  std::printf("\n");
  int refused = 0;
  for (const auto& [why, n] : all.refused) {
    std::printf("refused %d: %s\n", n, why.c_str());
    refused += n;
  }
  for (const std::string& f : all.failures) ADD_FAILURE() << f;
  EXPECT_LE(refused, static_cast<int>(count) / 50 + 1);
}

}  // namespace
}  // namespace tegula::fuzz::random_programs_test
