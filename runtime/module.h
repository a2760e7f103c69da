#pragma once
// Machine code in the driver: libraries, kernels and what they need.
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
  int max_threads = 0;  ///< threads of a block, given its registers
};

/// Attributes of a kernel beyond the defaults; set once, when it is first taken.
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
/// is kept to the end of the process, by the driver, too: a CUDA graph may hold its kernels longer
/// than anybody holds the module, and unloading breaks a capture in progress.
class Module : public std::enable_shared_from_this<Module> {
 public:
  /// The bytes are copied. Throws DeviceError where no GPU of this machine takes the cubin.
  static std::shared_ptr<Module> load_cubin(std::span<const char> cubin);
  /// Has the driver compile PTX: the way without ptxas. `context_ordinal` is the GPU to compile
  /// for. Throws DeviceError where the driver is older than the PTX, InternalError where it refuses
  /// the PTX.
  static std::shared_ptr<Module> load_ptx(std::string ptx, int context_ordinal);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The kernel called `name` on GPU `ordinal`, loaded to the end: a first launch does no more work
  /// than a later one. Calls with larger needs raise those of earlier ones.
  LoadedKernel kernel(const std::string& name, int ordinal, const KernelNeeds& needs) const;

  /// Messages of the driver's compiler; empty for a cubin, and for PTX that the driver found
  /// compiled in its own cache. Complete once a kernel was taken.
  std::string compiler_log() const;
  /// The log, read. Where it is silent, registers, stack and shared memory are those of the kernels
  /// taken so far, as the driver tells them.
  AssembleReport report() const;

 private:
  Module() = default;
  struct Entry {
    LoadedKernel kernel;  // without `module`, which would keep itself alive
    KernelNeeds needs;
  };

  cu::Library library_ = nullptr;
  std::vector<char> image_;
  // The driver may compile as late as the first use of a kernel, so what it writes to lives as long
  // as the library.
  std::vector<char> info_log_, error_log_;
  std::array<cu::JitOption, 5> jit_options_{};
  std::array<void*, 5> jit_values_{};
  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::string, int>, Entry> kernels_;
};

}  // namespace tegula::runtime
