#pragma once
// Messages between a tuner and its worker process, over a stream socket. Each message has a header
// with checksums, so that garbage from a failing sender is detected before it is used.
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tegula::autotune {

struct WorkerMessage {
  nlohmann::json fields;
  std::string blob;  ///< a compiled kernel, or the bytes of a tensor
};

/// The peer has exited, does not respond or does not speak this protocol.
struct WorkerLost {
  std::string why;
  bool timed_out = false;
};

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

class Channel {
 public:
  /// Takes ownership of the descriptor.
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Both throw WorkerLost, with `timed_out` at the deadline.
  void send(const WorkerMessage& message, Deadline deadline);
  WorkerMessage receive(Deadline deadline);

 private:
  void send_bytes(const char* data, std::size_t bytes, Deadline deadline);
  void receive_bytes(char* data, std::size_t bytes, Deadline deadline, bool may_end);

  int descriptor_;
};

}  // namespace tegula::autotune
