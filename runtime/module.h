#pragma once
// Machine code in the driver: libraries, kernels and the attributes that they need.
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/assemble.h"
#include "runtime/driver_types.h"

namespace tegula::runtime {

/// The driver's report on a kernel on one GPU.
struct KernelResources {
  int registers = 0;
  int local_bytes = 0;  ///< stack and spills of a thread
  int static_shared_bytes = 0;
  int max_threads = 0;  ///< maximum threads of a block, given its registers
};

/// Attributes of a kernel that exceed the defaults; set when the kernel is first taken.
struct KernelNeeds {
  unsigned dynamic_shared_bytes = 0;
  bool large_cluster = false;  ///< more than 8 blocks
};

class Module;

/// A kernel ready to launch on one GPU. Keeps its module loaded.
struct LoadedKernel {
  cu::Function function = nullptr;
  int ordinal = 0;
  KernelResources resources;
  std::string name;
  std::shared_ptr<const Module> module;
};

/// One cubin, or one PTX text compiled by the driver. Independent of any context; thread-safe. It
/// stays loaded until the process ends: a CUDA graph may use its kernels after all references to
/// the module are gone, and unloading breaks a capture in progress.
class Module : public std::enable_shared_from_this<Module> {
 public:
  /// Loads a copy of the bytes. Throws DeviceError if no GPU of this machine accepts the cubin.
  static std::shared_ptr<Module> load_cubin(std::span<const char> cubin);
  /// Has the driver compile PTX, which works without ptxas. `context_ordinal` is the GPU to compile
  /// for. Throws DeviceError if the driver is older than the PTX, and InternalError if it rejects
  /// the PTX.
  static std::shared_ptr<Module> load_ptx(std::string ptx, int context_ordinal);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Returns the kernel called `name` on GPU `ordinal`, fully loaded: the first launch does not do
  /// more work than later ones. Calls with larger needs raise those of earlier ones.
  LoadedKernel kernel(const std::string& name, int ordinal, const KernelNeeds& needs) const;

  /// Returns the messages of the driver's compiler; "" for a cubin, and for PTX that the driver
  /// found in its own cache. Complete once a kernel was taken.
  std::string compiler_log() const;
  /// Returns the parsed log. If the log is empty, registers, stack and shared memory are those that
  /// the driver reports for the kernels taken so far.
  AssembleReport report() const;

 private:
  Module() = default;
  struct Entry {
    LoadedKernel kernel;  // without `module`, which would keep itself alive
    KernelNeeds needs;
  };

  cu::Library library_ = nullptr;
  std::vector<char> image_;
  // The driver may compile as late as the first use of a kernel, so its output buffers live as long
  // as the library.
  std::vector<char> info_log_, error_log_;
  std::array<cu::JitOption, 5> jit_options_{};
  std::array<void*, 5> jit_values_{};
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::string, int>, Entry> kernels_;
};

}  // namespace tegula::runtime
