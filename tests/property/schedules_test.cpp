// Schedules that the passes carry out for the library's kernels: their texts are pinned in
// schedules.txt, they come back from their texts, and each is legal.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "ir/schedule/carried_out.h"
#include "ir/schedule/judge.h"
#include "ir/schedule/text.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/softmax.h"
#include "tests/assemble/assembled.h"
#include "tests/error/expect_error.h"

namespace tegula::schedules_test {
using namespace kernels;
namespace {

using test::host;
using test::traced;

const Stream kCpu(Device::cpu());

class Schedules : public testing::Test {
 protected:
  static void SetUpTestSuite() { pinned_ = new test::Pinned("../property/schedules.txt"); }
  static void TearDownTestSuite() { delete pinned_; }

  /// The Schedule is legal and its own text's.
  static ir::Schedule judged(const ir::Kernel& traced, std::string_view target,
                             std::string_view fields = "") {
    ir::Kernel tile = ir::clone(traced);
    tile.info.target = ir::Target::find(target).value();
    ir::PassContext context;
    context.planned = ir::parse_plan_request(fields);
    const ir::CarriedOut done = ir::schedule_carried_out(tile, context);
    const std::string text = ir::print(done.schedule);
    EXPECT_EQ(ir::parse_schedule(text), ir::canonical(done.schedule)) << text;
    // A plan made of the text gives the same.
    ir::PassContext again;
    again.planned = ir::parse_plan_request(text);
    EXPECT_EQ(ir::print(ir::schedule_carried_out(tile, again).schedule), text);
    const ir::Verdict v = ir::judge(done.machine, ir::Graph(done.machine), done.schedule);
    for (const ir::Reason& r : v.reasons) ADD_FAILURE() << r.str() << "\n" << text;
    return done.schedule;
  }

  /// For both targets, pinned under the name.
  static void pin(const std::string& name, const ir::Kernel& tile) {
    for (const char* target : {"sm_90a", "sm_80"}) {
      SCOPED_TRACE(name + " " + target);
      pinned_->check(name + " " + target, ir::print(judged(tile, target)));
    }
  }

  static ir::Kernel attention_of(int d, const AttentionSpec& spec, int keys = 256) {
    const Tensor Q = host({1, 1, 128, d}), K = host({1, 1, keys, d}), O = host({1, 1, 128, d});
    const Attention attention(spec);
    return traced("attention", [&] { attention(Q, K, K, O); });
  }

  static test::Pinned* pinned_;
};
test::Pinned* Schedules::pinned_ = nullptr;

AttentionSpec causal() {
  AttentionSpec spec;
  spec.mask = [](const Tile&, const Tile&, const Tile& q, const Tile& kv) { return q >= kv; };
  spec.kv_range = causal_range;
  spec.full_kv_range = causal_full;
  return spec;
}

TEST_F(Schedules, Attention) {
  for (const int d : {64, 128, 256}) {
    pin("attention full d" + std::to_string(d), attention_of(d, {}));
    pin("attention causal d" + std::to_string(d), attention_of(d, causal()));
  }
  pin("attention sliding window d128", attention_of(128, {.mask = masks::sliding_window(20)}));
}

TEST_F(Schedules, AttentionOfOtherHeadDims) {
  for (const int d : {40, 72, 80, 96, 112, 160, 192, 200})
    for (const AttentionSpec& spec : {AttentionSpec{}, causal()}) {
      SCOPED_TRACE(d);
      const ir::Kernel tile = attention_of(d, spec, 8192);
      for (const char* target : {"sm_90a", "sm_80"}) judged(tile, target);
    }
}

ir::Kernel matmul_of(const MatmulConfig& config, DType operands = DType::bf16,
                     const MatmulOptions& options = {}) {
  const Tensor A = Tensor::zeros({64, 256}, operands, Device::cpu()),
               B = Tensor::zeros({64, 256}, operands, Device::cpu()).transpose(0, 1),
               C = Tensor::zeros({64, 64}, DType::f32, Device::cpu());
  return traced("matmul", [&] { matmul(kCpu, A, B, C, config, options); });
}

TEST_F(Schedules, Matmul) {
  pin("matmul 128x256x64", matmul_of({.bm = 128, .bn = 256, .bk = 64}));
  pin("matmul 64x128x64", matmul_of({.bm = 64, .bn = 128, .bk = 64}));
  pin("matmul multicast", matmul_of({.bm = 128, .bn = 128, .bk = 64, .multicast = Multicast::b}));
  pin("matmul pingpong", matmul_of({.bm = 128, .bn = 128, .bk = 64, .pingpong = true}));
  pin("matmul fp8 promoted",
      matmul_of({.bm = 64, .bn = 128, .bk = 128}, DType::f8e4m3, {.fp32_promotion = true}));
  pin("matmul tf32", matmul_of({.bm = 128, .bn = 128, .bk = 32}, DType::f32, {.tf32 = true}));
  pin("matmul f32", matmul_of({.bm = 64, .bn = 64, .bk = 16}, DType::f32));
}

/// Whatever configuration is requested, the Schedule that comes of it is legal.
TEST_F(Schedules, MatmulConfigurations) {
  for (const int bm : {64, 128, 192, 256})
    for (const int bn : {64, 96, 256})
      for (const bool pingpong : {false, true}) {
        if (bm * bn > 192 * 256) continue;  // no room for what threads exchange before a store
        SCOPED_TRACE(testing::Message() << bm << " " << bn << " " << pingpong);
        const MatmulConfig config{.bm = bm, .bn = bn, .bk = 64, .pingpong = pingpong};
        const ir::Kernel tile = matmul_of(config, DType::f16);
        for (const char* target : {"sm_90a", "sm_80"}) judged(tile, target);
      }
  for (const int bm : {8, 16, 64}) {
    SCOPED_TRACE(bm);
    judged(matmul_of({.bm = bm, .bn = 128, .bk = 128, .swap_ab = true}), "sm_90a");
    judged(matmul_of({.bm = bm, .bn = 128, .bk = 128, .swap_ab = true}, DType::f8e4m3), "sm_90a");
  }
}

TEST_F(Schedules, MatmulEpilogue) {
  const auto dense = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return gelu(acc + expand(cast<f32>(bias(n)), 0)) + cast<f32>(residual(m, n));
      });
  const Tensor A = host({64, 256}), B = host({64, 256}).transpose(0, 1), bias = host({64}),
               C = host({64, 64});
  pin("matmul with bias, gelu and residual", traced("matmul", [&] {
        dense.run({.bm = 128, .bn = 128, .bk = 64}, kCpu, A, B, C, bias, host({64, 64}));
      }));
}

TEST_F(Schedules, RowsWithoutDots) {
  const Tensor x = host({16, 1024});
  pin("softmax", traced("softmax", [&] { softmax(kCpu, x, host({16, 1024})); }));
}

/// A kernel's author requests a ring of three slots by a Schedule in the place of a plan.
TEST_F(Schedules, AnAuthorsIsCarriedOut) {
  const auto product =
      kernel("scheduled",
             [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
               for (auto [m, n] : grid(C, 64, 64)) {
                 auto acc = zeros<f32>(64, 64);
                 for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
                 C(m, n) = acc;
               }
             })
          .with_plan(
              "schedule sm_90a { roles producer(warps 1) consumer(warps 4) dots dot#0 wgmma "
              "tiles each channel ab tma slots 3 load#0 load#1 loop#0 { load#0 producer 0.0 "
              "load#1 producer 0.1 dot#0 consumer 0.0 in_flight 1 } }");
  const Device sim = Device::sim();
  const Tensor A = Tensor::integers({64, 320}, DType::bf16, -2, 2, 1, sim),
               B = Tensor::integers({320, 64}, DType::bf16, -2, 2, 2, sim),
               C = Tensor::zeros({64, 64}, DType::f32, sim);
  product(A, B, C);
  const auto a = A.to_doubles(), b = B.to_doubles(), c = C.to_doubles();
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < 64; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 320; ++k) sum += a[i * 320 + k] * b[k * 64 + j];
      ASSERT_EQ(c[i * 64 + j], sum) << i << ", " << j;
    }
  EXPECT_NE(product.explain().find("channel  c0 tma slots 3 load#0 load#1"), std::string::npos)
      << product.explain();
}

/// Every rung of the ladder of bench/ladder.def, with its plan.
TEST_F(Schedules, Ladder) {
  struct Rung {
    const char* name;
    int rows, columns, group;
    const char* fields;
  };
  constexpr Rung kRungs[] = {
#define LADDER_RUNG(name, rows, columns, group, fields) {name, rows, columns, group, fields},
#include "bench/ladder.def"
#undef LADDER_RUNG
  };
  std::map<std::tuple<int, int, int>, ir::Kernel> tiles;
  for (const Rung& rung : kRungs) {
    SCOPED_TRACE(rung.name);
    // A kernel is traced once: the rungs of one tile share it.
    const std::tuple key(rung.rows, rung.columns, rung.group);
    if (!tiles.contains(key)) {
      const auto ladder = kernel("ladder", [=](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
        const auto [rows, columns, group] = key;
        for (auto [m, n] : grid(C, rows, columns, group_m(group))) {
          auto acc = zeros<f32>(rows, columns);
          for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
          C(m, n) = acc;
        }
      });
      const Tensor a = host({256, 256}), b = host({256, 256}), c = host({256, 256});
      tiles.emplace(key, traced("ladder", [&] { ladder(kCpu, a, b, c); }));
    }
    pinned_->check(rung.name, ir::print(judged(tiles.at(key), "sm_90a", rung.fields)));
  }
}

}  // namespace
}  // namespace tegula::schedules_test
