#pragma once
#include <memory>

#include "tegula/stream.h"

namespace tegula {

/// A place in a stream's queue, for the time between two of them and for waiting. Copies are the
/// same event; recording one again moves it.
class Event {
 public:
  /// An event for the streams of a device. Throws DeviceError where the driver refuses.
  explicit Event(Device device = Device::best());

  Device device() const { return device_; }
  /// Puts the event behind all that the stream has been given so far. Throws DeviceError for a
  /// stream of another device.
  void record(const Stream& stream);
  /// Whether what came before it is done; true for one that was never recorded.
  bool is_done() const;
  /// Waits for that. Throws DeviceError if work failed.
  void synchronize() const;
  /// Milliseconds from another event of the device to this one, after waiting for both. On the host
  /// that is the time between the calls of `record`. Throws DeviceError where one was never
  /// recorded.
  double ms_since(const Event& start) const;

 private:
  struct State;
  Device device_;
  std::shared_ptr<State> state_;
};

}  // namespace tegula
