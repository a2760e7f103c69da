// Products of matrices at addresses, assembled by either back end: wgmma on operands that the
// threads copy, two CTAs an SM, and nothing spills.
#include "examples/triton/grouped_gemm.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::address_products_test {
namespace {

int count(const std::string& text, std::string_view part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_F(Assembled, GroupedProductsByAddress) {
  const Device cpu = Device::cpu();
  const auto gemm = tutorials::grouped_gemm();
  const ir::Kernel kernel = traced("grouped_gemm", [&] {
    gemm(Stream(cpu), Tensor::zeros({1, 3}, DType::i64, cpu),
         Tensor::zeros({1, 3}, DType::i32, cpu), 2);
  });
  for (const runtime::Backend backend : here()) {
    const ir::Plan plan = expect_clean(kernel, "sm_90a", true, backend);
    EXPECT_EQ(plan.min_ctas_per_sm, 2) << plan.str();
    expect_clean(kernel, "sm_80", false, backend);
  }
  runtime::CompileRequest request;
  request.target = ir::Target("sm_90a");
  request.backend = runtime::Backend::Llvm;
  const std::string code = assembled(kernel, request).emitted.ptx;
  // Four pieces of each operand a thread and step, in front of the loop and in it.
  EXPECT_GE(count(code, "cp.async.cg.shared.global"), 16) << code;
  EXPECT_EQ(count(code, "cp.async.ca.shared.global"), 0) << code;
  EXPECT_EQ(count(code, "wgmma.mma_async.sync"), 4) << code;
  EXPECT_EQ(count(code, "mma.sync.aligned"), 0) << code;
}

}  // namespace
}  // namespace tegula::test::address_products_test
