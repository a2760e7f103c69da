// Calls of the library by plans: a repeated one takes no memory, and graphs that a stream records
// have separate memory. A recording mock replaces the driver.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/doctor.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/kv_cache.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/tegula.h"
#include "tests/property/counted_mallocs.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::call_plans_test {
using namespace kernels;
namespace {

namespace mocked = runtime::testing;

constexpr Device kGpu = Device::cuda(0);

/// A tensor that is nowhere.
Tensor tensor(const Dims& shape, DType dtype = DType::bf16) {
  static std::uintptr_t next = std::uintptr_t{1} << 40;
  const std::uintptr_t at = next;
  next += std::uintptr_t{1} << 32;
  return Tensor::borrow(reinterpret_cast<void*>(at), shape, dtype, kGpu);
}

using Call = std::function<void(const Stream&)>;

struct NamedCall {
  std::string name;
  bool has_memory;  ///< scratch memory or counters
  Call call;
};

Call matmul_call(const Dims& a, const Dims& b, const Dims& c,
                 const std::optional<MatmulConfig>& config = {}) {
  return [=, A = tensor(a), B = tensor(b), C = tensor(c)](const Stream& stream) {
    if (config)
      matmul(stream, A, B, C, *config);
    else
      matmul(stream, A, B, C);
  };
}

std::vector<NamedCall> calls() {
  const Dims square{512, 512};
  const auto dense =
      fused_matmul<bf16, bf16>([](Tile acc, Index, Index n, In<bf16, 1> bias, Scalar<f32> by) {
        return acc * by + expand(cast<f32>(bias(n)), 0);
      });
  const auto gated =
      gated_matmul<bf16, bf16>([](Tile gate, Tile up, Index, Index) { return gate * up; });
  const Tensor A = tensor(square), B = tensor(square), U = tensor(square), C = tensor(square),
               bias = tensor({512});
  return {
      {"chosen", false, matmul_call(square, square, square)},
      {"batches", false, matmul_call({4, 128, 256}, {4, 256, 128}, {4, 128, 128})},
      {"repacked", true, matmul_call({512, 509}, {509, 512}, square)},
      {"split-K", true,
       matmul_call(square, square, square, MatmulConfig{.split = SplitK::partials, .parts = 2})},
      {"stream-K", true,
       matmul_call(square, square, square, MatmulConfig{.split = SplitK::stream, .parts = 132})},
      {"fused", false, [=](const Stream& s) { dense(s, A, B, C, bias, 2.0f); }},
      {"gated", false, [=](const Stream& s) { gated(s, A, B, U, C); }},
  };
}

Call attention_call(const Attention& a, std::int64_t batch, std::int64_t heads,
                    std::int64_t kv_heads, std::int64_t queries, std::int64_t keys) {
  const Dims q{batch, heads, queries, 128}, kv{batch, kv_heads, keys, 128};
  return [=, Q = tensor(q), K = tensor(kv), V = tensor(kv), O = tensor(q)](const Stream& stream) {
    a(stream, Q, K, V, O);
  };
}

std::vector<NamedCall> attention_calls() {
  const Attention plain{AttentionSpec{}}, causal{AttentionSpec{.mask = masks::causal()}},
      documents{AttentionSpec{.mask = masks::document(tensor({4096}, DType::i32))}};
  const Tensor Q = tensor({4096, 8, 128}), O = tensor({4096, 8, 128});
  const CuSeqlens lengths{tensor({9}, DType::i32), tensor({9}, DType::i32), 1024},
      one{lengths.q, lengths.kv, 1};
  const Tensor few = tensor({8, 32, 128}), few_out = tensor({8, 32, 128}),
               K = tensor({32768, 8, 128});
  return {
      {"small", false, attention_call(plain, 1, 8, 8, 512, 512)},
      {"two passes", true, attention_call(causal, 4, 16, 16, 4096, 4096)},
      {"packed heads", false, attention_call(plain, 4, 32, 8, 1, 512)},
      {"clusters meet in memory", true, attention_call(plain, 1, 8, 1, 1, 65536)},
      {"a derived list", true, attention_call(documents, 1, 8, 8, 4096, 4096)},
      {"sequences", true, [=](const Stream& s) { plain.varlen(s, Q, Q, Q, O, lengths); }},
      {"few queries per sequence", true,
       [=](const Stream& s) { plain.varlen(s, few, K, K, few_out, one); }},
  };
}

/// A step of requests: the list of its work, its keys and values stored, and attention by the list
/// or without it. TMA loads the pages, or threads copy their rows.
std::vector<NamedCall> paged_calls() {
  const Attention attention({.mask = masks::causal()});
  const Tensor Q = tensor({256, 32, 128}), O = tensor({256, 32, 128}), K = tensor({256, 8, 128}),
               V = tensor({256, 8, 128});
  const auto of = [&](std::int64_t rows, std::int64_t queries) {
    const KvCache cache{tensor({4096, rows, 8, 128}), tensor({4096, rows, 8, 128}),
                        tensor({64, 512}, DType::i32)};
    const KvBatch batch{tensor({65}, DType::i32), tensor({64}, DType::i32), queries,
                        tensor({schedule_words(64, kGpu)}, DType::i32)};
    return std::pair{cache, batch};
  };
  std::vector<NamedCall> all;
  for (const auto& [name, rows, queries] : {std::tuple{"decoding from pages", 16, 1},
                                            {"several queries, copied rows", 4, 4},
                                            {"mixed requests", 64, 200}}) {
    const auto [cache, batch] = of(rows, queries);
    all.push_back({name, true, [=, cache = cache, batch = batch](const Stream& s) {
                     attention.paged(s, Q, cache, O, batch);
                   }});
  }
  const auto [cache, batch] = of(16, 1);
  all.push_back({"a work list", false, [=, cache = cache, batch = batch](const Stream& s) {
                   attention.schedule(s, Q, cache, batch, batch.schedule);
                 }});
  all.push_back({"append", false, [=, cache = cache, batch = batch](const Stream& s) {
                   append(s, K, V, cache, batch);
                 }});
  return all;
}

std::vector<NamedCall> all_calls() {
  std::vector<NamedCall> all = calls();
  for (NamedCall& c : attention_calls()) all.push_back(std::move(c));
  for (NamedCall& c : paged_calls()) all.push_back(std::move(c));
  return all;
}

class CallsByPlans : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::diagnose().finding("LLVM").present) GTEST_SKIP() << "no LLVM here";
    mocked::mock().argument_count = 0;
    mocked::mock().record_launches = false;
    driver_.table.max_active_clusters = [](int* clusters, runtime::cu::Function,
                                           const runtime::cu::LaunchConfig*) {
      *clusters = 16;
      return runtime::cu::kSuccess;
    };
  }
  Stream stream() const { return Stream::wrap(reinterpret_cast<void*>(0x5000), kGpu); }

  mocked::MockDriver driver_;
};

TEST_F(CallsByPlans, ARepeatedCallTakesNoMemory) {
#ifdef TEGULA_COUNTS_MALLOCS
  for (const NamedCall& c : all_calls()) {
    SCOPED_TRACE(c.name);
    const int at_first = g_mallocs;
    for (int i = 0; i < 2; ++i) c.call(stream());
    const Stream same = stream();
    const int before = g_mallocs;
    EXPECT_GT(before, at_first) << "nothing is counted";
    for (int i = 0; i < 4; ++i) c.call(same);
    EXPECT_EQ(g_mallocs - before, 0);
  }
#else
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
}

TEST_F(CallsByPlans, ARecordedCallAllocatesGraphMemoryOrNone) {
  for (const NamedCall& c : all_calls()) {
    SCOPED_TRACE(c.name);
    c.call(stream());
    mocked::mock().capturing = true;
    c.call(stream());  // the graph's first
    mocked::take_calls();
    const int lookups = mocked::mock().kernel_lookups;
    c.call(stream());
    auto made = mocked::take_calls();
    EXPECT_GE(made["cuLaunchKernelEx"], 1);
    EXPECT_EQ(made["cuStreamGetCaptureInfo"] > 0, c.has_memory);
    EXPECT_EQ(made["cuStreamGetId"], 0);
    EXPECT_EQ(made["cuMemAlloc"] + made["cuMemFree"], 0);
    EXPECT_EQ(mocked::mock().kernel_lookups, lookups);
    mocked::mock().capturing = false;
  }
}

/// A first call while the stream records decides as any other.
TEST_F(CallsByPlans, AFirstCallMayBeRecorded) {
  mocked::mock().capturing = true;
  for (const NamedCall& c : all_calls()) {
    SCOPED_TRACE(c.name);
    c.call(stream());
    EXPECT_GE(mocked::take_calls()["cuLaunchKernelEx"], 1);
  }
  mocked::mock().capturing = false;
}

/// Records which thread queues each launch. The first launch waits for a launch of another thread,
/// which a call that holds the lock of the stream never gets.
struct LaunchOrder {
  static constexpr std::chrono::milliseconds kLong{300};
  std::mutex mutex;
  std::condition_variable changed;
  bool is_recorded = false;
  std::vector<std::thread::id> threads;

  void note() {
    std::unique_lock lock(mutex);
    if (!is_recorded) return;
    threads.push_back(std::this_thread::get_id());
    changed.notify_all();
    if (threads.size() == 1) changed.wait_for(lock, kLong, [&] { return threads.size() > 1; });
  }
  void wait_for_first() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kLong, [&] { return !threads.empty(); });
  }
};
LaunchOrder g_order;

/// Both calls use the memory of the stream: a product whose parts another thread overwrites before
/// they are added is wrong.
TEST_F(CallsByPlans, CallsOfTwoThreadsDoNotMixTheirLaunches) {
  driver_.table.launch_kernel = [](const runtime::cu::LaunchConfig*, runtime::cu::Function, void**,
                                   void**) {
    g_order.note();
    return runtime::cu::kSuccess;
  };
  // Kernels that no other test has loaded with another entry of the driver.
  const auto product = fused_matmul<bf16, bf16>([](Tile acc, Index, Index) { return acc + 1; });
  const auto call_of = [&](int parts) {
    MatmulConfig config{.bm = 64, .bn = 64, .bk = 64};
    config.split = SplitK::partials, config.parts = parts;
    return [=, A = tensor({512, 4096}), B = tensor({4096, 512}),
            C = tensor({512, 512})](const Stream& on) { product.run(config, on, A, B, C); };
  };
  const Call five = call_of(5), three = call_of(3);
  for (const Call& call : {five, three}) call(stream());
  g_order.is_recorded = true;
  std::thread other([&] {
    g_order.wait_for_first();
    three(stream());
  });
  const auto here = std::this_thread::get_id(), there = other.get_id();
  five(stream());
  other.join();
  g_order.is_recorded = false;
  EXPECT_EQ(g_order.threads, (std::vector{here, here, there, there}));
}

}  // namespace
}  // namespace tegula::call_plans_test
