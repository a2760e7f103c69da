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

/// Export of kernels and other callables to C, Python and TVM-FFI: `TEGULA_EXPORT(name, callable);`
/// (docs/c-interface.md).

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
  bool any_dtype = false;  ///< elements of any type, the same for all such tensors of a call
  std::string name;        ///< name in the C interface
  /// Names of a tensor's dimensions, "M K", or none. A dimension may also be a number, or a name
  /// times or plus a number: "8", "M*8", "M+1".
  std::string dims = {};
};

/// A callable as the C interface sees it. `exportable(callable)`, found by argument-dependent
/// lookup, makes one: for a Kernel here, for callables of the library in tegula/kernels/export.h,
/// and for your own types if you write it.
struct Exportable {
  std::vector<ExportParam> params;
  /// Calls it with one argument per parameter: `tensor` for a tensor, null if it is left out;
  /// `bits` for a number. `at` is the line of TEGULA_EXPORT.
  std::function<void(const Stream& stream, std::span<const detail::HostArg> args, Loc at)> call;
  /// The kernel, if `call` launches this kernel and nothing else, so that it can be tuned, prepared
  /// and compiled ahead of time; null for other callables.
  std::shared_ptr<dsl::KernelInstance> kernel = {};
};

namespace detail {

/// Returns the element type whose host type corresponds to the type of a C++ constant.
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

/// Uses the names and dimensions given by `named`; otherwise parameters are arg0, arg1, ..
Exportable export_kernel(std::shared_ptr<dsl::KernelInstance> instance,
                         std::span<const ParamInfo> params);

}  // namespace detail

/// Returns a kernel for TEGULA_EXPORT, whose parameters have the names and dimensions given by
/// Kernel::named, or arg0, arg1, ..
template <class... P>
Exportable exportable(const Kernel<P...>& kernel) {
  static constexpr std::array<detail::ParamInfo, sizeof...(P)> kParams{detail::export_info<P>()...};
  return detail::export_kernel(kernel.shared_instance(), kParams);
}
/// Returns the callable itself.
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
  /// Must be called before the first use.
  void set_backward(const char* name, const char* saved) noexcept;

  /// Makes the call by TVM-FFI's convention: returns 0, or -1 after raising an error. Outputs are
  /// arguments; the call returns no value.
  int tvm_ffi(const TegulaFfiAny* args, std::int32_t count) const noexcept;

  const char* name() const { return name_; }
  Loc loc() const { return at_; }
  /// Throws the exception that making the callable threw, in each call.
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

/// Returns a hash of the headers that an exporting library is compiled with. It differs if the
/// layout of the types that the library shares with libtegula.so differs. Increase the first number
/// if a layout stays and its meaning changes.
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

/// libtegula.so defines this symbol only for the layout of the headers that it was built with.
/// Every exporting library refers to it, so that the loader rejects one that was compiled with
/// other headers, with an error that contains this name, before any of its code runs.
template <std::uint64_t Layout>
struct __attribute__((visibility("default"))) Headers {
  static const char is_built_with_another_version_of_tegula_and_must_be_rebuilt;
};
extern template struct Headers<export_layout()>;

/// An entry of the list of exported names, for its lifetime. Does not make the callable.
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
/// __tvm_ffi_name of TVM-FFI. The expression is evaluated at the first use; if it throws, every
/// call fails with that error. All operations of a lambda inside the macro have the macro's line:
/// define the kernel before the macro and export it.
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
/// callable `backward` computes the gradients of `name`. Its parameters are matched by name: the
/// listed arguments of `name` ("x y"), `grad_o` for an output o, and, as its outputs, `grad_x` for
/// each input x that has a gradient.
#define TEGULA_EXPORT_BACKWARD(name, backward, saved)                       \
  static const ::tegula::detail::RegisteredBackward tegula_backward_##name( \
      tegula_exported_##name(), #backward, saved)
