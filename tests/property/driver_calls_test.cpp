// The driver calls that calls of the library make after their first time: launches, tensor maps of
// tensors that are new, and of a stream whose memory they take what it is; no memory, no waiting,
// no context. A recording mock replaces the driver, so addresses lead nowhere.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/doctor.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/kernels/norm.h"
#include "tegula/kernels/scores.h"
#include "tegula/kernels/softmax.h"
#include "tegula/kernels/vector_add.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::driver_calls_test {
using namespace kernels;
namespace {

namespace mocked = runtime::testing;
using Calls = std::map<std::string, int>;

constexpr int kLayers = 32;
constexpr Device kGpu = Device::cuda(0);
constexpr auto kBf16 = DType::bf16;

/// A tensor that is nowhere.
Tensor tensor(const Dims& shape, DType dtype = kBf16) {
  static std::uintptr_t next = std::uintptr_t{1} << 40;
  std::uintptr_t bytes = static_cast<std::uintptr_t>(size_bytes(dtype));
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uintptr_t>(extent);
  const std::uintptr_t at = next;
  next += (bytes + 511) / 512 * 512;
  return Tensor::borrow(reinterpret_cast<void*>(at), shape, dtype, kGpu);
}

using Layer = std::function<void(const Stream&)>;

std::string text(const Calls& calls) {
  static const std::map<std::string, const char*> kShort{{"cuLaunchKernelEx", "launch"},
                                                         {"cuTensorMapEncodeTiled", "map"},
                                                         {"cuStreamGetCaptureInfo", "capture"},
                                                         {"cuStreamGetId", "id"}};
  std::string out;
  for (const auto& [symbol, n] : calls) {
    const auto known = kShort.find(symbol);
    out += (out.empty() ? "" : ", ") + (known == kShort.end() ? symbol : known->second) + " " +
           std::to_string(n);
  }
  return out;
}

/// All calls of a round divided by its layers.
std::string of_a_call(Calls calls) {
  Calls each;
  for (const auto& [symbol, n] : calls) {
    if (n % kLayers != 0) return text(calls) + " in all";
    each[symbol] = n / kLayers;
  }
  return text(each);
}

class DriverCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!runtime::diagnose().finding("LLVM").present) GTEST_SKIP() << "no LLVM here";
    driver_.table.max_active_clusters = [](int* clusters, runtime::cu::Function,
                                           const runtime::cu::LaunchConfig*) {
      *clusters = 16;
      return runtime::cu::kSuccess;
    };
    mocked::mock().argument_count = 0;
    mocked::mock().sms = 132;
  }

  /// `wanted`: what a call asks of the driver where every layer of a model has tensors of its own
  /// and has been there before, and how many maps it made when it was there first. On the default
  /// stream it is the same but for what is asked of the stream.
  void expect(const std::string& what, const std::string& wanted,
              const std::function<Layer()>& make) {
    SCOPED_TRACE(what);
    const Stream stream = Stream::wrap(reinterpret_cast<void*>(0x5000), kGpu), standard(kGpu);
    std::vector<Layer> layers;
    for (int i = 0; i < kLayers; ++i) layers.push_back(make());
    for (const Stream& s : {stream, standard}) layers[0](s);
    mocked::take_calls();
    const auto round = [&](const Stream& s) {
      for (const Layer& layer : layers) layer(s);
      return mocked::take_calls();
    };
    Calls first = round(stream);
    const int maps = first["cuTensorMapEncodeTiled"];
    EXPECT_EQ(maps % (kLayers - 1), 0) << maps;
    first.erase("cuTensorMapEncodeTiled");
    Calls again = round(stream);
    EXPECT_EQ(text(again), text(first));
    EXPECT_EQ(of_a_call(again) + "; maps " + std::to_string(maps / (kLayers - 1)), wanted);
    for (const char* of_stream : {"cuStreamGetCaptureInfo", "cuStreamGetId"})
      again.erase(of_stream);
    EXPECT_EQ(text(round(standard)), text(again));
  }

  mocked::MockDriver driver_;
};

// ---- attention

struct Shape {
  std::int64_t batch = 1, heads = 8, kv_heads = 8, queries = 512, keys = 512, dim = 128;
};

enum class Extra : std::uint8_t { none, lse, all };

Layer layer_of(const Attention& a, const Shape& s, Extra extra = Extra::none) {
  const Tensor Q = tensor({s.batch, s.heads, s.queries, s.dim}),
               K = tensor({s.batch, s.kv_heads, s.keys, s.dim}),
               V = tensor({s.batch, s.kv_heads, s.keys, s.dim}),
               O = tensor({s.batch, s.heads, s.queries, s.dim});
  const Dims rows{s.batch, s.heads, s.queries};
  AttentionExtras x;
  if (extra != Extra::none) x.lse = tensor(rows, DType::f32);
  if (extra == Extra::all)
    x.row_max = tensor(rows, DType::f32), x.sinks = tensor({s.heads}, DType::f32);
  return [=](const Stream& stream) { a(stream, Q, K, V, O, x); };
}

constexpr Shape kLarge{.batch = 4, .heads = 16, .kv_heads = 16, .queries = 4096, .keys = 4096};

TEST_F(DriverCalls, Attention) {
  const Attention plain{{}}, causal{{.mask = masks::causal()}};
  const auto of = [](const Attention& a, const Shape& s, Extra extra = Extra::none) {
    return [=] { return layer_of(a, s, extra); };
  };
  expect("small", "launch 1; maps 3", of(plain, {}));
  expect("small with Lse", "launch 1; maps 3", of(plain, {}, Extra::lse));
  expect("with all extras", "launch 1; maps 3", of(plain, {}, Extra::all));
  expect("large", "launch 2, capture 1, id 1; maps 6", of(plain, kLarge));
  expect("large with Lse", "launch 2, capture 1, id 1; maps 6", of(plain, kLarge, Extra::lse));
  expect("causal", "launch 2, capture 1, id 1; maps 8", of(causal, kLarge));
  expect("ALiBi", "launch 1; maps 4",
         of(Attention({.mask = masks::causal(), .score = scores::alibi(8)}), {}));
  expect(
      "stick breaking", "launch 1; maps 4",
      of(Attention({.mask = masks::causal(), .weighting = AttentionNormalization::stick_breaking}),
         {}));
}

TEST_F(DriverCalls, Decoding) {
  const Attention plain{{}};
  const auto of = [&](const Shape& s) { return [&plain, s] { return layer_of(plain, s); }; };
  expect("one cluster a head", "launch 1; maps 3",
         of({.batch = 4, .heads = 32, .kv_heads = 8, .queries = 1, .keys = 8192}));
  expect("clusters meet in memory", "launch 1, capture 1, id 1; maps 3",
         of({.batch = 1, .heads = 8, .kv_heads = 1, .queries = 1, .keys = 65536}));
  expect("few keys", "launch 1; maps 3",
         of({.batch = 4, .heads = 32, .kv_heads = 8, .queries = 1, .keys = 512}));
}

TEST_F(DriverCalls, AttentionByLists) {
  const auto of = [](const Attention& a, const Shape& s) { return [=] { return layer_of(a, s); }; };
  const Shape shape{.queries = 4096, .keys = 4096};
  expect("documents", "launch 4, capture 1, id 1; maps 3",
         of(Attention({.mask = masks::document(tensor({4096}, DType::i32))}), shape));
  expect(
      "longest first", "launch 4, capture 1, id 1; maps 3",
      of(Attention({.mask = masks::document(tensor({4096}, DType::i32))}, {.longest_first = true}),
         shape));
  const auto list = [](bool has_full) {
    const Tensor counts = tensor({1, 1, 32}, DType::i32);
    return Attention({.mask = masks::causal(),
                      .blocks = BlockList{tensor({1, 1, 32, 32}, DType::i32), counts,
                                          has_full ? tensor({1, 1, 32}, DType::i32) : Tensor()}});
  };
  expect("a caller's list", "launch 1, capture 1, id 1; maps 3", of(list(true), shape));
  expect("a caller's list without full blocks", "launch 1, capture 1, id 1; maps 3",
         of(list(false), shape));
}

TEST_F(DriverCalls, Varlen) {
  const auto of = [](const Attention& a) {
    return [=] {
      const Tensor Q = tensor({4096, 8, 128}), K = tensor({4096, 8, 128}),
                   V = tensor({4096, 8, 128}), O = tensor({4096, 8, 128});
      const CuSeqlens lengths{tensor({9}, DType::i32), tensor({9}, DType::i32), 1024};
      return [=](const Stream& stream) { a.varlen(stream, Q, K, V, O, lengths); };
    };
  };
  expect("sequences", "launch 1, capture 1, id 1; maps 4", of(Attention({})));
  expect("documents in sequences", "launch 3, capture 1, id 1; maps 4",
         of(Attention({.mask = masks::document(tensor({4096}, DType::i32))})));
}

/// Few queries per sequence: the call writes the list of its work if there may be many keys.
TEST_F(DriverCalls, VarlenOfFewQueries) {
  const auto of = [](std::int64_t keys) {
    return [=, a = Attention({.mask = masks::causal(), .align_bottom_right = true})] {
      const Tensor Q = tensor({64, 32, 128}), K = tensor({keys, 8, 128}),
                   V = tensor({keys, 8, 128}), O = tensor({64, 32, 128});
      const CuSeqlens lengths{tensor({65}, DType::i32), tensor({65}, DType::i32), 1};
      return [=](const Stream& stream) { a.varlen(stream, Q, K, V, O, lengths); };
    };
  };
  expect("few keys", "launch 1; maps 3", of(64 * 1000));
  expect("many keys", "launch 2, capture 1, id 1; maps 3", of(64 * 2000));
}

/// A step of requests: attention to pages after the step's keys and values are stored there.
TEST_F(DriverCalls, Paged) {
  const auto of = [](std::int64_t queries, bool is_scheduled = false, bool rotates = false) {
    return [=, attention = Attention({.mask = masks::causal()})] {
      const Tensor Q = tensor({256, 32, 128}), O = tensor({256, 32, 128}),
                   K = tensor({256, 8, 128}), V = tensor({256, 8, 128});
      const KvCache cache{tensor({4096, 16, 8, 128}), tensor({4096, 16, 8, 128}),
                          tensor({64, 512}, DType::i32)};
      KvBatch batch{tensor({65}, DType::i32), tensor({64}, DType::i32), queries};
      if (is_scheduled) batch.schedule = tensor({schedule_words(64, kGpu)}, DType::i32);
      KvAppend how;
      if (rotates)
        how = {.rope = {tensor({8192, 64}, DType::f32), tensor({8192, 64}, DType::f32),
                        tensor({256}, DType::i32)},
               .Q = Q,
               .slots = tensor({256}, DType::i64)};
      return [=](const Stream& stream) {
        append(stream, K, V, cache, batch, how);
        if (is_scheduled) attention.schedule(stream, Q, cache, batch, batch.schedule);
        attention.paged(stream, Q, cache, O, batch);
      };
    };
  };
  expect("decoding", "launch 2; maps 4", of(1));
  expect("several queries", "launch 2; maps 4", of(4));
  expect("scheduled decoding", "launch 3, capture 1, id 1; maps 0", of(1, true));
  expect("scheduled queries", "launch 3, capture 1, id 1; maps 0", of(4, true));
  expect("mixed", "launch 2, capture 1, id 1; maps 5", of(200));
  expect("scheduled mixed", "launch 4, capture 1, id 1; maps 5", of(200, true));
  expect("with a rotation and slots", "launch 2, capture 1, id 1; maps 5", of(200, false, true));
}

// ---- products

TEST_F(DriverCalls, Products) {
  const auto of = [](const Dims& a, const Dims& b, const Dims& c, const auto& call,
                     DType dtype = kBf16) {
    return [=] {
      const Tensor A = tensor(a, dtype), B = tensor(b, dtype), C = tensor(c);
      return [=](const Stream& stream) { call(stream, A, B, C); };
    };
  };
  const auto chosen = [](const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C) {
    matmul(stream, A, B, C);
  };
  const auto with = [](const MatmulConfig& config) {
    return [=](const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C) {
      matmul(stream, A, B, C, config);
    };
  };
  const Dims square{4096, 4096};
  expect("large", "launch 1; maps 2", of(square, square, square, chosen));
  expect("few rows", "launch 1; maps 0", of({16, 4096}, square, {16, 4096}, chosen));
  expect("batched", "launch 1; maps 2", of({4, 512, 512}, {4, 512, 512}, {4, 512, 512}, chosen));
  expect("divided", "launch 2, capture 1, id 1; maps 2",
         of({512, 4096}, {4096, 512}, {512, 512},
            with({.bm = 128, .bn = 128, .bk = 64, .split = SplitK::partials, .parts = 4})));
  expect("in clusters", "launch 1; maps 2",
         of({512, 4096}, {4096, 512}, {512, 512},
            with({.bm = 128, .bn = 128, .split = SplitK::cluster, .parts = 4})));
  expect("streamed", "launch 1, capture 1, id 1; maps 2",
         of({512, 4096}, {4096, 512}, {512, 512},
            with({.bm = 128, .bn = 128, .split = SplitK::stream, .parts = 132})));
  expect("copied first", "launch 2, capture 1, id 1; maps 1",
         of({1000, 1001}, {1001, 1000}, {1000, 1000}, chosen));
}

TEST_F(DriverCalls, FusedProducts) {
  const auto dense = fused_matmul<bf16, bf16>([](Tile acc, Index, Index n, In<bf16, 1> bias) {
    return acc + expand(cast<f32>(bias(n)), 0);
  });
  expect("bias", "launch 1; maps 2", [&] {
    const Tensor A = tensor({4096, 4096}), B = tensor({4096, 4096}), C = tensor({4096, 4096}),
                 bias = tensor({4096});
    return [=](const Stream& stream) { dense(stream, A, B, C, bias); };
  });
  const auto gated =
      gated_matmul<bf16, bf16>([](Tile gate, Tile up, Index, Index) { return gate * up; });
  for (const bool is_batched : {false, true})
    expect(is_batched ? "gated, batched" : "gated", "launch 1; maps 3", [&] {
      const auto of = [&](Dims shape) {
        return tensor(is_batched ? Dims{2, shape[0], shape[1]} : shape);
      };
      const Tensor A = of({2048, 1024}), G = of({1024, 2048}), U = of({1024, 2048}),
                   C = of({2048, 2048});
      return [=](const Stream& stream) { gated(stream, A, G, U, C); };
    });
}

// ---- rows and copies

TEST_F(DriverCalls, RowsAndCopies) {
  const auto rows = [] { return tensor({1024, 1024}); };
  expect("softmax", "launch 1; maps 0",
         [&] { return [x = rows(), y = rows()](const Stream& stream) { softmax(stream, x, y); }; });
  expect("rms_norm", "launch 1; maps 0", [&] {
    return [x = rows(), w = tensor({1024}), y = rows()](const Stream& stream) {
      rms_norm(stream, x, w, y);
    };
  });
  expect("vector_add", "launch 1; maps 0", [] {
    const auto vector = [] { return tensor({4096}, DType::f32); };
    return [x = vector(), y = vector(), z = vector()](const Stream& stream) {
      vector_add(stream, x, y, z);
    };
  });
  expect("copy", "launch 1; maps 0",
         [&] { return [x = rows(), y = rows()](const Stream& stream) { copy(stream, x, y); }; });
  expect("three copies", "launch 2; maps 0", [&] {
    std::vector<TensorCopy> copies;
    for (int i = 0; i < 3; ++i) copies.push_back({rows(), rows()});
    return [=](const Stream& stream) { copy(stream, copies); };
  });
}

/// A user's own kernel, and one that TMA serves.
TEST_F(DriverCalls, Kernels) {
  const auto scale = kernel("scale", [](In<f32, 1> x, Out<f32, 1> y, Scalar<f32> by) {
    for (auto i : grid(y, 1024)) y(i) = x(i) * by;
  });
  expect("elementwise", "launch 1; maps 0", [&] {
    return [&scale, x = tensor({4096}, DType::f32),
            y = tensor({4096}, DType::f32)](const Stream& stream) { scale(stream, x, y, 2.0f); };
  });
}

}  // namespace
}  // namespace tegula::driver_calls_test
