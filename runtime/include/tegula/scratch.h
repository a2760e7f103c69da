#pragma once
#include <cstddef>
#include <mutex>

#include "tegula/stream.h"
#include "tegula/tensor.h"

namespace tegula {

/// Tensors for the length of a call of several kernels, one behind the other in the workspace of
/// the stream or of the graph that it records, and counters; on the host each in memory of its own.
class Scratch {
 public:
  /// `bytes`: the sum of `bytes_of` all that will be taken.
  Scratch(const Stream& stream, Device device, std::size_t bytes);
  /// Row-major, at a multiple of 256 bytes on a GPU; its contents are undefined.
  Tensor take(const Dims& shape, DType dtype);
  static std::size_t bytes_of(const Dims& shape, DType dtype);
  /// Marks of u32 that are 0, for a launch that leaves some to the next one, which sets them back.
  static Tensor fallback_flags(const Stream& stream);
  static constexpr int kFallbackWords = 64;
  /// For such launches: while it is held, no other thread that asks for it, too, launches on the
  /// stream.
  static std::unique_lock<std::mutex> lock(const Stream& stream);
  /// Counters [count] of u32 that are 0, for a launch that leaves them 0.
  static Tensor counters(const Stream& stream, std::size_t count);

 private:
  Device device_;
  std::byte* next_ = nullptr;
};

/// While alive, this thread asks the driver once about the last stream that it asks about: of one
/// call of the library, during which no stream begins to record. Scopes nest.
class StreamScope {
 public:
  StreamScope();
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
};

}  // namespace tegula
