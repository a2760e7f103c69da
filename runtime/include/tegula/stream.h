#pragma once
#include <memory>
#include <source_location>

#include "tegula/device.h"
#include "tegula/location.h"

namespace tegula {

/// An ordered queue of work on one device. On `cpu` and `sim` all work is done before a call
/// returns, so a stream there is only a name. Copies of a Stream mean the same queue.
class Stream {
 public:
  /// Refers to the default queue of `Device::best()`.
  Stream();
  /// Refers to the default queue of a device: the driver's legacy stream on a GPU.
  explicit Stream(Device device);

  /// Wraps a CUstream (or cudaStream_t) that the caller keeps alive, e.g. PyTorch's current
  /// stream.
  static Stream wrap(void* cu_stream, Device device = Device::cuda(0),
                     Loc at = std::source_location::current());
  /// Creates a queue that does not wait for the legacy stream; it is destroyed with the last copy
  /// of the Stream.
  static Stream create(Device device, Loc at = std::source_location::current());

  Device device() const { return device_; }
  /// Returns the CUstream, or null for the default queue and on the host.
  void* handle() const { return handle_; }

  /// Waits until everything queued so far is done. Throws DeviceError if work failed, or while
  /// capturing.
  void synchronize(Loc at = std::source_location::current()) const;
  /// Returns true while the queue records a CUDA graph instead of running. The graph then owns the
  /// scratch memory and counters of its kernels: it may be replayed on any queue, but two instances
  /// of one graph, or two clones as child graphs, must not run at once.
  bool capturing() const;

  friend bool operator==(const Stream& a, const Stream& b) {
    return a.device_ == b.device_ && a.handle_ == b.handle_;
  }

 private:
  Device device_;
  void* handle_ = nullptr;
  std::shared_ptr<void> owned_;
};

}  // namespace tegula
