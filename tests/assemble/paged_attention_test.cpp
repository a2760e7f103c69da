// Attention to pages is assembled: wgmma on rows that cp.async or TMA copies, no spills.
#include <gtest/gtest.h>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::paged_attention_test {
using namespace kernels;
namespace {

/// A step of two requests with `queries` rows of Q in all.
ir::Kernel traced_paged(std::int64_t rows, std::int64_t dim, std::int64_t queries,
                        std::int64_t max_seqlen_q) {
  const Attention attention({.mask = masks::causal()});
  const Tensor Q = host({queries, 8, dim}), O = host({queries, 8, dim}),
               pages = host({6, rows, 2, dim});
  const auto numbers = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::i32, Device::cpu());
  };
  const KvCache cache{pages, pages, numbers({2, 3})};
  return traced("attention", [&] {
    attention.paged(Stream(Device::cpu()), Q, cache, O, {numbers({3}), numbers({2}), max_seqlen_q});
  });
}

TEST_F(Assembled, PagedAttention) {
  for (const std::int64_t dim : {64, 128})
    for (const std::int64_t rows : {1, 24, 64})
      for (const std::int64_t longest : {1, 300}) {
        SCOPED_TRACE(testing::Message() << dim << " rows " << rows << " queries " << longest);
        expect_clean(traced_paged(rows, dim, 300, longest), "sm_90a", true);
      }
}

}  // namespace
}  // namespace tegula::test::paged_attention_test
