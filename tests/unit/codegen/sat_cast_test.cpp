// Saturating casts in the simulator and in CUDA C++; PTX from LLVM has its test next to that
// emitter.
#include <cstring>

#include "codegen/emit.h"
#include "ir/eval/cell.h"
#include "tests/unit/codegen/sat_casts.h"
#include "tests/unit/codegen/sim_test.h"

namespace tegula::sat_cast_test {
namespace {

using emit_cases::SatCast;

class SatCasts : public ::testing::TestWithParam<SatCast> {};

TEST_P(SatCasts, InterpreterKeepsRepresentableValues) {
  const SatCast& c = GetParam();
  const ir::Elem in[] = {{c.from, false}};
  const ir::Cell x = ir::from_bits(c.operand, c.from);
  const ir::Cell* operands[] = {&x};
  const std::size_t strides[] = {0};
  ir::AttrList sat;
  sat.set(ir::AttrName::sat, ir::AttrValue(std::int64_t{1}));
  ir::Cell result{};
  ir::elementwise_fn(ir::Opcode::Cast)({.attrs = sat,
                                        .in = in,
                                        .out = {c.to, false},
                                        .operands = operands,
                                        .strides = strides,
                                        .result = &result,
                                        .count = 1});
  EXPECT_EQ(ir::to_bits(result, c.to), c.result) << std::hex << ir::to_bits(result, c.to);
}

TEST_P(SatCasts, SimulatorKeepsRepresentableValues) {
  const SatCast& c = GetParam();
  sim::Buffer<std::uint8_t> x(16), y(16);
  const auto from = static_cast<std::size_t>(size_bytes(c.from)),
             to = static_cast<std::size_t>(size_bytes(c.to));
  for (std::size_t i : {0, 1}) std::memcpy(&x[i * from], &c.operand, from);
  sim::Launch1 launch;
  launch.pointer(x).pointer(y);
  const sim::Report report = launch.run(sim::parse_located(emit_cases::kernel_of(c)));
  // 32 threads write the same element, which the simulator may remark on.
  for (std::size_t i : {0, 1}) {
    std::uint64_t got = 0;
    std::memcpy(&got, &y[i * to], to);
    EXPECT_EQ(got, c.result) << std::hex << got << "\n" << report.str();
  }
}

TEST_P(SatCasts, InCudaSaturateWhereSomethingCanOverflowAndOnlyThere) {
  const std::string source =
      codegen::emit_cuda(ir::parse(emit_cases::kernel_of(GetParam()))).source;
  EXPECT_EQ(emit_cases::has_saturation(source), GetParam().saturates) << source;
}

INSTANTIATE_TEST_SUITE_P(Pairs, SatCasts, ::testing::ValuesIn(emit_cases::kSatCasts),
                         [](const auto& info) {
                           return fmt::format("{}_to_{}", name(info.param.from),
                                              name(info.param.to));
                         });

}  // namespace
}  // namespace tegula::sat_cast_test
