#pragma once
// Messages between a tuner and its worker process, over a stream socket. Each has a header with
// checksums, so that a sender that dies or writes garbage is noticed before anything is believed.
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tegula::autotune {

struct WorkerMessage {
  nlohmann::json fields;
  std::string blob;  ///< a compiled kernel, or the bytes of a tensor
};

/// The other side is gone, silent, or does not speak this protocol.
struct WorkerLost {
  std::string why;
  bool timed_out = false;
};

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

class Channel {
 public:
  /// Owns the descriptor.
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Throw WorkerLost, at the deadline with `timed_out`.
  void send(const WorkerMessage& message, Deadline deadline);
  WorkerMessage receive(Deadline deadline);

 private:
  void send_bytes(const char* data, std::size_t bytes, Deadline deadline);
  void receive_bytes(char* data, std::size_t bytes, Deadline deadline, bool may_end);

  int descriptor_;
};

}  // namespace tegula::autotune
