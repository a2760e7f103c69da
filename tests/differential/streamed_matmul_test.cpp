// Products whose steps are dealt evenly (MatmulConfig::streamed) on every device that is here,
// against host arithmetic: tiles in one part, in two, in as many as there are programs.
#include <gtest/gtest.h>

#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_products.h"

namespace tegula {
namespace {

using test::expect_equal;
using test::product;

class StreamedMatmul : public test::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, StreamedMatmul, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Programs that divide the steps, that do not, more than there are steps, and one.
TEST_P(StreamedMatmul, AnyNumberOfPrograms) {
  const Tensor A = integers({130, 328}, DType::bf16, 1), B = integers({328, 136}, DType::bf16, 2),
               C = empty({130, 136}, DType::f32);
  const auto want = product(A, B);
  // 9 tiles of 6 steps.
  for (const int programs : {1, 2, 3, 4, 5, 7, 8, 9, 10, 18, 27, 54, 61}) {
    SCOPED_TRACE(programs);
    matmul(stream(), A, B, C, {.bm = 64, .bn = 64, .bk = 64, .streamed = programs});
    expect_equal(C, want);
  }
}

}  // namespace
}  // namespace tegula
