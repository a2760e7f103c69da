// Elements that are beyond 2^31 and 2^32 bytes, by interpreter and simulator: memory is reserved
// and not touched but for what the kernel reads and writes.
#include <gtest/gtest.h>

#include "tegula/tegula.h"
#include "tests/differential/reserved_memory.h"

namespace tegula::far_elements_test {
namespace {

constexpr std::int64_t k2To31 = std::int64_t{1} << 31;

class FarElements : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, FarElements, testing::Values(Device::cpu(), Device::sim()),
                         [](const auto& i) { return i.param.str(); });

TEST_P(FarElements, AreFoundByTheirIndex) {
  const std::int64_t n = k2To31 + 12345;
  const test::ReservedMemory memory(static_cast<std::size_t>(n) * 2);
  if (!memory.is_there()) GTEST_SKIP() << "no address space for 4 GiB";
  const auto shifted = kernel("shifted", [](In<f16, 1> x, Out<f16, 1> z, Scalar<i64> start) {
    for (auto i : grid(z, 64)) z(i) = x(cast<i64>(i.indices()) + start) + 1;
  });
  const Tensor x = Tensor::borrow(memory.data(), {n}, DType::f16, GetParam());
  for (const std::int64_t start : {std::int64_t{0}, k2To31 / 2 - 32, k2To31 - 32, n - 64}) {
    auto* at = static_cast<f16*>(memory.data()) + start;
    for (int i = 0; i < 64; ++i) at[i] = f16(static_cast<float>(i));
    const Tensor z = Tensor::zeros({64}, DType::f16, GetParam());
    shifted(x, z, start);
    const auto got = z.to_doubles();
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], static_cast<double>(i + 1)) << start;
  }
}

TEST_P(FarElements, AreFoundByTheirStride) {
  const std::int64_t stride =
      k2To31 / 4 + 4096;  // elements of f32: the third row is beyond 2^32 bytes
  const test::ReservedMemory memory(static_cast<std::size_t>(2 * stride + 64) * 4);
  if (!memory.is_there()) GTEST_SKIP() << "no address space for 4 GiB";
  const auto doubled = kernel("doubled", [](InOut<f32, 2> x) {
    for (auto [r, c] : grid(x, 1, 64)) x(r, c) = x(r, c) * 2;
  });
  const Tensor x = Tensor::borrow(memory.data(), {3, 64}, DType::f32, GetParam(), {stride, 1});
  auto* first = static_cast<f32*>(memory.data());
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 64; ++c) first[r * stride + c] = static_cast<f32>(100 * r + c);
  doubled(x);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 64; ++c) EXPECT_EQ(first[r * stride + c], 200 * r + 2 * c) << r << "," << c;
}

}  // namespace
}  // namespace tegula::far_elements_test
