// Loops with graphs of dots under Schedules of their author: stages, orders, sums in flight; two
// loops of products in a kernel; one buffer that two products read in two views. Exact on small
// integers, on every device that is here.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ir/pipeline.h"
#include "ir/schedule/edits.h"
#include "ir/schedule/text.h"
#include "support/env.h"
#include "tegula/error.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::dot_graph_schedules_test {
namespace {

class DotGraphSchedules : public test::OnDevice {
 protected:
  bool is_compiled() const { return GetParam().kind != DeviceKind::cpu; }
  template <class Kernel>
  void expect_wgmmas(const Kernel& kernel, int count) const {
    if (!is_compiled()) return;
    const std::string said = kernel.explain();
    int found = 0;
    for (std::size_t at = 0; (at = said.find("dot by wgmma", at)) != std::string::npos; ++at)
      ++found;
    EXPECT_EQ(found, count) << said;
  }
  /// The Schedule of a kernel that has been called, with edits.
  template <class Kernel>
  std::string schedule(const Kernel& kernel, const char* edits) const {
    const std::string said = kernel.explain();
    const std::size_t first = said.find("schedule sm_90a"), last = said.find("\n}", first);
    EXPECT_NE(last, std::string::npos) << said;
    auto patched = ir::with_edits(ir::parse_schedule(said.substr(first, last + 2 - first)), edits);
    EXPECT_TRUE(patched.reasons.empty());
    return ir::print(patched.schedule);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, DotGraphSchedules, testing::ValuesIn(test::devices()),
                         test::device_name);

using Matrix = std::vector<double>;

Matrix product(const Matrix& a, const Matrix& b, int rows, int depth, int columns) {
  Matrix c(static_cast<std::size_t>(rows * columns));
  for (int i = 0; i < rows; ++i)
    for (int l = 0; l < depth; ++l)
      for (int j = 0; j < columns; ++j)
        c[static_cast<std::size_t>(i * columns + j)] +=
            a[static_cast<std::size_t>(i * depth + l)] *
            b[static_cast<std::size_t>(l * columns + j)];
  return c;
}
Matrix clamped(Matrix m, double most) {
  for (double& v : m) v = std::clamp(v, -most, most);
  return m;
}

/// Y = f(X W^T) W, whose W both products read.
auto tied(int bm, int bh) {
  return kernel("tied", [=](In<bf16, 2> X, In<bf16, 2> W, Out<f32, 2> Y) {
    const int width = W.static_dim(1);
    for (auto m : grid(rows(Y), bm)) {
      const Tile x = X(m, all);
      Tile y = zeros<f32>(bm, width);
      for (auto h : steps(W.rows(), bh)) {
        const Tile w = W(h, all);
        y = dot(cast<bf16>(min(max(dot(x, w.T()), -3.0f), 3.0f)), w, y);
      }
      Y(m, all) = y;
    }
  });
}

Matrix turned(const Matrix& m, int rows, int columns) {
  Matrix t(m.size());
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      t[static_cast<std::size_t>(j * rows + i)] = m[static_cast<std::size_t>(i * columns + j)];
  return t;
}

/// The second product one iteration late: no iterations, one, two and more, of numbers that only
/// the device knows.
TEST_P(DotGraphSchedules, SkewedSecondProduct) {
  const auto call = [&](const auto& kernel, int hidden) {
    const Tensor X = integers({200, 64}, DType::bf16, 1),
                 W = integers({hidden, 64}, DType::bf16, 2), Y = empty({200, 64}, DType::f32);
    kernel(stream(), X, W, Y);
    const Matrix w = W.to_doubles();
    const Matrix h = clamped(product(X.to_doubles(), turned(w, hidden, 64), 200, 64, hidden), 3);
    test::expect_equal(Y, product(h, w, 200, hidden, 64));
  };
  const auto plain = tied(128, 64);
  call(plain, 256);
  if (!is_compiled()) return;
  const std::string text = schedule(plain, "dot#1 consumer 1.1");
  EXPECT_NE(text.find("dot#1 consumer 1.1"), std::string::npos) << text;
  const auto late = plain.with_plan(text);
  for (const int hidden : {64, 128, 192, 256, 456, 0}) {
    SCOPED_TRACE(hidden);
    call(late, hidden);
  }
  expect_wgmmas(late, 2);
}

/// Y = f(X W^T) V.
auto untied() {
  return kernel("untied", [](In<bf16, 2> X, In<bf16, 2> W, In<bf16, 2> V, Out<f32, 2> Y) {
    for (auto m : grid(rows(Y), 128)) {
      const Tile x = X(m, all);
      Tile y = zeros<f32>(128, V.static_dim(1));
      for (auto h : steps(W.rows(), 64)) {
        const Tile v = V(h, all);  // load#1; W's is load#2
        y = dot(cast<bf16>(min(max(dot(x, W(h, all).T()), -3.0f), 3.0f)), v, y);
      }
      Y(m, all) = y;
    }
  });
}

class Untied : public DotGraphSchedules {
 protected:
  struct Operands {
    Tensor X, W, V, Y;
  };
  Operands operands(int hidden) const {
    return {integers({200, 64}, DType::bf16, 1), integers({hidden, 64}, DType::bf16, 2),
            integers({hidden, 64}, DType::bf16, 3), empty({200, 64}, DType::f32)};
  }
  template <class Kernel>
  void call(const Kernel& kernel, int hidden) const {
    SCOPED_TRACE(hidden);
    const auto [X, W, V, Y] = operands(hidden);
    kernel(stream(), X, W, V, Y);
    const Matrix h =
        clamped(product(X.to_doubles(), turned(W.to_doubles(), hidden, 64), 200, 64, hidden), 3);
    test::expect_equal(Y, product(h, V.to_doubles(), 200, hidden, 64));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Untied, testing::ValuesIn(test::devices()), test::device_name);

/// The ops of the loop that warpgroups run in turn.
std::vector<ir::Opcode> in_turn(const ir::Kernel& tile, const std::string& plan) {
  ir::Kernel k = ir::clone(tile);
  k.info.target = ir::Target("sm_90a");
  ir::PassContext context;
  context.planned = ir::parse_plan_request(plan);
  for (const ir::Pass& pass : ir::ir_passes()) {
    pass.run(k, context);
    k.info.form = pass.leaves;
    if (pass.name == "pipeline_wgmma") break;
  }
  std::vector<ir::Opcode> found;
  bool has_turn = false;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    const ir::OpId owner = k[k[op].parent].owner;
    if (!owner || k[owner].opcode != ir::Opcode::For) return;
    has_turn &= k[op].opcode != ir::Opcode::OrderArrive;
    if (has_turn) found.push_back(k[op].opcode);
    has_turn |= k[op].opcode == ir::Opcode::OrderWait;
  });
  return found;
}

/// The order of attention in cuDNN: no product is late, and warpgroups compute what stands between
/// the products in turn.
TEST_P(Untied, TokenBetweenProducts) {
  const auto plain = untied();
  call(plain, 256);
  if (!is_compiled()) return;
  const std::string text = schedule(
      plain,
      "dot#0 in_flight 0; dot#1 in_flight 0; dot#1 consumer 0.9; token mma consumer { ew#0 }");
  const auto changed = plain.with_plan(text);
  for (const int hidden : {64, 128, 320, 456, 0}) call(changed, hidden);
  EXPECT_NE(changed.explain().find("token    mma consumer { ew#0 }"), std::string::npos)
      << changed.explain();
  const auto [X, W, V, Y] = operands(256);
  const Trace traced = plain.trace(X, W, V, Y);
  const auto dots_in = [&](const std::string& plan) {
    return std::ranges::count(in_turn(traced.kernel(), plan), ir::Opcode::DotAsync);
  };
  EXPECT_EQ(dots_in(""), 2);
  EXPECT_EQ(dots_in(text), 0);
  EXPECT_EQ(std::ranges::count(in_turn(traced.kernel(), text), ir::Opcode::Min), 1);
}

/// Each channel has its own slots, and the producer loads in another order.
TEST_P(Untied, SlotsAndOrderOfLoads) {
  const auto plain = untied();
  call(plain, 256);
  if (!is_compiled()) return;
  const std::string text =
      schedule(plain, "channel c0 slots 3; channel c2 slots 5; load#2 producer 0.0");
  const auto changed = plain.with_plan(text);
  for (const int hidden : {64, 128, 320, 456, 0}) call(changed, hidden);
  EXPECT_NE(changed.explain().find("load#2 producer 0.0  load#1 producer 0.1"), std::string::npos)
      << changed.explain();
}

/// C = A B in square tiles.
auto plain_gemm(int tile, int bk) {
  return kernel("gemm", [=](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, tile, tile)) {
      Tile sum = zeros<f32>(tile, tile);
      for (auto k : steps(A.cols(), bk)) sum = dot(A(m, k), B(k, n), sum);
      C(m, n) = sum;
    }
  });
}

/// The author chooses the number of warps and nothing else of the plan.
TEST_P(DotGraphSchedules, NumberOfWarpsAlone) {
  const auto gemm = plain_gemm(64, 32);
  const Tensor A = integers({70, 72}, DType::bf16, 1), B = integers({72, 136}, DType::bf16, 2),
               C = empty({70, 136}, DType::f32);
  for (const int warps : {1, 2, 8, 16}) {
    SCOPED_TRACE(warps);
    gemm.with_plan({.num_warps = warps, .wgmma = false, .producer_warps = 0, .persistent = false})(
        stream(), A, B, C);
    test::expect_equal(C, product(A.to_doubles(), B.to_doubles(), 70, 72, 136));
  }
}

/// The loads of both products share a channel, whose slots the first product waits for and the last
/// one releases: one iteration late, and in the same iteration.
TEST_P(Untied, LoadsThatShareAChannel) {
  const auto plain = untied();
  call(plain, 256);
  if (!is_compiled()) return;
  for (const std::string edits :
       {"", "; channel c0 slots 5",
        "; dot#0 in_flight 0; dot#1 in_flight 0; dot#1 consumer 0.9; drop mma"}) {
    SCOPED_TRACE(edits);
    const std::string text = schedule(plain, ("channel c0 takes load#1" + edits).c_str());
    const auto changed = plain.with_plan(text);
    for (const int hidden : {64, 128, 320, 456, 0}) call(changed, hidden);
    EXPECT_NE(changed.explain().find("load#2 load#1"), std::string::npos) << changed.explain();
    expect_wgmmas(changed, 2);
  }
}

/// A GEMM's operands have a channel each, of other depths.
TEST_P(DotGraphSchedules, AChannelForEachOperand) {
  const auto gemm = plain_gemm(128, 64);
  const auto call = [&](const auto& kernel, int depth) {
    const Tensor A = integers({200, depth}, DType::bf16, 1),
                 B = integers({depth, 136}, DType::bf16, 2), C = empty({200, 136}, DType::f32);
    kernel(stream(), A, B, C);
    test::expect_equal(C, product(A.to_doubles(), B.to_doubles(), 200, depth, 136));
  };
  call(gemm, 256);
  if (!is_compiled()) return;
  const auto apart = gemm.with_plan(
      schedule(gemm, "channel own takes load#1; channel own slots 3; channel c0 slots 4"));
  for (const int depth : {64, 256, 456}) call(apart, depth);
  const std::string said = apart.explain();
  EXPECT_NE(said.find("tma slots 4 load#0\n"), std::string::npos) << said;
  EXPECT_NE(said.find("tma slots 3 load#1\n"), std::string::npos) << said;
}

/// An order that no step can execute is rejected with its first unsupported line.
TEST_P(DotGraphSchedules, ImpossibleOrder) {
  if (!is_compiled())
    GTEST_SKIP() << "the interpreter runs the tile form, in which nothing is ordered";
  const auto plain = tied(128, 64);
  const Tensor X = integers({128, 64}, DType::bf16, 1), W = integers({128, 64}, DType::bf16, 2),
               Y = empty({128, 64}, DType::f32);
  plain(stream(), X, W, Y);
  const auto wrong = plain.with_plan(schedule(plain, "dot#1 consumer 0.0"));
  try {
    wrong(stream(), X, W, Y);
    FAIL() << "carried out";
  } catch (const CompileError& e) {
    EXPECT_NE(std::string(e.what()).find("T1406"), std::string::npos) << e.what();
  }
}

/// A Schedule in TEGULA_PLAN is requested like an author's.
TEST_P(DotGraphSchedules, ImpossibleOrderOfTheEnvironment) {
  if (!is_compiled()) GTEST_SKIP() << "the tile form has no order";
  const auto plain = tied(128, 64);
  const Tensor X = integers({128, 64}, DType::bf16, 1), W = integers({128, 64}, DType::bf16, 2),
               Y = empty({128, 64}, DType::f32);
  plain(stream(), X, W, Y);
  Env changed = env();
  changed.plan = schedule(plain, "dot#1 consumer 0.0");
  const EnvOverride scope(changed);
  try {
    tied(128, 64)(stream(), X, W, Y);
    FAIL() << "carried out";
  } catch (const CompileError& e) {
    EXPECT_NE(std::string(e.what()).find("T1406"), std::string::npos) << e.what();
  }
}

/// A product's mainloop, then a loop over columns that takes its result from registers.
TEST_P(DotGraphSchedules, TwoLoopsOfProducts) {
  const auto bottleneck =
      kernel("bottleneck", [](In<bf16, 2> X, In<bf16, 2> W1, In<bf16, 2> W2, Out<f32, 2> Y) {
        const int width = W1.static_dim(1);
        for (auto m : grid(rows(Y), 128)) {
          Tile h = zeros<f32>(128, width);
          for (auto k : steps(X.cols(), 64)) h = dot(X(m, k), W1(k, all), h);
          const Tile narrow = cast<bf16>(min(max(h, -3.0f), 3.0f));
          for (auto n : steps(Y.cols(), 64)) Y(m, n) = dot(narrow, W2(all, n));
        }
      });
  const Tensor X = integers({200, 328}, DType::bf16, 1), W1 = integers({328, 64}, DType::bf16, 2),
               W2 = integers({64, 328}, DType::bf16, 3), Y = empty({200, 328}, DType::f32);
  bottleneck(stream(), X, W1, W2, Y);
  const Matrix h = clamped(product(X.to_doubles(), W1.to_doubles(), 200, 328, 64), 3);
  test::expect_equal(Y, product(h, W2.to_doubles(), 200, 64, 328));
  expect_wgmmas(bottleneck, 2);
}

/// Keys and values are one buffer, read transposed and as it lies; the second product also late.
TEST_P(DotGraphSchedules, KeysAndValuesInOneBuffer) {
  const auto latent = kernel("latent", [](In<bf16, 2> Q, In<bf16, 2> KV, Out<f32, 2> O) {
    const int dim = Q.static_dim(1);
    for (auto m : grid(rows(O), 64)) {
      const Tile q = Q(m, all);
      Tile o = zeros<f32>(64, dim);
      for (auto t : steps(KV.rows(), 64)) {
        const Tile kv = KV(t, all);
        const Tile p = min(max(dot(q, kv.T()), -2.0f), 2.0f);
        o = dot(cast<bf16>(p), kv, min(max(o, -900.0f), 900.0f));
      }
      O(m, all) = o;
    }
  });
  const auto call = [&](const auto& kernel, int keys) {
    const Tensor Q = integers({136, 64}, DType::bf16, 1), KV = integers({keys, 64}, DType::bf16, 2),
                 O = empty({136, 64}, DType::f32);
    kernel(stream(), Q, KV, O);
    const Matrix kv = KV.to_doubles();
    const Matrix p = clamped(product(Q.to_doubles(), turned(kv, keys, 64), 136, 64, keys), 2);
    Matrix want(136 * 64);
    for (int first = 0; first < keys; first += 64) {
      want = clamped(want, 900);
      for (std::size_t i = 0; i < 136; ++i)
        for (int t = first; t < std::min(keys, first + 64); ++t)
          for (std::size_t j = 0; j < 64; ++j)
            want[i * 64 + j] +=
                p[i * static_cast<std::size_t>(keys) + static_cast<std::size_t>(t)] *
                kv[static_cast<std::size_t>(t) * 64 + j];
    }
    test::expect_equal(O, want);
  };
  call(latent, 264);
  expect_wgmmas(latent, 2);
  if (!is_compiled()) return;
  EXPECT_NE(latent.explain().find("b=ring^T"), std::string::npos) << latent.explain();
  const auto late = latent.with_plan(schedule(latent, "dot#1 consumer 1.1"));
  for (const int keys : {64, 128, 264}) call(late, keys);
  expect_wgmmas(late, 2);
}

/// Y = f(X W1) W2, two GEMMs back to back; with `bound`, the sum is changed in every iteration,
/// with `always`, there is one.
auto two_gemms(const char* name, bool bound, bool always) {
  return kernel(name, [=](In<bf16, 2> X, In<bf16, 2> W1, In<bf16, 2> W2, Out<f32, 2> Y) {
    const int width = W2.static_dim(1);
    const Tile first = full<i32>(0), last = W1.cols();
    for (auto m : grid(rows(Y), 128)) {
      const Tile x = X(m, all);
      Tile y = zeros<f32>(128, width);
      if (always) assume(first < last);
      for (auto h : steps(first, last, 64)) {
        if (bound) y = min(max(y, -900.0f), 900.0f);
        y = dot(cast<bf16>(min(max(dot(x, W1(all, h)), -3.0f), 3.0f)), W2(h, all), y);
      }
      Y(m, all) = y;
    }
  });
}

std::string without_pin(std::string schedule) {
  const std::size_t at = schedule.find(" pin");
  return at == std::string::npos ? schedule : schedule.erase(at, 4);
}

/// The policy has the second GEMM one iteration late; an author has it in its own iteration, or in
/// an order without pin, or with sums that are waited for at once; beside the tile before, too.
TEST_P(DotGraphSchedules, TwoGemmsBackToBack) {
  const auto call = [&](const auto& kernel, int hidden, bool bound) {
    const Tensor X = integers({700, 64}, DType::bf16, 1),
                 W1 = integers({64, hidden}, DType::bf16, 2),
                 W2 = integers({hidden, 64}, DType::bf16, 3), Y = empty({700, 64}, DType::f32);
    kernel(stream(), X, W1, W2, Y);
    const Matrix h = clamped(product(X.to_doubles(), W1.to_doubles(), 700, 64, hidden), 3);
    const Matrix w2 = W2.to_doubles();
    Matrix want(700 * 64);
    for (int first = 0; first < hidden; first += 64) {
      if (bound) want = clamped(want, 900);
      for (std::size_t i = 0; i < 700; ++i)
        for (int t = first; t < std::min(hidden, first + 64); ++t)
          for (std::size_t j = 0; j < 64; ++j)
            want[i * 64 + j] +=
                h[i * static_cast<std::size_t>(hidden) + static_cast<std::size_t>(t)] *
                w2[static_cast<std::size_t>(t) * 64 + j];
    }
    test::expect_equal(Y, want);
  };
  for (const bool bound : {false, true}) {
    SCOPED_TRACE(bound);
    const auto plain = two_gemms(bound ? "two_bound_gemms" : "two_gemms", bound, false);
    for (const int hidden : {64, 128, 320}) call(plain, hidden, bound);
    if (!is_compiled()) continue;
    expect_wgmmas(plain, 2);
    EXPECT_NE(plain.explain().find("dot#1 consumer 1."), std::string::npos) << plain.explain();
    for (const char* edits : {"dot#1 consumer 0.90; dot#1 in_flight 0; dot#0 in_flight 0",
                              "dot#0 in_flight 0; dot#1 in_flight 0"}) {
      SCOPED_TRACE(edits);
      const auto edited = plain.with_plan(without_pin(schedule(plain, edits)));
      for (const int hidden : {64, 128, 320}) call(edited, hidden, bound);
      expect_wgmmas(edited, 2);
    }
    const auto every_tile = two_gemms(bound ? "two_bound_tiles" : "two_tiles", bound, true);
    const auto overlapped =
        every_tile.with_plan("persistent=1 producer_warps=1 once_stages=2 overlap_epilogue=1");
    for (const int hidden : {64, 128, 320}) call(overlapped, hidden, bound);
    const std::string said = overlapped.explain();
    EXPECT_NE(said.find("overlap\n"), std::string::npos) << said.substr(0, 900);
    EXPECT_NE(said.find("dot#1 consumer 1."), std::string::npos) << said;
    const auto again = every_tile.with_plan(without_pin(schedule(overlapped, "dot#0 in_flight 0")));
    for (const int hidden : {64, 128, 320}) call(again, hidden, bound);
  }
}

}  // namespace
}  // namespace tegula::dot_graph_schedules_test
