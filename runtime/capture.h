#pragma once
// Streams that record graphs (CUDA Driver API, Stream Management and Graph Management).
#include "runtime/driver_types.h"

namespace tegula::runtime {

/// Lets this thread allocate, load kernels and wait for other streams, although a stream records a
/// graph: of the work that is recorded nothing depends on that.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope();
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  cu::CaptureMode mode_ = cu::kCaptureRelaxed;  ///< the one to exchange with
};

struct Capture {
  unsigned long long id = 0;  ///< differs from those of other captures in this process
  cu::Graph graph = nullptr;
};

/// The capture that `stream` records. Throws DeviceError if it records nothing or the capture is
/// invalid.
Capture capture_of(cu::Stream stream);

/// Has `release` called with `data` when the graph, and what was made of it, is gone: on a thread
/// of the driver's, where it must not call the driver. It is called as well where this throws.
void keep_for_graph(cu::Graph graph, void* data, cu::HostFunction release);

}  // namespace tegula::runtime
