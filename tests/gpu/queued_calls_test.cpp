// A call never waits for the device: after a long kernel, calls of the library return at once,
// including attention without lse, decoding, lists and matmuls.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch.h"
#include "runtime/module.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/softmax.h"
#include "tegula/tegula.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::queued_calls_test {
using namespace kernels;
namespace {

using Clock = std::chrono::steady_clock;

/// One thread reads the clock until the given number of nanoseconds has passed.
constexpr const char* kSpinPtx = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 ns) .maxntid 32 {
  .reg .pred %p; .reg .u64 %rd<4>;
  ld.param.u64 %rd0, [ns];
  mov.u64 %rd1, %globaltimer;
LOOP:
  mov.u64 %rd2, %globaltimer;
  sub.u64 %rd3, %rd2, %rd1;
  setp.lt.u64 %p, %rd3, %rd0;
  @%p bra LOOP;
  ret;
}
)";

/// A kernel that keeps its stream busy.
class Spin {
 public:
  Spin() {
    runtime::ArgumentLayout layout;
    layout.add<std::uint64_t>();
    plan_.emplace(runtime::Module::load_ptx(kSpinPtx, 0)->kernel("spin", 0, {}),
                  runtime::LaunchShape{}, layout.slots());
  }
  void queue(const Stream& stream, std::chrono::nanoseconds time) const {
    const auto ns = static_cast<std::uint64_t>(time.count());
    plan_->launch(static_cast<runtime::cu::Stream>(stream.handle()),
                  reinterpret_cast<const std::byte*>(&ns));
  }

 private:
  std::optional<runtime::PreparedLaunch> plan_;
};

struct Call {
  std::string name;
  std::function<void(const Stream&)> run;
};

Tensor tensor(const Dims& shape, DType dtype = DType::bf16) {
  return Tensor::zeros(shape, dtype, Device::cuda());
}

struct Shape {
  std::int64_t batch = 1, heads = 8, kv_heads = 8, queries = 1024, keys = 1024;
};

Call attention_call(const std::string& name, AttentionSpec spec, const Shape& s,
                    bool has_lse = false) {
  constexpr std::int64_t kDim = 128;
  const Tensor Q = tensor({s.batch, s.heads, s.queries, kDim}),
               K = tensor({s.batch, s.kv_heads, s.keys, kDim}),
               V = tensor({s.batch, s.kv_heads, s.keys, kDim}),
               O = tensor({s.batch, s.heads, s.queries, kDim});
  AttentionExtras x;
  if (has_lse) x.lse = tensor({s.batch, s.heads, s.queries}, DType::f32);
  return {name,
          [=, a = Attention(std::move(spec))](const Stream& stream) { a(stream, Q, K, V, O, x); }};
}

std::vector<Call> attention_calls() {
  constexpr Shape kLarge{.batch = 2, .heads = 16, .kv_heads = 16, .queries = 4096, .keys = 4096};
  const Tensor ids = Tensor::zeros({1024}, DType::i32, Device::cuda());
  std::vector<Call> calls{
      attention_call("attention", {}, {}),
      attention_call("attention with Lse", {}, {}, true),
      attention_call("large attention", {}, kLarge),
      attention_call("large attention with Lse", {}, kLarge, true),
      attention_call("causal attention", {.mask = masks::causal()}, kLarge),
      attention_call("decoding", {}, {.batch = 2, .heads = 32, .queries = 1, .keys = 8192}),
      attention_call("decoding of one head", {},
                     {.heads = 8, .kv_heads = 1, .queries = 1, .keys = 65536}),
      attention_call("documents", {.mask = masks::document(ids)}, {}),
      attention_call("a list without full blocks",
                     {.mask = masks::causal(),
                      .blocks = BlockList{Tensor::zeros({1, 1, 8, 8}, DType::i32, Device::cuda()),
                                          Tensor::full({1, 1, 8}, 1, DType::i32, Device::cuda())}},
                     {})};
  const Tensor Q = tensor({1024, 8, 128}), K = tensor({1024, 8, 128}), O = tensor({1024, 8, 128});
  const Tensor ends = Tensor::from(std::vector<i32>{0, 300, 1024}, Device::cuda());
  calls.push_back({"sequences", [=, a = Attention({})](const Stream& stream) {
                     a.varlen(stream, Q, K, K, O, CuSeqlens{ends, ends, 724});
                   }});
  return calls;
}

std::vector<Call> product_calls() {
  const Tensor A = tensor({1024, 1024}), B = tensor({1024, 1024}), C = tensor({1024, 1024}),
               G = tensor({1024, 1024}), odd = tensor({1023, 1023}), to = tensor({1023, 1023}),
               bias = tensor({1024});
  const auto with = [=](const char* name, const MatmulConfig& config) {
    return Call{name, [=](const Stream& stream) { matmul(stream, A, B, C, config); }};
  };
  const auto fused = fused_matmul<bf16, bf16>([](Tile acc, Index, Index n, In<bf16, 1> added) {
    return acc + expand(cast<f32>(added(n)), 0);
  });
  const auto gated =
      gated_matmul<bf16, bf16>([](Tile gate, Tile up, Index, Index) { return gate * up; });
  return {
      {"matmul", [=](const Stream& stream) { matmul(stream, A, B, C); }},
      with("matmul, k divided", {.bm = 128, .bn = 128, .split = SplitK::partials, .parts = 4}),
      with("matmul, k divided among clusters",
           {.bm = 128, .bn = 128, .split = SplitK::cluster, .parts = 4}),
      with("matmul, streamed", {.bm = 128, .bn = 128, .split = SplitK::stream, .parts = 132}),
      {"matmul, operands copied", [=](const Stream& stream) { matmul(stream, odd, odd, to); }},
      {"fused matmul", [=](const Stream& stream) { fused(stream, A, B, C, bias); }},
      {"gated matmul", [=](const Stream& stream) { gated(stream, A, B, G, C); }},
      {"softmax", [=](const Stream& stream) { softmax(stream, A, C); }},
      {"rms_norm", [=](const Stream& stream) { rms_norm(stream, A, bias, C); }},
      {"copy", [=](const Stream& stream) { copy(stream, A.transpose(0, 1), C); }},
  };
}

class QueuedCalls : public test::ByBackEnd {
 protected:
  void SetUp() override {
    test::ByBackEnd::SetUp();
    if (!IsSkipped() && runtime::device_properties(0).compute() != 90)
      GTEST_SKIP() << "not an sm_90 GPU";
  }

  /// Runs on the default stream and on another one. The first calls compile, load and allocate, and
  /// the test waits for them. The host may be interrupted, so the best of three times counts, each
  /// after a separate long kernel.
  static void expect_no_waiting(const std::vector<Call>& calls) {
    const Spin spin;
    for (const Stream& stream : {Stream(Device::cuda()), Stream::create(Device::cuda())})
      for (const Call& call : calls) {
        call.run(stream);
        double ms = 1e9;
        for (int attempt = 0; attempt < 3 && ms >= 1; ++attempt)
          ms = std::min(ms, ms_behind(spin, stream, call));
        EXPECT_LT(ms, 1) << call.name;
      }
  }

 private:
  static double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  static double ms_behind(const Spin& spin, const Stream& stream, const Call& call) {
    constexpr std::chrono::milliseconds kBusy{50};
    stream.synchronize();
    const auto start = Clock::now();
    spin.queue(stream, kBusy);
    const auto before = Clock::now();
    call.run(stream);
    const double ms = ms_since(before);
    stream.synchronize();
    EXPECT_GE(ms_since(start), 50) << "the first kernel was not long enough";
    return ms;
  }
};

TEST_P(QueuedCalls, Attention) { expect_no_waiting(attention_calls()); }
TEST_P(QueuedCalls, ProductsRowsAndCopies) { expect_no_waiting(product_calls()); }

INSTANTIATE_TEST_SUITE_P(BackEnds, QueuedCalls, ::testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tegula::queued_calls_test
