#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "tegula/kernel.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Call plans: a callable of several kernels makes its decisions once for all calls alike
/// (docs/call-plans.md).
///
///     struct Scaled {                                    // y = x * by, from a row-major copy of x
///       void operator()(const Stream& stream, const Tensor& x, const Tensor& y, float by) const {
///         plans.call(stream, decltype(scale)::pack(x, y, by), {}, [&](PlanBuilder& plan) {
///           const PlanSlot rows = plan.scratch(x.shape(), DType::f32);
///           plan.launch(copy, plan.argument(0), rows);
///           plan.launch(scale, rows, plan.argument(1), plan.argument(2));
///         });
///       }
///     };
namespace tegula {

namespace dsl {
class PlanRecorder;
class PlannedCallable;
}  // namespace dsl

/// A tensor, number or address of a plan: an argument of the call, a view of another slot, or
/// memory reserved for the call. The default is none: an omitted optional tensor.
struct PlanSlot {
  int index = -1;
  friend bool operator==(const PlanSlot&, const PlanSlot&) = default;
};

/// A call as a callable's building function sees it: shapes, strides, types and the alignment of
/// the arguments' addresses, which are the key of the plan. Addresses, elements and the values of
/// scalars differ from call to call and must not be used.
class PlanBuilder {
 public:
  explicit PlanBuilder(dsl::PlanRecorder& recorder) : recorder_(recorder) {}

  Device device() const;
  /// Returns the number of arguments of the call.
  std::size_t size() const;
  /// Returns argument `i` of the call, counted from 0.
  PlanSlot argument(std::size_t i) const;
  /// Returns a tensor as it is in this call, or one that is not `defined()` for the default slot.
  /// Memory of the plan has only shape, type and alignment.
  const Tensor& tensor(PlanSlot slot) const;
  /// Returns the same elements in another shape. `of_tensor` runs in every call, and must neither
  /// keep its argument nor allocate.
  PlanSlot view(PlanSlot of, std::function<Tensor(const Tensor&)> of_tensor);
  /// Returns the slot, or a view of it with leading dimensions of extent 1 added up to `rank`.
  PlanSlot with_rank(PlanSlot of, int rank);
  /// Returns the slot, or a view of it whose extents of 1 are repeated.
  PlanSlot broadcast_to(PlanSlot of, const Dims& shape);
  /// Returns a row-major tensor in scratch memory of the stream, or of the graph that it records.
  PlanSlot scratch(const Dims& shape, DType dtype);
  /// Returns counters [count] of u32 that are 0; the launches must leave them 0.
  PlanSlot counters(std::int64_t count);
  /// Returns flags that a launch passes to the next one (Scratch::fallback_flags): all launches of
  /// such a call are consecutive on the stream.
  PlanSlot fallback_flags();

  /// Launches `kernel` in every call of the plan; compiles it now if necessary. Arguments are
  /// slots, or numbers that are the same in every call.
  template <class... P, class... Args>
  void launch(const Kernel<P...>& kernel, const Args&... args) {
    static_assert(sizeof...(P) == sizeof...(Args), "tegula: pass one argument per parameter");
    add(kernel.shared_instance(), std::array<Given, sizeof...(P)>{given<P>(args)...});
  }
  /// Does the same, with the call's arguments from number `from` on as the kernel's last ones.
  template <class... P, class... Args>
  void launch_with_rest(const Kernel<P...>& kernel, std::size_t from, const Args&... first) {
    launch_with_rest(kernel, from, std::make_index_sequence<sizeof...(P) - sizeof...(Args)>{},
                     first...);
  }

  /// An argument of a launch: a slot, or the bytes of a number.
  struct Given {
    detail::ParamInfo info;
    PlanSlot slot;
    std::uint64_t bits = 0;
  };

 private:
  template <class P, class Arg>
  static Given given(const Arg& arg) {
    if constexpr (std::is_same_v<Arg, PlanSlot>)
      return {detail::ParamTraits<P>::kInfo, arg};
    else
      return {detail::ParamTraits<P>::kInfo,
              {},
              detail::ParamTraits<P>::pack(typename detail::ParamTraits<P>::Host(arg)).bits};
  }
  template <class... P, std::size_t... I, class... Args>
  void launch_with_rest(const Kernel<P...>& kernel, std::size_t from, std::index_sequence<I...>,
                        const Args&... first) {
    launch(kernel, first..., argument(from + I)...);
  }
  void add(const std::shared_ptr<dsl::KernelInstance>& kernel, std::span<const Given> args);

  dsl::PlanRecorder& recorder_;
};

/// Numbers, other than the arguments, that a callable's decisions depend on: `{o.tf32, c.bm}`.
class PlanOptions {
 public:
  /// Packs up to 32 numbers.
  PlanOptions(std::initializer_list<std::int64_t> numbers) : count_(numbers.size()) {
    if (count_ > kMax) too_many(count_);
    std::size_t i = 0;
    for (const std::int64_t n : numbers) words_[i++] = static_cast<std::uint64_t>(n);
  }
  operator std::span<const std::uint64_t>() const { return {words_.data(), count_}; }

 private:
  static constexpr std::size_t kMax = 32;
  [[noreturn]] static void too_many(std::size_t count);

  std::array<std::uint64_t, kMax> words_;
  std::size_t count_;
};

/// Packs the arguments of a call that has only tensors.
template <class... Tensors>
std::array<detail::HostArg, sizeof...(Tensors)> tensor_args(const Tensors&... tensors) {
  return {detail::HostArg{detail::ParamKind::View, tensors.dtype(), &tensors}...};
}

/// The part of a tensor's strides that distinguishes calls.
enum class StrideKey : std::uint8_t {
  classes,  ///< largest power of two up to 128 that divides each; whether it is 1, 0, negative
  exact,    ///< the strides themselves
};

/// The plans of one callable. Calls with equal keys share a plan: types, ranks, extents, strides
/// (StrideKey) and alignment of all arguments, the device, and `options`. Threads may call it
/// concurrently.
class CallPlans {
 public:
  explicit CallPlans(StrideKey strides = StrideKey::classes);
  /// Discards the plans.
  ~CallPlans();
  CallPlans(const CallPlans&) = delete;
  CallPlans& operator=(const CallPlans&) = delete;

  /// Makes one call: launches what `build(PlanBuilder&)` records; it runs in the first call of each
  /// key. `args` are of the same kinds in every call; `options` contains everything else that
  /// `build` depends on.
  template <class Build>
  void call(const Stream& stream, std::span<const detail::HostArg> args,
            std::span<const std::uint64_t> options, const Build& build) const {
    run(stream, args, options, &build,
        [](const void* object, PlanBuilder& plan) { (*static_cast<const Build*>(object))(plan); });
  }

 private:
  using BuildFn = void (*)(const void* object, PlanBuilder& plan);
  void run(const Stream& stream, std::span<const detail::HostArg> args,
           std::span<const std::uint64_t> options, const void* object, BuildFn build) const;

  std::unique_ptr<dsl::PlannedCallable> callable_;
};

}  // namespace tegula
