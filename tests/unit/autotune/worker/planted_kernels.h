#pragma once
// A mock driver whose kernels' images are commands: "times 2 1000" writes twice its input in 1000
// ns; the others fail in one way each.
#include <unistd.h>

#include <csignal>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/runtime/mock_driver.h"

namespace tegula::autotune::testing {

namespace cu = runtime::cu;

struct PlantedKernel {
  std::string verb;
  float factor = 0;
  double ns = 0;
  int launches = 0;
};

struct PlantedState {
  std::vector<PlantedKernel> kernels;
  std::map<void*, double> events;
  double now_ns = 0;
  cu::Result sticky = cu::kSuccess;
  int socket = -1;  ///< of the worker, for kernels that damage its messages
};
inline PlantedState& planted() {
  static PlantedState state;
  return state;
}

/// Never returns, like a wait for a kernel that hangs.
[[noreturn]] inline void hang() {
  for (;;) ::pause();
}

/// Ends the process by the signal itself: a sanitizer's handler would make an exit code of it.
inline void crash() {
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}

inline void fail_as(const PlantedKernel& k) {
  const int socket = planted().socket;
  const auto write = [&](const char* bytes, std::size_t count) {
    if (::write(socket, bytes, count) < 0) ::_exit(9);
  };
  if (k.verb == "crash") crash();
  if (k.verb == "exit") ::_exit(3);
  if (k.verb == "fault") planted().sticky = static_cast<cu::Result>(700);
  if (k.verb == "torn") {
    write("TGWK\2\0\0\0", 8);
    ::_exit(0);
  }
  if (k.verb == "garbage") {
    write(std::string(200, 'x').data(), 200);
    hang();
  }
  if (k.verb == "hang") hang();
}

/// Kernels take (in, out, count).
inline cu::Result run_planted(PlantedKernel& k, void** arguments) {
  ++k.launches;
  fail_as(k);
  if (planted().sticky != cu::kSuccess) return planted().sticky;
  if (k.verb == "late hang" && k.launches > 3) hang();
  if (k.verb == "late crash" && k.launches > 3) crash();
  const auto* in = *static_cast<float**>(arguments[0]);
  auto* out = *static_cast<float**>(arguments[1]);
  const auto count = *static_cast<std::int64_t*>(arguments[2]);
  const auto written = k.verb == "half" ? count / 2 : count;
  for (std::int64_t i = 0; i < written; ++i) out[i] = in[i] * k.factor;
  if (k.verb == "outside") out[count] = 1;
  planted().now_ns += k.ns;
  return cu::kSuccess;
}

inline void plant_events(runtime::Driver& d) {
  d.event_create = [](cu::Event* event, unsigned) {
    static std::uintptr_t next = 0x8000;
    *event = reinterpret_cast<cu::Event>(++next);
    return cu::kSuccess;
  };
  d.event_destroy = [](cu::Event event) {
    planted().events.erase(event);
    return cu::kSuccess;
  };
  d.event_record = [](cu::Event event, cu::Stream) {
    planted().events[event] = planted().now_ns;
    return cu::kSuccess;
  };
  d.event_synchronize = [](cu::Event) { return planted().sticky; };
  d.event_elapsed = [](float* ms, cu::Event begin, cu::Event end) {
    *ms = static_cast<float>((planted().events.at(end) - planted().events.at(begin)) * 1e-6);
    return cu::kSuccess;
  };
}

/// The bytes after the header of an ELF file for machine 190, CUDA.
constexpr std::size_t kHeaderBytes = 64;
inline std::vector<char> planted_image(const std::string& verb, float factor, double ns) {
  std::vector<char> image(kHeaderBytes);
  std::memcpy(image.data(),
              "\x7f"
              "ELF",
              4);
  image[18] = static_cast<char>(190);
  const std::string text = verb + ": " + std::to_string(factor) + " " + std::to_string(ns);
  image.insert(image.end(), text.begin(), text.end());
  image.push_back('\0');
  return image;
}

inline void plant_kernels(runtime::Driver& d) {
  plant_events(d);
  d.missing.push_back({"cuMemHostAlloc", "pinned host memory", 2020});
  d.set_bytes = [](cu::DevicePtr p, unsigned char byte, std::size_t n, cu::Stream) {
    if (n < (1 << 20)) std::memset(reinterpret_cast<void*>(p), byte, n);  // not to flush the L2
    return cu::kSuccess;
  };
  d.stream_synchronize = [](cu::Stream) { return planted().sticky; };
  d.library_load = [](cu::Library* library, const void* image, cu::JitOption*, void**, unsigned,
                      cu::LibraryOption*, void**, unsigned) {
    std::istringstream text(static_cast<const char*>(image) + kHeaderBytes);
    PlantedKernel k;
    std::getline(text, k.verb, ':');
    text >> k.factor >> k.ns;
    planted().kernels.push_back(k);
    *library = reinterpret_cast<cu::Library>(planted().kernels.size());
    return k.verb == "unloadable" ? static_cast<cu::Result>(209) : cu::kSuccess;
  };
  d.library_kernel = [](cu::Kernel* kernel, cu::Library library, const char*) {
    *kernel = reinterpret_cast<cu::Kernel>(library);
    return cu::kSuccess;
  };
  d.kernel_function = [](cu::Function* function, cu::Kernel kernel) {
    *function = reinterpret_cast<cu::Function>(kernel);
    return cu::kSuccess;
  };
  d.launch_kernel = [](const cu::LaunchConfig*, cu::Function function, void** arguments, void**) {
    return run_planted(planted().kernels.at(reinterpret_cast<std::uintptr_t>(function) - 1),
                       arguments);
  };
}

}  // namespace tegula::autotune::testing
