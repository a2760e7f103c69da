#include "runtime/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "support/errors.h"

extern char**
    environ;  // NOLINT(readability-redundant-declaration): POSIX wants the program to declare it

namespace tegula::runtime {
namespace {

[[noreturn]] void throw_errno(const char* call) {
  throw DeviceError(diagnostic(ErrorId::driver_call, {}, {}, call, std::strerror(errno),
                               "free memory, files and processes of this machine"),
                    errno, {});
}

void write_all(int descriptor, std::span<const char> content) {
  while (!content.empty()) {
    const ssize_t n = ::write(descriptor, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno("write");
    content = content.subspan(static_cast<std::size_t>(n));
  }
}

struct Pipe {
  std::array<int, 2> end{-1, -1};
  Pipe() {
    if (::pipe2(end.data(), O_CLOEXEC) != 0) throw_errno("pipe2");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(std::size_t i) {
    if (end[i] >= 0) ::close(end[i]);
    end[i] = -1;
  }
};

struct FileActions {
  posix_spawn_file_actions_t actions;
  FileActions() { ::posix_spawn_file_actions_init(&actions); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions); }
};

/// Reads until the child closes its output or the deadline passes; returns true at the end of the
/// output.
bool drain(int descriptor, std::chrono::steady_clock::time_point deadline, std::string& output) {
  std::array<char, 16384> chunk{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{descriptor, POLLIN, 0};
    const int n =
        ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1 << 30)));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    const ssize_t got = ::read(descriptor, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    output.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

MemoryFile::MemoryFile(const char* label, std::span<const char> content)
    : descriptor_(::memfd_create(label, MFD_CLOEXEC)) {
  if (descriptor_ < 0) throw_errno("memfd_create");
  write_all(descriptor_, content);
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

std::vector<char> MemoryFile::read_all() const {
  const off_t size = ::lseek(descriptor_, 0, SEEK_END);
  std::vector<char> content(static_cast<std::size_t>(std::max<off_t>(size, 0)));
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::pread(descriptor_, content.data() + done, content.size() - done,
                              static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_errno("pread");
    done += static_cast<std::size_t>(n);
  }
  return content;
}

std::string ProcessResult::how_it_ended() const {
  if (timed_out) return "no answer within its time limit";
  if (signal != 0) return fmt::format("signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit code {}", exit_code);
}

ProcessResult run_process(const std::vector<std::string>& argv,
                          std::span<const MemoryFile* const> inherited,
                          std::chrono::milliseconds limit) {
  Pipe pipe;
  FileActions spawn;
  ::posix_spawn_file_actions_addopen(&spawn.actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&spawn.actions, pipe.end[1], 1);
  ::posix_spawn_file_actions_adddup2(&spawn.actions, pipe.end[1], 2);
  // Duplicating a descriptor onto itself clears its close-on-exec flag in the child only.
  for (const MemoryFile* file : inherited)
    ::posix_spawn_file_actions_adddup2(&spawn.actions, file->descriptor(), file->descriptor());

  std::vector<char*> arguments;
  for (const std::string& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int fault =
      ::posix_spawn(&child, argv[0].c_str(), &spawn.actions, nullptr, arguments.data(), environ);
  if (fault != 0)
    throw DeviceError(diagnostic(ErrorId::file_access, {}, {}, "start", argv[0],
                                 std::strerror(fault), "check the path and its permissions"),
                      fault, {});
  pipe.close_end(1);

  ProcessResult result;
  const bool finished = drain(pipe.end[0], std::chrono::steady_clock::now() + limit, result.output);
  if (!finished) {
    result.timed_out = true;
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && !result.timed_out) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace tegula::runtime
