#include "runtime/assemble.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <thread>

#include "runtime/subprocess.h"
#include "runtime/tool_hash.h"
#include "support/env.h"
#include "support/text.h"
#include "tegula/error.h"

namespace tegula::runtime::assemble_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kPtx = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry store_tid(.param .u64 p) .maxntid 128 .minnctapersm 1 {
  .reg .u64 %rd<3>; .reg .u32 %r<3>;
  ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; st.global.u32 [%rd1], %r1; ret;
}
)";

#define NEEDS_PTXAS() \
  if (!find_ptxas()) GTEST_SKIP() << "ptxas is not installed"

/// A script standing in for ptxas; `$out` is where the cubin must go.
class Stub {
 public:
  explicit Stub(const std::string& body)
      : folder_(std::filesystem::temp_directory_path() /
                ("tegula-stub-" + std::to_string(::getpid()) + "-" + std::to_string(next_++))) {
    std::filesystem::create_directories(folder_);
    write_file(program(),
               "#!/bin/sh\nfor a; do prev=$last; last=$a; done\nout=$prev\n" + body + "\n");
    ::chmod(program().c_str(), 0755);
    Env fake = env();
    fake.ptxas = program();
    override_.emplace(fake);
  }
  ~Stub() { std::filesystem::remove_all(folder_); }
  std::filesystem::path program() const { return folder_ / "ptxas"; }

 private:
  static inline int next_ = 0;
  std::filesystem::path folder_;
  std::optional<EnvOverride> override_;
};

template <class E>
std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const E& e) {
    return e.what();
  }
  return "no such error";
}

AssembleJob job(std::string ptx = kPtx) {
  return {std::move(ptx), "sm_90a", {}, std::chrono::seconds(60), "k"};
}

TEST(AssembleLog, ReadsStatistics) {
  const AssembleReport r = parse_assembler_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'gemm' for 'sm_90a'\n"
      "ptxas info    : Function properties for gemm\n"
      "    24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 16 barriers, 24 bytes cumulative stack size, 1024 "
      "bytes smem\n"
      "ptxas info    : Compile time = 163.933 ms\n");
  EXPECT_EQ(r.registers, 168);
  EXPECT_EQ(r.barriers, 16);
  EXPECT_EQ(r.stack, 24);
  EXPECT_EQ(r.spill_stores, 16);
  EXPECT_EQ(r.spill_loads, 20);
  EXPECT_EQ(r.smem, 1024);
  EXPECT_DOUBLE_EQ(r.tool_ms, 163.933);
  EXPECT_TRUE(r.warnings.empty());
  EXPECT_EQ(r.defects(), "spills 20 bytes; uses 24 bytes of stack");
}

TEST(AssembleLog, DistinguishesSerialisationFromIgnoredRegisters) {
  const AssembleReport ignored = parse_assembler_log(
      "ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain "
      "compatibility across "
      "compilation units.\n");
  EXPECT_TRUE(ignored.setmaxnreg_ignored);
  EXPECT_FALSE(ignored.serialised);
  EXPECT_EQ(ignored.defects(), "C7504");
  const AssembleReport serialised = parse_assembler_log(
      "ptxas info    : (C7519) warpgroup.arrive is injected in around line 449 by compiler to "
      "allow use of registers "
      "in GMMA in function 'gemm'\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized\n");
  EXPECT_TRUE(serialised.serialised);
  EXPECT_FALSE(serialised.setmaxnreg_ignored);
  EXPECT_THAT(serialised.codes, ElementsAre("C7519", "C7510"));
  EXPECT_EQ(serialised.warnings.size(), 2u);
  const AssembleReport other =
      parse_assembler_log("ptxas info    : (C7509) Potential Performance Loss: x\n");
  EXPECT_FALSE(other.serialised || other.setmaxnreg_ignored);
  EXPECT_FALSE(other.is_clean());
}

TEST(AssembleLog, SpillWarningIsNotCountedTwice) {
  const AssembleReport r = parse_assembler_log(
      "    8 bytes stack frame, 12 bytes spill stores, 12 bytes spill loads\n"
      "ptxas warning : Registers are spilled to local memory in function 'k', 12 bytes spill "
      "stores, 12 bytes spill loads\n");
  EXPECT_EQ(r.spill_stores, 12);
  EXPECT_EQ(r.warnings.size(), 1u);
}

TEST(Assemble, MakesACubin) {
  NEEDS_PTXAS();
  const Assembled a = assemble(job());
  EXPECT_EQ(std::string(a.cubin.data(), 4), "\177ELF");
  EXPECT_GT(a.report.registers, 0);
  EXPECT_TRUE(a.report.is_clean()) << a.log;
}

TEST(Assemble, IsDeterministicInParallel) {
  NEEDS_PTXAS();
  std::array<std::vector<char>, 3> cubins;
  {
    std::vector<std::jthread> threads;
    for (auto& cubin : cubins) threads.emplace_back([&] { cubin = assemble(job()).cubin; });
    EXPECT_THROW(assemble(job("not PTX")), InternalError);
  }
  for (const auto& cubin : cubins) EXPECT_EQ(cubin, cubins[0]);
  EXPECT_FALSE(cubins[0].empty());
}

TEST(Assemble, RefusedPtxIsOurFault) {
  NEEDS_PTXAS();
  try {
    assemble(job("not PTX at all"));
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), HasSubstr("ptxas refused the PTX of kernel k for sm_90a: ptxas "
                                    "/proc/self/fd/"));
    EXPECT_THAT(e.reproducer(), HasSubstr("-arch=sm_90a -o /dev/null /tmp/tegula-"));
    const std::size_t at = e.reproducer().rfind(' ');
    EXPECT_EQ(read_file(e.reproducer().substr(at + 1)), "not PTX at all");
    std::filesystem::remove(e.reproducer().substr(at + 1));
  }
}

TEST(Assemble, FaultyToolsAreDeviceErrors) {
  {
    const Stub crash("kill -SEGV $$");
    EXPECT_THAT(error_of<DeviceError>([] { assemble(job()); }),
                AllOf(HasSubstr("error T1415: kernel k: ptxas failed for sm_90a: "),
                      HasSubstr("ended by signal 11"), HasSubstr("hint: ")));
  }
  {
    const Stub silent("exit 0");
    EXPECT_THAT(error_of<DeviceError>([] { assemble(job()); }),
                HasSubstr("reported success but wrote no cubin"));
  }
  {
    const Stub hang("exec sleep 30");
    AssembleJob slow = job();
    slow.limit = std::chrono::milliseconds(200);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(error_of<DeviceError>([&] { assemble(slow); }),
                AllOf(HasSubstr("error T1414: kernel k: ptxas did not finish within 0.2 seconds "
                                "for sm_90a"),
                      HasSubstr("hint: ")));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
}

TEST(Assemble, MissingToolIsExplained) {
  Env fake = env();
  fake.ptxas = "/nowhere/ptxas";
  const EnvOverride scope(fake);
  EXPECT_THAT(error_of<DeviceError>([] { assemble(job()); }),
              HasSubstr("error T2006: TEGULA_PTXAS=/nowhere/ptxas in the environment: it is not a "
                        "program\n  hint: leave it unset"));
  EXPECT_THAT(missing_ptxas_text(), HasSubstr("cuda-nvcc-13-0"));
}

TEST(ToolHash, FollowsContentNotTime) {
  const Stub stub("exit 0");
  const std::filesystem::path memo = stub.program().parent_path() / "memo";
  const Hash128 before = tool_hash(stub.program(), memo);
  EXPECT_EQ(tool_hash(stub.program(), memo), before);
  EXPECT_EQ(before, hash128(read_file(stub.program())));
  struct stat old{};
  ::stat(stub.program().c_str(), &old);
  std::string other = read_file(stub.program());
  other[other.size() - 2] = '1';  // same size
  std::ofstream(stub.program()) << other;
  const timespec times[2] = {old.st_atim, old.st_mtim};
  ::utimensat(AT_FDCWD, stub.program().c_str(), times, 0);
  EXPECT_NE(tool_hash(stub.program(), memo), before);
  EXPECT_EQ(tool_hash(stub.program(), memo), hash128(other));
  EXPECT_THROW(tool_hash("/nowhere/ptxas"), DeviceError);
}

TEST(Process, PassesFilesAndGathersOutput) {
  const MemoryFile in("in", std::string("hello"));
  const MemoryFile out("out", {});
  const MemoryFile* const files[] = {&in, &out};
  const ProcessResult r = run_process(
      {"/bin/sh", "-c", "cat " + in.path() + " > " + out.path() + "; echo a; echo b >&2; exit 3"},
      files, std::chrono::seconds(20));
  EXPECT_EQ(r.exit_code, 3);
  EXPECT_EQ(r.output, "a\nb\n");
  const std::vector<char> got = out.read_all();
  EXPECT_EQ(std::string(got.begin(), got.end()), "hello");
  EXPECT_THROW(run_process({"/nowhere/at/all"}, {}, std::chrono::seconds(1)), DeviceError);
}

}  // namespace
}  // namespace tegula::runtime::assemble_test
