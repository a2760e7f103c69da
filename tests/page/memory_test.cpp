// Compiles and runs the kernels of docs/language/memory.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::memory_test {
namespace {

class Memory : public Page {};

TEST_P(Memory, AProgramReadsItsOwnStores) {
#include "memory_1.inc"
  const Tensor x = iota_of({4096}), scratch = zeros_of({4096}), y = empty_of({4096});
  reversed(x, scratch, y);
  const auto out = y.to_doubles();
  for (int i = 0; i < 4096; ++i) ASSERT_EQ(out[i], 4095 - i);
}

TEST_P(Memory, ARecurrenceRunsInPlace) {
#include "memory_2.inc"
  const Tensor y = ones_of({20, 1024});
  running_sum(y);
  const auto out = y.to_doubles();
  for (int t = 0; t < 20; ++t)
    for (int c = 0; c < 1024; ++c) ASSERT_EQ(out[t * 1024 + c], t + 1);
}

TEST_P(Memory, AProgramSeesItsAtomics) {
#include "memory_3.inc"
  const Tensor x = Tensor::integers({4096}, DType::i32, 0, 64, 1, device()),
               counts = zeros_of({64}, DType::i32), copy = empty_of({64}, DType::i32);
  histogram(x, counts, copy);
  std::vector<double> want(64);
  for (const double bin : x.to_doubles()) ++want[static_cast<std::size_t>(bin)];
  EXPECT_EQ(counts.to_doubles(), want);
  EXPECT_EQ(copy.to_doubles(), want);
}

TEST_P(Memory, ALockOrdersPrograms) {
#include "memory_4.inc"
  const Tensor x = ones_of({32, 2048}), sums = zeros_of({4, 2048}),
               locks = zeros_of({4}, DType::i32);
  add_locked(x, sums, locks);
  for (const double sum : sums.to_doubles()) ASSERT_EQ(sum, 8);
  for (const double lock : locks.to_doubles()) EXPECT_EQ(lock, 0);
}

TEST_P(Memory, TheLastProgramSeesAll) {
#include "memory_5.inc"
  const Tensor x = ones_of({7 * 1024}), parts = zeros_of({7}), counter = zeros_of({1}, DType::u32),
               y = empty_of({1});
  for (int launch = 0; launch < 2; ++launch) {
    total(x, parts, counter, y);
    EXPECT_EQ(y.to_doubles().front(), 7 * 1024);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Memory, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::memory_test
