#pragma once
// The worker's side: runs what a tuner sends, in a process that may hang and fault.
namespace tegula::autotune {

/// The descriptor at which a worker finds its socket.
inline constexpr int kWorkerDescriptor = 3;

/// Answers requests until the tuner closes the connection; the exit code of the process. It dies
/// with the tuner, even where a kernel hangs.
int serve_tuner(int descriptor = kWorkerDescriptor);

}  // namespace tegula::autotune
