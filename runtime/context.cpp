#include "runtime/context.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <list>
#include <mutex>
#include <utility>

#include "runtime/described_gpu.h"
#include "support/errors.h"

namespace tegula::runtime {
namespace {

constexpr int kMaxDevices = 64;

struct Gpu {
  std::once_flag read, retained;
  DeviceProperties properties;
  cu::Context context = nullptr;
};

/// Properties of each GPU, per driver table, so that tests may use their own tables.
struct Gpus {
  const Driver* owner = nullptr;
  std::atomic<int> count = 0;  ///< as the driver last reported it
  std::array<Gpu, kMaxDevices> gpu;
};

std::mutex g_gpus_mutex;

/// GPUs of the driver table that was used last, so that using it again takes no lock.
std::atomic<Gpus*> g_latest{nullptr};

/// Properties set by describe_gpu(); null if the driver's properties apply.
std::atomic<const DeviceProperties*> g_described{nullptr};

Gpus& gpus_of(const Driver& table) {
  if (Gpus* latest = g_latest.load(std::memory_order_acquire); latest && latest->owner == &table)
    return *latest;
  // Leaked: a GPU may still be in use when static destructors run. Tests create one or two tables
  // each.
  static auto* known = new std::vector<Gpus*>();
  const std::lock_guard lock(g_gpus_mutex);
  for (Gpus* gpus : *known)
    if (gpus->owner == &table) {
      g_latest.store(gpus, std::memory_order_release);
      return *gpus;
    }
  known->push_back(new Gpus());
  known->back()->owner = &table;
  g_latest.store(known->back(), std::memory_order_release);
  return *known->back();
}

}  // namespace

std::string devices_text(int gpus) {
  if (gpus == 0) return "cpu and sim; the CUDA driver lists no GPU";
  if (gpus == 1) return "cpu, sim and cuda:0";
  return fmt::format("cpu, sim and cuda:0 to cuda:{}", gpus - 1);
}

namespace {

Gpu& gpu_at(int ordinal) {
  const Driver& table = driver();
  Gpus& gpus = gpus_of(table);
  int count = gpus.count.load(std::memory_order_relaxed);
  if (ordinal >= 0 && ordinal < count && ordinal < kMaxDevices) [[likely]]
    return gpus.gpu[static_cast<std::size_t>(ordinal)];
  check(table.device_count(&count), "cuDeviceGetCount");
  gpus.count.store(count, std::memory_order_relaxed);
  if (ordinal < 0 || ordinal >= count || ordinal >= kMaxDevices)
    throw DeviceError(diagnostic(ErrorId::unknown_device, {}, {}, fmt::format("cuda:{}", ordinal),
                                 devices_text(std::min(count, kMaxDevices))),
                      cu::kErrorInvalidDevice, "CUDA_ERROR_INVALID_DEVICE");
  return gpus.gpu[static_cast<std::size_t>(ordinal)];
}

int attribute(const Driver& table, cu::DeviceAttribute which, cu::Device device) {
  int value = 0;
  check(table.device_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

std::string uuid_text(const Driver& table, cu::Device device) {
  if (!table.has("cuDeviceGetUuid")) return {};
  cu::Uuid uuid{};
  check(table.device_uuid(&uuid, device), "cuDeviceGetUuid");
  std::string text;
  for (char byte : uuid.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

DeviceProperties read_properties(int ordinal) {
  const Driver& table = driver();
  cu::Device device = 0;
  check(table.device_get(&device, ordinal), "cuDeviceGet");
  const auto get = [&](cu::DeviceAttribute which) { return attribute(table, which, device); };
  DeviceProperties p;
  p.ordinal = ordinal;
  std::array<char, 256> name{};
  check(table.device_name(name.data(), static_cast<int>(name.size()), device), "cuDeviceGetName");
  p.name = name.data();
  p.uuid = uuid_text(table, device);
  p.compute_major = get(cu::kAttrComputeMajor);
  p.compute_minor = get(cu::kAttrComputeMinor);
  p.sm_count = get(cu::kAttrSmCount);
  p.max_threads_per_block = get(cu::kAttrMaxThreadsPerBlock);
  p.registers_per_sm = get(cu::kAttrRegistersPerSm);
  p.shared_bytes_per_sm = static_cast<std::size_t>(get(cu::kAttrSharedPerSm));
  p.shared_bytes_per_block = static_cast<std::size_t>(get(cu::kAttrSharedPerBlockOptin));
  p.l2_bytes = static_cast<std::size_t>(get(cu::kAttrL2Bytes));
  p.memory_bus_bits = get(cu::kAttrMemoryBusBits);
  p.clock_khz = get(cu::kAttrClockRateKhz);
  p.memory_clock_khz = get(cu::kAttrMemoryClockKhz);
  p.has_clusters = p.compute_major >= 9 && get(cu::kAttrClusterLaunch) != 0;
  check(table.device_total_memory(&p.memory_bytes, device), "cuDeviceTotalMem");
  return p;
}

/// Returns the primary context of GPU `ordinal`, retained once for the life of the process.
cu::Context primary_context(int ordinal) {
  Gpu& gpu = gpu_at(ordinal);
  std::call_once(gpu.retained, [&] {
    cu::Device device = 0;
    check(driver().device_get(&device, ordinal), "cuDeviceGet");
    check(driver().primary_retain(&gpu.context, device), "cuDevicePrimaryCtxRetain");
  });
  return gpu.context;
}

}  // namespace

int cuda_device_count() noexcept {
  const Driver* table = nullptr;
  try {
    table = try_driver();
    int count = 0;
    if (table == nullptr || table->device_count(&count) != cu::kSuccess) return 0;
    return count;
  } catch (const Error&) {
    return 0;
  }
}

void describe_gpu(DeviceProperties properties) {
  // A description is never freed: device profiles are cached by the address of their properties.
  static std::list<DeviceProperties>& described = *new std::list<DeviceProperties>();
  const std::lock_guard lock(g_gpus_mutex);
  g_described = &described.emplace_back(std::move(properties));
}

const DeviceProperties& device_properties(int ordinal) {
  if (const DeviceProperties* known = g_described.load(std::memory_order_acquire);
      known && ordinal == known->ordinal)
    return *known;
  Gpu& gpu = gpu_at(ordinal);
  std::call_once(gpu.read, [&] { gpu.properties = read_properties(ordinal); });
  return gpu.properties;
}

ir::Target default_target(Device device) {
  if (device.kind != DeviceKind::cuda) return {};
  return ir::Target::of_capability(device_properties(device.index).compute());
}

ContextScope::ContextScope(int ordinal) {
  const cu::Context wanted = primary_context(ordinal);
  cu::Context current = nullptr;
  check(driver().context_current(&current), "cuCtxGetCurrent");
  if (current == wanted) return;
  check(driver().context_push(wanted), "cuCtxPushCurrent");
  pushed_ = true;
}

ContextScope::~ContextScope() {
  if (!pushed_) return;
  cu::Context popped = nullptr;
  driver().context_pop(&popped);
}

}  // namespace tegula::runtime
