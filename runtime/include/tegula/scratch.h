#pragma once
#include <cstddef>
#include <mutex>

#include "tegula/stream.h"
#include "tegula/tensor.h"

namespace tegula {

/// Tensors of one call of several kernels, consecutive in the workspace of the stream or of the
/// graph that it records, and counters. On the host each tensor has its own memory.
class Scratch {
 public:
  /// `bytes` is the total of `bytes_of` over all tensors that will be taken.
  Scratch(const Stream& stream, Device device, std::size_t bytes);
  /// Returns a row-major tensor, aligned to 256 bytes on a GPU; its contents are undefined.
  Tensor take(const Dims& shape, DType dtype);
  static std::size_t bytes_of(const Dims& shape, DType dtype);
  /// Returns u32 flags that are 0, for a launch that sets some for the next one, which resets them.
  static Tensor fallback_flags(const Stream& stream);
  static constexpr int kFallbackWords = 64;
  /// For launches that leave data for later ones in memory of the stream: while the lock is held,
  /// no other thread that takes this lock launches on the stream.
  static std::unique_lock<std::mutex> lock(const Stream& stream);
  /// Returns u32 counters [count] that are 0, for a launch that leaves them 0.
  static Tensor counters(const Stream& stream, std::size_t count);

 private:
  Device device_;
  std::byte* next_ = nullptr;
};

/// During its lifetime, this thread queries the driver once per stream until it uses another
/// stream. For one call of the library, during which no stream begins to record. Scopes nest.
class StreamScope {
 public:
  StreamScope();
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
};

}  // namespace tegula
