// After an error of any class the kernel object, the memory pool and the cache are as before: the
// same kernel object gives the right values next, even while another thread causes errors.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/env.h"
#include "support/text.h"
#include "tegula/tegula.h"

namespace tegula::recovery_test {
namespace {

enum Fault { kNone, kTrace, kThrows, kForeign, kTooDeep, kOutOfBounds, kTooLong };

volatile bool is_done = false;
Tile endless(const Tile& t) { return is_done ? t : endless(t + 1.0f) * 2.0f; }

Tile faulty(int fault, const Tile& t) {
  if (fault == kTrace) return t + zeros<f32>(3);
  if (fault == kThrows) throw std::runtime_error("no luck");
  if (fault == kForeign) throw 42;
  if (fault == kTooDeep) return endless(t);
  Tile sum = t;
  while (fault == kTooLong && !is_done) sum = sum + t;
  return sum;
}

/// z = 2 x + p[0]. `fault` is part of the key of a call, so no call runs the kernel of another.
auto twice() {
  return kernel("twice", [](In<f32, 1> x, Out<f32, 1> z, Ptr<f32> p, int fault) {
    for (auto i : grid(z, 8))
      z(i) = faulty(fault, x(i)) * 2.0f + load(p + (fault == kOutOfBounds ? 1'000'000 : 0));
  });
}
using Twice = decltype(twice());

/// Returns the code of the error of a call; "" if there is none and the values are right.
std::string code_of(const Twice& k, Device device, int fault) {
  const Tensor x = Tensor::iota({20}, DType::f32, device);
  const Tensor z = Tensor::empty({20}, DType::f32, device);
  const Tensor p = Tensor::full({1}, 5, DType::f32, device);
  try {
    k(x, z, p, fault);
  } catch (const CompileError& e) {
    return e.diagnostic().code;
  } catch (const ProgramError& e) {
    return e.diagnostic().code;
  } catch (const std::exception& e) {
    return e.what();
  }
  const std::vector<float> values = z.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != 2 * static_cast<float>(i) + 5) return "wrong values";
  return "";
}

std::string code_of_device_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const DeviceError& e) {
    return e.diagnostic().code;
  }
  return "no error";
}

/// Each class of errors once, and a right call after it.
void meet_errors(const Twice& k, Device device, int last) {
  const std::vector<std::string> codes{"", "T0201", "T0305", "T1021", "T1019", "T1302", "T1018"};
  for (int fault = kTrace; fault <= last; ++fault) {
    EXPECT_EQ(code_of(k, device, fault), codes[static_cast<std::size_t>(fault)]) << fault;
    EXPECT_EQ(code_of(k, device, kNone), "") << "after " << fault << " on " << device.str();
  }
  const auto too_large = [&] { Tensor::empty({std::int64_t{1} << 44}, DType::f32, device); };
  EXPECT_EQ(code_of_device_error(too_large), "T2001");
  EXPECT_EQ(code_of_device_error([] { Device::parse("gpu"); }), "T2002");
  EXPECT_EQ(code_of_device_error([&] { (void)Event(device).ms_since(Event(device)); }), "T2003");
  EXPECT_EQ(code_of(k, device, kNone), "") << "after device errors";
}

TEST(Recovery, OneKernelObject) {
  for (const Device device : {Device::cpu(), Device::sim()}) {
    const auto k = twice();
    meet_errors(k, device, device == Device::cpu() ? kTooLong : kOutOfBounds);
    EXPECT_EQ(code_of(twice(), device, kNone), "") << "another object of the same lambda";
  }
}

TEST(Recovery, TwoThreads) {
  const auto k = twice();
  std::atomic<bool> has_met = false;
  std::thread right([&] {
    do EXPECT_EQ(code_of(k, Device::sim(), kNone), "");
    while (!has_met);
  });
  std::thread faulty([&] { meet_errors(k, Device::cpu(), kOutOfBounds); });
  meet_errors(k, Device::sim(), kOutOfBounds);
  faulty.join();
  has_met = true;
  right.join();
  EXPECT_EQ(code_of(k, Device::cpu(), kNone), "");
}

/// A tensor that is too large has the line that makes it.
TEST(Recovery, OutOfMemoryHasTheLine) {
  int line = 0;
  try {
    line = __LINE__ + 1;
    Tensor::zeros({std::int64_t{1} << 44}, DType::f32, Device::cpu());
    ADD_FAILURE();
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.diagnostic().loc.line, static_cast<unsigned>(line));
    EXPECT_EQ(e.diagnostic().message, "cpu: cannot allocate 70368744177664 bytes of host memory");
    EXPECT_FALSE(e.diagnostic().hint.empty());
  }
}

/// A ptxas that fails: the error has the kernel's line, and the kernel is compiled afterwards.
TEST(Recovery, AnAssemblerThatFails) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tegula-recovery-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::filesystem::path program = folder / "ptxas";
  write_file(program, "#!/bin/sh\nkill -SEGV $$\n");
  ::chmod(program.c_str(), 0755);
  const auto k = twice();
  const auto compile = [&] {
    const Tensor x = Tensor::zeros({20}, DType::f32, Device::cpu());
    return k.compile("sm_90a", x, x, x, int{kNone}).ptx();
  };
  Env faulty = env();
  faulty.ptxas = program;
  faulty.cache = "off";
  {
    const EnvOverride scope(faulty);
    try {
      compile();
      ADD_FAILURE();
    } catch (const DeviceError& e) {
      if (e.diagnostic().code == "T2005") GTEST_SKIP() << "no back end: " << e.what();
      EXPECT_EQ(e.diagnostic().code, "T1415") << e.what();
      EXPECT_NE(e.diagnostic().message.find("kernel twice"), std::string::npos) << e.what();
      EXPECT_STREQ(e.diagnostic().loc.file, __FILE__) << e.what();
    }
    EXPECT_EQ(code_of(k, Device::cpu(), kNone), "");
  }
  Env sound = env();
  sound.cache = "off";
  const EnvOverride scope(sound);
  EXPECT_NE(compile().find("twice"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tegula::recovery_test
