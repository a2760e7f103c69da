#include "tegula/stream.h"

#include "runtime/context.h"
#include "runtime/place_of_call.h"
#include "runtime/records.h"
#include "runtime/stream_state.h"
#include "support/errors.h"

namespace tegula {

using runtime::check;
using runtime::driver;
namespace cu = runtime::cu;

Stream::Stream() : Stream(Device::best()) {}
Stream::Stream(Device device) : device_(device) {}

Stream Stream::wrap(void* cu_stream, Device device, Loc at) {
  if (device.on_host() && cu_stream != nullptr)
    throw DeviceError(diagnostic(ErrorId::device_mismatch, at, {}, "Stream::wrap",
                                 "the CUDA stream", "a GPU", "the device", device.str(),
                                 "a stream and a device"));
  Stream stream(device);
  stream.handle_ = cu_stream;
  return stream;
}

Stream Stream::create(Device device, Loc at) {
  const runtime::PlaceOfCall here(at);
  Stream stream(device);
  if (device.on_host()) return stream;
  const runtime::ContextScope scope(device.index);
  cu::Stream made = nullptr;
  check(driver().stream_create(&made, cu::kStreamNonBlocking), "cuStreamCreate");
  stream.handle_ = made;
  stream.owned_ = std::shared_ptr<void>(made, [](void* handle) {
    // When the last copy is destroyed at exit, the driver may be gone already; then there is
    // nothing left to free.
    if (const runtime::Driver* table = runtime::try_driver())
      table->stream_destroy(static_cast<cu::Stream>(handle));
  });
  return stream;
}

void Stream::synchronize(Loc at) const {
  if (device_.on_host()) return;
  const runtime::PlaceOfCall here(at);
  const runtime::ContextScope scope(device_.index);
  check(driver().stream_synchronize(static_cast<cu::Stream>(handle_)), "cuStreamSynchronize");
  runtime::read_records();
}

bool Stream::capturing() const { return runtime::is_recording(*this); }

}  // namespace tegula
