// Scratch memory of attention's backward pass: the bytes of plans against the formula of
// docs/attention-backward.md.
#include "tests/differential/attention/backward_reference.h"

#include <bit>
#include <random>

#include "autotune/calls/first_calls.h"
#include "tegula/int_math.h"
#include "tegula/kernels/masks.h"

namespace tegula::test::backward_workspace_test {
using namespace kernels;
namespace {

/// Thrown before a call's launches.
struct PlanBytes {
  std::size_t bytes;
};

/// Returns the scratch memory of the plan of a call, which is not run.
std::size_t bytes_of(const std::function<void()>& call) {
  try {
    autotune::on_first_calls(
        call, [](const dsl::FirstCall& first) { throw PlanBytes{first.build()->scratch_bytes}; });
    ADD_FAILURE() << "the call had a plan";
  } catch (const PlanBytes& plan) {
    return plan.bytes;
  }
  return 0;
}

std::size_t rounded(std::int64_t bytes) { return static_cast<std::size_t>(round_up(bytes, 256)); }

/// Returns the columns of dQ: powers of two, of which wide heads have two.
std::int64_t columns_of_parts(std::int64_t dim) {
  const auto power = [](std::int64_t n) {
    return static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 16))));
  };
  const std::int64_t most = power(dim) / 2;
  return dim <= 64 ? power(dim) : std::min(power(dim), most + power(dim - most));
}

struct Call {
  std::int64_t batch, heads, kv_heads, q, kv, dim, head_dim_v;
  bool is_deterministic, has_sinks;
  std::int64_t sequences = 0;  ///< packed sequences, if any

  /// The formula, where each tensor has a multiple of 256 bytes.
  std::size_t expected() const {
    const std::int64_t n = sequences ? (q / 64 + sequences) * 64 : round_up(q, 64),
                       rows = batch * heads * n;
    const std::int64_t d = columns_of_parts(dim);
    std::size_t bytes = 2 * rounded(rows * 4);
    if (!is_deterministic) bytes += rounded(rows * 4 * d);
    if (has_sinks) bytes += rounded(rows / 64 * 4);
    if (!sequences) return bytes;
    const std::int64_t keys = (kv / 128 + sequences) * 128 * kv_heads;
    bytes += rounded(rows * 2 * dim) + rounded(rows * 2 * head_dim_v) + rounded(keys * 2 * dim);
    if (is_deterministic) bytes += rounded(keys * 2 * head_dim_v);
    return bytes;
  }

  std::size_t actual() const {
    const Attention attention({.mask = masks::causal()}, {}, {.deterministic = is_deterministic});
    const auto tensor = [&](std::int64_t h, std::int64_t length, std::int64_t of) {
      return Tensor::empty(sequences ? Dims{length, h, of} : Dims{batch, h, length, of},
                           DType::bf16, Device::cpu());
    };
    const auto f32s = [](const Dims& shape) {
      return Tensor::empty(shape, DType::f32, Device::cpu());
    };
    const Tensor Q = tensor(heads, q, dim), K = tensor(kv_heads, kv, dim),
                 V = tensor(kv_heads, kv, head_dim_v), O = tensor(heads, q, head_dim_v),
                 lse = f32s(sequences ? Dims{q, heads} : Dims{batch, heads, q}),
                 sinks = has_sinks ? f32s({heads}) : Tensor(),
                 starts = Tensor::zeros({sequences + 1}, DType::i32, Device::cpu());
    const AttentionSaved saved{.O = O, .lse = lse, .sinks = sinks};
    const AttentionInputGradients into{.Q = Q, .K = K, .V = V, .sinks = sinks};
    const Stream stream(Device::cpu());
    return bytes_of([&] {
      if (sequences)
        attention.varlen_backward(stream, Q, K, V, {starts, starts, q}, saved, {.O = O}, into);
      else
        attention.backward(stream, Q, K, V, saved, {.O = O}, into);
    });
  }
};

TEST(BackwardWorkspace, EqualsTheFormulaForRandomShapes) {
  std::mt19937_64 random(47);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  constexpr std::array<std::array<std::int64_t, 2>, 5> kHeadDims{
      {{16, 16}, {40, 24}, {64, 64}, {192, 128}, {136, 8}}};
  for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
    const auto [dim, head_dim_v] = kHeadDims[static_cast<std::size_t>(i) % kHeadDims.size()];
    const std::int64_t kv_heads = 1 + below(3), packed = i % 4 == 3 ? 1 + below(5) : 0;
    const Call c{packed ? 1 : 1 + below(3),
                 kv_heads * (1 + below(3)),
                 kv_heads,
                 1 + below(3000),
                 1 + below(3000),
                 dim,
                 head_dim_v,
                 below(2) == 1,
                 below(2) == 1,
                 packed};
    EXPECT_EQ(c.actual(), c.expected())
        << i << ": " << c.batch << " " << c.heads << " " << c.q << " " << c.kv << " " << dim;
  }
}

/// No part of it grows with the number of pairs.
TEST(BackwardWorkspace, IsLinearInTheLength) {
  for (const bool is_deterministic : {false, true}) {
    const auto bytes = [&](std::int64_t length) {
      return Call{1, 2, 1, length, length, 64, 64, is_deterministic, false}.actual();
    };
    EXPECT_EQ(bytes(8192), 2 * bytes(4096));
    EXPECT_EQ(bytes(65536), 16 * bytes(4096));
  }
}

}  // namespace
}  // namespace tegula::test::backward_workspace_test
