// The one function libtegula_llvm.so shows. No C++ exception crosses it: the two libraries carry
// their own libstdc++.
#include <chrono>
#include <exception>

#include "codegen/llvm/module.h"

/// 0: `out` is filled. 1: `error` says what went wrong.
extern "C" int tegula_llvm_emit(const tegula::ir::Kernel* kernel,
                                const tegula::codegen::EmitOptions* options,
                                tegula::codegen::Emitted* out, std::string* error) noexcept {
  using namespace tegula::codegen;
  try {
    const auto start = std::chrono::steady_clock::now();
    llvm::LLVMContext context;
    const auto module = llvm_backend::build_module(*kernel, context, options->lineinfo);
    out->build_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    llvm_backend::write_ptx(*module, kernel->info.target, *options, *out);
    return 0;
  } catch (const std::exception& e) {
    *error = e.what();
  } catch (...) {
    *error = "unknown exception";
  }
  return 1;
}
