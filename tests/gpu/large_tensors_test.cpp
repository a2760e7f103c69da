// Tensors of more than 2^31 elements, where 32 bits do not hold an index and for two-byte elements
// not even the last byte's unsigned one. Their twin without a GPU is
// tests/differential/far_elements_test.cpp.
#include <gtest/gtest.h>

#include <optional>

#include "tegula/error.h"
#include "tegula/tegula.h"

namespace tegula::large_tensors_test {
namespace {

constexpr std::int64_t k2To31 = std::int64_t{1} << 31;
constexpr std::int64_t kWindow = 4096;

/// Nothing where the device has no room.
std::optional<Tensor> room_for(const Dims& shape, DType dtype, double value) {
  try {
    return Tensor::full(shape, value, dtype, Device::cuda());
  } catch (const DeviceError&) {
    return std::nullopt;
  }
}

class LargeTensors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
  }
};

/// z = x + i % 61 where x is 3 all over, looked at around the places where narrow indices would
/// come round.
template <class T>
void expect_sums(const Tensor& z) {
  const std::int64_t n = z.numel();
  const Tensor flat = z.reshape({n});
  for (const std::int64_t middle : {kWindow / 2, k2To31 / 2, k2To31, n - kWindow / 2}) {
    const std::int64_t begin = std::max<std::int64_t>(0, middle - kWindow / 2),
                       end = std::min(n, middle + kWindow / 2);
    const auto got = flat.slice(0, begin, end).template to_vector<T>();
    std::int64_t wrong = 0;
    for (std::int64_t i = begin; i < end; ++i)
      wrong += static_cast<int>(got[static_cast<std::size_t>(i - begin)]) !=
               static_cast<int>(3 + i % 61);
    EXPECT_EQ(wrong, 0) << "elements " << begin << " to " << end;
  }
}

template <class T>
void add_along_one_dimension() {
  const auto add = kernel("add_large", [](In<T, 1> x, Out<T, 1> z) {
    for (auto i : grid(z, 4096)) z(i) = x(i) + cast<T>(i.indices() % 61);
  });
  const Dims shape{k2To31 + 12345};
  const auto x = room_for(shape, dtype_of<T>, 3), z = room_for(shape, dtype_of<T>, 0);
  if (!x || !z) GTEST_SKIP() << "the device has no room for two tensors of 2^31 elements";
  add(*x, *z);
  expect_sums<T>(*z);
}

TEST_F(LargeTensors, Bytes) { add_along_one_dimension<i8>(); }
TEST_F(LargeTensors, Halves) { add_along_one_dimension<f16>(); }

TEST_F(LargeTensors, TwoDimensions) {
  const auto add = kernel("add_large_2d", [](In<i8, 2> x, Out<i8, 2> z, Scalar<i64> columns) {
    for (auto [r, c] : grid(z, 8, 512)) {
      const Tile at = cast<i64>(expand(r, 1)) * columns + cast<i64>(expand(c, 0));
      z(r, c) = x(r, c) + cast<i8>(at % 61);
    }
  });
  const std::int64_t rows = 46349, columns = 46368;  // either fits in 32 bits, their product not
  const auto x = room_for({rows, columns}, DType::i8, 3),
             z = room_for({rows, columns}, DType::i8, 0);
  if (!x || !z) GTEST_SKIP() << "the device has no room for two tensors of 2^31 elements";
  add(*x, *z, columns);
  expect_sums<i8>(*z);
}

}  // namespace
}  // namespace tegula::large_tensors_test
