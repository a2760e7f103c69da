#include "autotune/worker/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "autotune/worker/serve.h"
#include "runtime/shared_library.h"
#include "runtime/subprocess.h"
#include "support/errors.h"

extern char**
    environ;  // NOLINT(readability-redundant-declaration): POSIX wants the program to declare it

namespace tegula::autotune {
namespace {

constexpr std::chrono::milliseconds kPatienceToEnd{500};  // wait after the connection closes

/// Starts the program with the socket as kWorkerDescriptor and without output.
pid_t start(const std::filesystem::path& program, int socket) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, socket, kWorkerDescriptor);
  for (const int standard : {0, 1, 2})
    ::posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  std::string name = program.string();
  std::array<char*, 2> argv{name.data(), nullptr};
  pid_t child = -1;
  const int fault = ::posix_spawn(&child, name.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (fault != 0)
    throw DeviceError(diagnostic(ErrorId::file_access, {}, {}, "start", name, std::strerror(fault),
                                 "set TEGULA_TUNE_WORKER to tegula-worker, or to off"),
                      fault, {});
  return child;
}

}  // namespace

std::filesystem::path worker_program() {
  const std::filesystem::path library =
      runtime::file_of(reinterpret_cast<const void*>(&worker_program));
  return library.parent_path() / "tegula" / "tegula-worker";
}

WorkerProcess::WorkerProcess(const std::filesystem::path& program) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw DeviceError(diagnostic(ErrorId::driver_call, {}, {}, "socketpair", std::strerror(errno),
                                 "close some files of this process"),
                      errno, {});
  channel_ = std::make_unique<Channel>(ends[0]);
  const std::unique_ptr<Channel> of_child = std::make_unique<Channel>(ends[1]);
  child_ = start(program, ends[1]);
}

WorkerProcess::~WorkerProcess() {
  channel_ = nullptr;
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

/// Returns how the process ended; empty if it is still running.
std::string WorkerProcess::how_it_ended() {
  const Deadline end = std::chrono::steady_clock::now() + kPatienceToEnd;
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(child_, &status, WNOHANG)) == 0 &&
         std::chrono::steady_clock::now() < end)
    ::usleep(1000);
  if (ended != child_) return {};
  child_ = -1;
  runtime::ProcessResult result;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result.how_it_ended();
}

template <class F>
auto WorkerProcess::guarded(const F& f) {
  try {
    return f();
  } catch (WorkerLost& lost) {
    if (!lost.timed_out)
      if (const std::string how = how_it_ended(); !how.empty()) lost.why = how;
    throw;
  }
}

void WorkerProcess::send(const WorkerMessage& request, Deadline deadline) {
  guarded([&] { channel_->send(request, deadline); });
}

WorkerMessage WorkerProcess::receive(Deadline deadline) {
  WorkerMessage answer = guarded([&] { return channel_->receive(deadline); });
  if (const auto error = answer.fields.find("error"); error != answer.fields.end())
    throw DeviceError(diagnostic(ErrorId::measuring, {}, {},
                                 "in the worker process: " + error->get<std::string>(),
                                 "TEGULA_TUNE_WORKER=off measures in this process"));
  return answer;
}

}  // namespace tegula::autotune
