#pragma once
// The process that runs candidates, seen from the tuner: started, asked, killed where it hangs.
#include <sys/types.h>

#include <filesystem>
#include <memory>

#include "autotune/worker/channel.h"

namespace tegula::autotune {

/// The worker that is installed with the library: beside it, in the folder `tegula`.
std::filesystem::path worker_program();

class WorkerProcess {
 public:
  /// Starts the program. Throws DeviceError where that is not possible.
  explicit WorkerProcess(const std::filesystem::path& program);
  /// Kills it.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Sends a request without waiting for its answer.
  void send(const WorkerMessage& request, Deadline deadline);
  /// The answer to the oldest request. Throws WorkerLost, saying how the process ended where it
  /// has, and Error with the text of an answer that is one.
  WorkerMessage receive(Deadline deadline);

 private:
  template <class F>
  auto guarded(const F& f);
  std::string how_it_ended();

  pid_t child_ = -1;
  std::unique_ptr<Channel> channel_;
};

}  // namespace tegula::autotune
