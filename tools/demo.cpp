// tegula demo: runs attention with a mask lambda and a score lambda on every device of this
// machine, and compares it with double precision.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "ir/text.h"
#include "runtime/doctor.h"
#include "support/env.h"
#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"
#include "tools/assembled.h"
#include "tools/attention_reference.h"
#include "tools/commands.h"

namespace tegula::tools {
using namespace kernels;
namespace {

constexpr int kWindow = 256;

/// Sizes of one run. Two query heads share each key head.
struct Shape {
  std::int64_t batch, heads, length, head_dim;
  std::string str() const {
    return fmt::format("[{}, {}, {}, {}]", batch, heads, length, head_dim);
  }
};

/// ALiBi (Press et al. 2022): head h of n subtracts 2^(-8 (h + 1) / n) per position of distance.
Attention make_attention(int heads) {
  const float step = -8.0f / static_cast<float>(heads);
  return attention(
      {.mask = [](auto, auto, auto q, auto kv) { return q >= kv && q - kv < kWindow; },
       .score = [step](auto s, auto, auto h, auto q,
                       auto kv) { return s + exp2(cast<f32>(h + 1) * step) * cast<f32>(kv - q); },
       .scale = {}});
}

ReferenceSpec make_reference(const Shape& s) {
  const double step = -8.0 / static_cast<double>(s.heads);
  return {.mask = [](int q, int kv) { return q >= kv && q - kv < kWindow; },
          .score = [step](double x, int h, int q,
                          int kv) { return x + std::exp2((h + 1) * step) * (kv - q); },
          .scale = 1 / std::sqrt(static_cast<double>(s.head_dim))};
}

struct Tensors {
  Tensor q, k, v, o, lse;
};

Tensors make_tensors(const Shape& s, Device device) {
  const Dims queries{s.batch, s.heads, s.length, s.head_dim},
      keys{s.batch, s.heads / 2, s.length, s.head_dim};
  return {Tensor::normal(queries, DType::bf16, 0, 1, 1, device),
          Tensor::normal(keys, DType::bf16, 0, 1, 2, device),
          Tensor::normal(keys, DType::bf16, 0, 1, 3, device),
          Tensor::empty(queries, DType::bf16, device),
          Tensor::empty({s.batch, s.heads, s.length}, DType::f32, device)};
}

Agreement compare(const Shape& s, const Tensors& t, std::int64_t batch, std::int64_t head,
                  std::int64_t first) {
  const auto part = [&](const Tensor& x, std::int64_t h) {
    return x.select(0, batch).select(0, h);
  };
  return compare_head(make_reference(s), static_cast<int>(head), part(t.q, head),
                      part(t.k, head / 2), part(t.v, head / 2), part(t.o, head), part(t.lse, head),
                      first, s.length);
}

/// Compares every row of every head.
Agreement compare_all(const Shape& s, const Tensors& t) {
  Agreement all;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const Agreement one = compare(s, t, b, h, 0);
      all = {std::max(all.worst, one.worst),
             std::max(all.relative_to_bound, one.relative_to_bound)};
    }
  return all;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Selects one back end in the environment for its lifetime.
class ChosenBackend {
 public:
  explicit ChosenBackend(const std::string& name) : chosen_(with(name)) {}

 private:
  static Env with(const std::string& name) {
    Env e = env();
    e.backend = name;
    return e;
  }
  EnvOverride chosen_;
};

void print_row(const Shape& s, const std::string& where, const std::string& result) {
  fmt::print("  {:<20}{:<16}{}\n", s.str(), where, result);
}

/// Runs one shape on one device with one back end. Returns the outputs if they are correct.
std::optional<Tensor> run_case(const Attention& attn, const Shape& s, Device device,
                               const std::string& where) {
  try {
    const Tensors t = make_tensors(s, device);
    const Stream stream(device);
    const auto start = std::chrono::steady_clock::now();
    attn(stream, t.q, t.k, t.v, t.o, t.lse);
    stream.synchronize();
    const double seconds = seconds_since(start);
    const Agreement a = compare_all(s, t);
    print_row(
        s, where,
        fmt::format("max error {:.2e}, {:3.0f} % of what rounding explains  {:6.2f} s  {}", a.worst,
                    100 * a.relative_to_bound, seconds, a.good() ? "agrees" : "DISAGREES"));
    if (a.good()) return t.o;
  } catch (const Error& e) {
    print_row(s, where, fmt::format("FAILED: {}", e.what()));
  }
  return {};
}

/// Counts visible pairs of query and key only.
double flops(const Shape& s) {
  double pairs = 0;
  for (std::int64_t q = 0; q < s.length; ++q)
    pairs += static_cast<double>(std::min<std::int64_t>(q + 1, kWindow));
  return 4 * pairs * static_cast<double>(s.head_dim * s.batch * s.heads);
}

/// Runs a shape that fills a GPU: compares the last rows of one head, and times all.
bool run_throughput(const std::string& backend) {
  const Shape s{4, 32, 4096, 128};
  const std::string where = "cuda " + backend;
  try {
    const Tensors t = make_tensors(s, Device::cuda());
    const Attention attn = make_attention(static_cast<int>(s.heads));
    const Stream stream = Stream::create(Device::cuda());
    const auto launch = [&](int times) {
      for (int i = 0; i < times; ++i) attn(stream, t.q, t.k, t.v, t.o, t.lse);
      stream.synchronize();
    };
    launch(5);
    const auto start = std::chrono::steady_clock::now();
    launch(50);
    const double seconds = seconds_since(start) / 50;
    const Agreement a = compare(s, t, s.batch - 1, s.heads - 1, s.length - 300);
    const double all_causal = 2.0 * static_cast<double>(s.length) *
                              static_cast<double>(s.length + 1) *
                              static_cast<double>(s.head_dim * s.batch * s.heads);
    print_row(s, where,
              fmt::format("{:.3f} ms, {:.1f} TFLOPS of visible pairs ({:.1f} if all causal "
                          "pairs counted)  {}",
                          1e3 * seconds, flops(s) / seconds / 1e12, all_causal / seconds / 1e12,
                          a.good() ? "agrees" : "DISAGREES"));
    return a.good();
  } catch (const Error& e) {
    print_row(s, where, fmt::format("FAILED: {}", e.what()));
    return false;
  }
}

bool is_here(const runtime::Diagnosis& machine, const std::string& backend) {
  return machine.finding(backend == "llvm" ? "LLVM" : "NVRTC").present;
}

/// Compares the available back ends with the reference and with each other.
bool run_cuda(const std::vector<Shape>& shapes) {
  bool good = true;
  const runtime::Diagnosis machine = runtime::diagnose();
  std::map<std::string, std::vector<std::vector<bf16>>> results;
  for (const std::string& backend : backend_names()) {
    if (!is_here(machine, backend)) continue;
    const ChosenBackend chosen(backend);
    const Attention attn = make_attention(static_cast<int>(shapes.front().heads));
    for (const Shape& s : shapes) {
      const auto out = run_case(attn, s, Device::cuda(), "cuda " + backend);
      good &= out.has_value();
      if (out) results[backend].push_back(out->to_vector<bf16>());
    }
    good &= run_throughput(backend);
  }
  const auto equal = [](const auto& a, const auto& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i].size() != b[i].size() ||
          std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(bf16)) != 0)
        return false;
    return true;
  };
  if (results.size() < 2) return good;
  const bool is_equal = equal(results["llvm"], results["nvrtc"]);
  fmt::print("  the two back ends' results are {}\n", is_equal ? "equal bit for bit" : "DIFFERENT");
  return good && is_equal;
}

/// Compiles the last attention kernel for the newest target, with or without a GPU.
bool print_sizes(const Attention& attn) {
  const ir::Kernel tile = ir::parse(attn.dump("trace"), "attention");
  fmt::print("the same kernel for {}:\n", ir::Target().name());
  bool good = true;
  for (const std::string& backend : backend_names()) {
    try {
      const auto compiled = compiled_for(tile, ir::Target(), backend_of(backend));
      const runtime::Artefact& k = compiled->artefact();
      fmt::print("  {:<7}{}\n", backend, size_line(k));
      if (!k.report.is_clean()) fmt::print("         UNSOUND: {}\n", k.report.defects());
      good &= k.report.is_clean();
    } catch (const DeviceError& e) {
      fmt::print("  {:<7}unknown: {}\n", backend, headline(e.diagnostic().message));
    }
  }
  return good;
}

int demo() {
  const std::vector<Shape> shapes{{1, 2, 1, 64}, {1, 2, 239, 64}, {1, 2, 1024, 64}};
  fmt::print(
      "Attention in bf16, shapes [batch, heads, length, head_dim], two query heads per key head, "
      "in "
      "C++:\n"
      "  mask   q >= kv && q - kv < {}\n"
      "  score  s + slope(h) * (kv - q)\n"
      "against double precision on the host:\n",
      kWindow);
  bool good = true;
  const Attention attn = make_attention(static_cast<int>(shapes.front().heads));
  for (const Device device : {Device::cpu(), Device::sim()})
    for (const Shape& s : shapes) good &= run_case(attn, s, device, device.str()).has_value();
  if (Device::cuda_count() > 0) good &= run_cuda(shapes);
  good &= print_sizes(attn);
  fmt::print("{}\n{}\n", missing_parts(), good ? "All results agree." : "Some results DISAGREE.");
  return good ? 0 : 1;
}

}  // namespace

void add_demo(CLI::App& program, int& exit_code) {
  CLI::App* command = program.add_subcommand("demo",
                                             "Run attention with a mask and a score lambda on "
                                             "every device, check it, and report its code");
  command->callback([&] { exit_code = demo(); });
}

}  // namespace tegula::tools
