// Uses the library as a stranger does: the one header, the one library, a kernel, and errors that
// cross the boundary between two C++ run-time libraries (libtegula.so carries its own).
#include <tegula/tegula.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

int second();

using namespace tegula;

namespace {

bool adds_on(Device device) {
  const auto add = kernel("add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
    for (auto i : grid(z, 64)) z(i) = x(i) + y(i);
  });
  std::vector<f32> a, b;
  for (int i = 0; i < 100; ++i) {
    a.push_back(static_cast<f32>(i));
    b.push_back(static_cast<f32>(1000 - 2 * i));
  }
  const Tensor z = Tensor::empty({100}, DType::f32, device);
  add(Tensor::from(a, device), Tensor::from(b, device), z);
  const std::vector<f32> sum = z.to_vector<f32>();
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (sum[i] != a[i] + b[i]) return false;
  }
  return sum.size() == 100;
}

/// Made by the library, thrown and caught here.
bool catches_what_the_library_made() {
  try {
    throw CompileError(
        Diagnostic{.code = "T0000", .message = "m", .loc = {"f.cpp", 1}, .notes = {}, .hint = ""});
  } catch (const Error& e) {
    return e.what() == std::string("f.cpp:1: error T0000: m");
  }
}

/// Thrown by the library, through its frames, caught here by its own type.
bool catches_what_the_library_threw() {
  try {
    Device::parse("toaster");
  } catch (const Error& e) {
    return std::string(e.what()).find("toaster") != std::string::npos;
  }
  return false;
}

/// Thrown by our lambda inside the library, translated there, caught here.
bool learns_where_its_kernel_threw() {
  const auto broken =
      kernel("broken", [](In<f32, 1>, Out<f32, 1>) { throw std::domain_error("mine"); });
  const Tensor x = Tensor::zeros({8}, DType::f32, Device::cpu());
  try {
    broken(x, x.clone());
  } catch (const CompileError& e) {
    return e.diagnostic().message.find("mine") != std::string::npos &&
           std::string(e.diagnostic().loc.file).ends_with("main.cpp");
  }
  return false;
}

/// PTX of shapes alone: no tensor, no GPU, no CUDA toolkit. `has_llvm` tells whether the package
/// has the back end; without it the library says so.
bool compiles_for_a_gpu(bool has_llvm) {
  const auto scale = kernel("scale", [](In<f32, 2> x, Out<f32, 2> y) {
    for (auto [r, c] : grid(y, 16, 32)) y(r, c) = x(r, c) * 2.0f;
  });
  try {
    const Artefact a = scale.compile("sm_90a", spec<f32>(1024, 512), spec<f32>(1024, 512));
    return a.name() == "scale" && a.target() == "sm_90a" && a.warnings().empty() &&
           a.ptx().find(".entry scale") != std::string::npos;
  } catch (const DeviceError& e) {
    return !has_llvm && std::string(e.what()).find("libtegula_llvm.so") != std::string::npos;
  }
}

int failures = 0;

void check(const char* what, bool holds) {
  std::printf("%s %s\n", holds ? "ok    " : "FAILED", what);
  failures += !holds;
}

}  // namespace

int main(int count, char** words) {
  const bool has_llvm = count > 1 && std::string(words[1]) == "llvm";
  check("a kernel on cpu", adds_on(Device::cpu()));
  check("a kernel on sim", adds_on(Device::sim()));
  check("PTX for a GPU that is not here", compiles_for_a_gpu(has_llvm));
  check("an error made by the library", catches_what_the_library_made());
  check("an error thrown by the library", catches_what_the_library_threw());
  check("an exception of our own inside the library", learns_where_its_kernel_threw());
  check("a second file", second() == 0);
  return failures;
}
