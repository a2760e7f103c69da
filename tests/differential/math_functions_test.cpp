// The math functions give the bits of `cpu` on every device, for special values and random bits.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "devices.h"
#include "tests/math_functions.h"

namespace tegula::math_functions_test {
namespace {

template <class T>
std::vector<T> operands(unsigned seed) {
  std::mt19937_64 random(seed);
  const double specials[] = {0.0, -0.0, 1, -1, inf, -inf, nan, 0.5, 2, 2.5, 171, -3, 1e-310, 1e30};
  std::vector<T> out;
  while (out.size() < 1000) {
    const std::uint64_t r = random();
    const double unit = std::ldexp(static_cast<double>(random() >> 11), -53) * 2 - 1;
    const double v = r % 4 == 0   ? specials[r / 4 % std::size(specials)]
                     : r % 4 == 1 ? unit
                                  : unit * std::exp(unit * 40);
    if constexpr (sizeof(T) == 2)
      out.push_back(T(static_cast<float>(v)));
    else
      out.push_back(static_cast<T>(v));
  }
  return out;
}

class MathFunctions : public ::testing::TestWithParam<Device> {
 protected:
  template <class T>
  static void expect_bits_of_cpu() {
    const auto x = operands<T>(1), y = operands<T>(2);
    for (const test::MathFunction& f : test::math_functions()) {
      if (f.narrow < 0 && sizeof(T) < 8) continue;  // instructions that approximate
      const auto cpu = test::evaluated(f, x, y, Device::cpu());
      const auto here = test::evaluated(f, x, y, GetParam());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto a = static_cast<double>(cpu[i]), b = static_cast<double>(here[i]);
        if (std::isnan(a) && std::isnan(b)) continue;
        ASSERT_EQ(std::memcmp(&cpu[i], &here[i], sizeof(T)), 0)
            << f.name << "(" << static_cast<double>(x[i]) << ", " << static_cast<double>(y[i])
            << "): " << a << " on cpu, " << b;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MathFunctions, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(MathFunctions, BitsOfCpuF32) { expect_bits_of_cpu<f32>(); }
TEST_P(MathFunctions, BitsOfCpuF64) { expect_bits_of_cpu<f64>(); }
TEST_P(MathFunctions, BitsOfCpuF16) { expect_bits_of_cpu<f16>(); }
TEST_P(MathFunctions, BitsOfCpuBf16) { expect_bits_of_cpu<bf16>(); }

/// Neighbours in each type: the next number is the next bit pattern.
TEST_P(MathFunctions, NeighboursAreThoseOfTheType) {
  const auto next = kernel("next", [](In<bf16, 1> x, In<bf16, 1> y, Out<bf16, 1> z) {
    for (auto i : grid(z, 8)) z(i) = nextafter(x(i), y(i));
  });
  const auto of = [](std::vector<float> v) {
    std::vector<bf16> out;
    for (float f : v) out.push_back(bf16(f));
    return Tensor::from(out, GetParam());
  };
  const Tensor z = Tensor::empty({6}, DType::bf16, GetParam());
  next(of({1, 1, 0, -1, inf, 2}), of({2, 0, -1, 3, 0, 2}), z);
  EXPECT_EQ(z.to_doubles(),
            (std::vector<double>{1 + 0x1p-7, 1 - 0x1p-8, -0x1p-133, -1 + 0x1p-8, 0x1.fep127, 2}));
}

}  // namespace
}  // namespace tegula::math_functions_test
