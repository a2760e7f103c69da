// The cases of paged decoding run on the host and return the results of attention over contiguous
// keys.
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "bench/bench.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/kv_cache.h"
#include "tegula/tegula.h"

namespace tegula::bench::serving_cases_test {
using namespace kernels;
namespace {

constexpr std::int64_t kHeads = 2, kDim = 16, kRows = 16;
constexpr i32 kFirst = 40, kSecond = 7;  ///< keys of the requests

/// Returns rows [begin, end) of [rows, heads, dim] as [1, heads, rows, dim].
Tensor as_batch(const Tensor& rows, std::int64_t begin, std::int64_t end) {
  return rows.slice(0, begin, end)
      .reshape({1, end - begin, rows.size(1), kDim})
      .permute({0, 2, 1, 3});
}

TEST(ServingCases, StoreKeysAndAttendToThem) {
  const Device cpu = Device::cpu();
  const Stream stream(cpu);
  const auto random = [&](const Dims& shape, std::uint64_t seed) {
    return Tensor::normal(shape, DType::bf16, 0, 1, seed, cpu);
  };
  const auto numbers = [&](const std::vector<i32>& list) { return Tensor::from(list, cpu); };
  const Tensor k = random({kFirst + kSecond, 1, kDim}, 1), v = random(k.shape(), 2),
               pages = Tensor::zeros({5, kRows, 1, kDim}, DType::bf16, cpu),
               value_pages = pages.clone(),
               table = Tensor::from(std::vector<i32>{4, 0, 2, 1, -1, -1}, {2, 3}, cpu),
               lengths = numbers({kFirst, kSecond});
  find_case("kv_append")
      .run(stream,
           std::vector{k, v, pages, value_pages, table, numbers({0, kFirst, kFirst + kSecond}),
                       lengths},
           kFirst);
  const Tensor q = random({2, kHeads, kDim}, 3), got = Tensor::empty(q.shape(), q.dtype(), cpu),
               list = Tensor::full({schedule_words(2, cpu)}, -1, DType::i32, cpu);
  const std::vector call{q, pages, value_pages, table, numbers({0, 1, 2}), lengths, list, got};
  find_case("paged_schedule").run(stream, call, 1);
  find_case("paged_attention").run(stream, call, 1);

  const Tensor want = Tensor::empty(q.shape(), q.dtype(), cpu);
  for (const auto& [b, begin, end] : {std::tuple{0, i32{0}, kFirst}, {1, kFirst, kFirst + kSecond}})
    Attention(AttentionSpec{})(stream, as_batch(q, b, b + 1), as_batch(k, begin, end),
                               as_batch(v, begin, end), as_batch(want, b, b + 1));
  const std::vector<double> a = got.to_doubles(), w = want.to_doubles();
  ASSERT_EQ(a.size(), w.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], w[i], 0.02) << i;
}

}  // namespace
}  // namespace tegula::bench::serving_cases_test
