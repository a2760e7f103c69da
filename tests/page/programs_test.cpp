// Compiles and runs the kernels of docs/language/programs.md unchanged.
#include "tegula/look_back.h"
#include "tests/page/page.h"

namespace tegula::page::programs_test {
namespace {

class Programs : public Page {};

TEST_P(Programs, ALock) {
#include "programs_1.inc"
  const Tensor x = ones_of({24, 1024}), sums = zeros_of({3, 1024}),
               locks = zeros_of({3}, DType::i32);
  add_under_lock(x, sums, locks);
  for (const double sum : sums.to_doubles()) ASSERT_EQ(sum, 8);
}

TEST_P(Programs, ATurnstile) {
#include "programs_2.inc"
  const Tensor x = ones_of({20, 256}), y = zeros_of({256}), counters = zeros_of({2}, DType::u32);
  ordered_sum(x, y, counters);
  f32 want = 0;
  for (int i = 0; i < 20; ++i) want += 0.1f;
  for (const double sum : y.to_doubles()) ASSERT_EQ(sum, want);
  for (const double counter : counters.to_doubles()) EXPECT_EQ(counter, 0);
}

TEST_P(Programs, AScan) {
#include "programs_3.inc"
  const Tensor x = iota_of({9000}, DType::i32), y = empty_of({9000}, DType::i32),
               words = zeros_of({9}, DType::u64), counter = zeros_of({1}, DType::u32);
  device_scan(x, y, words, counter);
  const auto out = y.to_doubles();
  for (int i = 0; i < 9000; ++i) ASSERT_EQ(out[static_cast<std::size_t>(i)], i * (i + 1.0) / 2);
}

TEST_P(Programs, AGridBarrier) {
#include "programs_4.inc"
  const Tensor x = ones_of({64, 128}), sums = zeros_of({64}), y = empty_of({64, 128});
  for (int launch = 0; launch < 2; ++launch) {
    normalized(x, sums, y);
    for (const double v : y.to_doubles()) ASSERT_EQ(v, 1.0 / (64 * 128));
  }
}

TEST_P(Programs, TensorsByTheirAddresses) {
#include "programs_5.inc"
  const Tensor w = ones_of({5000}, DType::bf16), g = ones_of({5000});
  const auto address = [](const Tensor& t) { return reinterpret_cast<std::uint64_t>(t.data()); };
  update(Tensor::from(std::vector<u64>{address(w), address(g)}, {1, 2}, device()),
         Tensor::from(std::vector<i64>{5000}, {1}, device()),
         Tensor::from(std::vector<i32>{0, 0, 0, 1}, {2, 2}, device()), 0.5f);
  for (const double v : w.to_doubles()) ASSERT_EQ(v, 0.5);
}

TEST_P(Programs, PtxWithAModel) {
#include "programs_6.inc"
  const Tensor x = iota_of({300}, DType::u32), y = empty_of({300}, DType::u32);
  reversed_bits(x, y);
  EXPECT_EQ(y.to_doubles()[1], 2147483648.0);
  EXPECT_EQ(y.to_doubles()[6], 1610612736.0);
}

TEST_P(Programs, ARowInACluster) {
#include "programs_7.inc"
  const Tensor x = ones_of({3, 1700}), y = empty_of({3, 1700});
  long_softmax(x, y);
  for (const double v : y.to_doubles()) ASSERT_NEAR(v, 1.0 / 1700, 1e-8);
}

INSTANTIATE_TEST_SUITE_P(Devices, Programs, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::programs_test
