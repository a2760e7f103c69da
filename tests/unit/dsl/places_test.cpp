// Ops and errors are placed in the user's source, never in the language's own: functions that are
// composed of others record the caller's line.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "run_on_host.h"
#include "tegula/called_from.h"
#include "tegula/look_back.h"
#include "tegula/programs.h"

namespace tegula::dsl::places_test {
namespace {

using test::empty;
using test::kHost;

/// Fails for each op of the trace whose line is in the language's sources.
void expect_placed_here(const Trace& trace) {
  ir::walk(trace.kernel(), trace.kernel().body(), [&](ir::OpId op) {
    const Loc& loc = trace.kernel()[op].loc;
    EXPECT_TRUE(!loc.known() || !detail::is_source_of_language(loc.file))
        << ir::info(trace.kernel()[op].opcode).mnemonic << " at " << loc.file << ":" << loc.line;
  });
}

TEST(Places, ComposedFunctionsAreTheCallers) {
  const auto k = kernel(
      "functions", [](In<f32, 2> x, In<i32, 1> ids, Ptr<f32> p, Scalar<i64> n, Out<f32, 2> y) {
        for (auto [i, j] : grid(y, 8, 32)) {
          Tile t = x(i, j), k = ids(j), s = zeros<f32>(8);
          for (auto q : steps(0, n, 1, n)) s += cast<f32>(q.first());
          for (auto q : steps(j.first(), x.cols(), 4)) s += sum(x(i, q.until(n)), 1);
          t = t + sigmoid(t) + gelu(t) + softplus(t) + pow(t, 2) + clamp(t, 0, 1) + silu(t);
          t = t + expm1(t) + atan2(t, t) + cbrt(t) + erfinv(t) + normcdf(t) + sinh(t) + lgamma(t);
          t = t + expand(logsumexp(t, 1) + var(t, 1) + mean(t, 1) + s, 1) + sort(t) + cumsum(t, 1);
          t = t + expand(topk(t, 4).values(all, 0), 1) + cast<f32>(argsort(t)) + rand(1, k);
          t = t + randn(1, k) + cast<f32>(randint(1, k, 0, 9)) + dropout(t, 0.5, 1, k);
          t = t + cast<f32>(searchsorted(sum(t, 0), t)) + cast<f32>(searchsorted(ids, k));
          t = t + cast<f32>(histogram(k, 32)) + cast<bf16>(t, Round::zero) + cdiv(k, 3);
          t = t + view<f32, 1>(p, {n}, {1})(j) + load(p + j.indices(), k > 0, 0);
          t = t + scan(t, 1, [](const Tile& a, const Tile& b) { return a * b; });
          t = t + cast<f32>(argmax(t, 0)) + cast<f32>(compact(k, k > 0).count);
          print("t {}", t);
          device_assert(k >= 0, "k");
          watch_nan(t, "t");
          y(i, j) = t;
        }
      });
  expect_placed_here(k.trace(empty({16, 64}), Tensor::zeros({64}, DType::i32, kHost), empty({64}),
                             64, empty({16, 64})));
}

TEST(Places, SegmentsAndSharedWorkAreTheCallers) {
  const auto ragged = kernel("ragged", [](In<i32, 1> offsets, In<f32, 2> x, Out<f32, 2> y) {
    for (auto [segment, rows] : grid(segments(offsets, x.rows()), 16))
      y(rows, all) = x(rows, all) + cast<f32>(segment.first());
  });
  expect_placed_here(
      ragged.trace(Tensor::zeros({4}, DType::i32, kHost), empty({40, 32}), empty({40, 32})));
  const auto scanned =
      kernel("scanned", [](In<i32, 1> x, Out<i32, 1> y, Ptr<u64> words, Ptr<u32> counter) {
        for (auto p : grid(cdiv(x.dim(0), 64), 1)) {
          const Tile number = ticket(counter, cdiv(x.dim(0), 64));
          const Index at = slice(number * 64, 64);
          const Tile v = x(at),
                     before = LookBack<i32>(words).before(
                         number, sum(v, 0), 0, [](const Tile& a, const Tile& b) { return a + b; });
          y(at) = before + cumsum(v, 0);
        }
      });
  expect_placed_here(scanned.trace(
      Tensor::zeros({640}, DType::i32, kHost), Tensor::zeros({640}, DType::i32, kHost),
      Tensor::zeros({10}, DType::u64, kHost), Tensor::zeros({1}, DType::u32, kHost)));
}

TEST(Places, StepsByZeroAreTheLoops) {
  const auto k = kernel("stepped", [](Out<i32, 1> y, Scalar<i32> by) {
    for (auto i : grid(y, 1)) {
      Tile n = full<i32>(0);
      for (auto s : steps(0, 8, 1, by)) n += cast<i32>(s.first());
      y(i) = n;
    }
  });
  constexpr unsigned kLoop = __LINE__ - 4;
  for (const Device d : {Device::cpu(), Device::sim()}) {
    const Tensor y = Tensor::zeros({1}, DType::i32, d);
    try {
      k(y, 0);
      ADD_FAILURE() << d.str();
    } catch (const ProgramError& e) {
      EXPECT_EQ(e.diagnostic().code, "T1305") << e.what();
      EXPECT_TRUE(e.diagnostic().message.find("argument by of steps") != std::string::npos)
          << e.what();
      for (const Diagnostic& at : e.diagnostics()) {
        EXPECT_TRUE(std::string_view(at.loc.file).ends_with("places_test.cpp")) << e.what();
        EXPECT_EQ(at.loc.line, kLoop) << e.what();
      }
    }
    k(y, 2);
    EXPECT_EQ(y.to_doubles()[0], 12);
    k(y, 9);
    EXPECT_EQ(y.to_doubles()[0], 0);
  }
}

/// Calls outside of kernels, on a machine without a GPU.
TEST(Places, ErrorsOfTensorsStreamsAndEvents) {
  if (Device::cuda_count() > 0) GTEST_SKIP() << "there is a GPU";
  const Device gpu = Device::cuda(), cpu = Device::cpu();
  const Tensor host = Tensor::zeros({8}, DType::f32, cpu);
  std::array<float, 16> memory{};
  const Tensor x = Tensor::borrow(memory.data(), {8}, DType::f32, gpu),
               y = Tensor::borrow(memory.data() + 8, {8}, DType::f32, gpu);
  const auto copy = kernel("copy", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 8)) y(i) = x(i);
  });
  constexpr unsigned kCopy = __LINE__ - 3;
  struct Case {
    unsigned line;
    std::function<void()> call;
  };
  const std::vector<Case> cases{
      {__LINE__, [&] { Tensor::zeros({8}, DType::f32, gpu); }},
      {__LINE__, [&] { Tensor::full({8}, 1, DType::f32, gpu); }},
      {__LINE__, [&] { Tensor::iota({8}, DType::f32, gpu); }},
      {__LINE__, [&] { Tensor::normal({8}, DType::f32, 0, 1, 1, gpu); }},
      {__LINE__, [&] { Tensor::from(std::vector<float>{1}, gpu); }},
      {__LINE__, [&] { host.to(gpu); }},
      {__LINE__, [&] { x.to(cpu); }},
      {__LINE__, [&] { x.clone(); }},
      {__LINE__, [&] { x.fill(1); }},
      {__LINE__, [&] { x.cast(DType::bf16); }},
      {__LINE__, [&] { x.to_vector<float>(); }},
      {__LINE__, [&] { x.to_doubles(); }},
      {__LINE__, [&] { x.copy_from(host); }},
      {__LINE__, [&] { Stream::create(gpu); }},
      {__LINE__, [&] { Stream(gpu).synchronize(); }},
      {__LINE__, [&] { Stream::wrap(memory.data(), cpu); }},
      {__LINE__, [&] { Event event(gpu); }},
      {kCopy, [&] { copy(x, y); }},
      {__LINE__, [&] { Tensor::zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}, DType::f32, cpu); }},
  };
  for (const Case& one : cases) {
    const auto expect_line = [&](const Diagnostic& d) {
      EXPECT_TRUE(d.loc.known() && std::string_view(d.loc.file).ends_with("places_test.cpp"))
          << one.line << ": " << d.str();
      EXPECT_EQ(d.loc.line, one.line) << d.str();
    };
    try {
      one.call();
      ADD_FAILURE() << one.line;
    } catch (const CompileError& e) {
      expect_line(e.diagnostic());
    } catch (const DeviceError& e) {
      expect_line(e.diagnostic());
    }
  }
}

}  // namespace
}  // namespace tegula::dsl::places_test
