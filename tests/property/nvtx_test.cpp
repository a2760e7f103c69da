// Ranges of NVTX, taken by a library as profilers have them (tests/fake_nvtx): calls of the library
// and launches of kernels while TEGULA_NVTX is 1, and nothing otherwise. The test runs twice.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/env.h"
#include "tegula/kernels/call_place.h"
#include "tegula/kernels/softmax.h"
#include "tegula/profiler_range.h"
#include "tegula/tegula.h"

namespace tegula::nvtx_test {
using namespace kernels;
namespace {

/// The events that the library has recorded, without the first `skipped`.
std::vector<std::string> events(std::size_t skipped = 0) {
  void* const library = dlopen(env().nvtx_injection.c_str(), RTLD_NOW);
  if (!library) return {"no library"};
  const auto count = reinterpret_cast<int (*)()>(dlsym(library, "fake_nvtx_count"));
  const auto event = reinterpret_cast<const char* (*)(int)>(dlsym(library, "fake_nvtx_event"));
  std::vector<std::string> all;
  for (int i = static_cast<int>(skipped); i < count(); ++i) all.emplace_back(event(i));
  return all;
}

/// Callables, as the library's are.
struct Callable {
  void operator()() const { const kernels::detail::CallPlace here(Loc{}); }
};
template <class T>
struct TypedCallable {
  void operator()() const { const kernels::detail::CallPlace here(Loc{}); }
};

TEST(Nvtx, CallsAndLaunchesAreRanges) {
  const std::size_t before = events().size();  // of initializers in other files of the program
  const auto twice = kernel("twice", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 16)) y(i) = x(i) * 2;
  });
  for (const Device device : {Device::cpu(), Device::sim()}) {
    const Tensor x = Tensor::iota({32}, DType::f32, device);
    twice(x, Tensor::empty({32}, DType::f32, device));
  }
  {
    const ProfilerRange own("a step");
    const Tensor x = Tensor::zeros({4, 64}, DType::f32, Device::cpu());
    softmax(Stream(Device::cpu()), x, Tensor::empty({4, 64}, DType::f32, Device::cpu()));
  }
  Callable{}();
  TypedCallable<std::vector<int>>{}();
  if (!env().nvtx) {
    EXPECT_FALSE(ProfilerRange::is_heard());
    EXPECT_THAT(events(before), testing::IsEmpty());
    return;
  }
  EXPECT_TRUE(ProfilerRange::is_heard());
  EXPECT_THAT(events(before),
              testing::ElementsAre("push twice", "pop", "push twice", "pop", "push a step",
                                   "push softmax", "push softmax", "pop", "pop", "pop",
                                   "push Callable", "pop", "push TypedCallable", "pop"));
}

}  // namespace
}  // namespace tegula::nvtx_test
