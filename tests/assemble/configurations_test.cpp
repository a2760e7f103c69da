// Both back ends assemble every matmul kernel that the choice of a configuration can lead to: no
// spills, no stack, no warning of the assembler (C75xx). Takes an even sample of them, unless
// TEGULA_TEST_ASSEMBLE=all. Needs ptxas.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <span>
#include <thread>

#include "tegula/kernels/fused_matmul.h"
#include "tests/assemble/assembled.h"
#include "tests/assemble/chosen_products.h"

namespace tegula::configurations_test {
using namespace kernels;
namespace {

using namespace test;
using Class = ChosenProduct::Class;
using Variant = ChosenProduct::Variant;

/// Properties that the choice does not depend on alternate: types, and whether extents are even.
struct Turn {
  DType operands, result;
  bool is_ragged;
};
constexpr int kWarpgroupRows = 64;
/// Tiles of mma.sync by choice, which ragged extents are not given.
bool is_of_few_rows(const MatmulConfig& c) { return !c.swap_ab && c.bm < kWarpgroupRows; }

Turn turn_of(const ChosenProduct& p, std::size_t number) {
  using enum DType;
  static const std::vector<std::pair<DType, DType>> kTypes[] = {
      {{bf16, bf16}, {f16, f16}, {bf16, f32}},
      {{DType::f8e4m3, bf16}, {i8, i32}, {DType::f8e5m2, f32}},
      {{DType::f8e4m3, bf16}, {DType::f8e5m2, f32}},
      {{f32, f32}},
      {{f32, f32}}};
  const auto& types = kTypes[static_cast<std::size_t>(p.type)];
  auto [operands, result] = types[number % types.size()];
  const bool has_epilogue = p.variant == Variant::Epilogue ||
                            p.variant == Variant::BatchedEpilogue || p.variant == Variant::Gated;
  if (has_epilogue && result == i32) result = f32;
  return {operands, result, number / types.size() % 2 == 1 && !is_of_few_rows(p.config)};
}

/// A known fault of a kernel: the back end does not assemble it, and counts it. Each goes from here
/// with its cause. Bytes are those spilled at most.
const char* lack_of(const ChosenProduct& p, const Turn& turn, runtime::Backend backend) {
  const bool reads_matrices =
      p.variant == Variant::Epilogue || p.variant == Variant::BatchedEpilogue;
  const MatmulConfig& c = p.config;
  if (p.for_sm_80 && (turn.operands == DType::f8e4m3 || turn.operands == DType::f8e5m2))
    return "products of 8-bit floats for sm_80 are not emitted: it has none of their conversions";
  if (p.for_sm_80 && p.variant == Variant::Gated)
    return "gated products for sm_80 spill, 576 bytes";
  if (p.variant == Variant::Gated && c.bn == 112 && backend == runtime::Backend::Nvrtc)
    return "gated products of 112 columns spill by NVRTC, 352 bytes";
  if (c.swap_ab && c.bm == 200 && c.bn == 192 && backend == runtime::Backend::Nvrtc)
    return "exchanged tiles of 200x192 spill by NVRTC, 40 bytes";
  if (reads_matrices && turn.is_ragged && c.bm >= 128 && c.bn >= 112)
    return "wide tiles beside matrices whose rows are not aligned spill, 180 bytes";
  if (reads_matrices && c.tma_store && turn.result == DType::f32 &&
      backend == runtime::Backend::Nvrtc)
    return "f32 results beside a matrix, stored by TMA, spill by NVRTC, 48 bytes";
  return nullptr;
}

/// Operands and the result of a small problem that lie as the configuration is for.
struct Tensors {
  Tensor A, B, C, bias, residual;

  Tensors(const ChosenProduct& p, const Turn& turn)
      : is_batched_(p.variant == Variant::Batched || p.variant == Variant::BatchedEpilogue),
        is_aligned_(p.config.operands != OperandPath::direct && p.type != Class::Fma) {
    const bool ragged = turn.is_ragged || p.config.operands == OperandPath::direct;
    const std::int64_t m = ragged ? 37 : 64, n = ragged ? 51 : 64, k = ragged ? 67 : 64;
    A = p.a_k_major ? rows(m, k, turn.operands) : rows(k, m, turn.operands).transpose(-1, -2);
    B = p.b_k_major ? rows(n, k, turn.operands).transpose(-1, -2) : rows(k, n, turn.operands);
    C = Tensor::zeros(is_batched_ ? Dims{2, m, n} : Dims{m, n}, turn.result, Device::cpu());
    bias = Tensor::zeros({n}, turn.result, Device::cpu());
    residual = Tensor::zeros({m, n}, turn.result, Device::cpu());
  }

 private:
  /// Rows begin at lines, as those of copies do, unless the kernel reads them as they lie.
  Tensor rows(std::int64_t r, std::int64_t c, DType type) const {
    const std::int64_t pitch = is_aligned_ ? 128 : c;
    const Tensor all =
        Tensor::zeros(is_batched_ ? Dims{2, r, pitch} : Dims{r, pitch}, type, Device::cpu());
    return all.slice(-1, 0, c);
  }
  bool is_batched_, is_aligned_;
};

const char* kernel_of(const ChosenProduct& p) {
  switch (p.variant) {
    case Variant::Gated:
      return "matmul_gated";
    case Variant::Batched:
    case Variant::BatchedEpilogue:
      return "matmul_batched";
    case Variant::SplitK:
      return "matmul_split_k";
    default:
      return p.config.is_cluster_split() ? "matmul_cluster_split_k" : "matmul";
  }
}

template <class T, class O>
ir::Kernel trace_as(const ChosenProduct& p, const Turn& turn) {
  const Tensors t(p, turn);
  const Stream stream(Device::cpu());
  const MatmulOptions options{p.type == Class::Tf32, p.type == Class::Promoted};
  return traced(kernel_of(p), [&] {
    if constexpr (!std::is_same_v<O, i32>) {
      if (p.variant == Variant::Gated)
        return gated_matmul<T, O>([](Tile gate, Tile up, Index, Index) {
                 return silu(cast<f32>(gate)) * cast<f32>(up);
               })
            .run(p.config, stream, t.A, t.B, t.B, t.C);
      if (p.variant == Variant::Epilogue || p.variant == Variant::BatchedEpilogue)
        return fused_matmul<T, O>(
                   [](Tile acc, Index m, Index n, In<O, 1> bias, In<O, 2> residual) {
                     return gelu(cast<f32>(acc) + expand(cast<f32>(bias(n)), 0)) +
                            cast<f32>(residual(m, n));
                   },
                   options)
            .run(p.config, stream, t.A, t.B, t.C, t.bias, t.residual);
    }
    fused_matmul<T, O>([](Tile acc, Index, Index) { return acc; }, options)
        .run(p.config, stream, t.A, t.B, t.C);
  });
}

ir::Kernel trace(const ChosenProduct& p, const Turn& turn) {
  const auto is = [&](DType operands, DType result) {
    return turn.operands == operands && turn.result == result;
  };
  if (is(DType::bf16, DType::bf16)) return trace_as<bf16, bf16>(p, turn);
  if (is(DType::f16, DType::f16)) return trace_as<f16, f16>(p, turn);
  if (is(DType::bf16, DType::f32)) return trace_as<bf16, f32>(p, turn);
  if (is(DType::f8e4m3, DType::bf16)) return trace_as<f8e4m3, bf16>(p, turn);
  if (is(DType::f8e5m2, DType::f32)) return trace_as<f8e5m2, f32>(p, turn);
  if (is(DType::i8, DType::i32)) return trace_as<i8, i32>(p, turn);
  if (is(DType::i8, DType::f32)) return trace_as<i8, f32>(p, turn);
  if (is(DType::f32, DType::f32)) return trace_as<f32, f32>(p, turn);
  throw std::logic_error("no such types");
}

/// Found once, unlike `here`.
const std::vector<runtime::Backend>& backends() {
  static const std::vector<runtime::Backend> found = here();
  return found;
}

/// A kernel of the list, with the properties of its place in the list.
struct ProductTurn {
  const ChosenProduct* product;
  Turn turn;
};
struct ProductTurns {
  std::vector<ProductTurn> clean;  ///< by one back end at least
  std::map<std::string, int> lacking;

  explicit ProductTurns(const std::vector<ChosenProduct>& all) {
    for (const ChosenProduct& p : all) {
      const ProductTurn row{&p, turn_of(p, static_cast<std::size_t>(&p - all.data()))};
      bool is_clean = false;
      for (const runtime::Backend backend : backends()) {
        const char* lack = lack_of(p, row.turn, backend);
        is_clean |= lack == nullptr;
        if (lack) ++lacking[std::string(lack) + ", by " + std::string(name(backend))];
      }
      if (is_clean) clean.push_back(row);
    }
  }
};

/// A kernel by one back end.
struct Job {
  ProductTurn row;
  const ir::Kernel* tile;
  runtime::Backend backend;

  void run() const {
    const ChosenProduct& p = *row.product;
    SCOPED_TRACE(p.str() + ", " + std::string(name(row.turn.operands)) + " to " +
                 std::string(name(row.turn.result)) + (row.turn.is_ragged ? ", ragged" : "") +
                 " by " + std::string(name(backend)));
    const bool is_wgmma = !p.for_sm_80 && p.type != Class::Fma &&
                          p.config.operands != OperandPath::direct && !is_of_few_rows(p.config);
    try {
      expect_clean(*tile, p.for_sm_80 ? "sm_80" : "sm_90a", is_wgmma, backend);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
};

/// By every back end, on all cores; traced one after another, as that changes the environment.
void expect_all_clean(std::span<const ProductTurn> rows) {
  std::vector<ir::Kernel> kernels;
  for (const ProductTurn& row : rows) {
    SCOPED_TRACE(row.product->str());
    kernels.push_back(trace(*row.product, row.turn));
  }
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (const runtime::Backend backend : backends())
      if (!lack_of(*rows[i].product, rows[i].turn, backend))
        jobs.push_back({rows[i], &kernels[i], backend});
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next++) < jobs.size();) jobs[i].run();
  };
  std::vector<std::jthread> workers(std::max(1u, std::thread::hardware_concurrency()));
  for (std::jthread& worker : workers) worker = std::jthread(work);
}

/// All that is chosen: seconds to find.
const std::vector<ChosenProduct>& all_chosen() {
  static const std::vector<ChosenProduct> all = ChosenProducts::all();
  return all;
}

class Configurations : public Assembled {};

/// Each decomposition of a matmul is among those chosen, so the list is no shorter than it looks.
TEST(ChosenProducts, HaveEveryVariant) {
  const std::vector<ChosenProduct>& all = all_chosen();
  EXPECT_GT(all.size(), 1000u);
  const auto some = [&](const auto& matches) { return std::ranges::any_of(all, matches); };
  for (const Variant variant : {Variant::Plain, Variant::Epilogue, Variant::Gated, Variant::Batched,
                                Variant::BatchedEpilogue, Variant::SplitK})
    for (const bool for_sm_80 : {false, true}) {
      if (variant == Variant::SplitK && for_sm_80) continue;  // only wgmma's matmuls are
      EXPECT_TRUE(some([&](const ChosenProduct& p) {
        return p.variant == variant && p.for_sm_80 == for_sm_80;
      })) << static_cast<int>(variant);
    }
  EXPECT_TRUE(some([](const ChosenProduct& p) { return p.config.swap_ab; }));
  EXPECT_TRUE(some([](const ChosenProduct& p) { return p.config.is_cluster_split(); }));
  EXPECT_TRUE(
      some([](const ChosenProduct& p) { return p.config.operands == OperandPath::direct; }));
  EXPECT_TRUE(some([](const ChosenProduct& p) { return p.config.multicast == Multicast::b; }));
  EXPECT_TRUE(some([](const ChosenProduct& p) { return p.config.pingpong; }));
  EXPECT_TRUE(some([](const ChosenProduct& p) { return p.config.tma_store; }));
}

TEST_F(Configurations, AreClean) {
  constexpr std::size_t kSample = 40, kAtOnce = 64;
  const ProductTurns rows(all_chosen());
  const std::size_t all = rows.clean.size(), count = env().assemble == "all" ? all : kSample;
  std::printf("%zu of %zu configurations, of %zu kernels\n", count, all, all_chosen().size());
  for (const auto& [lack, number] : rows.lacking)
    std::printf("left out: %d, %s\n", number, lack.c_str());
  const auto start = std::chrono::steady_clock::now();
  std::vector<ProductTurn> some;
  for (std::size_t i = 0; i < count; ++i) {
    some.push_back(rows.clean[i * all / count]);
    if (some.size() < kAtOnce && i + 1 < count) continue;
    expect_all_clean(some);
    some.clear();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::printf("%zu assembled, %.0f s\n", i + 1, taken.count());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tegula::configurations_test
