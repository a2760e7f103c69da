// The only function that libtegula_llvm.so exports. No C++ exception crosses it: the two libraries
// contain separate copies of libstdc++.
#include <chrono>
#include <exception>
#include <string>
#include <string_view>

#include "codegen/llvm/module.h"

namespace {
/// Returns the message without the prefix of InternalError, which the caller adds again.
std::string message_of(const std::exception& e) {
  constexpr std::string_view kPrefix = "internal error: ";
  const std::string_view text = e.what();
  return std::string(text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text);
}
}  // namespace

/// Returns 0 and fills `out`, or returns 1 and sets `error` to the message.
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
    llvm_backend::write_ptx(*module, kernel->info.target.name(), *options, *out);
    return 0;
  } catch (const std::exception& e) {
    *error = message_of(e);
  } catch (...) {
    *error = "unknown exception";
  }
  return 1;
}
