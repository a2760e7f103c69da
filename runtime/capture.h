#pragma once
// Streams that record graphs (CUDA Driver API, Stream Management and Graph Management).
#include "runtime/driver_types.h"

namespace tegula::runtime {

/// Lets this thread allocate, load kernels and wait for other streams while a stream records a
/// graph. The recorded work does not depend on any of that.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope();
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  cu::CaptureMode mode_ = cu::kCaptureRelaxed;  ///< swapped with the thread's mode
};

struct Capture {
  unsigned long long id = 0;  ///< differs from those of other captures in this process
  cu::Graph graph = nullptr;
};

/// Returns the capture that `stream` records. Throws DeviceError if the stream does not record or
/// the capture is invalid.
Capture capture_of(cu::Stream stream);

/// Makes the driver call `release(data)` once the graph and everything instantiated from it are
/// destroyed. The call runs on a thread of the driver, so `release` must not call the driver. If
/// this function throws, `release` has been called.
void keep_for_graph(cu::Graph graph, void* data, cu::HostFunction release);

}  // namespace tegula::runtime
