#pragma once
#include <tegula.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tegula/kernel.h"
#include "tegula/location.h"
#include "tegula/stream.h"

/// A value as TVM-FFI passes it: TVMFFIAny of its c_api.h.
struct TegulaFfiAny {
  std::int32_t type_index;
  std::uint32_t zero_padding;
  union {
    std::int64_t i;
    double f;
    void* pointer;
  } value;
};

namespace tegula {

/// A parameter of an exported callable.
struct ExportParam {
  detail::ParamInfo info;  ///< a number has its C++ type as `dtype`
  bool any_dtype = false;  ///< elements of any type, one for all such tensors of a call
  std::string name;
  /// Names of a tensor's dimensions, "M K", or none. A dimension may also be a number, or a name
  /// times or plus a number: "8", "M*8", "M+1".
  std::string dims = {};
};

/// A callable as the C interface sees it. `exportable(callable)`, found by argument-dependent
/// lookup, makes one: of a Kernel here, of callables of the library in tegula/kernels/export.h, and
/// of your own types where you write it.
struct Exportable {
  std::vector<ExportParam> params;
  /// Runs it with an argument for each parameter: of a tensor, `tensor`, null where it is left out;
  /// of a number, `bits`. `at` is the line of TEGULA_EXPORT.
  std::function<void(const Stream& stream, std::span<const detail::HostArg> args, Loc at)> call;
  /// The kernel that `call` launches, and nothing else, so that it can be tuned, prepared and
  /// compiled ahead of time; none for other callables.
  std::shared_ptr<dsl::KernelInstance> kernel = {};
};

namespace detail {

/// The element type whose host type is like that of a C++ constant.
template <class P>
constexpr DType constant_type() {
  if constexpr (std::is_enum_v<P>)
    return constant_type<std::underlying_type_t<P>>();
  else if constexpr (std::is_same_v<P, bool>)
    return DType::i1;
  else if constexpr (std::is_floating_point_v<P>)
    return sizeof(P) == 4 ? DType::f32 : DType::f64;
  else
    return sizeof(P) == 1        ? std::is_signed_v<P> ? DType::i8 : DType::u8
           : sizeof(P) == 2      ? std::is_signed_v<P> ? DType::i16 : DType::u16
           : sizeof(P) == 4      ? std::is_signed_v<P> ? DType::i32 : DType::u32
           : std::is_signed_v<P> ? DType::i64
                                 : DType::u64;
}

template <class P>
constexpr ParamInfo export_info() {
  ParamInfo info = ParamTraits<P>::kInfo;
  if constexpr (std::is_arithmetic_v<P> || std::is_enum_v<P>) info.dtype = constant_type<P>();
  return info;
}

/// Names and dimensions are those given by `named`; else parameters are arg0, arg1, ..
Exportable export_kernel(std::shared_ptr<dsl::KernelInstance> instance,
                         std::span<const ParamInfo> params);

}  // namespace detail

template <class... P>
Exportable exportable(const Kernel<P...>& kernel) {
  static constexpr std::array<detail::ParamInfo, sizeof...(P)> kParams{detail::export_info<P>()...};
  return detail::export_kernel(kernel.shared_instance(), kParams);
}
inline Exportable exportable(Exportable callable) { return callable; }

namespace detail {

template <class Callable>
Exportable to_export(Callable&& callable) {
  static_assert(
      requires { exportable(callable); },
      "tegula: TEGULA_EXPORT takes a Kernel, a callable of the library "
      "(tegula/kernels/export.h), or a type for which you write exportable()");
  return exportable(std::forward<Callable>(callable));
}

/// An exported callable, made at its first use. TegulaCallable is its name in C.
class Exported {
 public:
  using Make = Exportable (*)();
  Exported(const char* name, Make make,
           std::source_location at = std::source_location::current()) noexcept;
  ~Exported();
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;

  const TegulaCallable* handle() const noexcept {
    return reinterpret_cast<const TegulaCallable*>(this);
  }
  static const Exported& of(const TegulaCallable* handle) noexcept {
    return *reinterpret_cast<const Exported*>(handle);
  }
  /// Before its first use.
  void set_backward(const char* name, const char* saved) noexcept;

  /// The call by TVM-FFI's convention, which wants 0, or -1 after raising its error. Outputs are
  /// arguments; nothing is returned.
  int tvm_ffi(const TegulaFfiAny* args, std::int32_t count) const noexcept;

  const char* name() const { return name_; }
  Loc loc() const { return at_; }
  /// Throws what making the callable threw, each time.
  const Exportable& callable() const;
  const TegulaSignature& signature() const;

 private:
  struct Made;
  const Made& made() const;

  const char* name_;
  Make make_;
  Loc at_;
  const char* backward_ = nullptr;
  const char* saved_ = nullptr;
  mutable std::once_flag making_;
  mutable std::unique_ptr<const Made> made_;
};

/// A number for the headers that an exporting library is compiled with: another one where what it
/// and libtegula.so share has another layout. The first number rises where a layout stays and its
/// meaning changes.
constexpr std::uint64_t export_layout() {
  std::uint64_t hash = 1;
  for (const std::size_t bytes :
       {std::size_t{TEGULA_ABI}, sizeof(Exported), sizeof(Exportable), sizeof(ExportParam),
        sizeof(ParamInfo), sizeof(HostArg), sizeof(ClosureType), sizeof(Kernel<>), sizeof(Tensor),
        sizeof(TensorSpec), sizeof(Stream), sizeof(Loc), sizeof(Tile), sizeof(Arg), sizeof(Index),
        sizeof(Scalar<i32>), sizeof(In<f32, 1>), sizeof(PlanPatch), sizeof(Tuning)})
    hash = (hash ^ bytes) * 1099511628211u;  // FNV-1a
  return hash;
}

/// libtegula.so has this symbol for the layout of its own headers alone. Every exporting library
/// refers to it, so that the loader refuses one that was compiled with other headers by an error
/// that has its name, before any code of it runs.
template <std::uint64_t Layout>
struct __attribute__((visibility("default"))) Headers {
  static const char is_built_with_another_version_of_tegula_and_must_be_rebuilt;
};
extern template struct Headers<export_layout()>;

/// An entry of the list of what loaded libraries export, while it lives. Makes nothing.
class Registered {
 public:
  /// `headers` is the symbol of the library's own headers.
  Registered(const char* name, Exported& (*get)(), const char& headers) noexcept;
  ~Registered();
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  const char* name;
  Exported& (*get)();
  Registered* next = nullptr;
};

struct RegisteredBackward {
  RegisteredBackward(Exported& forward, const char* name, const char* saved) noexcept {
    forward.set_backward(name, saved);
  }
};

}  // namespace detail
}  // namespace tegula

#define TEGULA_PUBLIC __attribute__((visibility("default")))

/// `TEGULA_EXPORT(name, callable);` at namespace scope, outside of namespaces: exports the callable
/// as `name`, for tegula_find("name"), as the function tegula_export_name, and as the symbol
/// __tvm_ffi_name of TVM-FFI. The expression is
/// evaluated at the first use; what it throws is the error of every call. An operation in a lambda
/// that stands in the macro has no line of its own: define the kernel before, and export it.
#define TEGULA_EXPORT(name, ...)                                                                   \
  static ::tegula::detail::Exported& tegula_exported_##name() {                                    \
    static ::tegula::detail::Exported exported(                                                    \
        #name, []() -> ::tegula::Exportable { return ::tegula::detail::to_export(__VA_ARGS__); }); \
    return exported;                                                                               \
  }                                                                                                \
  static const ::tegula::detail::Registered tegula_registered_##name(                              \
      #name, &tegula_exported_##name,                                                              \
      ::tegula::detail::Headers<::tegula::detail::export_layout()>::                               \
          is_built_with_another_version_of_tegula_and_must_be_rebuilt);                            \
  extern "C" TEGULA_PUBLIC const TegulaCallable* tegula_export_##name(void) noexcept;              \
  extern "C" TEGULA_PUBLIC const TegulaCallable* tegula_export_##name(void) noexcept {             \
    return tegula_exported_##name().handle();                                                      \
  }                                                                                                \
  extern "C" TEGULA_PUBLIC int __tvm_ffi_##name(void*, const TegulaFfiAny*, std::int32_t,          \
                                                TegulaFfiAny*) noexcept;                           \
  extern "C" TEGULA_PUBLIC int __tvm_ffi_##name(void*, const TegulaFfiAny* args,                   \
                                                std::int32_t count, TegulaFfiAny*) noexcept {      \
    return tegula_exported_##name().tvm_ffi(args, count);                                          \
  }                                                                                                \
  static_assert(true)

/// `TEGULA_EXPORT_BACKWARD(name, backward, "x y");` after TEGULA_EXPORT(name, ..): the exported
/// callable `backward` computes the gradients of `name`. Its parameters are found by their names:
/// arguments of `name` that are listed ("x y"), `grad_o` for an output o, and, as its outputs,
/// `grad_x` for each input x that has a gradient.
#define TEGULA_EXPORT_BACKWARD(name, backward, saved)                       \
  static const ::tegula::detail::RegisteredBackward tegula_backward_##name( \
      tegula_exported_##name(), #backward, saved)
