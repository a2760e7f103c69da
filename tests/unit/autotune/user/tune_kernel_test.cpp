// Kernel::tune() on the simulator, from the space to what the next process finds.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "autotune/device_class.h"
#include "autotune/store/winner_table.h"
#include "autotune/user/argument_copies.h"
#include "autotune/user/user_space.h"
#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/unit/autotune/own_store.h"

namespace tegula::tune_kernel_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// Adds 0 to each element, in TURNS steps; MODE 1 gives wrong results, 2 other bits.
auto adding() {
  return kernel("adding", [](In<f32, 1> x, Out<f32, 1> y) {
    const int block = tune("BLOCK", {32, 64});
    const int turns = tune("TURNS", {test::kManyTurns, 2}, test::kManyTurns);
    const int mode = tune("MODE", {0, 1, 2});
    for (auto i : grid(y, block)) {
      Tile v = x(i);
      for (int t = 0; t < turns; ++t) v = (v + 1.0f) - 1.0f;
      if (mode == 1) v = v + 100.0f;
      if (mode == 2) v = v + 1e-6f;
      y(i) = v;
    }
  });
}

struct Call {
  Tensor x = Tensor::integers({4096}, DType::f32, 1, 9, 1, Device::sim());
  Tensor y = Tensor::full({4096}, 5, DType::f32, Device::sim());
};

using TuneKernel = test::OwnStore;

TEST_F(TuneKernel, FindsTheFastestAndKeepsItForTheNextProcess) {
  const Call c;
  in_process([&] {
    const auto k = adding();
    const TuneResult r = k.tune(c.x, c.y);
    EXPECT_FALSE(r.was_known);
    EXPECT_TRUE(r.is_replaced);
    EXPECT_EQ(r.tuning.at("TURNS"), 2);
    EXPECT_EQ(r.tuning.at("MODE"), 0);
    EXPECT_LT(r.ratio, 0.9);
    EXPECT_GT(r.us, 0);
    EXPECT_THAT(r.rejected, Contains(HasSubstr("MODE=1 TURNS=2: wrong: argument 1: element 0")));
    EXPECT_THAT(r.rejected, Contains(HasSubstr("MODE=2 TURNS=2: wrong: its bits differ")));
    EXPECT_EQ(c.y.to_doubles(), std::vector<double>(4096, 5)) << "the user's tensor is not written";
    k(c.x, c.y);
    EXPECT_EQ(c.y.to_doubles(), c.x.to_doubles());
    EXPECT_THAT(k.dump("key"), HasSubstr("tune TURNS = 2"));
    return true;
  });
  in_process([&] {
    const auto k = adding();
    k(c.x, c.y);
    EXPECT_THAT(k.dump("key"), HasSubstr("tune TURNS = 2"));
    const TuneResult r = k.tune(c.x, c.y);
    EXPECT_TRUE(r.was_known);
    EXPECT_EQ(r.tuning.at("TURNS"), 2);
    EXPECT_LT(r.ratio, 0.9);
    TuneOptions again;
    again.again = true;
    const TuneResult second = k.tune(again, c.x, c.y);
    EXPECT_FALSE(second.was_known);
    EXPECT_EQ(second.tuning.at("TURNS"), 2);
    return true;
  });
}

TEST_F(TuneKernel, OtherShapesHaveTheirOwnWinners) {
  const Call c;
  in_process([&] {
    adding().tune(c.x, c.y);
    const auto k = adding();
    const Tensor x = c.x.slice(0, 0, 128), y = c.y.slice(0, 0, 128);
    k(x, y);
    EXPECT_THAT(k.dump("key"), Not(HasSubstr("tune TURNS = 2")));
    k(c.x, c.y);
    EXPECT_THAT(k.dump("key"), HasSubstr("tune TURNS = 2"));
    return true;
  });
}

TEST_F(TuneKernel, BitsMayChangeIfRequested) {
  const Call c;
  in_process([&] {
    TuneOptions options;
    options.may_change_bits = true;
    const TuneResult r = adding().tune(options, c.x, c.y);
    EXPECT_THAT(r.rejected, Not(Contains(HasSubstr("bits differ"))));
    EXPECT_THAT(r.rejected, Contains(HasSubstr("MODE=1")));
    const auto k = adding();
    k(c.x, c.y);
    EXPECT_THAT(k.dump("key"), Not(HasSubstr("tune TURNS = 2"))) << "a call promises the bits";
    return true;
  });
}

TEST_F(TuneKernel, TheFirstCallTunesIfTheEnvironmentRequestsIt) {
  const Call c;
  in_process(
      [&] {
        const auto k = adding();
        k(c.x, c.y);
        EXPECT_THAT(k.dump("key"), HasSubstr("tune TURNS = 2"));
        EXPECT_EQ(c.y.to_doubles(), c.x.to_doubles());
        const auto given = adding().with({{"TURNS", test::kManyTurns}, {"BLOCK", 32}, {"MODE", 0}});
        given(c.x, c.y);
        EXPECT_THAT(given.dump("key"),
                    HasSubstr("tune TURNS = " + std::to_string(test::kManyTurns)));
        return true;
      },
      "quick");
}

/// Hears warnings while it lives.
class Heard {
 public:
  Heard()
      : before_(set_warning_handler(
            [this](const Warning& w) { texts.push_back(w.code + " " + w.text); })) {}
  ~Heard() { set_warning_handler(before_); }
  std::vector<std::string> texts;

 private:
  WarningHandler before_;
};

TEST_F(TuneKernel, AnotherProcessMeasures) {
  const Call c;
  in_process(
      [&] {
        const Heard heard;
        const Tensor offset = Tensor::full({4096}, 4, DType::f32, Device::sim());
        const auto k =
            kernel("adding_more", [&offset](In<f32, 1> x, Scalar<i32> twice, Out<f32, 1> y) {
              const int turns = tune("TURNS", {test::kManyTurns, 2}, test::kManyTurns);
              const int mode = tune("MODE", {0, 1});
              const auto captured = view<f32, 1>(offset);
              for (auto i : grid(y, 64)) {
                Tile v = x(i);
                for (int t = 0; t < turns; ++t) v = (v + 1.0f) - 1.0f;
                y(i) = v + captured(i) * cast<f32>(twice) + static_cast<float>(mode);
              }
            });
        const TuneResult r = k.tune(c.x, 2, c.y);
        EXPECT_TRUE(r.is_replaced);
        EXPECT_EQ(str(r.tuning), "MODE=0 TURNS=2");
        EXPECT_THAT(r.rejected,
                    Contains(HasSubstr("MODE=1 TURNS=2: wrong: argument 2: element 0")));
        EXPECT_THAT(heard.texts, ::testing::IsEmpty());
        return true;
      },
      "off", TEGULA_WORKER);
}

TEST_F(TuneKernel, WithoutAWorkerMeasuresHereAndWarnsOnce) {
  const Call c;
  in_process(
      [&] {
        const Heard heard;
        const TuneResult r = adding().tune(c.x, c.y);
        EXPECT_EQ(r.tuning.at("TURNS"), 2);
        TuneOptions again;
        again.again = true;
        adding().tune(again, c.x, c.y);
        EXPECT_EQ(heard.texts.size(), 1u);
        EXPECT_THAT(heard.texts,
                    Contains(HasSubstr("T1902 settings are measured in this process")));
        return true;
      },
      "off", "/bin/true");
}

/// The code of the error that `f` throws.
template <class F>
std::string code_of(const F& f) {
  try {
    f();
  } catch (const CompileError& e) {
    return e.diagnostic().code;
  }
  return "none";
}

TEST_F(TuneKernel, KernelsWithoutChoicesAreRefused) {
  const Call c;
  const auto given = adding().with({{"TURNS", 2}, {"MODE", 0}, {"BLOCK", 32}});
  const auto by_address = kernel("by_address", [](Ptr<f32>, Out<f32, 1> y) {
    const int block = tune("BLOCK", {32, 64});
    for (auto i : grid(y, block)) y(i) = zeros<f32>(block);
  });
  in_process([&] {
    EXPECT_EQ(code_of([&] { given.tune(c.x, c.y); }), "T0614");
    EXPECT_EQ(code_of([&] { by_address.tune(c.x.data_as<float>(), c.y); }), "T0615");
    return true;
  });
}

TEST(UserSpace, HasEverySettingAndNamesThoseThatCannotBeTraced) {
  const Call c;
  const auto k = kernel("conditional", [](In<f32, 1> x, Out<f32, 1> y) {
    const bool splits = tune("SPLIT", {0, 1}) == 1;
    const int block = splits ? tune("PARTS", {2, 4}) * 16 : tune("BLOCK", {32, 0});
    for (auto i : grid(y, block)) y(i) = x(i);
  });
  const detail::HostArg args[] = {{detail::ParamKind::View, DType::f32, &c.x, 0},
                                  {detail::ParamKind::View, DType::f32, &c.y, 0}};
  const autotune::UserSpace space = autotune::discover(k.instance(), args);
  const std::vector<Tuning> wanted{
      {{"SPLIT", 0}, {"BLOCK", 32}}, {{"SPLIT", 1}, {"PARTS", 2}}, {{"SPLIT", 1}, {"PARTS", 4}}};
  EXPECT_EQ(space.settings, wanted);
  ASSERT_EQ(space.refused.size(), 1u);
  EXPECT_EQ(str(space.refused[0].first), "BLOCK=0 SPLIT=0");
  EXPECT_EQ(autotune::neighbours(space, 1), std::vector{2});
}

TEST(UserSpace, LargeSpacesAreSampled) {
  const Call c;
  const auto k = kernel("large", [](In<f32, 1> x, Out<f32, 1> y) {
    int sum = 0;
    for (const char* name : {"A", "B", "C", "D", "E", "F", "G"}) sum += tune(name, {0, 1, 2, 3});
    for (auto i : grid(y, 32)) y(i) = x(i) + static_cast<float>(sum);
  });
  const detail::HostArg args[] = {{detail::ParamKind::View, DType::f32, &c.x, 0},
                                  {detail::ParamKind::View, DType::f32, &c.y, 0}};
  const autotune::UserSpace space = autotune::discover(k.instance(), args);
  EXPECT_TRUE(space.is_sampled);
  EXPECT_EQ(space.settings.size(), 256u);
  EXPECT_EQ(str(space.settings[0]), "A=0 B=0 C=0 D=0 E=0 F=0 G=0");
  EXPECT_THAT(
      space.settings,
      Contains(Tuning{{"A", 0}, {"B", 3}, {"C", 0}, {"D", 0}, {"E", 0}, {"F", 0}, {"G", 0}}));
}

TEST(UserSpace, ChoicesAreReadAsTheyAreWritten) {
  const Tuning t{{"BM", 128}, {"BN", -1}};
  EXPECT_EQ(autotune::choice_text({t, {.multicast = true}}), "BM=128 BN=-1 | multicast=1");
  for (const PlanPatch& preferred : {PlanPatch(), PlanPatch{.multicast = true}}) {
    const auto read = autotune::parse_choice(autotune::choice_text({t, preferred}));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->values, t);
    EXPECT_EQ(read->preferred, preferred);
  }
  for (const char* bad : {"", "BM", "BM=", "=4", "BM=4x", "BM=99999999999", "BM=4  BN=4",
                          "BM=4 | multicast", "BM=4 | other=1", " | multicast=1"})
    EXPECT_FALSE(autotune::parse_choice(bad)) << bad;
}

/// Calls run with the plan that was measured, whatever the model prefers now, and without it if a
/// pass rejects the kernel with it.
TEST_F(TuneKernel, CallsHaveThePlanOfTheStoredWinner) {
  const Tensor A = Tensor::integers({128, 64}, DType::bf16, -2, 2, 1, Device::sim()),
               B = Tensor::integers({64, 128}, DType::bf16, -2, 2, 2, Device::sim()),
               C = Tensor::zeros({128, 128}, DType::f32, Device::sim());
  const auto call = [&](const char* stored) {
    const auto k = kernel("product", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
      const int rows = tune("ROWS", {64, 128});
      for (auto [m, n] : grid(c, rows, 64)) {
        auto acc = zeros<f32>(rows, 64);
        for (auto i : steps(a.cols(), 64)) acc = dot(a(m, i), b(i, n), acc);
        c(m, n) = acc;
      }
    });
    const auto args = k.pack(A, B, C);
    autotune::WinnerTable::of_process().publish(
        {{autotune::device_class(Device::sim()), "kernel product", 3,
          autotune::problem_text(k.instance(), args), autotune::kSameBits},
         stored,
         "",
         0.5,
         0.5,
         2,
         "",
         0});
    k(A, B, C);
    return k.explain();
  };
  in_process([&] {
    EXPECT_THAT(call("ROWS=64"), Not(HasSubstr(" stages=3 ")));
    EXPECT_THAT(call("ROWS=64 | stages=3"),
                AllOf(HasSubstr("measured earlier: ROWS=64 | stages=3"), HasSubstr(" stages=3 ")));
    EXPECT_THAT(call("ROWS=64 | stages=4000"),
                AllOf(HasSubstr("tune(): measured earlier"), Not(HasSubstr(" stages=4000 "))));
    return true;
  });
}

TEST(ArgumentCopies, KeepTheUsersTensorsAndReportWritesOutside) {
  const Call c;
  const Tensor x = c.x.slice(0, 3, 200, 2);
  const autotune::MeasuredTensors tensors{{x, detail::ViewAccess::In, 0},
                                          {c.y, detail::ViewAccess::Out, 1}};
  const Stream stream(Device::sim());
  autotune::ArgumentCopy copy;
  copy.add(tensors, stream);
  const Tensor &copied_x = copy.tensor(0), &copied_y = copy.tensor(1);
  EXPECT_EQ(copied_x.to_doubles(), x.to_doubles());
  EXPECT_EQ(copied_x.strides(), x.strides());
  EXPECT_NE(copied_x.data(), x.data());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(copied_x.data()) % 16,
            reinterpret_cast<std::uintptr_t>(x.data()) % 16);
  copied_y.fill(7);
  EXPECT_EQ(c.y.to_doubles(), std::vector<double>(4096, 5));
  copy.reset(stream);
  EXPECT_TRUE(std::isnan(copied_y.to_doubles()[17]));
  EXPECT_EQ(copy.red_zone_damage(stream), "");
  copied_y.data_as<float>()[4096] = 1;
  EXPECT_THAT(copy.red_zone_damage(stream), HasSubstr("behind byte 16384 of argument 1"));
  copied_y.data_as<float>()[-1] = 1;
  EXPECT_THAT(copy.red_zone_damage(stream), HasSubstr("before byte -"));
}

TEST(ArgumentCopies, CompareDistinguishesRoundingFromWrongResults) {
  const Call c;
  const autotune::MeasuredTensors tensors{{c.x, detail::ViewAccess::In, 0},
                                          {c.y, detail::ViewAccess::Out, 1}};
  const auto bytes = [](float at_3) {
    std::vector<float> values(4096, 5);
    values[3] = at_3;
    const Tensor host = Tensor::empty({4 * 4096}, DType::u8, Device::cpu());
    std::memcpy(host.data(), values.data(), 4 * 4096);
    return std::vector{host};
  };
  EXPECT_TRUE(autotune::compare(bytes(5), bytes(5), tensors).is_equal);
  const auto rounded = autotune::compare(bytes(5.00001f), bytes(5), tensors);
  EXPECT_FALSE(rounded.is_equal);
  EXPECT_TRUE(rounded.is_close);
  const auto wrong = autotune::compare(bytes(5.1f), bytes(5), tensors);
  EXPECT_FALSE(wrong.is_close);
  EXPECT_THAT(wrong.text, HasSubstr("argument 1: element 3 is 5.09"));
  EXPECT_FALSE(autotune::compare(bytes(NAN), bytes(5), tensors).is_close);
  EXPECT_TRUE(autotune::compare(bytes(NAN), bytes(NAN), tensors).is_close);
}

/// Large tensors are compared in parts: the element that is named is that of the whole.
TEST(ArgumentCopies, LargeTensorsAreComparedByAllThreads) {
  const Dims shape{3, 40, 4096};
  const Tensor original = Tensor::empty(shape, DType::f32, Device::cpu());
  const autotune::MeasuredTensors tensors{{original, detail::ViewAccess::Out, 0}};
  const auto bytes = [&](std::int64_t wrong_at) {
    const Tensor host = Tensor::empty({4 * original.numel()}, DType::u8, Device::cpu());
    auto* const elements = reinterpret_cast<float*>(host.data());
    for (std::int64_t i = 0; i < original.numel(); ++i) elements[i] = static_cast<float>(i % 97);
    if (wrong_at >= 0) elements[wrong_at] = 1000;
    return std::vector{host};
  };
  EXPECT_TRUE(autotune::compare(bytes(-1), bytes(-1), tensors).is_equal);
  for (const std::int64_t at : {0, 300'000, 3 * 40 * 4096 - 1}) {
    const auto d = autotune::compare(bytes(at), bytes(-1), tensors);
    EXPECT_FALSE(d.is_close);
    EXPECT_THAT(d.text, HasSubstr("element " + std::to_string(at) + " is 1000"));
  }
}

}  // namespace
}  // namespace tegula::tune_kernel_test
