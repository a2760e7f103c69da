// Host time of library calls, cycling through the tensors of 64 layers.
//
//   tegula_host_calls          CPU time with a mock driver that does nothing; 1 and 16 threads
//   tegula_host_calls --gpu    wall time on GPU 0, then the same while a stream records
//
// Each row is a line of JSON: `us` per call, `launches` per call, and `own_us`, which excludes the
// time inside cuLaunchKernelEx. Rows `plain_N` are a kernel of N tensors. Works with the private
// headers of any version since the mock driver counts calls, so that two versions of the library
// can be compared in one run.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/matmul.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/mock_driver.h"

namespace {

using namespace tegula;
using namespace tegula::kernels;
namespace cu = runtime::cu;

constexpr int kLayers = 64;
constexpr Device kGpu = Device::cuda(0);

using Clock = std::chrono::steady_clock;
using Layer = std::function<void(const Stream&)>;

bool on_gpu = false;
decltype(runtime::Driver::launch_kernel) real_launch = nullptr;
thread_local long launches = 0;
thread_local double launch_us = 0;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

cu::Result counted_launch(const cu::LaunchConfig* config, cu::Function function, void** pointers,
                          void** extra) {
  ++launches;
  if (!real_launch) return cu::kSuccess;
  const auto start = Clock::now();
  const cu::Result result = real_launch(config, function, pointers, extra);
  launch_us += us_since(start);
  return result;
}

/// Allocates memory on the GPU; without one, the address is fictitious.
Tensor tensor(const Dims& shape, DType dtype = DType::bf16) {
  if (on_gpu) return Tensor::zeros(shape, dtype, kGpu);
  static std::uintptr_t next = std::uintptr_t{1} << 40;
  const std::uintptr_t at = next;
  next += std::uintptr_t{1} << 30;
  return Tensor::borrow(reinterpret_cast<void*>(at), shape, dtype, kGpu);
}

struct NamedLayer {
  std::string name;
  std::function<Layer()> layer;
};

template <class K, std::size_t... I>
Layer plain_layer(const K& k, std::index_sequence<I...>) {
  const std::array<Tensor, sizeof...(I)> t{((void)I, tensor({4096}, DType::f32))...};
  return [k, t](const Stream& s) { k(s, t[I]...); };
}

void add_plain_rows(std::vector<NamedLayer>& rows) {
  const auto three = kernel("plain_3", [](In<f32, 1> a, In<f32, 1> b, Out<f32, 1> z) {
    for (auto i : grid(z, 1024)) z(i) = a(i) + b(i);
  });
  const auto four = kernel("plain_4", [](In<f32, 1> a, In<f32, 1> b, In<f32, 1> c, Out<f32, 1> z) {
    for (auto i : grid(z, 1024)) z(i) = a(i) + b(i) + c(i);
  });
  const auto five =
      kernel("plain_5", [](In<f32, 1> a, In<f32, 1> b, In<f32, 1> c, In<f32, 1> d, Out<f32, 1> z) {
        for (auto i : grid(z, 1024)) z(i) = a(i) + b(i) + c(i) + d(i);
      });
  rows.push_back({"plain_3", [=] { return plain_layer(three, std::make_index_sequence<3>()); }});
  rows.push_back({"plain_4", [=] { return plain_layer(four, std::make_index_sequence<4>()); }});
  rows.push_back({"plain_5", [=] { return plain_layer(five, std::make_index_sequence<5>()); }});
}

void add_matmul_rows(std::vector<NamedLayer>& rows) {
  const auto product = [&](const char* name, const Dims& a, const Dims& b, const Dims& c,
                           int parts) {
    rows.push_back({name, [=]() -> Layer {
                      const Tensor A = tensor(a), B = tensor(b), C = tensor(c);
                      if (parts == 0) return [=](const Stream& s) { matmul(s, A, B, C); };
                      MatmulConfig config;
                      config.parts = parts;
                      config.split = parts > 1 ? SplitK::partials : SplitK::none;
                      return [=](const Stream& s) { matmul(s, A, B, C, config); };
                    }});
  };
  const Dims square{1024, 1024};
  product("matmul", square, square, square, 0);
  product("matmul_given", square, square, square, 1);
  product("matmul_split_k", square, square, square, 4);
  product("matmul_repacked", {1024, 1021}, {1021, 1024}, square, 0);
  const auto dense = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return max(acc + expand(cast<f32>(bias(n)), 0), 0.0f) + cast<f32>(residual(m, n));
      });
  rows.push_back({"fused_matmul", [=]() -> Layer {
                    const Tensor A = tensor(square), B = tensor(square), C = tensor(square),
                                 bias = tensor({1024}), R = tensor(square);
                    return [=](const Stream& s) { dense(s, A, B, C, bias, R); };
                  }});
  const auto gated =
      gated_matmul<bf16, bf16>([](Tile gate, Tile up, Index, Index) { return gate * up; });
  rows.push_back({"gated_matmul", [=]() -> Layer {
                    const Tensor A = tensor(square), G = tensor(square), U = tensor(square),
                                 C = tensor(square);
                    return [=](const Stream& s) { gated(s, A, G, U, C); };
                  }});
}

void add_attention_rows(std::vector<NamedLayer>& rows) {
  const auto add = [&](const char* name, const Attention& a, const Dims& q, const Dims& kv) {
    rows.push_back({name, [=]() -> Layer {
                      const Tensor Q = tensor(q), K = tensor(kv), V = tensor(kv), O = tensor(q);
                      return [=](const Stream& s) { a(s, Q, K, V, O); };
                    }});
  };
  const Attention plain{AttentionSpec{}}, causal{AttentionSpec{.mask = masks::causal()}};
  add("attention", plain, {1, 8, 512, 128}, {1, 8, 512, 128});
  add("attention_causal", causal, {1, 8, 2048, 128}, {1, 8, 2048, 128});
  add("attention_decode", plain, {4, 32, 1, 128}, {4, 8, 2048, 128});
}

double cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

/// Captures graphs on a stream with the driver API, because libtegula does not start captures.
struct Recording {
  using Begin = cu::Result (*)(cu::Stream, int);
  using End = cu::Result (*)(cu::Stream, void**);
  using Destroy = cu::Result (*)(void*);
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  Begin begin_fn = reinterpret_cast<Begin>(dlsym(library, "cuStreamBeginCapture_v2"));
  End end_fn = reinterpret_cast<End>(dlsym(library, "cuStreamEndCapture"));
  Destroy destroy_fn = reinterpret_cast<Destroy>(dlsym(library, "cuGraphDestroy"));

  void begin(const Stream& s) const {
    runtime::check(begin_fn(static_cast<cu::Stream>(s.handle()), 2), "capture");
  }
  void end(const Stream& s) const {
    void* graph = nullptr;
    runtime::check(end_fn(static_cast<cu::Stream>(s.handle()), &graph), "capture");
    runtime::check(destroy_fn(graph), "graph");
  }
};

struct Sample {
  double us = 0, own_us = 0;
  double launches = 0;
};

/// Returns the best of `rounds` rounds over all layers.
Sample time_layers(const std::vector<Layer>& layers, const Stream& stream, int rounds,
                   const Recording* recording) {
  Sample best;
  for (int round = 0; round < rounds; ++round) {
    if (recording) recording->begin(stream);
    launches = 0, launch_us = 0;
    const double from = on_gpu ? 0 : cpu_us();
    const auto start = Clock::now();
    for (const Layer& layer : layers) layer(stream);
    const double us = (on_gpu ? us_since(start) : cpu_us() - from) / kLayers;
    const Sample sample{us, us - launch_us / kLayers, static_cast<double>(launches) / kLayers};
    if (recording) recording->end(stream);
    if (on_gpu) stream.synchronize();
    if (round == 0 || sample.own_us < best.own_us) best = sample;
  }
  return best;
}

void print(const NamedLayer& row, const char* mode, int threads, const Sample& s) {
  fmt::print(
      "{{\"row\":\"{}\",\"mode\":\"{}\",\"threads\":{},\"us\":{:.3f},\"own_us\":{:.3f},"
      "\"launches\":{:.2f}}}\n",
      row.name, mode, threads, s.us, s.own_us, s.launches);
  std::fflush(stdout);
}

void run_on_gpu(const NamedLayer& row) {
  const Stream stream = Stream::create(kGpu);
  std::vector<Layer> layers;
  for (int i = 0; i < kLayers; ++i) layers.push_back(row.layer());
  const Recording recording;
  for (const Layer& layer : layers) layer(stream);
  stream.synchronize();
  print(row, "queued", 1, time_layers(layers, stream, 200, nullptr));
  print(row, "recorded", 1, time_layers(layers, stream, 50, &recording));
}

/// Each thread has its own stream and layers.
void run_on_mock(const NamedLayer& row, int threads) {
  std::vector<Sample> samples(static_cast<std::size_t>(threads));
  std::vector<std::vector<Layer>> layers(samples.size());
  for (auto& mine : layers)
    for (int i = 0; i < kLayers; ++i) mine.push_back(row.layer());
  layers[0][0](Stream::wrap(reinterpret_cast<void*>(0x5000), kGpu));  // compile on one thread
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < samples.size(); ++t)
    running.emplace_back([&, t] {
      const Stream stream = Stream::wrap(reinterpret_cast<void*>(0x5000 + 64 * t), kGpu);
      time_layers(layers[t], stream, 2, nullptr);
      samples[t] = time_layers(layers[t], stream, 300, nullptr);
    });
  for (std::thread& t : running) t.join();
  const auto middle = samples.begin() + threads / 2;
  std::ranges::nth_element(samples, middle, {}, &Sample::us);
  print(row, "mock", threads, *middle);
}

std::vector<NamedLayer> all_rows() {
  std::vector<NamedLayer> rows;
  add_plain_rows(rows);
  add_matmul_rows(rows);
  add_attention_rows(rows);
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  on_gpu = argc > 1 && std::strcmp(argv[1], "--gpu") == 0;
  if (on_gpu) {
    runtime::Driver table = runtime::driver();
    real_launch = std::exchange(table.launch_kernel, counted_launch);
    const runtime::ScopedDriver counting(table);
    for (const NamedLayer& row : all_rows()) run_on_gpu(row);
    return 0;
  }
  runtime::testing::MockDriver mock;
  mock.table.launch_kernel = counted_launch;
  mock.table.max_active_clusters = [](int* clusters, cu::Function, const cu::LaunchConfig*) {
    *clusters = 16;
    return cu::kSuccess;
  };
  for (const NamedLayer& row : all_rows())
    for (const int threads : {1, 16}) run_on_mock(row, threads);
  return 0;
}
