// Warnings about kernels that are reported by default: texts, lines, and how often.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/warnings.h"
#include "support/env.h"
#include "support/warnings.h"
#include "tegula/tegula.h"

namespace tegula::warning_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Hears all warnings while it lives.
class Heard {
 public:
  Heard()
      : before_(set_warning_handler([this](const Warning& w) { texts.push_back(line_of(w)); })) {}
  ~Heard() { set_warning_handler(before_); }
  Heard(const Heard&) = delete;
  Heard& operator=(const Heard&) = delete;

  static std::string line_of(const Warning& w) {
    return w.code + " line " + std::to_string(w.place.line) + ": " + w.kernel + ": " + w.text;
  }
  std::vector<std::string> texts;

 private:
  WarningHandler before_;
};

template <class K>
std::vector<std::string> lines_of(const K& k) {
  std::vector<std::string> lines;
  for (const Warning& w : k.warnings()) lines.push_back(Heard::line_of(w));
  return lines;
}

constexpr Device kSim = Device::sim();

Tensor matrix(std::int64_t rows, std::int64_t columns, DType dtype = DType::bf16) {
  return Tensor::zeros({rows, columns}, dtype, kSim);
}

std::string at(int line, const std::string& rest, const char* code = "T1505") {
  return code + (" line " + std::to_string(line)) + ": " + rest;
}

TEST(Warning, ProductWithoutWgmma) {
  int line = 0;
  const auto make = [&] {
    return kernel("narrow", [&line](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
      for (auto [m, n] : grid(C, 32, 32)) {
        Tile acc = zeros<f32>(32, 32);
        line = __LINE__ + 1;
        for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
        C(m, n) = acc;
      }
    });
  };
  const Heard heard;
  const auto narrow = make();
  EXPECT_THAT(lines_of(narrow), IsEmpty()) << "before the first call";
  const Tensor A = matrix(64, 128), B = matrix(128, 64), C = matrix(64, 64, DType::f32);
  narrow(A, B, C);
  const std::string wanted =
      at(line,
         "narrow: a dot runs as mma.sync, not as wgmma: for some MMA, its rows are not a "
         "multiple of 64");
  EXPECT_THAT(heard.texts, ElementsAre(wanted));
  EXPECT_THAT(lines_of(narrow), ElementsAre(wanted));
  narrow(A, B, C);
  EXPECT_EQ(heard.texts.size(), 1u) << "a later call";
  const auto again = make();
  again(A, B, C);
  EXPECT_EQ(heard.texts.size(), 1u) << "the same kernel in another object";
  EXPECT_THAT(lines_of(again), ElementsAre(wanted));
}

TEST(Warning, NoneForWgmma) {
  const auto wide = kernel("wide", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 64, 64)) {
      Tile acc = zeros<f32>(64, 64);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
  const Heard heard;
  wide(matrix(64, 128), matrix(128, 64), matrix(64, 64, DType::f32));
  EXPECT_THAT(heard.texts, IsEmpty());
  EXPECT_THAT(lines_of(wide), IsEmpty());
}

/// A branch round a mainloop becomes a bound of its trips; one inside of it stays.
TEST(Warning, ProductInABranch) {
  int line = 0;
  const auto branch =
      kernel("branch", [&line](In<bf16, 2> A, In<bf16, 2> B, In<i32, 1> wanted, Out<f32, 2> C) {
        for (auto [m, n] : grid(C, 64, 64)) {
          Tile acc = zeros<f32>(64, 64);
          for (auto k : steps(A.cols(), 64)) {
            line = __LINE__ + 1;
            if_(wanted(0) >= k.first(), [&] { acc = dot(A(m, k), B(k, n), acc); });
          }
          C(m, n) = acc;
        }
      });
  const Heard heard;
  branch(matrix(64, 128), matrix(128, 64), Tensor::zeros({1}, DType::i32, kSim),
         matrix(64, 64, DType::f32));
  EXPECT_THAT(heard.texts,
              ElementsAre(at(line,
                             "branch: a dot runs as mma.sync, not as wgmma: for some MMA, "
                             "it is in no loop")));
}

TEST(Warning, ProductWithoutTensorCores) {
  int line = 0;
  const auto few = kernel("few", [&line](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 8, 64)) {
      line = __LINE__ + 1;
      C(m, n) = dot(A(m, slice(0, 64)), B(slice(0, 64), n));
    }
  });
  const Heard heard;
  few(matrix(8, 64), matrix(64, 64), matrix(8, 64, DType::f32));
  EXPECT_THAT(
      heard.texts,
      ElementsAre(at(line, "few: a dot of bf16 runs as FMA, not on tensor cores", "T1506")));
}

TEST(Warning, ProductsOfF32DoNotUseTensorCores) {
  const auto exact = kernel("exact", [](In<f32, 2> A, In<f32, 2> B, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 16, 16)) C(m, n) = dot(A(m, slice(0, 16)), B(slice(0, 16), n));
  });
  const Heard heard;
  const Tensor t = matrix(16, 16, DType::f32);
  exact(t, t, matrix(16, 16, DType::f32));
  EXPECT_THAT(heard.texts, IsEmpty());
}

TEST(Warning, TheTrace) {
  const auto lost = kernel("lost", [](In<f32, 1> x, Out<f32, 1> y) {
    y.partial();
    for (auto i : grid(y, 16)) {
      auto out = y(i);
      out = x(i);
    }
  });
  const Heard heard;
  lost(Tensor::zeros({16}, DType::f32, Device::cpu()),
       Tensor::zeros({16}, DType::f32, Device::cpu()));
  ASSERT_EQ(lost.warnings().size(), 1u);
  EXPECT_EQ(lost.warnings().front().code, "T0508");
  EXPECT_EQ(heard.texts, lines_of(lost));
}

TEST(Warning, ReachesTheErrorStreamIfRequested) {
  const auto call = [](const char* name) {
    const auto k = kernel(name, [](In<f32, 1> x, Out<f32, 1> y) {
      y.partial();
      for (auto i : grid(y, 16)) {
        auto out = y(i);
        out = x(i);
      }
    });
    testing::internal::CaptureStderr();
    k(Tensor::zeros({16}, DType::f32, Device::cpu()),
      Tensor::zeros({16}, DType::f32, Device::cpu()));
    EXPECT_EQ(k.warnings().size(), 1u);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(call("silent"), "");
  Env wanted = env();
  wanted.warn = "1";
  const EnvOverride scope(wanted);
  EXPECT_THAT(call("spoken"), testing::HasSubstr("warning T0508: kernel spoken: "));
  const Heard heard;
  EXPECT_EQ(call("handled"), "") << "a handler has it";
  EXPECT_EQ(heard.texts.size(), 1u);
}

TEST(Warning, SpillsReachTheErrorStreamByDefault) {
  const Warning spills{"T1501", "wide", {}, "a thread spills 8 bytes", ""},
      other{"T1505", "wide", {}, "a dot runs as mma.sync", ""};
  const auto written = [&](const char* selected) {
    Env chosen = env();
    chosen.warn = selected;
    const EnvOverride scope(chosen);
    testing::internal::CaptureStderr();
    report_warnings(std::vector{spills, other});
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(Env().warn, "spills");
  EXPECT_EQ(written("spills"), "warning T1501: kernel wide: a thread spills 8 bytes\n");
  EXPECT_THAT(written("1"), testing::HasSubstr("T1505"));
  EXPECT_EQ(written("0"), "");
  const Heard heard;
  EXPECT_EQ(written("spills"), "") << "a handler has it";
  EXPECT_EQ(heard.texts.size(), 2u);
}

// ---- of the assembler's log

std::vector<std::string> of_log(const char* log) {
  std::vector<std::string> lines;
  for (const Warning& w : runtime::warnings_of_report("k", runtime::parse_assembler_log(log)))
    lines.push_back(Heard::line_of(w));
  return lines;
}

TEST(Warning, TheAssembler) {
  EXPECT_THAT(of_log("ptxas info    : Used 168 registers, 1 barriers\n"), IsEmpty());
  EXPECT_THAT(
      of_log("    24 bytes stack frame, 20 bytes spill stores, 36 bytes spill loads\n"
             "ptxas info    : Used 255 registers\n"),
      ElementsAre("T1501 line 0: k: a thread spills 36 bytes of registers to memory (20 stored, 36 "
                  "loaded)"));
  EXPECT_THAT(of_log("    24 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"),
              ElementsAre("T1502 line 0: k: a thread uses 24 bytes of stack, which is in memory"));
  const char* const kWaits =
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to insufficient register resources for the wgmma pipeline in function 'k'";
  EXPECT_THAT(
      of_log(kWaits),
      ElementsAre(std::string("T1503 line 0: k: the assembler serializes the wgmmas: ") + kWaits));
  EXPECT_THAT(of_log("ptxas info    : (C7506) setmaxnreg ignored to maintain minimum register "
                     "requirement"),
              ElementsAre("T1504 line 0: k: the assembler ignores setmaxnreg: ptxas "
                          "info    : (C7506) setmaxnreg ignored to maintain minimum register "
                          "requirement"));
}

TEST(Warning, Text) {
  const Warning w{"T1501", "k", Loc("k.cpp", 12, 3), "a thread spills", "use smaller tiles"};
  EXPECT_EQ(w.str(),
            "k.cpp:12:3: warning T1501: kernel k: a thread spills\n  hint: use smaller "
            "tiles");
  EXPECT_EQ((Warning{"T1", "k", {}, "t", ""}).str(), "warning T1: kernel k: t");
}

}  // namespace
}  // namespace tegula::warning_test
