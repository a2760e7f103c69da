#pragma once
// A mock of the driver: host memory serves as device memory, and every launch is recorded.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/driver_api.h"

namespace tegula::runtime::testing {

struct RecordedLaunch {
  cu::LaunchConfig config;
  std::vector<cu::LaunchAttribute> attributes;
  std::vector<void*> pointers;
  cu::Function function;
};

struct MockState {
  int devices = 1;
  int compute_major = 9;
  int shared_optin = 232448;
  int sms = 132;
  int max_threads = 1024;
  int local_bytes = 0;  ///< stack of every kernel
  bool capturing = false;
  bool captures_elsewhere = false;  ///< another stream than those that are asked about
  unsigned long long capture_id = 1;
  /// Objects that live as long as the graph of the capture.
  std::vector<std::pair<void*, cu::HostFunction>> of_graph;
  cu::CaptureMode capture_mode = cu::kCaptureGlobal;
  cu::Result next_user_object = cu::kSuccess;
  cu::Result next_retain = cu::kSuccess;
  std::size_t room = SIZE_MAX;  ///< bytes that all memory together may have
  cu::Result next_launch = cu::kSuccess;
  cu::Result next_load = cu::kSuccess;
  cu::Result next_alloc = cu::kSuccess;
  std::string jit_log;
  cu::Context current = nullptr;
  bool needs_context = false;  ///< calls about streams and tensor maps fail without a current one
  std::size_t argument_count = 0;
  bool record_launches = true;
  std::vector<RecordedLaunch> launches;
  std::vector<std::pair<cu::FunctionAttribute, int>> kernel_attributes;
  std::map<std::uintptr_t, std::size_t> live_memory;
  int encodes = 0, kernel_lookups = 0, stream_id = 7, context_pushes = 0;
};

inline MockState& mock() {
  static MockState state;
  return state;
}

constexpr auto kMockInvalidContext = static_cast<cu::Result>(201);
inline bool mock_lacks_context() { return mock().needs_context && mock().current == nullptr; }

inline int mock_attribute(cu::DeviceAttribute which) {
  const std::map<int, int> values{
      {cu::kAttrMaxThreadsPerBlock, 1024}, {cu::kAttrSmCount, mock().sms},
      {cu::kAttrRegistersPerSm, 65536},    {cu::kAttrSharedPerSm, 233472},
      {cu::kAttrL2Bytes, 52428800},        {cu::kAttrMemoryBusBits, 6144},
      {cu::kAttrClusterLaunch, 1}};
  if (which == cu::kAttrComputeMajor) return mock().compute_major;
  if (which == cu::kAttrSharedPerBlockOptin) return mock().shared_optin;
  const auto found = values.find(which);
  return found == values.end() ? 0 : found->second;
}

inline void mock_devices(Driver& d) {
  d.init = [](unsigned) { return cu::kSuccess; };
  d.error_name = [](cu::Result r, const char** out) {
    *out = r == cu::kErrorOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_MOCK";
    return cu::kSuccess;
  };
  d.error_text = [](cu::Result, const char** out) {
    *out = "mock text";
    return cu::kSuccess;
  };
  d.device_count = [](int* n) {
    *n = mock().devices;
    return cu::kSuccess;
  };
  d.device_get = [](cu::Device* device, int ordinal) {
    *device = ordinal;
    return cu::kSuccess;
  };
  d.device_name = [](char* out, int size, cu::Device) {
    std::strncpy(out, "Mock GPU", static_cast<std::size_t>(size));
    return cu::kSuccess;
  };
  d.device_attribute = [](int* out, cu::DeviceAttribute which, cu::Device) {
    *out = mock_attribute(which);
    return cu::kSuccess;
  };
  d.device_total_memory = [](std::size_t* bytes, cu::Device) {
    *bytes = std::size_t{1} << 37;
    return cu::kSuccess;
  };
  d.primary_retain = [](cu::Context* context, cu::Device device) {
    *context = reinterpret_cast<cu::Context>(static_cast<std::uintptr_t>(0x100 + device));
    return cu::kSuccess;
  };
  d.context_current = [](cu::Context* context) {
    *context = mock().current;
    return cu::kSuccess;
  };
  d.context_push = [](cu::Context context) {
    mock().current = context;
    ++mock().context_pushes;
    return cu::kSuccess;
  };
  d.context_pop = [](cu::Context*) {
    mock().current = nullptr;
    return cu::kSuccess;
  };
}

inline void mock_memory(Driver& d) {
  d.mem_alloc = [](cu::DevicePtr* out, std::size_t bytes) {
    if (mock().next_alloc != cu::kSuccess) return mock().next_alloc;
    if (mock().capturing && mock().capture_mode != cu::kCaptureRelaxed)
      return cu::kErrorStreamCaptureUnsupported;
    if (bytes > mock().room) return cu::kErrorOutOfMemory;
    mock().room -= bytes;
    *out = reinterpret_cast<cu::DevicePtr>(std::malloc(bytes));
    mock().live_memory[*out] = bytes;
    return cu::kSuccess;
  };
  d.mem_free = [](cu::DevicePtr p) {
    if (mock().capturing && mock().capture_mode != cu::kCaptureRelaxed)
      return cu::kErrorStreamCaptureUnsupported;
    mock().room += mock().live_memory.at(p);
    mock().live_memory.erase(p);
    std::free(reinterpret_cast<void*>(p));
    return cu::kSuccess;
  };
  d.mem_info = [](std::size_t* free, std::size_t* total) {
    *free = 5;
    *total = 10;
    return cu::kSuccess;
  };
  d.copy_to_device = [](cu::DevicePtr to, const void* from, std::size_t n, cu::Stream) {
    std::memcpy(reinterpret_cast<void*>(to), from, n);
    return cu::kSuccess;
  };
  d.copy_to_host = [](void* to, cu::DevicePtr from, std::size_t n, cu::Stream) {
    std::memcpy(to, reinterpret_cast<void*>(from), n);
    return cu::kSuccess;
  };
  d.copy_on_device = [](cu::DevicePtr to, cu::DevicePtr from, std::size_t n, cu::Stream) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n);
    return cu::kSuccess;
  };
  d.set_bytes = [](cu::DevicePtr p, unsigned char byte, std::size_t n, cu::Stream) {
    std::memset(reinterpret_cast<void*>(p), byte, n);
    return cu::kSuccess;
  };
  d.stream_synchronize = [](cu::Stream) { return cu::kSuccess; };
  d.stream_id = [](cu::Stream, unsigned long long* id) {
    if (mock_lacks_context()) return kMockInvalidContext;
    if (mock().capturing && !mock().captures_elsewhere) return cu::kErrorStreamCaptureUnsupported;
    *id = static_cast<unsigned long long>(mock().stream_id);
    return cu::kSuccess;
  };
  d.stream_create = [](cu::Stream* stream, unsigned) {
    *stream = reinterpret_cast<cu::Stream>(0x5000);
    return cu::kSuccess;
  };
  d.stream_destroy = [](cu::Stream) { return cu::kSuccess; };
}

inline void mock_capture(Driver& d) {
  d.capture_info = [](cu::Stream, cu::CaptureStatus* status, unsigned long long* id,
                      cu::Graph* graph, const cu::GraphNode**, std::size_t*) {
    if (mock_lacks_context()) return kMockInvalidContext;
    *status =
        mock().capturing && !mock().captures_elsewhere ? cu::kCaptureActive : cu::kCaptureNone;
    if (id != nullptr) *id = mock().capture_id;
    if (graph != nullptr) *graph = reinterpret_cast<cu::Graph>(0x6000);
    return cu::kSuccess;
  };
  d.exchange_capture_mode = [](cu::CaptureMode* mode) {
    std::swap(*mode, mock().capture_mode);
    return cu::kSuccess;
  };
  d.user_object_create = [](cu::UserObject* object, void* data, cu::HostFunction release, unsigned,
                            unsigned) {
    if (mock().next_user_object != cu::kSuccess) return mock().next_user_object;
    mock().of_graph.emplace_back(data, release);
    *object = reinterpret_cast<cu::UserObject>(0x7000);
    return cu::kSuccess;
  };
  d.graph_retain = [](cu::Graph, cu::UserObject, unsigned, unsigned) { return mock().next_retain; };
  d.user_object_release = [](cu::UserObject, unsigned) {  // the one made last
    const auto [data, release] = mock().of_graph.back();
    mock().of_graph.pop_back();
    release(data);
    return cu::kSuccess;
  };
}

/// The graph of the capture is destroyed, and the next capture begins another one.
inline void mock_next_graph() {
  for (const auto& [data, release] : std::exchange(mock().of_graph, {})) release(data);
  ++mock().capture_id;
}

inline void mock_kernels(Driver& d) {
  d.library_load = [](cu::Library* library, const void*, cu::JitOption* options, void** values,
                      unsigned count, cu::LibraryOption*, void**, unsigned) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == cu::kJitInfoLog)
        std::strcpy(static_cast<char*>(values[i]), mock().jit_log.c_str());
    *library = reinterpret_cast<cu::Library>(0x1000);
    return mock().next_load;
  };
  d.library_kernel = [](cu::Kernel* kernel, cu::Library, const char* name) {
    ++mock().kernel_lookups;
    if (std::string_view(name).starts_with("absent")) return cu::kErrorNotFound;
    *kernel = reinterpret_cast<cu::Kernel>(0x2000);
    return cu::kSuccess;
  };
  d.kernel_set_attribute = [](cu::FunctionAttribute which, int value, cu::Kernel, cu::Device) {
    mock().kernel_attributes.emplace_back(which, value);
    return cu::kSuccess;
  };
  d.kernel_function = [](cu::Function* function, cu::Kernel) {
    *function = reinterpret_cast<cu::Function>(0x3000);
    return cu::kSuccess;
  };
  d.function_load = [](cu::Function) { return cu::kSuccess; };
  d.function_attribute = [](int* value, cu::FunctionAttribute which, cu::Function) {
    *value = which == cu::kFuncMaxThreadsPerBlock ? mock().max_threads
             : which == cu::kFuncRegisters        ? 168
             : which == cu::kFuncLocalBytes       ? mock().local_bytes
                                                  : 0;
    return cu::kSuccess;
  };
  d.launch_kernel = [](const cu::LaunchConfig* config, cu::Function function, void** pointers,
                       void**) {
    MockState& m = mock();
    const cu::Result result = m.next_launch;
    if (!m.record_launches) return result;
    m.next_launch = cu::kSuccess;
    if (result != cu::kSuccess) return result;
    m.launches.push_back({*config,
                          {config->attributes, config->attributes + config->attribute_count},
                          std::vector<void*>(pointers, pointers + m.argument_count),
                          function});
    return result;
  };
  d.tensor_map_encode = [](cu::TensorMap* map, cu::TensorMapType type, std::uint32_t, void* address,
                           const std::uint64_t*, const std::uint64_t* strides,
                           const std::uint32_t* box, const std::uint32_t*, cu::TensorMapInterleave,
                           cu::TensorMapSwizzle, cu::TensorMapL2, cu::TensorMapFill) {
    if (mock_lacks_context()) return kMockInvalidContext;
    ++mock().encodes;
    map->opaque[0] = 0xbad;
    if (strides[0] % 16 != 0 || box[1] > 256) return cu::kErrorInvalidValue;
    map->opaque[0] = reinterpret_cast<std::uint64_t>(address);
    map->opaque[1] = static_cast<std::uint64_t>(type);
    return cu::kSuccess;
  };
}

/// How often each entry of the table was called.
namespace counted {

template <class Row, class Function>
struct Entry;
template <class Row, class... Args>
struct Entry<Row, cu::Result(Args...)> {
  static inline cu::Result (*inner)(Args...) = nullptr;
  static inline std::atomic<int> calls = 0;
  static cu::Result call(Args... args) {
    calls.fetch_add(1, std::memory_order_relaxed);
    return inner(args...);
  }
};

namespace row {
#define TEGULA_DRIVER(member, symbol, since, feature, params) struct member;
#include "runtime/driver.def"
#undef TEGULA_DRIVER
}  // namespace row

/// Puts the counters before what the table has now.
inline void install(Driver& d) {
#define TEGULA_DRIVER(member, symbol, since, feature, params) \
  Entry<row::member, cu::Result params>::inner = d.member;    \
  Entry<row::member, cu::Result params>::calls = 0;           \
  d.member = &Entry<row::member, cu::Result params>::call;
#include "runtime/driver.def"
#undef TEGULA_DRIVER
}

}  // namespace counted

/// Returns the calls since the last query, by the driver's names, without those never made.
inline std::map<std::string, int> take_calls() {
  std::map<std::string, int> made;
  const auto add = [&](const char* symbol, std::atomic<int>& calls) {
    if (const int n = calls.exchange(0)) made[symbol] = n;
  };
#define TEGULA_DRIVER(member, symbol, since, feature, params) \
  add(symbol, counted::Entry<counted::row::member, cu::Result params>::calls);
#include "runtime/driver.def"
#undef TEGULA_DRIVER
  return made;
}

/// Installs the mock for one test and resets its books.
class MockDriver {
 public:
  MockDriver() {
    mock() = MockState();
    mock_devices(table);
    mock_memory(table);
    mock_capture(table);
    mock_kernels(table);
    counted::install(table);
    table.version = 13000;
    table.missing = {{"cuDeviceGetUuid", "device identities", 11040}};
    installed_ = std::make_unique<ScopedDriver>(table);
  }
  ~MockDriver() { mock_next_graph(); }
  MockDriver(const MockDriver&) = delete;
  MockDriver& operator=(const MockDriver&) = delete;

  // Device facts are remembered by the table's address, so a table is never used twice.
  Driver& table = next_table();

 private:
  static Driver& next_table() {
    static std::vector<std::unique_ptr<Driver>> all;
    return *all.emplace_back(std::make_unique<Driver>(Driver::unavailable()));
  }
  std::unique_ptr<ScopedDriver> installed_;
};

}  // namespace tegula::runtime::testing
