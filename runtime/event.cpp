#include "tegula/event.h"

#include <fmt/format.h>

#include <chrono>

#include "runtime/context.h"
#include "runtime/place_of_call.h"
#include "support/errors.h"

namespace tegula {

using runtime::check;
using runtime::driver;
namespace cu = runtime::cu;

/// The driver's event, or a time on the host.
struct Event::State {
  cu::Event event = nullptr;
  bool is_recorded = false;
  std::chrono::steady_clock::time_point time;

  ~State() {
    // At process exit the driver may be unloaded already, which destroys its events.
    if (const runtime::Driver* table = event ? runtime::try_driver() : nullptr)
      table->event_destroy(event);
  }
};

Event::Event(Device device, Loc at) : device_(device), state_(std::make_shared<State>()) {
  if (device.on_host()) return;
  const runtime::PlaceOfCall here(at);
  const runtime::ContextScope scope(device.index);
  check(driver().event_create(&state_->event, cu::kEventDefault), "cuEventCreate");
}

void Event::record(const Stream& stream, Loc at) {
  if (stream.device() != device_)
    throw DeviceError(diagnostic(ErrorId::device_mismatch, at, {}, "Event::record", "the event",
                                 device_.str(), "the stream", stream.device().str(),
                                 "an event and a stream"));
  state_->is_recorded = true;
  if (device_.on_host()) {
    state_->time = std::chrono::steady_clock::now();
    return;
  }
  const runtime::PlaceOfCall here(at);
  const runtime::ContextScope scope(device_.index);
  check(driver().event_record(state_->event, static_cast<cu::Stream>(stream.handle())),
        "cuEventRecord");
}

bool Event::is_done(Loc at) const {
  if (device_.on_host()) return true;
  const runtime::PlaceOfCall here(at);
  const runtime::ContextScope scope(device_.index);
  const cu::Result result = driver().event_query(state_->event);
  if (result == cu::kErrorNotReady) return false;
  check(result, "cuEventQuery");
  return true;
}

void Event::synchronize(Loc at) const {
  if (device_.on_host()) return;
  const runtime::PlaceOfCall here(at);
  const runtime::ContextScope scope(device_.index);
  check(driver().event_synchronize(state_->event), "cuEventSynchronize");
}

double Event::ms_since(const Event& start, Loc at) const {
  if (start.device_ != device_)
    throw DeviceError(diagnostic(ErrorId::device_mismatch, at, {}, "Event::ms_since",
                                 "the first event", start.device_.str(), "the second",
                                 device_.str(), "events"));
  if (!state_->is_recorded || !start.state_->is_recorded)
    throw DeviceError(diagnostic(ErrorId::event_unrecorded, at, {}));
  if (device_.on_host())
    return std::chrono::duration<double, std::milli>(state_->time - start.state_->time).count();
  const runtime::PlaceOfCall here(at);
  start.synchronize();
  synchronize();
  const runtime::ContextScope scope(device_.index);
  float ms = 0;
  check(driver().event_elapsed(&ms, start.state_->event, state_->event), "cuEventElapsedTime");
  return ms;
}

}  // namespace tegula
