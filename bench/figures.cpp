// Costs of compilation and of launches.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "bench/attention_kernel.h"
#include "bench/bench.h"
#include "dsl/instance.h"
#include "runtime/jit_verbs.h"
#include "tegula/tegula.h"

namespace tegula::bench {
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v.empty() ? 0 : v[v.size() / 2];
}

struct Subject {
  std::string name;
  std::function<Trace()> trace;
};

/// Returns the four kernels of the gates, traced for tensors without memory.
std::vector<Subject> subjects() {
  const Device host = Device::sim();
  static const auto add = kernel("vector_add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
    for (auto i : grid(z, 2048)) z(i) = x(i) + y(i);
  });
  static const auto soft = kernel("softmax", [](In<bf16, 2> x, Out<bf16, 2> y) {
    for (auto r : grid(rows(y), 1)) {
      const Tile v = cast<f32>(x(r, all)), e = exp(v - max(v));
      y(r, all) = e * rcp(sum(e));
    }
  });
  static const auto mm = kernel("matmul", [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    for (auto [m, n] : grid(C, 128, 128, group_m(8))) {
      auto acc = zeros<f32>(128, 128);
      for (auto k : steps(A.cols(), 32)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
  static const auto attn = attention_with_distances();
  const Tensor v = Tensor::zeros({4096}, DType::f32, host),
               m = Tensor::zeros({512, 1024}, DType::bf16, host);
  const Tensor sq = Tensor::zeros({256, 256}, DType::bf16, host),
               a = Tensor::zeros({1, 2, 256, 128}, DType::bf16, host);
  return {{"vector_add", [=] { return add.trace(v, v, v); }},
          {"softmax", [=] { return soft.trace(m, m); }},
          {"matmul", [=] { return mm.trace(sq, sq, sq); }},
          {"attention", [=] { return attn.trace(a, a, a, a, 0.1f); }}};
}

std::string figures_of(const Subject& subject, runtime::Backend backend, int repeats) {
  std::map<std::string, std::vector<double>> samples;
  int registers = 0, spills = 0;
  for (int i = 0; i < repeats; ++i) {
    auto start = Clock::now();
    const Trace trace = subject.trace();
    samples["trace"].push_back(ms_since(start));
    runtime::Compilation k;
    k.tile = ir::clone(trace.kernel());
    k.backend = backend;
    runtime::CompileRequest request;
    start = Clock::now();
    runtime::optimize(k, request);
    samples["passes"].push_back(ms_since(start));
    for (const auto& p : k.passes) samples["pass." + std::string(p.name)].push_back(p.ms);
    start = Clock::now();
    runtime::emit(k, request);
    samples["emit"].push_back(ms_since(start));
    start = Clock::now();
    runtime::assemble(k, request);
    samples["assemble"].push_back(ms_since(start));
    registers = k.report.registers;
    spills = k.report.spill_loads + k.report.spill_stores;
  }
  std::string line = fmt::format(
      R"({{"suite": "compile", "case": "{}", "backend": "{}", "registers": {}, "spills": {})",
      subject.name, runtime::name(backend), registers, spills);
  for (const auto& [verb, ms] : samples)
    line += fmt::format(R"(, "{}_ms": {:.3f})", verb, median(ms));
  return line + "}";
}

}  // namespace

std::vector<std::string> compile_figures(int repeats) {
  std::vector<std::string> lines;
  for (const Subject& s : subjects())
    for (runtime::Backend b : {runtime::Backend::Llvm, runtime::Backend::Nvrtc})
      lines.push_back(figures_of(s, b, repeats));
  return lines;
}

std::string launch_figures(int rounds) {
  static const auto add = kernel("launch_probe", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
    for (auto i : grid(z, 1024)) z(i) = x(i) + y(i);
  });
  const Tensor x = Tensor::zeros({1024}, DType::f32, Device::cuda()),
               y = Tensor::zeros({1024}, DType::f32, Device::cuda()),
               z = Tensor::zeros({1024}, DType::f32, Device::cuda());
  const Stream stream = Stream::create(Device::cuda());
  add(stream, x, y, z);
  const auto compiled = add.instance().launcher.latest();
  std::vector<runtime::LaunchArg> args{{&x, 0}, {&y, 0}, {&z, 0}};
  alignas(64) std::byte block[256];
  const runtime::LoadedArtefact& loaded = compiled->on(0);
  runtime::pack(compiled->artefact().recipe, args, loaded.maps(), block);
  const auto batch = [&](auto&& launch) {
    const auto start = Clock::now();
    for (int i = 0; i < 256; ++i) launch();
    const double us = 1000 * ms_since(start) / 256;
    stream.synchronize();
    return us;
  };
  std::vector<double> ours, bare;
  for (int r = 0; r < rounds; ++r) {
    bare.push_back(batch([&] {
      loaded.plan().launch(static_cast<runtime::cu::Stream>(stream.handle()), block, {1, 1, 1});
    }));
    ours.push_back(batch([&] { add(stream, x, y, z); }));
  }
  return fmt::format(
      R"({{"suite": "launch", "case": "3 tensors", "bare_us": {:.3f}, "tegula_us": {:.3f}, "excess_us": {:.3f}}})",
      median(bare), median(ours), median(ours) - median(bare));
}

}  // namespace tegula::bench
