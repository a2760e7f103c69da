// The static check of the SIMT form: it accepts sound kernels, reports faults under the same name
// as the simulator, and gives their place. A list names the faults that it cannot find.
#include "codegen/check/simt_check.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "support/text.h"
#include "tegula/error.h"
#include "tests/unit/codegen/sim_cases.h"

namespace tegula::sim::simt_check_test {
namespace {

std::string found(const std::string& text) {
  const ir::Kernel k = parse_located(text);
  const auto faults = codegen::find_simt_faults(k);
  return faults.empty() ? "" : std::string(name(faults.front().kind));
}

/// Only running the kernel shows these: what lanes and values do, which slot and phase an mbarrier
/// is at, what warps disagree about, how many registers there are.
constexpr std::array kUnseen{Detector::LaneRace,       Detector::MbarrierWait,
                             Detector::WrongParity,    Detector::CpAsyncWait,
                             Detector::Watchdog,       Detector::WgmmaOperand,
                             Detector::SetMaxNReg,     Detector::Poison,
                             Detector::SharedBounds,   Detector::GlobalBounds,
                             Detector::Misaligned,     Detector::TensorMapRule,
                             Detector::GlobalRace,     Detector::ProgramRace,
                             Detector::ReleaseEarly,   Detector::ScopeRace,
                             Detector::GlobalProxy,    Detector::BulkOrder,
                             Detector::WaitPlain,      Detector::OutsideRead,
                             Detector::Assume,         Detector::Trapped,
                             Detector::DivisionByZero, Detector::ScatterRepeats,
                             Detector::LostElements,   Detector::ContractionDiffers,
                             Detector::WorkList,       Detector::PageEntry,
                             Detector::PageRoom,       Detector::RequestLengths,
                             Detector::ReleasedRead};
/// Cases that the check misses of detectors that it supports.
constexpr std::array<std::string_view, 10> kUnseenCases{
    "lock never given back",
    "loop that changes nothing",
    "exchange without barrier",
    "bytes of lane 0 in a word of two lanes",
    "one lane releases what others read",
    "memory reused before the other has read it",
    "cluster barrier arrived at twice",
    "cluster barrier waited for without arrival",
    "a half comes while the other CTA still reads",
    "a half comes without waiting for its readers",
};

bool is_unseen(const Case& c) {
  return std::ranges::find(kUnseen, c.kind) != kUnseen.end() ||
         std::ranges::find(kUnseenCases, c.name) != kUnseenCases.end();
}

TEST(SimtCheck, SilentOnSoundKernels) {
  for (const Case& c : all_cases()) EXPECT_EQ(found(c.sound), "") << c.name;
}

TEST(SimtCheck, AgreesWithTheSimulator) {
  for (const Case& c : all_cases()) {
    const std::string before = found(faulty(c));
    std::printf("%-55s %-18s %s\n", c.name.c_str(), std::string(name(c.kind)).c_str(),
                before.empty() ? "-" : before.c_str());
    EXPECT_EQ(before, is_unseen(c) ? "" : name(c.kind)) << c.name;
  }
}

// ---- faults that no case of the simulator has
std::string with(const std::string& sound, std::string_view from, std::string_view to) {
  return found(replaced(sound, from, to));
}

TEST(SimtCheck, NumbersAndCountsOfNamedBarriers) {
  const std::string both =
      kernel(64, "  bar_sync %one [count = 64]\n  bar_sync %one [count = 64]\n");
  EXPECT_EQ(found(both), "");
  EXPECT_EQ(with(both, "%one [count = 64]", "%two [count = 64]"), "");
  EXPECT_EQ(with(both, "%one [count = 64]", "%one [count = 96]"), "barrier-count");  // two counts
  EXPECT_EQ(with(both, "%one [count = 64]", "%two [count = 32]"), "barrier-count");  // 64 arrive
  EXPECT_EQ(with(both, "%one [count = 64]", "%two [count = 50]"), "barrier-count");
  EXPECT_EQ(with(both, "bar_sync %one", "%16 = const [value = 16] : i32\n  bar_sync %16"),
            "barrier-count");
}

TEST(SimtCheck, TmaStoresWithoutACommit) {
  EXPECT_EQ(with(kTmaStore, "tma_commit", "pin"), "early-overwrite");
  const std::string last = replaced(kTmaStore, "st_shared %mine, %t [width = 1]", "pin");
  EXPECT_EQ(found(last), "");
  EXPECT_EQ(with(last, "tma_commit", "pin"), "async-at-exit");
  EXPECT_EQ(with(kTmaStore, "bar_sync %one", "pin ; "), "early-overwrite");
}

TEST(SimtCheck, ArrivalsOfMbarriers) {
  EXPECT_EQ(with(kTmaLoad, "mbar_wait %bar, %zero", "mbar_wait %bar, %zero\n  mbar_arrive %bar"),
            "mbarrier-misuse");
  EXPECT_EQ(with(kTmaLoad, "mbar_wait %bar", "mbar_wait %base"), "mbarrier-misuse");
  EXPECT_EQ(with(kTmaLoad, "tma_load %m, %base", "tma_load %m, %bar"), "mbarrier-misuse");
}

TEST(SimtCheck, MmasWithoutAWait) {
  const std::string unused = replaced(wgmma(false), "%acc = wgmma_wait %p [count = 0] : v<32xf32>",
                                      "%acc = poison : v<32xf32>");
  EXPECT_EQ(found(unused), "async-at-exit");
  EXPECT_EQ(with(wgmma(false), "%acc = wgmma_wait %p [count = 0] : v<32xf32>",
                 "wgmma_wait [count = 0]\n  %acc = poison : v<32xf32>"),
            "accumulator");
}

TEST(SimtCheck, AFenceAfterAccumulatorsThatWereRead) {
  const std::string wait = "%acc = wgmma_wait %p [count = 0] : v<32xf32>",
                    fence = "  wgmma_fence ; 2\n",
                    twice =
                        replaced(wgmma(false), wait,
                                 wait + "\n" + fence +
                                     "  %q = wgmma %none, %desc, %desc, %false [shape = [64, 64, "
                                     "16], a_type = \"bf16\", b_type = \"bf16\", step_a = [0], "
                                     "step_b = [0]]\n  wgmma_commit\n  %more = wgmma_wait %q "
                                     "[count = 0] : v<32xf32>");
  EXPECT_EQ(found(twice), "");
  EXPECT_EQ(with(twice, fence, ""), "wgmma-fence");
}

// ---- sound kernels close to a fault
/// Hand-written kernels that differ from lowered ones and are correct on a GPU.
TEST(SimtCheck, SilentOnKernelsWrittenByHand) {
  for (const char* file : {"gemm", "attention"}) {
    const std::string text =
        read_file(std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/g0/" + file + ".tir");
    const ir::Kernel k = ir::parse(text, file);
    for (const codegen::SimtFault& f : codegen::find_simt_faults(k)) ADD_FAILURE() << f.str(k);
  }
}

/// Faults put into the hand-written kernel, one at a time: counts of its mbarriers, waits and
/// fences.
TEST(SimtCheck, FaultsInTheKernelWrittenByHand) {
  const std::string gemm =
      read_file(std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/g0/gemm.tir");
  const auto found_with = [&](std::string_view from, std::string_view to) {
    const auto faults = codegen::find_simt_faults(ir::parse(replaced(gemm, from, to), "gemm"));
    return faults.empty() ? "" : std::string(name(faults.front().kind));
  };
  EXPECT_EQ(found_with("mbar_init %empty_i [count = 2]", "mbar_init %empty_i [count = 3]"),
            "deadlock");
  EXPECT_EQ(found_with("mbar_init %empty_i [count = 2]", "mbar_init %empty_i [count = 1]"),
            "mbarrier-misuse");
  EXPECT_EQ(found_with("wgmma_wait %acc_p [count = 0]", "wgmma_wait %acc_p [count = 1]"),
            "accumulator");
  EXPECT_EQ(found_with("stmatrix %st_addr0, %regs2 [num = 4]\n      fence_proxy_async",
                       "stmatrix %st_addr0, %regs2 [num = 4]"),
            "proxy-fence");
  EXPECT_EQ(found_with("if %lead { tma_wait [count = 1, read = 1] } { }", "pin"),
            "early-overwrite");
}

TEST(SimtCheck, SilentOnOtherWaysToOrder) {
  EXPECT_EQ(found(replaced(replaced(kTmaStore, "fence_proxy_async", "pin"), "tma_store",
                           "fence_proxy_async\n    tma_store")),
            "");
  EXPECT_EQ(found(replaced(kTmaStore, "st_shared %mine, %t [width = 1]",
                           "%there = add %mine, %c16k\n  st_shared %there, %t [width = 1]")),
            "");
  EXPECT_EQ(found(replaced(kTmaStore, "bar_sync %one [count = 64]\n  st_shared %mine",
                           "%there = add %mine, %c16k\n  st_shared %there")),
            "");
}

TEST(SimtCheck, NamesBothLines) {
  const ir::Kernel k = parse_located(replaced(kTmaStore, "fence_proxy_async", "pin"));
  const auto faults = codegen::find_simt_faults(k);
  ASSERT_EQ(faults.size(), 1U);
  const std::string text = faults.front().str(k);
  EXPECT_NE(text.find("proxy-fence: "), text.npos) << text;
  EXPECT_NE(text.find("tma_store at test.tir:"), text.npos) << text;
  EXPECT_NE(text.find("st_shared at test.tir:"), text.npos) << text;
  EXPECT_NE(k[faults.front().op].loc.line, k[faults.front().other].loc.line);
}

TEST(SimtCheck, ThePassRefuses) {
  ir::PassContext context;
  ir::Kernel sound = parse_located(kTmaStore),
             bad = parse_located(replaced(kTmaStore, "fence_proxy_async", "pin"));
  EXPECT_FALSE(codegen::check_simt(sound, context));
  EXPECT_THROW(codegen::check_simt(bad, context), InternalError);
}

}  // namespace
}  // namespace tegula::sim::simt_check_test
