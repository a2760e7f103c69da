// Variants of the plain product: configurations, other types, epilogues.
#include <map>
#include <string>

#include "bench/bench.h"
#include "runtime/context.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"

namespace tegula::bench {
using namespace kernels;
namespace {

/// Decodes a sum: 1e15 if direct, 2e15 if ping-pong, 4e15 if multicast, 8e15 if stream-K, + stages
/// * 1e13 + 1e12 if cluster split-K + splits * 1e9 + BM * 1e6 + BN * 1e3 + BK (64 or 128) + 32 if
/// results are stored by TMA + the group of tile rows if not the default. Negative if operands are
/// swapped. For stream-K, `splits` is the number of programs per SM of the device.
MatmulConfig config_of(double number, Device device) {
  const auto code = static_cast<std::int64_t>(number < 0 ? -number : number);
  const std::int64_t flags = code / 1000000000000000;
  MatmulConfig c{.bm = static_cast<int>(code / 1000000 % 1000),
                 .bn = static_cast<int>(code / 1000 % 1000),
                 .bk = static_cast<int>(code % 1000 / 64 * 64),
                 .parts = static_cast<int>(code / 1000000000 % 1000),
                 .swap_ab = number < 0,
                 .stages = static_cast<int>(code / 10000000000000 % 100),
                 .pingpong = (flags & 2) != 0};
  if (c.parts > 1) c.split = code / 1000000000000 % 10 != 0 ? SplitK::cluster : SplitK::partials;
  if ((flags & 1) != 0) c.operands = OperandPath::direct;
  if ((flags & 4) != 0) c.multicast = Multicast::b;
  c.tma_store = code % 64 / 32 != 0;
  if (code % 32 != 0) c.group_m = static_cast<int>(code % 32);
  if ((flags & 8) != 0) {
    c.split = SplitK::stream;
    c.parts *= runtime::device_properties(device.index).sm_count;
  }
  return c;
}

/// The eight-line kernel by `mma`, with tiles and plan fields decoded from `number`: rows * 1e9 +
/// columns * 1e6 + k per iteration * 1e3 + CTAs of a cluster that split k * 10 + stages.
void planned_product(const Stream& s, Tensors t, double number) {
  using Product = Kernel<In<bf16, 2>, In<bf16, 2>, Out<bf16, 2>>;
  static std::map<std::int64_t, Product> made;
  const auto code = static_cast<std::int64_t>(number);
  const auto digits = [code](std::int64_t from, std::int64_t count) {
    return static_cast<int>(code / from % count);
  };
  const int rows = digits(1'000'000'000, 1000), columns = digits(1'000'000, 1000),
            step = digits(1000, 1000), ctas = digits(10, 100);
  if (!made.contains(code)) {
    const auto product = kernel("product", [=](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
      for (auto [m, n] : grid(C, rows, columns, cluster(ctas))) {
        auto acc = zeros<f32>(rows, columns);
        for (auto k : steps(A.cols(), step).chunk(cluster_rank(), ctas))
          acc = dot(A(m, k), B(k, n), acc);
        C(cluster_slice(m), n) = cluster_reduce_scatter(acc, axis(0));
      }
    });
    made.emplace(code,
                 product.with_plan("swap_ab=0 wgmma=0 stages=" + std::to_string(digits(1, 10))));
  }
  made.at(code)(s, t[0], t[1], t[2]);
}

/// A, B, C, a scale per row of A, a scale per column of B.
void row_and_column_scales(const Stream& s, Tensors t, double) {
  static const auto scaled = fused_matmul<f8e4m3, bf16>(
      [](Tile acc, Index m, Index n, In<f32, 1> rows, In<f32, 1> columns) {
        return acc * expand(rows(m), 1) * expand(columns(n), 0);
      });
  scaled(s, as_fp8(t[0]), as_fp8(t[1]), t[2], t[3], t[4]);
}

/// A, B, C; number: the configuration.
void unscaled_fp8(const Stream& s, Tensors t, double number) {
  static const auto plain = fused_matmul<f8e4m3, bf16>([](Tile acc, Index, Index) { return acc; });
  plain.run(config_of(number, s.device()), s, as_fp8(t[0]), as_fp8(t[1]), t[2]);
}

/// A, B, C; number: one scale for all elements.
void tensor_scale(const Stream& s, Tensors t, double scale) {
  static const auto scaled =
      fused_matmul<f8e4m3, bf16>([](Tile acc, Index, Index, Scalar<f32> by) { return acc * by; });
  scaled(s, as_fp8(t[0]), as_fp8(t[1]), t[2], static_cast<float>(scale));
}

/// A, B, C, bias of columns, residual like C; number: the configuration, if not 0.
template <Tile (*activation)(const Arg&)>
void bias_activation_residual(const Stream& s, Tensors t, double number) {
  static const auto dense = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return activation(acc + expand(cast<f32>(bias(n)), 0)) + cast<f32>(residual(m, n));
      });
  if (number != 0) return dense.run(config_of(number, s.device()), s, t[0], t[1], t[2], t[3], t[4]);
  dense(s, t[0], t[1], t[2], t[3], t[4]);
}

/// A, gate, up, C; number: the configuration, if not 0.
void swiglu(const Stream& s, Tensors t, double number) {
  static const auto gated =
      gated_matmul<bf16, bf16>([](Tile gate, Tile up, Index, Index) { return silu(gate) * up; });
  if (number != 0) return gated.run(config_of(number, s.device()), s, t[0], t[1], t[2], t[3]);
  gated(s, t[0], t[1], t[2], t[3]);
}

}  // namespace

void add_matmul_cases(std::vector<Case>& list) {
  list.push_back(
      {"matmul", [](const Stream& s, Tensors t, double) { matmul(s, t[0], t[1], t[2]); }});
  list.push_back({"matmul_tf32", [](const Stream& s, Tensors t, double) {
                    matmul(s, t[0], t[1], t[2], MatmulOptions{.tf32 = true});
                  }});
  list.push_back({"matmul_config", [](const Stream& s, Tensors t, double number) {
                    matmul(s, t[0], t[1], t[2], config_of(number, s.device()));
                  }});
  list.push_back({"matmul_plan", planned_product});
  list.push_back({"matmul_fp8", tensor_scale});
  list.push_back({"matmul_fp8_config", unscaled_fp8});
  list.push_back({"matmul_fp8_promoted", [](const Stream& s, Tensors t, double) {
                    matmul(s, as_fp8(t[0]), as_fp8(t[1]), t[2],
                           MatmulOptions{.fp32_promotion = true});
                  }});
  list.push_back({"matmul_fp8_rowwise", row_and_column_scales});
  list.push_back({"matmul_bias_gelu_residual", bias_activation_residual<gelu>});
  list.push_back({"matmul_bias_gelu_tanh_residual", bias_activation_residual<gelu_tanh_approx>});
  list.push_back({"matmul_swiglu", swiglu});
}

}  // namespace tegula::bench
