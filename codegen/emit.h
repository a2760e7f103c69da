#pragma once
// The third verb: a kernel in simt form becomes PTX (through LLVM) or CUDA C++ (for NVRTC).
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace tegula::codegen {

struct EmitOptions {
  /// Emit line tables, so that profilers show the DSL's C++ lines.
  bool lineinfo = false;
  /// Also return the LLVM IR text (costs time).
  bool keep_source = false;
};

struct Emitted {
  std::string source;  ///< LLVM IR (if kept) or CUDA C++
  std::string ptx;     ///< empty for CUDA C++
  double build_ms = 0, optimize_ms = 0, codegen_ms = 0;
};

/// Emits PTX by LLVM. Opens libtegula_llvm.so on the first call. Throws DeviceError where that
/// library is missing and InternalError where the emitter fails.
Emitted emit_llvm(const ir::Kernel& kernel, const EmitOptions& options = {});

/// Search path for libtegula_llvm.so: TEGULA_LLVM alone if it is set; else beside this library,
/// then by its plain name, which the loader searches.
std::vector<std::string> llvm_module_places();

/// Ends the names of kernels in CUDA C++, so that a kernel may be called as a function of CUDA is.
inline constexpr std::string_view kCudaNameSuffix = "_kernel";

/// Emits CUDA C++ without any include, for NVRTC with -fmad=false.
Emitted emit_cuda(const ir::Kernel& kernel, const EmitOptions& options = {});

}  // namespace tegula::codegen
