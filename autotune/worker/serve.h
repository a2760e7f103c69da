#pragma once
// The worker's side: runs the candidates of a tuner in a process that may hang and fault.
namespace tegula::autotune {

/// File descriptor of the worker's socket.
inline constexpr int kWorkerDescriptor = 3;

/// Answers requests until the tuner closes the connection; returns the exit code of the process.
/// The process dies with the tuner, even if a kernel hangs.
int serve_tuner(int descriptor = kWorkerDescriptor);

}  // namespace tegula::autotune
