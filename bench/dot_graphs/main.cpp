// Runs kernels that are not part of the library, whose loops contain graphs of dots, on GPU 0.
// Prints one line per case: the time of a call, TFLOPS and, if available, the time of the same work
// by library calls.
//
//   tegula_dot_graphs [NAME ..]      only the cases whose names contain one of these
//
// Each case is first checked against the interpreter on a small problem. Attention gradients count
// as 2.5 times the operations of the forward pass.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "bench/dot_graph_kernels.h"
#include "ir/schedule/edits.h"
#include "ir/schedule/text.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/matmul.h"

namespace {

using namespace tegula;
using namespace tegula::kernels;

constexpr Device kGpu = Device::cuda(0);
constexpr int kWarmups = 3, kCalls = 20;

double ms_of(const std::function<void(const Stream&)>& call) {
  const Stream stream(kGpu);
  for (int i = 0; i < kWarmups; ++i) call(stream);
  stream.synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call(stream);
  stream.synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
             .count() /
         kCalls;
}

void print(const std::string& name, double ms, double flops, double peer_ms = 0,
           const char* peer = "by the library's products") {
  fmt::print("{:32} {:8.4f} ms {:7.1f} TFLOPS", name, ms, flops / ms * 1e-9);
  if (peer_ms > 0) fmt::print("   {:.2f}x of {:.4f} ms {}", peer_ms / ms, peer_ms, peer);
  fmt::print("\n");
}

/// Returns the largest difference relative to the largest expected magnitude.
double error(const Tensor& got, const Tensor& want) {
  const auto a = got.to_doubles(), b = want.to_doubles();
  double most = 0, scale = 1e-9;
  for (std::size_t i = 0; i < a.size(); ++i) {
    scale = std::max(scale, std::abs(b[i]));
    most = std::isfinite(a[i]) ? std::max(most, std::abs(a[i] - b[i])) : HUGE_VAL;
  }
  return most / scale;
}

void check(const std::string& name, std::initializer_list<std::pair<Tensor, Tensor>> results) {
  constexpr double kMaxError = 0.02;
  for (const auto& [got, want] : results)
    if (const double e = error(got, want); e > kMaxError)
      fmt::print("{}: WRONG, relative error {:.3f}\n", name, e);
}

/// Returns the kernel with an author's Schedule that delays its second dot by one iteration. The
/// kernel must have been called before.
template <class Kernel>
Kernel late(const Kernel& kernel) {
  const std::string text = kernel.explain();
  const std::size_t first = text.find("schedule sm_90a"), last = text.find("\n}", first);
  const auto patched = ir::with_edits(ir::parse_schedule(text.substr(first, last + 2 - first)),
                                      "dot#1 consumer 1.1");
  return kernel.with_plan(ir::print(patched.schedule));
}

struct Gradients {
  Gradients(std::int64_t heads, std::int64_t length, std::int64_t dim, Device device) {
    const auto made = [&](std::uint64_t seed) {
      return Tensor::normal({heads, length, dim}, DType::bf16, 0, 1, seed, device);
    };
    Q = made(1), K = made(2), V = made(3), dO = made(4);
    L = Tensor::uniform({heads, length}, DType::f32, 6, 8, 5, device);
    D = Tensor::uniform({heads, length}, DType::f32, -1, 1, 6, device);
    dQ = Tensor::zeros({heads, length, dim}, DType::f32, device);
    dK = Tensor::zeros({heads, length, dim}, DType::bf16, device);
    dV = Tensor::zeros({heads, length, dim}, DType::bf16, device);
    scale = static_cast<float>(1.4427 / std::sqrt(static_cast<double>(dim)));
  }
  template <class Kernel>
  void run(const Kernel& kernel, const Stream& s) const {
    kernel(s, Q, K, V, dO, L, D, dQ, dK, dV, scale);
  }
  Tensor Q, K, V, dO, L, D, dQ, dK, dV;
  float scale = 1;
};

void attention(const std::function<bool(const std::string&)>& wanted) {
  for (const int dim : {64, 128})
    for (const bool causal : {false, true})
      for (const int bq : {64, 128}) {
        const std::string name =
            fmt::format("attention_gradients_d{}_{}_q{}", dim, causal ? "causal" : "full", bq);
        if (!wanted(name)) continue;
        const auto kernel = bench::attention_gradients(bq, 128, causal);
        const Gradients host(2, 384, dim, Device::cpu()), small(2, 384, dim, kGpu);
        host.run(kernel, Stream(Device::cpu()));
        small.run(kernel, Stream(kGpu));
        check(name, {{small.dQ, host.dQ}, {small.dK, host.dK}, {small.dV, host.dV}});
        const std::int64_t heads = 64, length = 4096;
        const Gradients g(heads, length, dim, kGpu);
        const double ms = ms_of([&](const Stream& s) { g.run(kernel, s); });
        print(name, ms,
              2.5 * 4.0 * static_cast<double>(heads * length * length * dim) / (causal ? 2 : 1));
      }
}

void mlp(const std::function<bool(const std::string&)>& wanted) {
  for (const int bh : {64, 128}) {
    const std::string name = fmt::format("fused_mlp_h{}", bh);
    if (!wanted(name)) continue;
    const auto kernel = bench::fused_mlp(128, bh);
    const auto made = [](std::int64_t r, std::int64_t c, std::uint64_t seed, Device d) {
      return Tensor::normal({r, c}, DType::bf16, 0, 0.1, seed, d);
    };
    Tensor results[2];
    for (const Device d : {Device::cpu(), kGpu}) {
      Tensor& y = results[d.kind == DeviceKind::cpu ? 0 : 1];
      y = Tensor::zeros({256, 128}, DType::bf16, d);
      kernel(Stream(d), made(256, 128, 1, d), made(128, 256, 2, d), made(256, 128, 3, d), y);
    }
    check(name, {{results[1], results[0]}});
    const std::int64_t rows = 1 << 16, width = 128, hidden = 1024;
    const Tensor X = made(rows, width, 1, kGpu), W1 = made(width, hidden, 2, kGpu),
                 W2 = made(hidden, width, 3, kGpu), H = made(rows, hidden, 4, kGpu),
                 Y = made(rows, width, 5, kGpu);
    static const auto first =
        fused_matmul<bf16, bf16>([](Tile acc, Index, Index) { return gelu_tanh_approx(acc); });
    const double peer = ms_of([&](const Stream& s) {
      first(s, X, W1, H);
      matmul(s, H, W2, Y);
    });
    const double ms = ms_of([&](const Stream& s) { kernel(s, X, W1, W2, Y); });
    print(name, ms, 4.0 * static_cast<double>(rows * width * hidden), peer);
  }
}

void linear_attention(const std::function<bool(const std::string&)>& wanted) {
  if (!wanted("linear_attention")) return;
  const auto kernel = bench::linear_attention(64);
  const auto made = [](std::int64_t heads, std::int64_t length, std::int64_t dim,
                       std::uint64_t seed, Device d) {
    return Tensor::normal({heads, length, dim}, DType::bf16, 0, 0.3, seed, d);
  };
  Tensor results[2];
  for (const Device d : {Device::cpu(), kGpu}) {
    Tensor& o = results[d.kind == DeviceKind::cpu ? 0 : 1];
    o = Tensor::zeros({2, 256, 128}, DType::bf16, d);
    kernel(Stream(d), made(2, 256, 64, 1, d), made(2, 256, 64, 2, d), made(2, 256, 128, 3, d), o);
  }
  check("linear_attention", {{results[1], results[0]}});
  const std::int64_t heads = 264, length = 4096;
  const Tensor Q = made(heads, length, 64, 1, kGpu), K = made(heads, length, 64, 2, kGpu),
               V = made(heads, length, 128, 3, kGpu), O = made(heads, length, 128, 4, kGpu);
  const double ms = ms_of([&](const Stream& s) { kernel(s, Q, K, V, O); });
  print("linear_attention", ms,
        2.0 * static_cast<double>(heads * length) * (64 * 64 + 64 * 128 + 2 * 64 * 128));
}

void stationary(const std::function<bool(const std::string&)>& wanted) {
  if (!wanted("stationary_product")) return;
  const auto kernel = bench::stationary_product(128, 128);
  const auto made = [](std::int64_t r, std::int64_t c, std::uint64_t seed, Device d) {
    return Tensor::normal({r, c}, DType::bf16, 0, 0.3, seed, d);
  };
  const std::int64_t rows = 4096, depth = 128, columns = 16384;
  const Tensor A = made(rows, depth, 1, kGpu), B = made(depth, columns, 2, kGpu),
               C = made(rows, columns, 3, kGpu), want = made(rows, columns, 4, kGpu);
  const double peer = ms_of([&](const Stream& s) { matmul(s, A, B, want); });
  const double ms = ms_of([&](const Stream& s) { kernel(s, A, B, C); });
  check("stationary_product", {{C, want}});
  print("stationary_product", ms, 2.0 * static_cast<double>(rows * depth * columns), peer);
}

/// Compares a grouped GEMM whose rows are gathered from a quarter as many rows with one whose rows
/// are contiguous. Each segment has 512 rows.
void gathered(const std::function<bool(const std::string&)>& wanted) {
  const auto gathered = bench::grouped_product(128, 256, true),
             grouped = bench::grouped_product(128, 256, false);
  const auto made = [](Dims shape, std::uint64_t seed, Device d) {
    return Tensor::normal(shape, DType::bf16, 0, 0.3, seed, d);
  };
  const auto places = [](int rows, int of) {
    std::vector<i32> all;
    for (int i = 0; i < rows; ++i) all.push_back(static_cast<i32>((std::int64_t{i} * 7919) % of));
    return all;
  };
  for (const std::int64_t depth : {1024, 2048, 4096}) {
    const std::string name = fmt::format("gathered_product_k{}", depth);
    if (!wanted(name)) continue;
    Tensor results[2];
    for (const Device d : {Device::cpu(), kGpu}) {
      Tensor& c = results[d.kind == DeviceKind::cpu ? 0 : 1];
      c = Tensor::zeros({300, 256}, DType::bf16, d);
      gathered(Stream(d), made({100, 192}, 1, d), made({4, 192, 256}, 2, d),
               Tensor::from(std::vector<i32>{0, 130, 130, 290, 300}, d),
               Tensor::from(places(300, 100), d), c);
    }
    check(name, {{results[1], results[0]}});
    constexpr std::int64_t kSegments = 32, kRows = 512, kColumns = 4096;
    constexpr std::int64_t rows = kSegments * kRows;
    std::vector<i32> offsets;
    for (std::int64_t s = 0; s <= kSegments; ++s) offsets.push_back(static_cast<i32>(s * kRows));
    const Tensor tokens = made({rows / 4, depth}, 1, kGpu), A = made({rows, depth}, 2, kGpu),
                 B = made({kSegments, depth, kColumns}, 3, kGpu),
                 C = made({rows, kColumns}, 4, kGpu), ends = Tensor::from(offsets, kGpu),
                 from = Tensor::from(places(rows, rows / 4), kGpu);
    const double in_order = ms_of([&](const Stream& s) { grouped(s, A, B, ends, from, C); });
    const double ms = ms_of([&](const Stream& s) { gathered(s, tokens, B, ends, from, C); });
    print(name, ms, 2.0 * static_cast<double>(rows * depth * kColumns), in_order,
          "with rows in order");
  }
}

void two_loops(const std::function<bool(const std::string&)>& wanted) {
  if (!wanted("bottleneck")) return;
  const auto kernel = bench::bottleneck(128, 64);
  const auto made = [](std::int64_t r, std::int64_t c, std::uint64_t seed, Device d) {
    return Tensor::normal({r, c}, DType::bf16, 0, 0.1, seed, d);
  };
  const std::int64_t rows = 16896, depth = 4096, width = 128, columns = 4096;
  const Tensor X = made(rows, depth, 1, kGpu), W1 = made(depth, width, 2, kGpu),
               W2 = made(width, columns, 3, kGpu), Y = made(rows, columns, 4, kGpu),
               H = made(rows, width, 5, kGpu), want = made(rows, columns, 6, kGpu);
  static const auto first =
      fused_matmul<bf16, bf16>([](Tile acc, Index, Index) { return max(acc, 0.0f); });
  const double peer = ms_of([&](const Stream& s) {
    first(s, X, W1, H);
    matmul(s, H, W2, want);
  });
  const double ms = ms_of([&](const Stream& s) { kernel(s, X, W1, W2, Y); });
  check("bottleneck", {{Y, want}});
  print("bottleneck", ms, 2.0 * static_cast<double>(rows * width * (depth + columns)), peer);
}

void one_buffer(const std::function<bool(const std::string&)>& wanted) {
  for (const int bk : {64, 128}) {
    const std::string name = fmt::format("latent_attention_k{}", bk);
    if (!wanted(name)) continue;
    const auto kernel = bench::latent_attention(128, bk);
    const auto made = [](std::int64_t heads, std::int64_t length, std::uint64_t seed, Device d) {
      return Tensor::normal({heads, length, 128}, DType::bf16, 0, 1, seed, d);
    };
    constexpr float kScale = 0.1275F;
    Tensor results[2];
    for (const Device d : {Device::cpu(), kGpu}) {
      Tensor& o = results[d.kind == DeviceKind::cpu ? 0 : 1];
      o = Tensor::zeros({2, 384, 128}, DType::bf16, d);
      kernel(Stream(d), made(2, 384, 1, d), made(2, 384, 2, d), o, kScale);
    }
    check(name, {{results[1], results[0]}});
    const std::int64_t heads = 64, length = 4096;
    const Tensor Q = made(heads, length, 1, kGpu), KV = made(heads, length, 2, kGpu),
                 O = made(heads, length, 3, kGpu);
    const double flops = 4.0 * static_cast<double>(heads * length * length * 128);
    print(name, ms_of([&](const Stream& s) { kernel(s, Q, KV, O, kScale); }), flops);
    const auto skewed = late(kernel);
    skewed(Stream(kGpu), made(2, 384, 1, kGpu), made(2, 384, 2, kGpu), results[1], kScale);
    check(name + "_late", {{results[1], results[0]}});
    print(name + "_late", ms_of([&](const Stream& s) { skewed(s, Q, KV, O, kScale); }), flops);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> names(argv + 1, argv + argc);
  const auto wanted = [&](const std::string& name) {
    bool is_wanted = names.empty();
    for (const std::string& part : names) is_wanted |= name.find(part) != std::string::npos;
    return is_wanted;
  };
  attention(wanted);
  mlp(wanted);
  linear_attention(wanted);
  stationary(wanted);
  gathered(wanted);
  two_loops(wanted);
  one_buffer(wanted);
  return 0;
}
