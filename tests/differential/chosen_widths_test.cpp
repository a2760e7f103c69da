// Widths between the powers of two, which the library chooses for rows of weights that k is
// contiguous in, in every decomposition of a matmul, on every available device.
#include <gtest/gtest.h>

#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::chosen_widths_test {
using namespace kernels;
namespace {

using test::expect_equal;
using test::product;

class ChosenWidths : public test::OnDevice {
 protected:
  template <class O>
  void check(const MatmulConfig& c, std::int64_t m, std::int64_t n, std::int64_t k) const {
    SCOPED_TRACE(testing::Message() << c.str() << ": " << m << "x" << n << "x" << k);
    const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2, true),
                 C = empty({m, n}, dtype_of<O>);
    const auto plain = fused_matmul<bf16, O>([](Tile acc, Index, Index) { return acc; });
    plain.run(c, stream(), A, B, C);
    expect_equal(C, product(A, B));
    if (GetParam().kind == DeviceKind::cpu) return;
    const std::string said = plain.explain(c);
    EXPECT_NE(said.find("dot by wgmma"), std::string::npos) << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ChosenWidths, testing::ValuesIn(test::devices()),
                         test::device_name);

constexpr int kWidths[] = {112, 160, 176, 224};

TEST_P(ChosenWidths, Whole) {
  for (const int bn : kWidths)
    for (const int bm : {64, 128, 192}) {
      if (bm == 192 && bn == 224)
        continue;  // more accumulators than three warpgroups have registers for
      check<bf16>({.bm = bm, .bn = bn, .bk = 64}, bm + 8, 2 * bn + 8, 200);
      check<f32>({.bm = bm, .bn = bn, .bk = 64}, bm, bn, 64);
    }
}

TEST_P(ChosenWidths, SharedAndStoredByTma) {
  for (const int bn : kWidths)
    check<bf16>({.bm = 128, .bn = bn, .bk = 64, .multicast = Multicast::b, .tma_store = true}, 392,
                bn + 40, 136);
}

TEST_P(ChosenWidths, Pingpong) {
  for (const int bn : kWidths)
    check<bf16>({.bm = 64, .bn = bn, .bk = 64, .pingpong = true}, 200, 2 * bn + 16, 136);
}

TEST_P(ChosenWidths, SplitK) {
  for (const int bn : kWidths) {
    check<bf16>({.bm = 128, .bn = bn, .bk = 64, .split = SplitK::partials, .parts = 3}, 136, bn + 8,
                328);
    check<bf16>({.bm = 64, .bn = bn, .bk = 64, .split = SplitK::cluster, .parts = 2}, 72, bn + 8,
                328);
    check<bf16>({.bm = 128, .bn = bn, .bk = 64, .split = SplitK::stream, .parts = 3}, 136, bn + 8,
                328);
  }
}

}  // namespace
}  // namespace tegula::chosen_widths_test
