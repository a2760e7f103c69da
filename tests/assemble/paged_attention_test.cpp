// Attention to pages is assembled: wgmma on rows that cp.async or TMA copies, no spills.
#include <gtest/gtest.h>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::paged_attention_test {
using namespace kernels;
namespace {

/// Kernels of a step of two requests with `queries` rows of Q in all, and `columns` pages each.
std::vector<ir::Kernel> traced_paged(const std::vector<std::string>& names, std::int64_t rows,
                                     std::int64_t dim, std::int64_t queries,
                                     std::int64_t max_seqlen_q, std::int64_t columns = 3) {
  const Attention attention({.mask = masks::causal()});
  const Tensor Q = host({queries, 8, dim}), O = host({queries, 8, dim}),
               pages = host({6, rows, 2, dim});
  const auto numbers = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::i32, Device::cpu());
  };
  const KvCache cache{pages, pages, numbers({2, columns})};
  return all_traced(names, [&] {
    attention.paged(Stream(Device::cpu()), Q, cache, O, {numbers({3}), numbers({2}), max_seqlen_q});
  });
}

TEST_F(Assembled, PagedAttention) {
  for (const std::int64_t dim : {64, 128})
    for (const std::int64_t rows : {1, 24, 64})
      for (const std::int64_t longest : {1, 300}) {
        SCOPED_TRACE(testing::Message() << dim << " rows " << rows << " queries " << longest);
        expect_clean(traced_paged({"attention"}, rows, dim, 300, longest).front(), "sm_90a", true);
      }
}

/// The list of a step's work, and the kernel that reads it and combines the parts of a request.
TEST_F(Assembled, PagedAttentionByWorkList) {
  const auto kernels = traced_paged({"attention_schedule", "attention"}, 16, 128, 2, 1, 128);
  expect_clean(kernels[0], "sm_90a", false);
  expect_clean(kernels[1], "sm_90a", true);
  for (const std::int64_t dim : {64, 256}) {
    SCOPED_TRACE(dim);
    expect_clean(traced_paged({"attention"}, 16, dim, 2, 1, 128).front(), "sm_90a", true);
  }
}

}  // namespace
}  // namespace tegula::test::paged_attention_test
