// The calling convention of TVM-FFI (apache/tvm-ffi, c_api.h) without its library: the functions
// that a callee needs are looked up in the process, which contains them if TVM-FFI made the call.
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <memory_resource>
#include <vector>

#include "dsl/export/exported.h"
#include "dsl/export/failure.h"
#include "dsl/export/run.h"
#include "support/errors.h"

namespace tegula {
namespace {

static_assert(sizeof(TegulaFfiAny) == 16 && offsetof(TegulaFfiAny, zero_padding) == 4 &&
              offsetof(TegulaFfiAny, value) == 8);

/// TVMFFITypeIndex.
enum FfiType : std::int32_t {
  ffi_none = 0,
  ffi_int = 1,
  ffi_bool = 2,
  ffi_float = 3,
  ffi_opaque_pointer = 4,
  ffi_dltensor_pointer = 7,
  ffi_tensor = 70,
};
constexpr std::size_t kObjectHeaderBytes = 24;  ///< precede a tensor object's DLTensor

constexpr int kRaised = -1;  ///< the runtime stores this thread's error

/// Functions of TVM-FFI's runtime; null if the process does not contain it.
struct FfiRuntime {
  void* (*get_stream)(std::int32_t device_type, std::int32_t device_id);
  void (*raise)(const char* kind, const char* message);
};

const FfiRuntime& ffi_runtime() {
  static const FfiRuntime runtime{reinterpret_cast<decltype(FfiRuntime::get_stream)>(
                                      ::dlsym(RTLD_DEFAULT, "TVMFFIEnvGetStream")),
                                  reinterpret_cast<decltype(FfiRuntime::raise)>(
                                      ::dlsym(RTLD_DEFAULT, "TVMFFIErrorSetRaisedFromCStr"))};
  return runtime;
}

TegulaArg argument(const detail::Exported& callee, std::size_t position, const TegulaFfiAny& any) {
  switch (any.type_index) {
    case ffi_none:
      return {TEGULA_NONE, 0, {}};
    case ffi_int:
    case ffi_bool:
      return {TEGULA_INT, 0, {.i = any.value.i}};
    case ffi_float:
      return {TEGULA_FLOAT, 0, {.f = any.value.f}};
    case ffi_opaque_pointer:
      return {TEGULA_POINTER, 0, {.pointer = any.value.pointer}};
    case ffi_dltensor_pointer:
      return {TEGULA_TENSOR, 0, {.tensor = static_cast<const DLTensor*>(any.value.pointer)}};
    case ffi_tensor: {
      const auto* object = static_cast<const std::byte*>(any.value.pointer);
      return {TEGULA_TENSOR,
              0,
              {.tensor = reinterpret_cast<const DLTensor*>(object + kObjectHeaderBytes)}};
    }
  }
  const auto& params = callee.callable().params;
  const std::string name =
      position < params.size() ? params[position].name : fmt::format("{}", position);
  fail(ErrorId::export_ffi_type, callee.loc(), {},
       fmt::format("argument {} of {}", name, callee.name()), any.type_index);
}

/// Returns Python's exception class for the last error.
const char* python_kind(const TegulaError& error) {
  if (std::string_view(error.text).starts_with("T1811")) return "TypeError";
  return error.code == TEGULA_ARGUMENT ? "ValueError" : "RuntimeError";
}

void raise_last() noexcept {
  if (!ffi_runtime().raise) return;  // tegula_last_error returns it
  const TegulaError& e = *c::last_error();
  try {
    std::string text = e.text;
    if (*e.hint) text += fmt::format("\nhint: {}", e.hint);
    if (*e.where) text += fmt::format("\nat {}", e.where);
    ffi_runtime().raise(python_kind(e), text.c_str());
  } catch (...) {
    ffi_runtime().raise(python_kind(e), e.text);
  }
}

}  // namespace

int detail::Exported::tvm_ffi(const TegulaFfiAny* args, std::int32_t count) const noexcept {
  const TegulaCode code = c::guarded([&] {
    std::array<std::byte, 1024> room;
    std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
    std::pmr::vector<TegulaArg> converted(&memory);
    converted.reserve(static_cast<std::size_t>(count));
    for (std::int32_t i = 0; i < count; ++i)
      converted.push_back(argument(*this, converted.size(), args[i]));
    c::run(*this, converted, [](Device device) {
      const auto get_stream = ffi_runtime().get_stream;
      return get_stream ? get_stream(kDLCUDA, device.index) : nullptr;
    });
  });
  if (code == TEGULA_OK) return 0;
  raise_last();
  return kRaised;
}

}  // namespace tegula
