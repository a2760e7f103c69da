// Prints and assertions of running kernels, on every device.
#include "tegula/print.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::print_test {
namespace {

class Print : public testing::TestWithParam<Device> {
 protected:
  Print() {
    set_print_sink([this](std::string_view line) { lines_.emplace_back(line); });
  }
  ~Print() override { set_print_sink({}); }
  Device device() const { return GetParam(); }
  Stream stream() const { return Stream(GetParam()); }
  std::vector<std::string> lines_;
};
INSTANTIATE_TEST_SUITE_P(Devices, Print, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(Print, AllTypesAndShapes) {
  const auto say = kernel("say", [](In<bf16, 2> x, In<i64, 1> n, Out<f32, 1> y) {
    for (auto i : grid(y, 2)) {
      const Tile t = x(slice(0, 2), slice(i.first(), 3));
      print("{} of {}: {}", i.first(), n(0), t);
      print("nothing");
      if_(i.first() > 0,
          [&] { print("{} {} {}", t > 1.5f, cast<u8>(n(0)), cast<f64>(t(0, 0)) / 3); });
      y(i) = 1;
    }
  });
  const Tensor x = Tensor::iota({2, 4}, DType::bf16, device()),
               n = Tensor::full({1}, -5, DType::i64, device()),
               y = Tensor::empty({4}, DType::f32, device());
  for (int launch = 0; launch < 2; ++launch) {
    lines_.clear();
    say(stream(), x, n, y);
    stream().synchronize();
    EXPECT_EQ(lines_, (std::vector<std::string>{
                          "say(0): 0 of -5: [[0, 1, 2], [4, 5, 6]]\n", "say(0): nothing\n",
                          "say(1): 2 of -5: [[2, 3, -], [6, 7, -]]\n", "say(1): nothing\n",
                          "say(1): [[true, true, -], [true, true, -]] 251 0.6666666666666666\n"}));
  }
}

TEST_P(Print, MoreThanTheBufferHolds) {
  const auto many = kernel("many", [](Out<f32, 1> y) {
    for (auto i : grid(y, 1)) {
      for (auto j : steps(20, 1)) print("{} {}", j.first(), full<i32>(7, 1000));
      y(i) = 1;
    }
  });
  const Tensor y = Tensor::empty({20}, DType::f32, device());
  many(stream(), y);
  stream().synchronize();
  // 400 records of 3 + 3 * 1001 words.
  constexpr std::size_t kHeld = 348;
  ASSERT_EQ(lines_.size(), kHeld + 1);
  EXPECT_EQ(lines_.back(), std::to_string(400 - kHeld) + " more records did not fit\n");
}

TEST_P(Print, FailedAssertions) {
  const auto check = kernel("check", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 4)) {
      const Tile t = x(i);
      device_assert(t < 6, "too large: {}", t);
      y(i) = t;
    }
  });
  const Tensor x = Tensor::iota({7}, DType::f32, device()),
               y = Tensor::empty({7}, DType::f32, device()),
               good = Tensor::zeros({7}, DType::f32, device());
  const auto run = [&](const Tensor& given) {
    check(stream(), given, y);
    stream().synchronize();
  };
  run(good);
  try {
    run(x);
    ADD_FAILURE() << "nothing failed";
  } catch (const ProgramError& e) {
    EXPECT_EQ(e.diagnostic().code, "T1316");
    EXPECT_EQ(e.diagnostic().message,
              "kernel check: assertion failed: too large: [4, 5, 6, -] (program 1)");
    EXPECT_TRUE(std::string_view(e.diagnostic().loc.file).ends_with("print_test.cpp"));
  }
  EXPECT_EQ(y.to_doubles(), x.to_doubles()) << "the program goes on";
  run(good);
}

TEST_P(Print, TheFirstNan) {
  const auto watch = kernel("watch", [](In<f32, 2> x, Out<f32, 1> y) {
    for (auto r : grid(rows(x), 2)) {
      const Tile t = x(r, all);
      watch_nan(t, "t");
      watch_nan(sum(t), "the sum");
      y(r) = sum(t, axis(1));
    }
  });
  std::vector<f32> values(5 * 6, 1);
  values[2 * 6 + 4] = values[3 * 6 + 1] = std::numeric_limits<f32>::quiet_NaN();
  watch(stream(), Tensor::from(values, {5, 6}, device()), Tensor::empty({5}, DType::f32, device()));
  stream().synchronize();
  EXPECT_EQ(lines_, (std::vector<std::string>{"watch(1): t: 2 NaN, the first at 4\n",
                                              "watch(1): the sum: 1 NaN, the first at 0\n"}));
}

TEST(PrintEagerly, TheOneProgram) {
  Env eager = env();
  eager.eager = true;
  const EnvOverride with(eager);
  std::vector<std::string> lines;
  set_print_sink([&](std::string_view line) { lines.emplace_back(line); });
  const auto say = kernel("say", [](Out<i32, 1> y) {
    for (auto i : grid(y, 3)) {
      print("{}", i.indices());
      y(i) = 1;
    }
  });
  say(Tensor::empty({5}, DType::i32, Device::cpu()));
  set_print_sink({});
  EXPECT_EQ(lines, (std::vector<std::string>{"say(0): [0, 1, 2]\n"}));
}

}  // namespace
}  // namespace tegula::print_test
