#pragma once
#include <memory>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"

namespace tegula {

/// A point in a stream's queue, for measuring the time between two of them and for waiting. Copies
/// refer to the same event; recording it again moves it.
class Event {
 public:
  /// Creates an event for the streams of a device. Throws DeviceError if the driver fails.
  explicit Event(Device device = Device::best(), Loc at = std::source_location::current());

  Device device() const { return device_; }
  /// Places the event after all work queued on the stream so far. Throws DeviceError for a stream
  /// of another device.
  void record(const Stream& stream, Loc at = std::source_location::current());
  /// Returns true if all work before the event is done, or if it was never recorded.
  bool is_done(Loc at = std::source_location::current()) const;
  /// Waits until that work is done. Throws DeviceError if the work failed.
  void synchronize(Loc at = std::source_location::current()) const;
  /// Returns the milliseconds from another event of the device to this one, after waiting for both.
  /// On the host that is the time between the calls of `record`. Throws DeviceError if either event
  /// was never recorded.
  double ms_since(const Event& start, Loc at = std::source_location::current()) const;

 private:
  struct State;
  Device device_;
  std::shared_ptr<State> state_;
};

}  // namespace tegula
