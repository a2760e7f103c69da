// Registers that the simt form says a thread holds, beside what ptxas allocates. Needs ptxas.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "ir/analysis/live_registers.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/softmax.h"
#include "tests/assemble/assembled.h"

namespace tegula {
namespace {

const Stream kCpu(Device::cpu());

struct Sample {
  std::string name;
  ir::Kernel tile;
};

ir::Kernel attention_of(int d, const AttentionSpec& spec) {
  const Tensor Q = test::host({1, 1, 128, d}), K = test::host({1, 1, 256, d}),
               O = test::host({1, 1, 128, d});
  const Attention attention(spec);
  return test::traced("attention", [&] { attention(Q, K, K, O); });
}

AttentionSpec causal() {
  AttentionSpec spec;
  spec.mask = [](const Tile&, const Tile&, const Tile& q, const Tile& kv) { return q >= kv; };
  spec.kv_range = causal_range;
  spec.full_kv_range = causal_full;
  return spec;
}

ir::Kernel matmul_of(const MatmulConfig& config, DType type, const MatmulOptions& options = {}) {
  const Tensor A = Tensor::zeros({64, 256}, type, Device::cpu()),
               B = Tensor::zeros({64, 256}, type, Device::cpu()).transpose(0, 1),
               C = Tensor::zeros({64, 64}, DType::f32, Device::cpu());
  return test::traced("matmul", [&] { matmul(kCpu, A, B, C, config, options); });
}

std::vector<Sample> samples() {
  std::vector<Sample> all;
  const auto add = [&](std::string name, ir::Kernel tile) {
    all.push_back({std::move(name), std::move(tile)});
  };
  for (const int d : {64, 96, 128, 192, 256}) {
    add("attention d" + std::to_string(d), attention_of(d, {}));
    add("attention causal d" + std::to_string(d), attention_of(d, causal()));
  }
  for (const int bm : {64, 128, 192, 256})
    for (const int bn : {64, 96, 128, 256}) {
      if (bm * bn > 192 * 256) continue;
      const MatmulConfig config{.bm = bm, .bn = bn, .bk = 64};
      add("matmul " + std::to_string(bm) + "x" + std::to_string(bn), matmul_of(config, DType::bf16));
    }
  add("matmul f32", matmul_of({.bm = 64, .bn = 64, .bk = 16}, DType::f32));
  add("matmul pingpong", matmul_of({.bm = 128, .bn = 128, .bk = 64, .pingpong = true}, DType::f16));
  for (const int columns : {256, 1024, 4096, 8192}) {
    const Tensor x = test::host({16, columns}), w = test::host({columns});
    add("softmax " + std::to_string(columns),
        test::traced("softmax", [&] { softmax(kCpu, x, test::host({16, columns})); }));
    add("rms_norm " + std::to_string(columns),
        test::traced("rms_norm", [&] { rms_norm(kCpu, x, w, test::host({16, columns})); }));
  }
  return all;
}

class Registers : public test::Assembled {};

TEST_F(Registers, AreEstimated) {
  for (const Sample& s : samples())
    for (const char* target : {"sm_90a", "sm_80"}) {
      runtime::CompileRequest request;
      request.target = ir::Target::find(target).value();
      const runtime::Compilation k = test::assembled(s.tile, request);
      const std::int64_t live = ir::live_peak(k.simt).registers;
      const int role = k.plan.wgmma && k.plan.consumer_registers != 0 ? k.plan.consumer_registers : 0;
      std::printf("%-26s %-7s live %4lld ptxas %3d role %3d spills %d\n", s.name.c_str(), target,
                  static_cast<long long>(live), k.report.registers, role, k.report.spill_stores);
    }
}

}  // namespace
}  // namespace tegula
