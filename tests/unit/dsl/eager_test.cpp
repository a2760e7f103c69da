// TEGULA_EAGER=1: program 0, or those that TEGULA_EAGER_PROGRAM names, run while the lambda does.
#include <gmock/gmock.h>

#include <cmath>

#include "run_on_host.h"
#include "support/env.h"
#include "tegula/address_view.h"
#include "tegula/error.h"

namespace tegula::eager_test {
namespace {

using test::empty;
using test::host;
using test::kHost;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> counted(int n) {
  std::vector<float> out;
  for (int i = 0; i < n; ++i) out.push_back(static_cast<float>(i));
  return out;
}

/// Records the values that a lambda saw. It also runs to be traced first, when tiles have types and
/// no values.
class Seen {
 public:
  void add(const Tile& t) {
    const std::string text = debug_string(t);
    if (text.find('{') != std::string::npos) texts.push_back(text);
  }
  std::vector<std::string> texts;
};

class Eager : public ::testing::Test {
 protected:
  Eager() : override_(with_eager(true)) {}
  static Env with_eager(bool on, const std::string& program = "0") {
    Env e = env();
    e.eager = on;
    e.eager_program = program;
    return e;
  }
  /// The same call as it is made without the variable.
  template <class K, class... A>
  static void run_normally(const K& k, const A&... a) {
    const EnvOverride off(with_eager(false));
    k(a...);
  }
  EnvOverride override_;
};

TEST_F(Eager, TilesHoldValuesAndOnlyProgramZeroRuns) {
  Seen seen;
  const auto k = kernel("k", [&seen](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 4)) {
      Tile t = x(i);
      seen.add(t);
      t = t * 2 + 1;
      seen.add(t);
      seen.add(t > 4);
      y(i) = t;
    }
  });
  const Tensor x = host({0, 1, 2, 3, 4, 5}), y = Tensor::zeros({6}, DType::f32, kHost);
  k(x, y);
  EXPECT_THAT(seen.texts, ElementsAre("tile<4xf32> {0, 1, 2, 3}", "tile<4xf32> {1, 3, 5, 7}",
                                      "tile<4xi1> {false, false, true, true}"));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(1, 3, 5, 7, 0, 0));
}

TEST_F(Eager, AChosenProgramRunsAlone) {
  const EnvOverride chosen(with_eager(true, "1"));
  Seen seen;
  const auto k = kernel("k", [&seen](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 4)) {
      seen.add(x(i));
      y(i) = x(i) + 1;
    }
  });
  const Tensor y = Tensor::zeros({10}, DType::f32, kHost);
  k(host(counted(10)), y);
  EXPECT_THAT(seen.texts, ElementsAre("tile<4xf32> {4, 5, 6, 7}"));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(0, 0, 0, 0, 5, 6, 7, 8, 0, 0));
}

TEST_F(Eager, AllProgramsRunOneAfterAnother) {
  const EnvOverride everyone(with_eager(true, "all"));
  Seen seen;
  const auto k = kernel("k", [&seen](In<f32, 2> x, Out<f32, 2> y, Ptr<i32> count) {
    for (auto [r, c] : grid(y, 2, 4)) {
      seen.add(atomic_add(count, 1));
      y(r, c) = x(r, c) * 2;
    }
  });
  const Tensor x = host(counted(35)).reshape({5, 7}), y = empty({5, 7}), want = empty({5, 7}),
               count = Tensor::zeros({1}, DType::i32, kHost);
  k(x, y, count);
  EXPECT_THAT(seen.texts,
              ElementsAre("i32 {0}", "i32 {1}", "i32 {2}", "i32 {3}", "i32 {4}", "i32 {5}"));
  run_normally(k, x, want, Tensor::zeros({1}, DType::i32, kHost));
  EXPECT_EQ(y.to_vector<float>(), want.to_vector<float>());
}

TEST_F(Eager, ViewsAtAddressesOfATable) {
  const EnvOverride everyone(with_eager(true, "all"));
  const auto k = kernel("k", [](In<u64, 1> table, Scalar<i32> n) {
    for (auto i : grid(table, 1)) {
      const auto v = view<f32, 1>(as_pointer<f32>(table(i.first())), {Tile(n)}, {1});
      const Index part = slice(0, 4);
      v(part) = v(part) + 1;
    }
  });
  const Tensor a = host({1, 2, 3}), b = host({4, 5, 6});
  const auto address = [](const Tensor& t) { return reinterpret_cast<std::uint64_t>(t.data()); };
  k(Tensor::from(std::vector<u64>{address(a), address(b)}, kHost), 3);
  EXPECT_THAT(a.to_vector<float>(), ElementsAre(2, 3, 4));
  EXPECT_THAT(b.to_vector<float>(), ElementsAre(5, 6, 7));
}

TEST_F(Eager, ProgramsThatAreNotThereOrMeetAreRefused) {
  const auto refusal = [](const std::string& program, const auto& call) -> std::string {
    const EnvOverride chosen(with_eager(true, program));
    try {
      call();
    } catch (const DeviceError& e) {
      return e.diagnostic().message + "; " + e.diagnostic().hint;
    }
    return "ran";
  };
  const Tensor x = host(counted(10)), y = empty({10});
  const auto copies = kernel("copies", [](In<f32, 1> from, Out<f32, 1> to) {
    for (auto i : grid(to, 4)) to(i) = from(i);
  });
  for (const char* program : {"3", "-1", "1x", "every"})
    EXPECT_EQ(
        refusal(program, [&] { copies(x, y); }),
        std::string("TEGULA_EAGER_PROGRAM=") + program +
            " in the environment: kernel copies has 3 programs in this launch; give a number from "
            "0 to 2, or all");
  EXPECT_EQ(refusal("2", [&] { copies(x, y); }), "ran");
  const auto meets = kernel("meets", [](InOut<f32, 1> from, Out<f32, 1> to) {
    for (auto i : grid(to, 4)) from(i) = from(i) + 1;
    grid_barrier();
    for (auto i : grid(to, 4)) to(i) = from(i);
  });
  EXPECT_THAT(refusal("all", [&] { meets(x, y); }), HasSubstr("they meet in a grid_barrier"));
  EXPECT_EQ(refusal("1", [&] { meets(x, y); }), "ran");
}

TEST_F(Eager, LoopsLoop) {
  Seen starts, sums;
  const auto k = kernel("k", [&](In<f32, 1> x, Out<f32, 1> y, Scalar<i32> n) {
    Tile total = 0.0f;
    for (auto i : steps(n, 4)) {
      starts.add(i);
      total = total + sum(x(i));
      sums.add(total);
    }
    y(0) = total;
  });
  const Tensor x = host(counted(10)), y = empty({1});
  k(x, y, 10);
  EXPECT_THAT(starts.texts, ElementsAre("tile<4xi32> {0, 1, 2, 3}", "tile<4xi32> {4, 5, 6, 7}",
                                        "tile<4xi32> {8, 9, 10, 11}"));
  EXPECT_THAT(sums.texts, ElementsAre("f32 {6}", "f32 {28}", "f32 {45}"));
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(45));
  k(x, y, 0);
  EXPECT_EQ(starts.texts.size(), 3u) << "a loop without steps has none";
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(0));
}

TEST_F(Eager, OneBranchIsTaken) {
  Seen then, otherwise;
  const auto k = kernel("k", [&](Out<f32, 1> y, Scalar<i32> n) {
    Tile t = 0.0f;
    if_(Tile(n) > 3, [&] { then.add(t = 1.0f); }, [&] { otherwise.add(t = 2.0f); });
    if_(Tile(n) > 100, [&] { then.add(t = 5.0f); });
    y(0) = t;
  });
  const Tensor y = empty({1});
  k(y, 4);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(1));
  EXPECT_EQ(then.texts.size(), 1u);
  EXPECT_EQ(otherwise.texts.size(), 0u);
  k(y, 2);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(2));
  EXPECT_EQ(then.texts.size(), 1u);
  EXPECT_EQ(otherwise.texts.size(), 1u);
}

TEST_F(Eager, WhileRunsAsOftenAsItsConditionHolds) {
  Seen seen;
  const auto k = kernel("k", [&](Out<i32, 1> y, Scalar<i32> start) {
    Tile n = start, count = 0;
    while_([&] { return n != 1; },
           [&] {
             seen.add(n);
             if_(n % 2 == 0, [&] { n = n / 2; }, [&] { n = n * 3 + 1; });
             count = count + 1;
           });
    y(0) = count;
  });
  const Tensor y = empty({1}, DType::i32);
  k(y, 6);
  EXPECT_THAT(y.to_vector<std::int32_t>(), ElementsAre(8));
  EXPECT_THAT(seen.texts, ElementsAre("i32 {6}", "i32 {3}", "i32 {10}", "i32 {5}", "i32 {16}",
                                      "i32 {8}", "i32 {4}", "i32 {2}"));
}

TEST_F(Eager, FoldsCapturesAndLargeTilesAgreeWithTheInterpreter) {
  const Tensor table = host(counted(64));
  const auto k = kernel("k", [&table](In<f32, 2> a, In<f32, 2> b, Out<f32, 2> c, Out<f32, 1> r) {
    for (auto [m, n] : grid(c, 32, 32)) {
      Tile acc = zeros<f32>(32, 32);
      for (auto k : steps(a.cols(), 16)) acc = dot(a(m, k), b(k, n), acc);
      const Tile scale = view<f32, 1>(table)(n);
      acc = acc * scale.expand(0);
      c(m, n) = acc;
      r(m) = reduce(acc, 1, [](Tile x, Tile y) { return max(x, y); });
    }
  });
  const Tensor a = Tensor::uniform({32, 60}, DType::f32, -1, 1, 1, kHost);
  const Tensor b = Tensor::uniform({60, 32}, DType::f32, -1, 1, 2, kHost);
  const Tensor c = empty({32, 32}), r = empty({32}), c2 = empty({32, 32}), r2 = empty({32});
  k(a, b, c, r);
  run_normally(k, a, b, c2, r2);
  EXPECT_EQ(c.to_vector<float>(), c2.to_vector<float>());
  EXPECT_EQ(r.to_vector<float>(), r2.to_vector<float>());
}

TEST_F(Eager, AnEmptyGridRunsNothing) {
  Seen seen;
  const auto k = kernel("k", [&](Out<f32, 1> y) {
    for (auto i : grid(y, 4)) {
      seen.add(i);
      y(i) = full<f32>(1, 4);
    }
  });
  k(empty({0}));
  EXPECT_THAT(seen.texts, ElementsAre());
}

TEST_F(Eager, FaultsOfTheProgramAreReportedAfterwards) {
  const auto k = kernel("k", [](Ptr<f32> p, Out<f32, 1> y) { y(arange(4)) = load(p + arange(4)); });
  try {
    k(host({1, 2, 3}), empty({4}));
    FAIL() << "an element behind the end was read";
  } catch (const ProgramError& e) {
    EXPECT_THAT(e.what(), HasSubstr("run eagerly"));
    EXPECT_THAT(e.what(), HasSubstr("out of bounds"));
  }
}

TEST_F(Eager, AGpuIsRefused) {
  const auto k = kernel("k", [](Out<f32, 1> y) { y(0) = 1.0f; });
  try {
    k(Stream(Device::cuda()), empty({1}));
    FAIL() << "ran on a GPU";
  } catch (const DeviceError& e) {
    EXPECT_THAT(e.what(), HasSubstr("set TEGULA_DEVICE=cpu"));
  }
}

TEST_F(Eager, MistakesAreThoseOfATrace) {
  int hidden = 0;
  const auto k = kernel("k", [&hidden](Out<f32, 1> y, Scalar<i32> n) {
    Tile t = 0.0f;
    for (auto i : steps(n, 1)) {
      (void)i;
      t = t + static_cast<float>(++hidden);
    }
    y(0) = t;
  });
  EXPECT_THROW(k(empty({1}), 3), CompileError);
}

TEST_F(Eager, OutsideOfSuchARunTilesHaveTypesOnly) {
  Seen seen;
  std::string type;
  const auto k = kernel("k", [&](Out<f32, 1> y) {
    const Tile t = full<f32>(1, 4);
    seen.add(t);
    type = debug_string(t);
    y(arange(4)) = t;
  });
  run_normally(k, empty({4}));
  EXPECT_THAT(seen.texts, ElementsAre());
  EXPECT_EQ(type, "tile<4xf32>");
  EXPECT_EQ(debug_string(Tile()), "no value");
}

}  // namespace
}  // namespace tegula::eager_test
