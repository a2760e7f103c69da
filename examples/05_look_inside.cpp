// Lesson 5: inspection. A trace without compiling, the text of every stage, the compiler's
// decisions, and errors that name the line in your source.
#include <tegula/tegula.h>

#include <cstdio>
#include <string>

using namespace tegula;

namespace {

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

int main() {
  const auto scale = kernel("scale", [](In<f32, 2> x, Out<f32, 2> y, Scalar<f32> factor) {
    for (auto [r, c] : grid(y, 16, 32)) y(r, c) = x(r, c) * factor;
  });
  const Device device = Device::best();
  const Tensor x = Tensor::iota({40, 100}, DType::f32, device),
               y = Tensor::empty({40, 100}, DType::f32, device);

  // The recorded kernel, before any compilation: the tile form, which the device `cpu` interprets.
  const Trace trace = scale.trace(x, y, 3.0f);
  std::printf("--- trace\n%s\n", trace.text().c_str());
  bool right = holds(trace.text(), "mul") && holds(trace.text(), "store_view");

  // After a call: every verb's text (key, trace, optimize, emit, ptx, assemble, launch) and an
  // explanation. The device cpu stops after the trace, so the simulator shows more; with a GPU,
  // `ptx` and `assemble` are there too. TEGULA_DUMP=all:DIR writes the same into files.
  const Tensor xs = x.to(Device::sim()), ys = Tensor::empty({40, 100}, DType::f32, Device::sim());
  scale(xs, ys, 3.0f);
  std::printf("--- the code of one thread\n%s\n", scale.dump("optimize").c_str());
  std::printf("--- launch recipe\n%s\n--- explain\n%s\n", scale.dump("launch").c_str(),
              scale.explain().c_str());
  right = right && holds(scale.dump("optimize"), "simt") && holds(scale.explain(), "plan");

  // A mistake in a kernel is reported with its line and the types and origins of the operands.
  const auto broken = kernel("broken", [](In<f32, 2> a, Out<f32, 2> b) {
    for (auto [r, c] : grid(b, 16, 32)) b(r, c) = a(r, c) % 3.0f;
  });
  try {
    broken(x, y);
    std::printf("the mistake was not detected\n");
    right = false;
  } catch (const CompileError& e) {
    std::printf("--- the error message\n%s\n", e.what());
    right = right && holds(e.what(), "05_look_inside.cpp:") && !e.diagnostic().code.empty();
  }

  // The kernel computes the expected result.
  scale(x, y, 3.0f);
  const std::vector<f32> result = y.to_vector<f32>();
  for (std::size_t i = 0; i < result.size(); ++i)
    right = right && result[i] == 3.0f * static_cast<f32>(i);
  std::printf("%s\n", right ? "all checks passed" : "A CHECK FAILED");
  return right ? 0 : 1;
}
