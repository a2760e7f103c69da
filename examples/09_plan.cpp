// Lesson 9: the plan is a value. The compiler chooses a plan for each kernel and explains it; you
// can print, edit and pass it. A plan that cannot be executed is an error with the line.
#include <tegula/tegula.h>

#include <cstdio>
#include <string>

using namespace tegula;

namespace {

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/// Returns the line of an explanation that contains the plan: "plan { num_warps=8 .. }".
std::string plan_of(const std::string& explanation) {
  const std::size_t begin = explanation.find("plan {");
  return explanation.substr(begin, explanation.find('\n', begin) - begin);
}

}  // namespace

int main() {
  const auto product = kernel("product", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 128, 128)) {
      auto acc = zeros<f32>(128, 128);
      for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
      c(m, n) = acc;
    }
  });
  // The interpreter (cpu) runs kernels as they are written, without a plan.
  const Device device = Device::cuda_count() > 0 ? Device::cuda() : Device::sim();
  const Tensor a = Tensor::integers({256, 320}, DType::bf16, -2, 3, 1, device),
               b = Tensor::integers({320, 256}, DType::bf16, -2, 3, 2, device),
               c = Tensor::empty({256, 256}, DType::f32, device),
               d = Tensor::empty({256, 256}, DType::f32, device);

  // The chosen plan with its reasons. ir/plan.def describes each field.
  product(a, b, c);
  std::printf("--- chosen\n%s\n", product.explain().c_str());

  // Some fields: all others are chosen as before. This is another kernel, compiled separately.
  const auto shallow = product.with_plan({.stages = 2, .persistent = false});
  shallow(a, b, d);
  std::printf("--- two slots per ring, one program per tile\n%s\n",
              plan_of(shallow.explain()).c_str());
  bool right = holds(shallow.explain(), "stages=2 ") && d.to_doubles() == c.to_doubles();

  // Or the whole plan in its printed form, which later versions will not change.
  const auto pinned = product.with_plan(plan_of(product.explain()));
  pinned(a, b, d);
  right = right && plan_of(pinned.explain()) == plan_of(product.explain());

  // A plan that does not fit is rejected; the error proposes one that fits.
  try {
    product.with_plan("stages=12")(a, b, d);
    std::printf("twelve slots were not rejected\n");
    right = false;
  } catch (const CompileError& e) {
    std::printf("--- a plan that does not fit\n%s\n", e.what());
    right = right && holds(e.what(), "09_plan.cpp:") && holds(e.what(), "request stages=");
  }
  std::printf("%s\n", right ? "all checks passed" : "A CHECK FAILED");
  return right ? 0 : 1;
}
