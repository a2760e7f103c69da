#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tegula/artefact.h"
#include "tegula/error.h"
#include "tegula/host_number.h"
#include "tegula/param_structs.h"
#include "tegula/plan_patch.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"
#include "tegula/tuning.h"
#include "tegula/view.h"
#include "tegula/warning.h"

/// Kernels: C++ lambdas that can be called with tensors.
namespace tegula {

namespace ir {
class Kernel;
}
namespace dsl {
class KernelInstance;
struct TraceResult;
}  // namespace dsl

/// Result of tracing a kernel for some arguments.
class Trace {
 public:
  explicit Trace(std::shared_ptr<const dsl::TraceResult> result) : result_(std::move(result)) {}
  /// Returns the tile form as text, with source locations if `locations` is set.
  std::string text(bool locations = false) const;
  const ir::Kernel& kernel() const;
  const std::vector<Diagnostic>& warnings() const;
  const dsl::TraceResult& result() const { return *result_; }

 private:
  std::shared_ptr<const dsl::TraceResult> result_;
};

namespace detail {

enum class ParamKind : std::uint8_t { View, Scalar, Pointer, Constant };
enum class ViewAccess : std::uint8_t { In, Out, InOut };

/// Description of a parameter's C++ type.
struct ParamInfo {
  ParamKind kind = ParamKind::View;
  DType dtype = DType::f32;
  int rank = 0;
  ViewAccess access = ViewAccess::In;
  bool optional = false;  ///< a view that a call may leave out
};

/// One argument of a call.
struct HostArg {
  ParamKind kind = ParamKind::View;
  DType dtype = DType::f32;
  const Tensor* tensor = nullptr;  ///< tensor of a View, null if left out; for a Pointer made from
                                   ///< a tensor, that tensor
  /// Bytes of a Scalar or Constant; address of a Pointer; 1 for an optional View that is given.
  std::uint64_t bits = 0;
};

/// Argument for a Ptr parameter: a device address, or a contiguous tensor of T. On cpu and sim,
/// accesses must stay within the tensor; for an address, within the live or borrowed tensor memory
/// that contains it.
template <class T>
class HostPointer {
 public:
  HostPointer(const T* address) : address_(address) {}
  HostPointer(const Tensor& t) : address_(t.data()), tensor_(&t) {}
  const void* address() const { return address_; }
  const Tensor* tensor() const { return tensor_; }

 private:
  const void* address_;
  const Tensor* tensor_ = nullptr;
};

/// The type of a call's argument for a constant: its own, or a number that is checked.
template <class P>
struct HostOfConstant {
  using Type = P;
};
template <class P>
  requires(std::is_arithmetic_v<P> && !std::is_same_v<P, bool>)
struct HostOfConstant<P> {
  using Type = HostConstant<P>;
};
/// Meaning of a parameter type. C++ numbers, bools and enums are constants: the kernel is traced
/// for each value.
template <class P>
struct ParamTraits {
  static_assert(
      std::is_arithmetic_v<P> || std::is_enum_v<P>,
      "tegula: kernel parameters are In, Out, InOut, Scalar, Ptr, or C++ numbers, bools and enums "
      "(taken by value), or structs of these");
  using Host = typename HostOfConstant<P>::Type;
  static constexpr ParamInfo kInfo{ParamKind::Constant, DType::i64, 0, ViewAccess::In};
  static HostArg pack(const Host& value) {
    return {ParamKind::Constant, DType::i64, nullptr, bits_of(static_cast<P>(value))};
  }
  static P make(std::uint32_t, const HostArg& a) {
    P value;
    std::memcpy(&value, &a.bits, sizeof(P));
    return value;
  }
};
template <class V, Element T, int Rank, ViewAccess A>
struct ViewTraits {
  using Host = Tensor;
  static constexpr ParamInfo kInfo{ParamKind::View, dtype_of<T>, Rank, A};
  static HostArg pack(const Tensor& t) { return {ParamKind::View, dtype_of<T>, &t, 0}; }
  static V make(std::uint32_t position, const HostArg&) { return V(position); }
};
template <Element T, int R>
struct ParamTraits<In<T, R>> : ViewTraits<In<T, R>, T, R, ViewAccess::In> {};
template <Element T, int R>
struct ParamTraits<Out<T, R>> : ViewTraits<Out<T, R>, T, R, ViewAccess::Out> {};
template <Element T, int R>
struct ParamTraits<InOut<T, R>> : ViewTraits<InOut<T, R>, T, R, ViewAccess::InOut> {};
/// A view that a call may omit by passing an undefined Tensor. The kernel is traced for each case.
template <class V>
struct ParamTraits<std::optional<V>> {
  using Host = Tensor;
  static constexpr ParamInfo kInfo = [] {
    ParamInfo info = ParamTraits<V>::kInfo;
    info.optional = true;
    return info;
  }();
  static_assert(kInfo.kind == ParamKind::View, "tegula: only In, Out and InOut can be optional");
  static HostArg pack(const Tensor& t) {
    return {ParamKind::View, kInfo.dtype, t.defined() ? &t : nullptr, t.defined()};
  }
  static std::optional<V> make(std::uint32_t position, const HostArg& a) {
    return a.bits != 0 ? std::optional<V>(V(position)) : std::nullopt;
  }
};
template <Element T>
struct ParamTraits<Scalar<T>> {
  using Host = HostNumber<T>;
  static constexpr ParamInfo kInfo{ParamKind::Scalar, dtype_of<T>, 0, ViewAccess::In};
  static HostArg pack(const Host& value) {
    return {ParamKind::Scalar, dtype_of<T>, nullptr, value.bits()};
  }
  static Scalar<T> make(std::uint32_t position, const HostArg&) {
    return Scalar<T>::parameter(position);
  }
};
template <Element T>
struct ParamTraits<Ptr<T>> {
  using Host = HostPointer<T>;
  static constexpr ParamInfo kInfo{ParamKind::Pointer, dtype_of<T>, 0, ViewAccess::InOut};
  static HostArg pack(const Host& p) {
    return {ParamKind::Pointer, dtype_of<T>, p.tensor(), bits_of(p.address())};
  }
  static Ptr<T> make(std::uint32_t position, const HostArg&) { return Ptr<T>(position); }
};

/// Facts about a lambda that remain once its type is erased.
struct ClosureType {
  const std::type_info* type = nullptr;
  std::size_t size_bytes = 0;  ///< size of its captures
  bool is_plain =
      false;  ///< no padding, no floats: its bytes describe it fully, except memory at addresses
  std::span<const ParamInfo> params;  ///< static
  void (*call)(const void* object, std::span<const HostArg> args) = nullptr;
  void (*destroy)(const void* object) = nullptr;
};

/// Takes ownership of `object`, which was allocated by new.
std::shared_ptr<dsl::KernelInstance> make_instance(const char* name, Loc loc, const void* object,
                                                   const ClosureType& type);
std::shared_ptr<dsl::KernelInstance> with_tuning(const dsl::KernelInstance& instance,
                                                 const Tuning& tuning, Loc at = {});
std::shared_ptr<dsl::KernelInstance> allowing_alias(const dsl::KernelInstance& instance);
std::shared_ptr<dsl::KernelInstance> with_plan(const dsl::KernelInstance& instance,
                                               std::string_view text, Loc at);
std::shared_ptr<dsl::KernelInstance> with_plan(const dsl::KernelInstance& instance,
                                               const PlanPatch& fields, Loc at);
std::shared_ptr<dsl::KernelInstance> preferring(const dsl::KernelInstance& instance,
                                                const PlanPatch& fields);
std::shared_ptr<dsl::KernelInstance> with_names(const dsl::KernelInstance& instance,
                                                std::span<const char* const> names, Loc at);
void launch(dsl::KernelInstance& instance, const Stream* stream, std::span<const HostArg> args);
Trace trace(dsl::KernelInstance& instance, std::span<const HostArg> args);
Artefact compile(dsl::KernelInstance& instance, std::string_view target,
                 std::span<const HostArg> args, Loc at);
std::string dump(dsl::KernelInstance& instance, std::string_view verb);
std::string explain(dsl::KernelInstance& instance);
std::vector<Warning> warnings(const dsl::KernelInstance& instance);
TuneResult tune(dsl::KernelInstance& instance, const TuneOptions& options,
                std::span<const HostArg> args);

/// A parameter's name and the source location where it was written.
struct Name {
  const char* text;
  std::source_location at;
  Name(const char* t, std::source_location where = std::source_location::current())
      : text(t), at(where) {}
};
inline Loc first_place() { return {}; }
template <class... Rest>
Loc first_place(const Name& first, const Rest&...) {
  return first.at;
}

/// Maps the host type of a call's argument to the type that compile() takes: TensorSpec instead of
/// Tensor, other types unchanged. host() maps a value back.
template <class Host>
struct Described {
  using Type = Host;
  static const Host& host(const Host& value) { return value; }
};
template <>
struct Described<Tensor> {
  using Type = TensorSpec;
  static const Tensor& host(const TensorSpec& value) { return value.described(); }
};

/// Returns the position of each parameter among those that exist at run time.
template <class... P>
constexpr auto run_time_positions(TypeList<P...>) {
  std::array<std::uint32_t, sizeof...(P) + 1> positions{};
  const std::array<bool, sizeof...(P) + 1> exists{
      ParamTraits<P>::kInfo.kind != ParamKind::Constant..., false};
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < sizeof...(P); ++i) {
    positions[i] = next;
    next += exists[i];
  }
  return positions;
}

}  // namespace detail

/// A kernel, callable with tensors for views, numbers for scalars and addresses for pointers. The
/// first call for a new class of arguments (element types, ranks, alignment, divisibility)
/// compiles; later ones only launch. Copies share everything that was compiled.
template <class... P>
class Kernel {
  template <class>
  using NameOf = detail::Name;

 public:
  explicit Kernel(std::shared_ptr<dsl::KernelInstance> instance) : instance_(std::move(instance)) {}

  void operator()(const Stream& stream,
                  const typename detail::ParamTraits<P>::Host&... args) const {
    detail::launch(*instance_, &stream, pack(args...));
  }
  /// Launches on the default stream of the tensors' device.
  void operator()(const typename detail::ParamTraits<P>::Host&... args) const {
    detail::launch(*instance_, nullptr, pack(args...));
  }
  /// Traces for these arguments without compiling.
  Trace trace(const typename detail::ParamTraits<P>::Host&... args) const {
    return detail::trace(*instance_, pack(args...));
  }
  /// Compiles for a GPU target, "sm_90a" or "sm_80", without launching. Needs no GPU, no driver
  /// and, with LLVM, no CUDA toolkit. A view's argument is a Tensor on any device or only its
  /// shape, `spec<bf16>(1024, 512)`. As in a call, only the divisibility of extents, strides and
  /// addresses matters. Throws CompileError for mistakes in the kernel or its arguments and for
  /// other targets, and DeviceError if the back end's library is missing.
  Artefact compile(
      std::string_view target,
      const typename detail::Described<typename detail::ParamTraits<P>::Host>::Type&... args,
      std::source_location at = std::source_location::current()) const {
    return detail::compile(
        *instance_, target,
        pack(detail::Described<typename detail::ParamTraits<P>::Host>::host(args)...), at);
  }
  /// Returns the same kernel with these values of tune(). A call throws CompileError if the kernel
  /// does not use one of the names.
  Kernel with(const Tuning& tuning,
              std::source_location at = std::source_location::current()) const {
    return Kernel(detail::with_tuning(*instance_, tuning, at));
  }
  /// Measures calls to choose the values of tune() that are not given. The calls use copies of
  /// these arguments, which are not written. Later calls of the same shapes use the winner, in
  /// other processes too (docs/tuner.md). Throws CompileError if the kernel has no such values, or
  /// if an address is passed without a tensor, because the size to copy is then unknown.
  TuneResult tune(const TuneOptions& options,
                  const typename detail::ParamTraits<P>::Host&... args) const {
    return detail::tune(*instance_, options, pack(args...));
  }
  /// Tunes with the quick budget.
  TuneResult tune(const typename detail::ParamTraits<P>::Host&... args) const {
    return detail::tune(*instance_, TuneOptions{}, pack(args...));
  }

  /// Returns the same kernel with names for its parameters and their dimensions: `named("A[M, K]",
  /// "B[K, N]", "C[M, N]")`. Messages and dumps use them, and a call checks that equal names have
  /// equal extents.
  Kernel named(NameOf<P>... names) const {
    const std::array<const char*, sizeof...(P)> list{names.text...};
    return Kernel(detail::with_names(*instance_, list, detail::first_place(names...)));
  }
  /// Returns the same kernel, compiled so that arguments it writes may overlap others.
  Kernel may_alias() const { return Kernel(detail::allowing_alias(*instance_)); }
  /// Returns the same kernel with these plan fields, `{.stages = 4, .multicast = true}`, in place
  /// of the chosen ones. A call throws CompileError if the kernel does not support them.
  /// TEGULA_PLAN, for experiments, overrides them.
  Kernel with_plan(const PlanPatch& fields,
                   std::source_location at = std::source_location::current()) const {
    return Kernel(detail::with_plan(*instance_, fields, at));
  }
  /// Does the same for a text: "stages=4, multicast=true", or a plan or Schedule as explain()
  /// prints it (docs/schedule.md). Throws CompileError for any other text.
  Kernel with_plan(std::string_view text,
                   std::source_location at = std::source_location::current()) const {
    return Kernel(detail::with_plan(*instance_, text, at));
  }
  /// Returns the same kernel with these plan fields where it supports them; otherwise explain()
  /// reports why not. Has no effect on kernels that use clusters.
  Kernel prefer(const PlanPatch& fields) const {
    return Kernel(detail::preferring(*instance_, fields));
  }

  /// Returns the text of a stage of the latest compilation: key, trace, optimize, emit, ptx,
  /// assemble or launch. After a call on cpu or sim, emit and ptx are compiled for a GPU on demand;
  /// no GPU is needed.
  std::string dump(std::string_view verb) const { return detail::dump(*instance_, verb); }
  std::string ptx() const { return detail::dump(*instance_, "ptx"); }
  /// Returns a report on why the kernel was compiled as it was, and how often.
  std::string explain() const { return detail::explain(*instance_); }

  /// Returns the warnings about everything compiled so far, each once: spills, dots that are not on
  /// the GPU's fastest path, results that are never stored. Empty before the first call. A handler
  /// (set_warning_handler) also receives them; without one, standard error those about spills.
  std::vector<Warning> warnings() const { return detail::warnings(*instance_); }

  /// Packs the arguments of a call. The result points to the tensors, which must outlive it.
  static std::array<detail::HostArg, sizeof...(P)> pack(
      const typename detail::ParamTraits<P>::Host&... args) {
    return {detail::ParamTraits<P>::pack(args)...};
  }

  dsl::KernelInstance& instance() const { return *instance_; }
  const std::shared_ptr<dsl::KernelInstance>& shared_instance() const { return instance_; }

 private:
  std::shared_ptr<dsl::KernelInstance> instance_;
};

/// The type of a kernel whose lambda takes P..., some of which may be structs.
template <class... P>
using KernelOf = typename detail::Leaves<P...>::template Apply<Kernel>;

namespace detail {

/// Makes parameters from consecutive arguments.
struct ArgCursor {
  const HostArg* arg;
  const std::uint32_t* position;

  template <class P>
  P make() {
    if constexpr (ParamStruct<P>) {
      return members<P>(MemberTypes<P>{});
    } else {
      const std::uint32_t at = *position++;
      return ParamTraits<P>::make(at, *arg++);
    }
  }

 private:
  /// Braced initialisers are evaluated in member order.
  template <class P, class... M>
  P members(TypeList<M...>) {
    return P{make<M>()...};
  }
};

template <class Fn>
struct Callee {
  static_assert(kNever<Fn>,
                "tegula: kernel(name, lambda) needs a lambda whose parameter types are written "
                "out: In<f32, 2> x, "
                "not auto x");
};
template <class C, class R, class... P>
struct Callee<R (C::*)(P...) const> {
  using KernelType = KernelOf<std::remove_cvref_t<P>...>;

  template <class Fn>
  static KernelType make(const char* name, Fn&& fn, Loc at) {
    using Object = std::decay_t<Fn>;
    const ClosureType type{
        &typeid(Object),
        std::is_empty_v<Object> ? 0 : sizeof(Object),
        std::is_empty_v<Object> || std::has_unique_object_representations_v<Object>,
        {kParams.data(), ParamList::kSize},
        [](const void* object, std::span<const HostArg> args) {
          call(*static_cast<const Object*>(object), args, std::index_sequence_for<P...>{});
        },
        [](const void* object) { delete static_cast<const Object*>(object); }};
    return KernelType(make_instance(name, at, new Object(std::forward<Fn>(fn)), type));
  }

 private:
  using ParamList = Leaves<std::remove_cvref_t<P>...>;

  template <class... Leaf>
  static constexpr std::array<ParamInfo, sizeof...(Leaf)> infos(TypeList<Leaf...>) {
    return {ParamTraits<Leaf>::kInfo...};
  }
  static constexpr auto kParams = infos(ParamList{});
  static constexpr auto kPositions = run_time_positions(ParamList{});

  template <class Object, std::size_t... I>
  static void call(const Object& object, [[maybe_unused]] std::span<const HostArg> args,
                   std::index_sequence<I...>) {
    [[maybe_unused]] constexpr auto kFirst = first_leaves<std::remove_cvref_t<P>...>();
    object(ArgCursor{args.data() + kFirst[I], kPositions.data() + kFirst[I]}
               .template make<std::remove_cvref_t<P>>()...);
  }
};
template <class C, class R, class... P>
struct Callee<R (C::*)(P...)> {
  static_assert(
      kNever<C>,
      "tegula: kernel(name, lambda) does not take a mutable lambda: it runs once, to be recorded, "
      "so that changes to its own state would be lost. Remove `mutable`");
};
template <class C, class R, class... P>
struct Callee<R (C::*)(P...) noexcept> : Callee<R (C::*)(P...)> {};
template <class C, class R, class... P>
struct Callee<R (C::*)(P...) const noexcept> : Callee<R (C::*)(P...) const> {};
struct PlainFunction {};
template <class R, class... P>
struct Callee<R (*)(P...)> : Callee<R (PlainFunction::*)(P...) const> {};

template <class Fn>
concept HasOneCall = requires { &Fn::operator(); };
template <class Fn>
concept IsFunctionPointer = std::is_pointer_v<Fn> && std::is_function_v<std::remove_pointer_t<Fn>>;

}  // namespace detail

/// Makes a kernel from a lambda or function whose parameters are In, Out, InOut, std::optional of
/// these, Scalar, Ptr, C++ constants, or structs of such parameters (aggregates of at most 16
/// members without a base, nested to any depth). A struct is expanded into its members: a call
/// passes one argument for each, in order, and `named` one name, `"tensors.Q[B, H, M, D]"`.
/// Captures are frozen: values in this call; what captured references, pointers and globals refer
/// to at the first call (TEGULA_CHECK=retrace finds later changes). Captured Tensors and Scalars
/// are arguments, read at every launch.
template <class Fn>
auto kernel(const char* name, Fn&& fn, std::source_location at = std::source_location::current()) {
  using Object = std::decay_t<Fn>;
  if constexpr (detail::IsFunctionPointer<Object>) {
    return detail::Callee<Object>::make(name, static_cast<Object>(fn), at);
  } else if constexpr (detail::HasOneCall<Object>) {
    return detail::Callee<decltype(&Object::operator())>::make(name, std::forward<Fn>(fn), at);
  } else {
    static_assert(detail::kNever<Fn>,
                  "tegula: kernel(name, lambda) needs a lambda whose parameter types are written "
                  "out: In<f32, 2> x, "
                  "not auto x");
  }
}

}  // namespace tegula
