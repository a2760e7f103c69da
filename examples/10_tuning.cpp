// Lesson 10: tuning. `tune()` names the numbers of a kernel that may be chosen; Kernel::tune()
// measures them on the device, and stores the winner for calls of the same shapes, in later
// processes too. On a GPU: the eight-line matmul at 2048, 4096 and 8192.
#include <tegula/tegula.h>

#include <chrono>
#include <cstdio>
#include <string>

using namespace tegula;

namespace {

auto eight_lines() {
  return kernel("eight_lines", [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    const int BM = tune("BM", {64, 128, 256}), BN = tune("BN", {64, 128, 192, 256}),
              BK = tune("BK", {32, 64, 128});
    for (auto [m, n] : grid(C, BM, BN, group_m(8))) {
      auto acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), BK)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

/// Returns the microseconds per call: wall time of many calls, after one that compiles.
template <class K>
double us_of(const K& k, const Tensor& A, const Tensor& B, const Tensor& C) {
  const Stream stream(A.device());
  const int calls = A.device().on_host() ? 1 : 50;
  k(A, B, C);
  stream.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) k(A, B, C);
  stream.synchronize();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / calls;
}

bool tune_product(std::int64_t size, Device device) {
  const Tensor A = Tensor::normal({size, size}, DType::bf16, 0, 1, 1, device),
               B = Tensor::normal({size, size}, DType::bf16, 0, 1, 2, device),
               C = Tensor::empty({size, size}, DType::bf16, device),
               D = Tensor::empty({size, size}, DType::bf16, device);
  const auto matmul = eight_lines();
  const auto plain = matmul.with({{"BM", 64}, {"BN", 64}, {"BK", 32}});
  const double plain_us = us_of(plain, A, B, C);

  TuneOptions options;
  options.progress = [](const std::string& line) { std::printf("  %s\n", line.c_str()); };
  const auto begin = std::chrono::steady_clock::now();
  const TuneResult found = matmul.tune(options, A, B, D);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;

  const double us = us_of(matmul, A, B, D);
  const double tflops = 2e-6 * static_cast<double>(size * size * size) / us;
  std::printf(
      "%d on %s: %s (%s, %.1f s, %d timed, %d not); %.1f us, %.0f TFLOPS; defaults %.1f us\n",
      static_cast<int>(size), device.str().c_str(), str(found.tuning).c_str(),
      found.was_known ? "known" : "measured", took.count(), found.candidates,
      static_cast<int>(found.rejected.size()), us, tflops, plain_us);
  for (const std::string& line : found.rejected) std::printf("  not %s\n", line.c_str());
  return C.to_doubles() == D.to_doubles();  // bitwise equal
}

}  // namespace

int main() {
  const Device device = Device::best();
  if (device.kind == DeviceKind::cuda) {
    bool right = true;
    for (const int size : {2048, 4096, 8192}) right = tune_product(size, device) && right;
    return right ? 0 : 1;
  }
  // On the host this measures the time of the simulator or the interpreter.
  const auto scaled = kernel("scaled", [](In<f32, 1> x, Out<f32, 1> y) {
    const int block = tune("BLOCK", {16, 64});
    for (auto i : grid(y, block)) y(i) = x(i) * 2.0f;
  });
  const Tensor x = Tensor::iota({128}, DType::f32, device),
               y = Tensor::zeros({128}, DType::f32, device);
  const TuneResult found = scaled.tune(x, y);
  std::printf("%s of %d on %s\n", str(found.tuning).c_str(), found.candidates + 1,
              device.str().c_str());
  scaled(x, y);
  return y.to_doubles()[100] == 200 ? 0 : 1;
}
