#include "runtime/capture.h"

#include "runtime/context.h"
#include "support/errors.h"

namespace tegula::runtime {

RelaxedCaptureScope::RelaxedCaptureScope() {
  check(driver().exchange_capture_mode(&mode_), "cuThreadExchangeStreamCaptureMode");
}
RelaxedCaptureScope::~RelaxedCaptureScope() { driver().exchange_capture_mode(&mode_); }

Capture capture_of(cu::Stream stream) {
  Capture c;
  cu::CaptureStatus status = cu::kCaptureNone;
  check(driver().capture_info(stream, &status, &c.id, &c.graph, nullptr, nullptr),
        "cuStreamGetCaptureInfo");
  if (status != cu::kCaptureActive)
    throw DeviceError(diagnostic(ErrorId::driver_call, {}, {}, "cuStreamGetCaptureInfo",
                                 "the stream records no CUDA graph, or its capture was invalidated",
                                 "begin the capture again, and queue no work in it that waits"),
                      cu::kErrorStreamCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
  return c;
}

void keep_for_graph(cu::Graph graph, void* data, cu::HostFunction release) {
  cu::UserObject object = nullptr;
  const cu::Result made =
      driver().user_object_create(&object, data, release, 1, cu::kUserObjectNoSync);
  if (made != cu::kSuccess) release(data);
  check(made, "cuUserObjectCreate");
  const cu::Result kept = driver().graph_retain(graph, object, 1, cu::kRetainMove);
  if (kept != cu::kSuccess) driver().user_object_release(object, 1);
  check(kept, "cuGraphRetainUserObject");
}

}  // namespace tegula::runtime
