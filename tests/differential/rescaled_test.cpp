// Products with factors that are mostly 1: by value they are products, whatever a warp skips.
#include <gtest/gtest.h>

#include <cmath>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test::rescaled_test {
namespace {

constexpr int kRows = 64, kColumns = 32;

class Rescaled : public testing::TestWithParam<Device> {
 protected:
  /// Factors of all rows are 1, of some, and some that no product may lose.
  template <class T>
  void expect_products() const {
    const auto k = kernel("conditional_rescale", [](In<T, 2> x, In<T, 1> by, Out<T, 2> y) {
      for (auto m : grid(by, kRows)) y(m, all) = conditional_rescale(x(m, all), expand(by(m), 1));
    });
    const Tensor x = Tensor::integers({kRows, kColumns}, dtype_of<T>, -8, 8, 1, GetParam());
    for (const double other : {1.0, 0.5, -2.0, double{INFINITY}, double{NAN}}) {
      SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " " << other);
      std::vector<T> factors(kRows, T(1));
      factors[5] = factors[40] = T(static_cast<float>(other));
      const Tensor y = Tensor::full(x.shape(), -77, dtype_of<T>, GetParam());
      k(Stream(GetParam()), x, Tensor::from(factors, GetParam()), y);
      const auto in = x.to_doubles(), got = y.to_doubles();
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double want = in[i] * static_cast<double>(factors[i / kColumns]);
        ASSERT_TRUE(got[i] == want || (std::isnan(got[i]) && std::isnan(want)))
            << "element " << i << ": " << got[i] << ", not " << want;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Rescaled, testing::ValuesIn(devices()), device_name);

TEST_P(Rescaled, IsAProduct) {
  expect_products<f32>();
  expect_products<f16>();
  expect_products<bf16>();
  expect_products<f64>();
}

}  // namespace
}  // namespace tegula::test::rescaled_test
