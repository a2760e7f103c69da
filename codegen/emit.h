#pragma once
// Emission: a kernel in simt form becomes PTX (through LLVM) or CUDA C++ (for NVRTC).
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace tegula::codegen {

struct EmitOptions {
  /// Emit line tables, so that profilers show the C++ lines of the kernel's source.
  bool lineinfo = false;
  /// Also return the LLVM IR text (costs time).
  bool keep_source = false;
};

struct Emitted {
  std::string source;  ///< LLVM IR (if kept) or CUDA C++
  std::string ptx;     ///< empty for CUDA C++
  double build_ms = 0, optimize_ms = 0, codegen_ms = 0;
};

/// Emits PTX through LLVM. Opens libtegula_llvm.so on the first call. Throws DeviceError if that
/// library is missing and InternalError if the emitter fails.
Emitted emit_llvm(const ir::Kernel& kernel, const EmitOptions& options = {});

/// Search path for libtegula_llvm.so: only TEGULA_LLVM if it is set; otherwise next to this
/// library, then by its plain name through the loader's search path.
std::vector<std::string> llvm_module_places();

/// Suffix of kernel names in CUDA C++, so that a kernel may have the name of a CUDA function.
inline constexpr std::string_view kCudaNameSuffix = "_kernel";

/// Emits CUDA C++ without includes, for NVRTC with -fmad=false.
Emitted emit_cuda(const ir::Kernel& kernel, const EmitOptions& options = {});

}  // namespace tegula::codegen
