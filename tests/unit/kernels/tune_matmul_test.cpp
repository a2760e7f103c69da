// The library's own products through tune(calls), on the simulator.
#include <gmock/gmock.h>

#include "autotune/calls/decision.h"
#include "autotune/matmul/space.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/matmul.h"
#include "tegula/tune.h"
#include "tests/unit/autotune/own_store.h"

namespace tegula::tune_matmul_test {
using namespace kernels;
namespace {

using ::testing::HasSubstr;

struct Product {
  Product(std::int64_t m, std::int64_t n, std::int64_t k)
      : A(Tensor::integers({m, k}, DType::bf16, -2, 2, 1, Device::sim())),
        B(Tensor::integers({k, n}, DType::bf16, -2, 2, 2, Device::sim())),
        C(Tensor::full({m, n}, 9, DType::bf16, Device::sim())) {}
  Stream stream{Device::sim()};
  Tensor A, B, C;
};

using TuneMatmul = test::OwnStore;

TEST_F(TuneMatmul, EveryCandidateIsCheckedAndTheWinnerIsTheCallsOwn) {
  const Product p(72, 64, 128);
  in_process([&] {
    matmul(p.stream, p.A, p.B, p.C);
    const std::vector<double> wanted = p.C.to_doubles();
    p.C.fill(9);
    TuneOptions options;
    const auto all = tune([&] { matmul(p.stream, p.A, p.B, p.C); }, options);
    EXPECT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].family, "matmul");
    EXPECT_THAT(all[0].problem, HasSubstr("m=72 n=64 k=128"));
    EXPECT_GT(all[0].candidates, 1);
    for (const std::string& why : all[0].rejected)
      EXPECT_THAT(why, ::testing::Not(HasSubstr("wrong"))) << "all give the same bits";
    const auto config = autotune::parse<MatmulConfig>(all[0].config);
    EXPECT_TRUE(config.has_value());
    EXPECT_EQ(p.C.to_doubles(), wanted) << "the call itself runs, too";
    p.C.fill(9);
    matmul(p.stream, p.A, p.B, p.C);
    EXPECT_EQ(p.C.to_doubles(), wanted);
    return true;
  });
}

/// A row of the store is data: one that no kernel can be made of is not used.
TEST_F(TuneMatmul, WinnersOfTheStoreAreUsedWhereTheyAreLegal) {
  const Product p(72, 64, 128);
  in_process([&] {
    const MatmulProblem problem = kernels::detail::matmul_problem(p.A, p.B, p.C, {});
    const MatmulConfig model = choose_matmul(problem, host_profile());
    const auto publish = [&](const MatmulConfig& c) {
      autotune::WinnerTable::of_process().publish(
          {{"sim", "matmul", 1, autotune::text_of(problem), autotune::kSameBits},
           autotune::text_of(c),
           "",
           0.5,
           0.6,
           9,
           "",
           0});
    };
    MatmulConfig other = model;
    other.group_m = 4;
    publish(other);
    EXPECT_EQ(choose_matmul(problem, Device::sim()), other);
    EXPECT_EQ(choose_matmul(problem, Device::sim(), "gated_matmul"), model);
    EXPECT_EQ(choose_matmul(problem, Device::cpu()), model);
    other.bm = 100;  // no instruction has such rows
    publish(other);
    EXPECT_EQ(choose_matmul(problem, Device::sim()), model);
    return true;
  });
}

}  // namespace
}  // namespace tegula::tune_matmul_test
