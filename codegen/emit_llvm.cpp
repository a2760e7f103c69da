// Opens libtegula_llvm.so on the first compile and calls its only function.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "codegen/emit.h"
#include "codegen/ptx/instructions.h"
#include "support/env.h"
#include "support/errors.h"

namespace tegula::codegen {
namespace {

using EmitFn = int (*)(const ir::Kernel*, const EmitOptions*, Emitted*, std::string*);
constexpr const char* kLibrary = "libtegula_llvm.so";

EmitFn open_emitter() {
  std::string tried;
  for (const std::string& path : llvm_module_places()) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      if (auto* fn = reinterpret_cast<EmitFn>(dlsym(library, "tegula_llvm_emit"))) return fn;
      tried += fmt::format("\n  {}: has no tegula_llvm_emit", path);
      continue;
    }
    tried += fmt::format("\n  {}", dlerror());
  }
  throw DeviceError(
      diagnostic(ErrorId::device_missing, {}, {},
                 fmt::format("the LLVM back end {} could not be opened:{}", kLibrary, tried),
                 "set TEGULA_LLVM to its path, or use the back end nvrtc"));
}

}  // namespace

std::vector<std::string> llvm_module_places() {
  if (!env().llvm.empty()) return {env().llvm.string()};
  std::vector<std::string> out;
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&llvm_module_places), &self) != 0 &&
      self.dli_fname != nullptr) {
    const auto folder = std::filesystem::absolute(self.dli_fname).parent_path();
    out.push_back((folder / kLibrary).string());
    out.push_back((folder / ".." / "lib" / kLibrary).lexically_normal().string());
  }
  out.emplace_back(kLibrary);
  return out;
}

Emitted emit_llvm(const ir::Kernel& kernel, const EmitOptions& options) {
  ptx::require_conversions(kernel);           // throws here: the library returns errors as text
  static const EmitFn emit = open_emitter();  // retried by the next call if it failed
  Emitted out;
  std::string error;
  if (emit(&kernel, &options, &out, &error) != 0) throw InternalError(error);
  return out;
}

}  // namespace tegula::codegen
