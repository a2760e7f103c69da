// Every elementwise op and conversion on every element type, through both back ends, against the
// oracle of the interpreter and the simulator: bit for bit, but for the instructions that the
// hardware only approximates.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "codegen/emit.h"
#include "ir/eval/cell.h"
#include "runtime/assemble.h"
#include "runtime/context.h"
#include "runtime/launch.h"
#include "runtime/nvrtc.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"
#include "tests/unit/llvm/elementwise_cases.h"

namespace tegula::elementwise_test {
namespace {

using emit_cases::Closeness;
using emit_cases::ElementwiseCase;
using ir::Cell;

constexpr int kBlocks = 32;
constexpr std::size_t kElements =
    std::size_t{kBlocks} * emit_cases::kThreads * emit_cases::kPerThread;

std::uint64_t type_mask(DType d) {
  return size_bits(d) == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << size_bits(d)) - 1;
}

/// A tie between two values of a narrow float, or a number so near one that f32 cannot tell: what
/// is rounded twice comes out wrong here, and hardly ever on random bits.
double near_a_tie(std::uint64_t r) {
  constexpr int kMantissas[] = {2, 3, 7, 10};  // f8e5m2, f8e4m3, bf16, f16
  constexpr double kNudges[] = {0,        0x1p-52, -0x1p-52, 0x1p-40,
                                -0x1p-40, 0x1p-30, -0x1p-30, 0x1p-25};
  const int mantissa = kMantissas[r % 4], exponent = static_cast<int>(r / 4 % 34) - 17;
  const double step = std::ldexp(1.0, -mantissa);
  const auto below = static_cast<double>((r >> 16) % (1u << mantissa));
  const double tie = 1 + (below + 0.5) * step;
  const double v = std::ldexp(tie * (1 + kNudges[(r >> 32) % 8]), exponent);
  return (r >> 63) != 0 ? -v : v;
}

/// Random bits, small numbers, and the edges of the type, each as its one canonical encoding; of
/// f64 the neighbourhood of ties, too.
std::vector<std::uint64_t> operand_bits(DType d, unsigned seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t mask = type_mask(d);
  const std::uint64_t top = std::uint64_t{1} << (size_bits(d) - 1);
  const std::uint64_t edges[] = {0, 1, mask, top, top - 1, top | 1, mask - 1, top >> 1};
  std::vector<std::uint64_t> bits(kElements);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::uint64_t r = random();
    std::uint64_t b = r & mask;
    if (i % 4 == 1) b = edges[r % std::size(edges)];
    if (i % 4 == 2) {
      Cell c;
      if (is_float(d))
        c.f = static_cast<double>(static_cast<std::int64_t>(r % 2048) - 1024) / 64;
      else
        c.i = static_cast<std::int64_t>(r % 67) - (is_signed(d) ? 33 : 0);
      b = ir::to_bits(ir::canonical(c, d), d);
    }
    if (i % 4 == 3 && d == DType::f64) b = std::bit_cast<std::uint64_t>(near_a_tie(r));
    bits[i] = ir::to_bits(ir::from_bits(b & mask, d), d);
  }
  return bits;
}

Tensor bytes_of(const std::vector<std::uint64_t>& bits, DType d) {
  const auto size = static_cast<std::size_t>(size_bytes(d));
  std::vector<std::uint8_t> bytes(bits.size() * size);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bytes[i * size], &bits[i], size);
  return Tensor::from(bytes, Device::cuda());
}

std::vector<std::uint64_t> bits_of(const Tensor& t, DType d) {
  const auto bytes = t.to_vector<std::uint8_t>();
  const auto size = static_cast<std::size_t>(size_bytes(d));
  std::vector<std::uint64_t> bits(bytes.size() / size);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bits[i], &bytes[i * size], size);
  return bits;
}

/// The oracle's results of a case, and the elements that it leaves open.
struct Expected {
  std::vector<Cell> values;
  std::vector<std::uint8_t> poison;
};

Expected expected(const ElementwiseCase& c, DType type, const std::vector<std::vector<Cell>>& x) {
  Expected e{std::vector<Cell>(kElements), std::vector<std::uint8_t>(kElements)};
  const ir::Elem elem{type, false};
  std::vector<ir::Elem> in(static_cast<std::size_t>(c.operands), elem);
  std::vector<const Cell*> operands;
  for (int i = 0; i < c.operands; ++i) operands.push_back(x[static_cast<std::size_t>(i)].data());
  const std::vector<std::size_t> strides(operands.size(), 1);
  std::vector<Cell> less(kElements);
  if (c.op == ir::Opcode::Select) {
    const ir::AttrList lt = ir::attr_list({{ir::AttrName::pred, "lt"}});
    ir::elementwise_fn(ir::Opcode::Cmp)({lt,
                                         {in.data(), 2},
                                         {DType::i1, false},
                                         {operands.data(), 2},
                                         {strides.data(), 2},
                                         less.data(),
                                         kElements});
    in[0] = {DType::i1, false};
    operands[0] = less.data();
  }
  ir::elementwise_fn(c.op)({c.attrs,
                            in,
                            {c.out, false},
                            operands,
                            strides,
                            e.values.data(),
                            kElements,
                            e.poison.data()});
  return e;
}

bool is_subnormal_or_huge(double v) {
  return v != 0 && (std::fabs(v) < 0x1p-125 || std::fabs(v) > 0x1p125);
}

/// One unit in the last place of the result type, for f32 a few of them.
bool is_close(const ElementwiseCase& c, double x, double want, double got) {
  if (want == got) return true;
  const int mantissa = dtype_info(c.out).mantissa_bits;
  const double ulps = mantissa == 23 ? 4 : 1;
  const double relative = std::ldexp(ulps, -mantissa) * std::fabs(want);
  if (c.closeness == Closeness::Ulps)
    return std::fabs(want - got) <= relative || is_subnormal_or_huge(x) ||
           is_subnormal_or_huge(want);
  const bool is_trigonometric = c.op == ir::Opcode::SinApprox || c.op == ir::Opcode::CosApprox;
  if (is_trigonometric && std::fabs(x) > 3.2) return true;
  const double absolute = c.op == ir::Opcode::TanhApprox ? 0x1p-10 : 0x1p-19;
  return std::fabs(want - got) <= relative + absolute || is_subnormal_or_huge(x);
}

bool agrees(const ElementwiseCase& c, Cell x, Cell want, std::uint64_t bits) {
  if (ir::to_bits(want, c.out) == bits) return true;
  if (!is_float(c.out)) return false;
  const double got = ir::from_bits(bits, c.out).f;
  if (std::isnan(want.f) || std::isnan(got)) return std::isnan(want.f) && std::isnan(got);
  // The ISA leaves open which of two zeros an extreme is.
  const bool extreme = c.op == ir::Opcode::Min || c.op == ir::Opcode::Max;
  if (extreme && want.f == 0 && got == 0) return true;
  return c.closeness != Closeness::Exact && is_close(c, x.f, want.f, got);
}

runtime::LoadedKernel load(const ir::Kernel& k, bool nvrtc) {
  const std::vector<char> cubin =
      nvrtc ? runtime::compile_cuda({.source = codegen::emit_cuda(k).source,
                                     .name = k.info.name + ".cu",
                                     .target = std::string(k.info.target.name()),
                                     .options = {}})
                  .cubin
            : runtime::assemble({.ptx = codegen::emit_llvm(k).ptx,
                                 .target = std::string(k.info.target.name()),
                                 .options = {}})
                  .cubin;
  return runtime::Module::load_cubin(cubin)->kernel(k.info.name, 0, {});
}

void launch(const runtime::LoadedKernel& kernel, const std::vector<Tensor>& tensors) {
  runtime::ArgumentLayout layout;
  std::vector<std::byte> block(tensors.size() * sizeof(void*));
  for (const Tensor& t : tensors) {
    void* p = t.data();
    std::memcpy(block.data() + layout.add<void*>(), &p, sizeof p);
  }
  const runtime::Extent3 grid{kBlocks, 1, 1};
  runtime::LaunchShape shape;
  shape.grid = grid;
  shape.block = {emit_cases::kThreads, 1, 1};
  runtime::PreparedLaunch(kernel, shape, layout.slots()).launch(nullptr, block.data(), grid);
  Stream(Device::cuda()).synchronize();
}

class Elementwise : public ::testing::TestWithParam<std::tuple<DTypeInfo, bool>> {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
    if (runtime::device_properties(0).compute() != 90) GTEST_SKIP() << "not an sm_90 GPU";
  }
};

TEST_P(Elementwise, AgreesWithTheOracle) {
  const auto [info, nvrtc] = GetParam();
  const DType type = info.dtype;
  const std::vector<ElementwiseCase> cases = emit_cases::CaseList(type, 90).cases;
  std::vector<Tensor> tensors;
  std::vector<std::vector<Cell>> x;
  for (unsigned seed : {1u, 2u, 3u}) {
    const auto bits = operand_bits(type, seed);
    tensors.push_back(bytes_of(bits, type));
    std::vector<Cell>& cells = x.emplace_back();
    for (std::uint64_t b : bits) cells.push_back(ir::from_bits(b, type));
  }
  for (const ElementwiseCase& c : cases)
    tensors.push_back(Tensor::zeros({static_cast<std::int64_t>(kElements) * size_bytes(c.out)},
                                    DType::u8, Device::cuda()));
  launch(load(emit_cases::elementwise_kernel(type, cases, "sm_90a"), nvrtc), tensors);

  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Expected want = expected(cases[i], type, x);
    const auto got = bits_of(tensors[3 + i], cases[i].out);
    int wrong = 0;
    for (std::size_t e = 0; e < kElements; ++e) {
      if (want.poison[e] || agrees(cases[i], x[0][e], want.values[e], got[e])) continue;
      if (++wrong <= 3)
        ADD_FAILURE() << cases[i].name << " element " << e << std::hex << ": operands "
                      << ir::to_bits(x[0][e], type) << " " << ir::to_bits(x[1][e], type) << " "
                      << ir::to_bits(x[2][e], type) << ", expected "
                      << ir::to_bits(want.values[e], cases[i].out) << ", got " << got[e];
    }
    EXPECT_EQ(wrong, 0) << cases[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Elementwise,
                         ::testing::Combine(::testing::ValuesIn(kDTypeInfo), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "_nvrtc" : "_llvm");
                         });

}  // namespace
}  // namespace tegula::elementwise_test
