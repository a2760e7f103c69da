#include "tegula/scratch.h"

#include <array>
#include <cstdint>

#include "runtime/workspace.h"

namespace tegula {

Scratch::Scratch(const Stream& stream, Device device, std::size_t bytes) : device_(device) {
  if (device.kind == DeviceKind::cuda && bytes > 0)
    next_ = runtime::acquire_workspace(stream, bytes, 0).scratch;
}

Tensor Scratch::take(const Dims& shape, DType dtype) {
  if (device_.kind != DeviceKind::cuda) return Tensor::empty(shape, dtype, device_);
  Tensor t = Tensor::borrow(next_, shape, dtype, device_);
  next_ += bytes_of(shape, dtype);
  return t;
}

std::unique_lock<std::mutex> Scratch::lock(const Stream& stream) {
  static std::array<std::mutex, 61> locks;  // streams that share a lock may wait unnecessarily
  const auto place = reinterpret_cast<std::uintptr_t>(stream.handle()) / 64 +
                     static_cast<std::uintptr_t>(stream.device().index);
  return std::unique_lock(locks[place % locks.size()]);
}

Tensor Scratch::fallback_flags(const Stream& stream) {
  static_assert(kFallbackWords == runtime::kFallbackWords);
  const Device device = stream.device();
  if (device.kind != DeviceKind::cuda) return Tensor::zeros({kFallbackWords}, DType::u32, device);
  return Tensor::borrow(runtime::acquire_fallback_flags(stream), {kFallbackWords}, DType::u32,
                        device);
}

Tensor Scratch::counters(const Stream& stream, std::size_t count) {
  const Dims shape{static_cast<std::int64_t>(count)};
  const Device device = stream.device();
  if (device.kind != DeviceKind::cuda) return Tensor::zeros(shape, DType::u32, device);
  return Tensor::borrow(runtime::acquire_counters(stream, count), shape, DType::u32, device);
}

std::size_t Scratch::bytes_of(const Dims& shape, DType dtype) {
  constexpr std::size_t kAlignment = 256;
  auto bytes = static_cast<std::size_t>(size_bytes(dtype));
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace tegula
