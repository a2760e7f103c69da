#pragma once
// The process that runs candidates, as seen from the tuner. It is killed if it hangs.
#include <sys/types.h>

#include <filesystem>
#include <memory>

#include "autotune/worker/channel.h"

namespace tegula::autotune {

/// Returns the path of the worker program: tegula/tegula-worker in the folder of the library.
std::filesystem::path worker_program();

class WorkerProcess {
 public:
  /// Starts the program. Throws DeviceError if that is not possible.
  explicit WorkerProcess(const std::filesystem::path& program);
  /// Kills the process.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  /// Sends a request without waiting for the answer.
  void send(const WorkerMessage& request, Deadline deadline);
  /// Returns the answer to the oldest request. Throws WorkerLost with the exit status if the
  /// process ended, and Error with the text of an error answer.
  WorkerMessage receive(Deadline deadline);

 private:
  template <class F>
  auto guarded(const F& f);
  std::string how_it_ended();

  pid_t child_ = -1;
  std::unique_ptr<Channel> channel_;
};

}  // namespace tegula::autotune
