// Few rows and large weights: clusters of CTAs of one or two warps that share k, as the library
// chooses them for weights that take long to read; here with small weights, on every device.
#include <gtest/gtest.h>

#include <vector>

#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::small_m_test {
using namespace kernels;
namespace {

using test::expect_equal;
using test::product;

class FewRows : public test::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, FewRows, testing::ValuesIn(test::devices()), test::device_name);

MatmulConfig few_rows(int bm, int bn, int bk, int splits, int stages) {
  return {
      .bm = bm, .bn = bn, .bk = bk, .split = SplitK::cluster, .parts = splits, .stages = stages};
}

/// All configurations that the library chooses, also with layouts of B for which it does not.
TEST_P(FewRows, ChosenConfigurations) {
  std::vector<MatmulConfig> chosen;
  for (const int bm : {16, 32})
    for (const int splits : {2, 4, 8})
      for (const int stages : {3, 4}) chosen.push_back(few_rows(bm, 64, 64, splits, stages));
  for (const MatmulConfig& c : chosen)
    for (const bool a_turned : {false, true})
      for (const bool b_turned : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << c.str() << (a_turned ? " T" : " N") << (b_turned ? "T" : "N"));
        const Tensor A = integers({c.bm, 1096}, DType::bf16, 1, a_turned),
                     B = integers({1096, 200}, DType::bf16, 2, b_turned),
                     C = empty({c.bm, 200}, DType::bf16);
        matmul(stream(), A, B, C, c);
        expect_equal(C, product(A, B));
      }
}

/// Ragged in every extent; slices of k that are empty.
TEST_P(FewRows, OddShapes) {
  for (const Dims& s : {Dims{1, 200, 1096}, Dims{7, 8, 520}, Dims{13, 136, 72}, Dims{16, 63, 1031},
                        Dims{0, 64, 64}, Dims{5, 72, 0}})
    for (const DType type : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(s.str() + " " + std::string(name(type)));
      const Tensor A = integers({s[0], s[2]}, type, 1), B = integers({s[2], s[1]}, type, 2),
                   C = empty({s[0], s[1]}, DType::f32);
      matmul(stream(), A, B, C, few_rows(16, 64, 64, 4, 4));
      expect_equal(C, product(A, B));
    }
}

/// Each CTA of a cluster has its own rows.
TEST_P(FewRows, Epilogues) {
  const auto fused = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return max(acc + expand(cast<f32>(bias(n)), 0), 0.0f) + cast<f32>(residual(m, n));
      });
  const std::int64_t m = 11, n = 136, k = 1032;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::bf16), bias = integers({n}, DType::bf16, 3),
               residual = integers({m, n}, DType::bf16, 5);
  auto want = product(A, B);
  const auto b = bias.to_doubles(), r = residual.to_doubles();
  for (std::size_t i = 0; i < want.size(); ++i)
    want[i] = std::max(want[i] + b[i % static_cast<std::size_t>(n)], 0.0) + r[i];
  for (const int splits : {2, 4, 8}) {
    SCOPED_TRACE(splits);
    fused.run(few_rows(16, 64, 64, splits, 4), stream(), A, B, C, bias, residual);
    expect_equal(C, want);
    if (GetParam().kind == DeviceKind::cpu) continue;
    const std::string said = fused.explain(few_rows(16, 64, 64, splits, 4));
    EXPECT_NE(said.find("wgmma=0"), std::string::npos) << said;
    EXPECT_NE(said.find("stages=4"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace tegula::small_m_test
