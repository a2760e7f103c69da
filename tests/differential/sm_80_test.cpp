// The path of GPUs before Hopper: kernels of the library, compiled for sm_80 and run in the
// simulator, compute what the interpreter computes. Device::sim itself compiles for sm_90a.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include "kernels/attention/backward_kernel.h"
#include "runtime/jit_verbs.h"
#include "tegula/int_math.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/kernels/softmax.h"
#include "tests/assemble/assembled.h"
#include "tests/differential/exact_matmul.h"
#include "tests/differential/scheduled_matmul.h"

namespace tegula::sm_80_test {
using namespace kernels;
namespace {

using runtime::LaunchArg;
using test::traced;

runtime::Compilation compiled_for_sm_80(const ir::Kernel& tile) {
  runtime::CompileRequest request;
  request.device = Device::sim();
  request.target = ir::Target("sm_80");
  return test::optimized(tile, request);
}

MatmulConfig choose_for_sm_80(const MatmulProblem& problem) {
  DeviceProfile gpu = host_profile();
  gpu.capability = 80;
  return choose_matmul(problem, gpu);
}

bool has(const runtime::Compilation& k, std::initializer_list<ir::Opcode> opcodes) {
  bool found = false;
  ir::walk(k.simt, k.simt.body(), [&](ir::OpId op) {
    found |= std::ranges::find(opcodes, k.simt[op].opcode) != opcodes.end();
  });
  return found;
}

/// Expects no instruction that Ampere lacks.
void expect_older_path(const runtime::Compilation& k) {
  using enum ir::Opcode;
  const ir::Target sm_80("sm_80");
  EXPECT_EQ(k.simt.info.target, sm_80);
  EXPECT_LE(k.simt.info.smem_bytes, sm_80->shared_bytes_per_cta);
  EXPECT_FALSE(k.plan.wgmma) << k.plan.str();
  EXPECT_FALSE(has(k, {Wgmma, TmaLoad, TmaStore, MbarInit, SetMaxNReg, StMatrix, MapShared}));
}

runtime::Compilation run_for_sm_80(const ir::Kernel& tile, const std::vector<LaunchArg>& args) {
  runtime::Compilation k = compiled_for_sm_80(tile);
  expect_older_path(k);
  test::finished(k)->launch(Stream(Device::sim()), args);
  return k;
}

/// Expects differences of at most `bound`.
void expect_near(const Tensor& got, const Tensor& want, double bound) {
  const auto a = got.to_doubles(), b = want.to_doubles();
  ASSERT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::isfinite(a[i]) ? std::max(worst, std::abs(a[i] - b[i])) : INFINITY;
  EXPECT_LE(worst, bound) << got.str();
}

constexpr double kUnwritten = 99;
Tensor unwritten(const Dims& shape, DType type) {
  return Tensor::full(shape, kUnwritten, type, Device::cpu());
}

// ---- products
struct Extents {
  std::int64_t m, n, k;
};

/// The operands that are stored transposed.
struct Order {
  bool a = false, b = false;
};

/// In the configuration that is chosen without wgmma.
template <class T, class O>
void expect_product(const Extents& e, Order transposed = {}, bool tf32 = false) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " to " << name(dtype_of<O>) << " " << e.m
                                  << "x" << e.n << "x" << e.k << (transposed.a ? " T" : " N")
                                  << (transposed.b ? "T" : "N"));
  const auto integers = [](std::int64_t rows, std::int64_t columns, bool is_transposed,
                           std::uint64_t seed) {
    const Dims stored = is_transposed ? Dims{columns, rows} : Dims{rows, columns};
    const Tensor t = Tensor::integers(stored, dtype_of<T>, std::is_unsigned_v<T> ? 0 : -3, 4, seed,
                                      Device::cpu());
    return is_transposed ? t.transpose(0, 1) : t;
  };
  const Tensor A = integers(e.m, e.k, transposed.a, 1), B = integers(e.k, e.n, transposed.b, 2),
               want = unwritten({e.m, e.n}, dtype_of<O>), got = unwritten({e.m, e.n}, dtype_of<O>);
  const MatmulProblem problem = kernels::detail::matmul_problem(A, B, want, {.tf32 = tf32});
  ASSERT_FALSE(problem.repacks()) << "the kernel would read copies of the operands";
  const auto plain = fused_matmul<T, O>([](Tile acc, Index, Index) { return acc; }, {.tf32 = tf32});
  const ir::Kernel tile = traced(
      "matmul", [&] { plain.run(choose_for_sm_80(problem), Stream(Device::cpu()), A, B, want); });
  test::expect_equal(want, test::product(A, B));
  const runtime::Compilation k = run_for_sm_80(tile, {{&A}, {&B}, {&got}});
  EXPECT_EQ(got.to_doubles(), want.to_doubles());
  const bool by_tensor_cores = !std::is_same_v<T, f32> || tf32;
  EXPECT_EQ(has(k, {ir::Opcode::Mma}), by_tensor_cores);
  EXPECT_TRUE(!by_tensor_cores || has(k, {ir::Opcode::CpAsync}));
}

constexpr Order kOrders[] = {{}, {.b = true}, {.a = true}, {true, true}};

/// All four configurations, with extents that are multiples of the tiles and others.
TEST(Sm80, ProductsOfHalves) {
  for (const Order& order : kOrders) {
    expect_product<bf16, bf16>({128, 128, 64}, order);
    expect_product<bf16, f32>({136, 200, 88}, order);
    expect_product<f16, f16>({40, 136, 104}, order);
    expect_product<f16, f32>({72, 48, 16}, order);
  }
  expect_product<bf16, bf16>({1, 8, 8}, {.b = true});
  expect_product<bf16, f32>({33, 17, 200}, {.b = true});
}

TEST(Sm80, ProductsOfTf32) {
  expect_product<f32, f32>({128, 128, 64}, {.b = true}, true);
  expect_product<f32, f32>({132, 36, 100}, {.b = true}, true);
  expect_product<f32, f32>({5, 3, 4}, {.b = true}, true);
}

TEST(Sm80, ProductsByFma) {
  for (const Order& order : kOrders) {
    expect_product<f32, f32>({64, 64, 32}, order);
    expect_product<f32, f32>({37, 51, 67}, order);
  }
}

TEST(Sm80, ProductsOfBytes) {
  expect_product<i8, i32>({64, 64, 128}, {.b = true});
  expect_product<i8, f32>({80, 100, 208}, {.b = true});
  expect_product<u8, i32>({33, 17, 48}, {.b = true});
}

/// C = gelu(A B + bias) + residual, and two MMAs of one loop.
TEST(Sm80, Epilogues) {
  const Stream cpu(Device::cpu());
  const auto normal = [](const Dims& shape, std::uint64_t seed) {
    return Tensor::normal(shape, DType::bf16, 0, 1, seed, Device::cpu());
  };
  const std::int64_t m = 136, n = 104, k = 72;
  const Tensor A = normal({m, k}, 1), B = normal({k, n}, 2), U = normal({k, n}, 3),
               bias = normal({n}, 4), residual = normal({m, n}, 5);
  const auto dense =
      fused_matmul<bf16, f32>([](Tile acc, Index i, Index j, In<bf16, 1> b, In<bf16, 2> r) {
        return gelu(acc + expand(cast<f32>(b(j)), 0)) + cast<f32>(r(i, j));
      });
  const auto gated =
      gated_matmul<bf16, f32>([](Tile gate, Tile up, Index, Index) { return silu(gate) * up; });
  const MatmulProblem problem{.m = m, .n = n, .k = k};
  Tensor want = unwritten({m, n}, DType::f32), got = unwritten({m, n}, DType::f32);
  const ir::Kernel of_dense = traced(
      "matmul", [&] { dense.run(choose_for_sm_80(problem), cpu, A, B, want, bias, residual); });
  run_for_sm_80(of_dense, {{&A}, {&B}, {&got}, {&bias}, {&residual}});
  expect_near(got, want, 1e-4);
  want = unwritten({m, n}, DType::f32), got = unwritten({m, n}, DType::f32);
  MatmulProblem both = problem;
  both.gates = 2;
  const ir::Kernel of_gated =
      traced("matmul_gated", [&] { gated.run(choose_for_sm_80(both), cpu, A, B, U, want); });
  run_for_sm_80(of_gated, {{&A}, {&B}, {&U}, {&got}});
  expect_near(got, want, 1e-3);
}

/// Rows of B that pages of a table select in each iteration, copied ahead.
TEST(Sm80, LookedUpRows) {
  const auto product =
      kernel("looked_up", [](In<bf16, 2> A, In<bf16, 3> pages, In<i32, 2> table, Out<f32, 2> C) {
        for (auto [m, n] : grid(C, 64, 64)) {
          const auto B = paged(pages, table, 0, A.cols());
          Tile sum = zeros<f32>(64, 64);
          for (auto k : steps(A.cols(), 64)) sum = dot(A(m, k), fill_absent(B(k, n), 0), sum);
          C(m, n) = sum;
        }
      });
  const Tensor A = Tensor::integers({70, 200}, DType::bf16, -3, 4, 1, Device::cpu()),
               pages = Tensor::integers({20, 16, 72}, DType::bf16, -3, 4, 2, Device::cpu()),
               table = Tensor::from(std::vector<i32>{7, 0, 3, -1, 19, 3, 4, 5, 11, 2, 1, 6, 18, 99},
                                    {1, 14}, Device::cpu()),
               want = unwritten({70, 72}, DType::f32), got = unwritten({70, 72}, DType::f32);
  const ir::Kernel tile =
      traced("looked_up", [&] { product(Stream(Device::cpu()), A, pages, table, want); });
  const runtime::Compilation k = run_for_sm_80(tile, {{&A}, {&pages}, {&table}, {&got}});
  EXPECT_EQ(got.to_doubles(), want.to_doubles());
  EXPECT_TRUE(has(k, {ir::Opcode::CpAsync}));
}

TEST(Sm80, Softmax) {
  for (const DType type : {DType::bf16, DType::f16, DType::f32})
    for (const std::int64_t columns : {1, 100, 1000, 3000}) {
      SCOPED_TRACE(testing::Message() << name(type) << ", " << columns << " columns");
      const Tensor x = Tensor::normal({5, columns}, type, 0, 2, 3, Device::cpu()),
                   want = unwritten({5, columns}, type), got = unwritten({5, columns}, type);
      const ir::Kernel tile = traced("softmax", [&] { softmax(Stream(Device::cpu()), x, want); });
      run_for_sm_80(tile, {{&x}, {&got}});
      expect_near(got, want, type == DType::f32 ? 1e-6 : type == DType::f16 ? 1e-3 : 8e-3);
    }
}

/// The library's kernel, called as the library calls it for whole sequences. Keys and values after
/// the first `seen` ones are NaN.
void expect_attention(const AttentionSpec& spec, DType type, std::int64_t length, int dim,
                      std::optional<std::int64_t> seen = {}) {
  SCOPED_TRACE(testing::Message() << name(type) << ", " << length << " rows, head dim " << dim);
  const std::int64_t heads = 4, kv_heads = 2;
  const auto normal = [&](std::int64_t of_heads, std::uint64_t seed) {
    return Tensor::normal({1, of_heads, length, dim}, type, 0, 1, seed, Device::cpu());
  };
  const Dims shape{1, heads, length, dim}, rows{1, heads, length};
  const Tensor Q = normal(heads, 1), K = normal(kv_heads, 2), V = normal(kv_heads, 3),
               want = unwritten(shape, type), got = unwritten(shape, type),
               want_lse = unwritten(rows, DType::f32), got_lse = unwritten(rows, DType::f32);
  for (const Tensor& t : {K, V}) t.slice(2, seen.value_or(length), length).fill(NAN);
  const Attention attention(spec);
  const ir::Kernel tile =
      traced("attention", [&] { attention(Stream(Device::cpu()), Q, K, V, want, want_lse); });
  const LaunchArg scale{nullptr,
                        std::bit_cast<std::uint32_t>(1 / std::sqrt(static_cast<float>(dim)))};
  // No packed heads, sequences, pages, further outputs, lists or marks.
  const LaunchArg none{};
  const runtime::Compilation k = run_for_sm_80(
      tile, {{&Q}, {&K}, {&V}, {&got}, {&got_lse}, scale, none, none, none, none, none,
             none, none, none, none,   none,       none,  none, none, none, none, none});
  EXPECT_TRUE(has(k, {ir::Opcode::Mma}));
  expect_near(got, want, type == DType::f16 ? 4e-3 : 0.03);
  expect_near(got_lse, want_lse, 1e-4);
}

TEST(Sm80, Attention) {
  for (const DType type : {DType::bf16, DType::f16}) {
    expect_attention({}, type, 200, 64);
    expect_attention({.mask = masks::causal()}, type, 161, 64);
    expect_attention({.mask = masks::causal()}, type, 130, 128);
  }
  expect_attention({.mask = masks::causal()}, DType::bf16, 100, 256);
  expect_attention({.mask = [](Tile, Tile, Tile q, Tile kv) { return q >= kv && kv < 90; }},
                   DType::bf16, 161, 64, 90);
}

/// The main kernel of the gradients under a causal mask. Row terms are constants, as if the weights
/// had other sums.
template <class T>
void expect_backward(std::int64_t length, int dim, std::int64_t heads, std::int64_t kv_heads) {
  SCOPED_TRACE(testing::Message() << length << " rows, head dim " << dim << ", " << heads);
  const auto facts =
      std::make_shared<const AttentionHeuristics>(AttentionSpec{.mask = masks::causal()});
  const auto of_keys = std::make_shared<const BlockMask>(
      [](const Tile&, const Tile&, const Tile& key, const Tile& query) { return query >= key; });
  const BackwardKernel<T> kernel =
      backward_kernel<T>({facts, of_keys, {}, std::make_shared<const ScoreCaptures>(facts), {}});
  const DType type = dtype_of<T>;
  const std::int64_t padded = round_up(length, 64);
  const auto normal = [&](std::int64_t of_heads, std::uint64_t seed) {
    return Tensor::normal({1, of_heads, length, dim}, type, 0, 1, seed, Device::cpu());
  };
  const auto rows = [&](float value) {
    return Tensor::full({1, heads, padded}, value, DType::f32, Device::cpu());
  };
  const Tensor Q = normal(heads, 1), K = normal(kv_heads, 2), V = normal(kv_heads, 3),
               dO = normal(heads, 4), L = rows(5), D = rows(0.5f);
  L.slice(2, length, padded).fill(INFINITY);
  struct Gradients {
    Tensor sums_of_Q, K, V;
  };
  const auto zeros = [&] {
    const Dims keys{1, kv_heads, length, dim}, blocks{1, heads, padded / 64, 64 * dim};
    return Gradients{Tensor::zeros(blocks, DType::f32, Device::cpu()), unwritten(keys, type),
                     unwritten(keys, type)};
  };
  const Gradients want = zeros(), got = zeros();
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  const ir::Kernel tile = traced("attention_backward", [&] {
    const auto call = [&](const auto&... none) {
      kernel(Stream(Device::cpu()), Q, K, V, dO, L, D, want.sums_of_Q, want.K, want.V, scale,
             heads != kv_heads, 0, none...);
    };
    std::apply(call, std::array<Tensor, 21>{});  // lists, starts of sequences, captures
  });
  std::vector<LaunchArg> args{{&Q},     {&K},    {&V}, {&dO}, {&L}, {&D}, {&got.sums_of_Q},
                              {&got.K}, {&got.V}};
  args.push_back({nullptr, std::bit_cast<std::uint32_t>(scale)});
  args.resize(args.size() + 22);  // without groups in lists, and what is absent
  const runtime::Compilation k = run_for_sm_80(tile, args);
  EXPECT_TRUE(has(k, {ir::Opcode::Mma}));
  const double bound = type == DType::f16 ? 4e-3 : 0.03;
  expect_near(got.sums_of_Q, want.sums_of_Q, bound);
  expect_near(got.K, want.K, bound);
  expect_near(got.V, want.V, bound);
}

TEST(Sm80, AttentionBackward) {
  expect_backward<bf16>(150, 64, 2, 2);
  expect_backward<f16>(130, 32, 4, 1);
  expect_backward<bf16>(140, 128, 2, 1);
}

/// A request for TMA has no effect: the kernel is the same as without it.
TEST(Sm80, NoLoadsByTma) {
  AttentionSpec spec;
  spec.score = scores::bias(Tensor::zeros({1, 1, 64, 64}, DType::f32, Device::cpu()));
  std::vector<std::string> code;
  for (const bool by_tma : {false, true}) {
    const Attention attention(spec,
                              {.tiles = AttentionTileShape{128, 64}, .tma_aux_loads = by_tma});
    const Tensor t = test::host({1, 1, 64, 64}), out = test::host({1, 1, 64, 64});
    const runtime::Compilation k =
        compiled_for_sm_80(traced("attention", [&] { attention(t, t, t, out); }));
    expect_older_path(k);
    code.push_back(ir::print(k.simt));
    const auto says_so = [](const ir::Remark& r) {
      return r.reason == "no auxiliary loads by TMA: sm_80 has no TMA";
    };
    EXPECT_EQ(std::ranges::count_if(k.remarks, says_so), by_tma ? 1 : 0);
  }
  EXPECT_EQ(code[0], code[1]);
}

/// A mainloop without the waits for its copies reads data before it arrives, which is reported.
TEST(Sm80, MissingWaitsAreFound) {
  // Other divisors than in the other tests: a process traces equal kernels once.
  const Tensor A = Tensor::integers({128, 264}, DType::bf16, -3, 4, 1, Device::cpu())
                       .slice(1, 0, 257),
               B = Tensor::integers({257, 128}, DType::bf16, -3, 4, 2, Device::cpu()),
               C = unwritten({128, 128}, DType::bf16);
  const auto plain = fused_matmul<bf16, bf16>([](Tile acc, Index, Index) { return acc; });
  const MatmulProblem problem{.m = 128, .n = 128, .k = 257};
  runtime::Compilation k = compiled_for_sm_80(traced(
      "matmul", [&] { plain.run(choose_for_sm_80(problem), Stream(Device::cpu()), A, B, C); }));
  const LaunchArg args[] = {{&A}, {&B}, {&C}};
  const Stream sim(Device::sim());
  EXPECT_NO_THROW(test::finished(k)->launch(sim, args));
  for (const ir::OpId op : test::all_of(k.simt, ir::Opcode::CpAsyncWait))
    k.simt[op].attrs.set(ir::AttrName::count, 8);
  EXPECT_THROW(test::finished(k)->launch(sim, args), ProgramError);
}

}  // namespace
}  // namespace tegula::sm_80_test
