#pragma once
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

/// Lambdas that calls of the language and members of specifications accept. A lambda with other
/// parameters, or another result, is one error of the C++ compiler that states what is expected.
namespace tegula {

namespace detail {

/// True if `f(args..)` gives an R.
template <class R, class Fn, class... Args>
concept Gives = requires(Fn& f, Args&... args) { R(f(args...)); };

/// Returns f(args..). The caller has asserted `Gives`.
template <class R, class Fn, class... Args>
R result_of(Fn& f, Args&... args) {
  if constexpr (Gives<R, Fn, Args...>)
    return R(f(args...));
  else
    return {};
}

}  // namespace detail

/// A std::function for lambdas with the parameters P and a result that converts to R.
template <class Signature>
class Lambda;
template <class R, class... P>
class Lambda<R(P...)> : public std::function<R(P...)> {
  using Base = std::function<R(P...)>;

 public:
  Lambda() = default;
  Lambda(std::nullptr_t) {}  // NOLINT: implicit
  /// `kFits` is a parameter, so that generic lambdas are instantiated in the function that defines
  /// them: otherwise GCC warns of unused variables that only they use.
  template <class Fn, bool kFits = std::is_invocable_r_v<R, std::decay_t<Fn>&, P...>>
    requires(!std::is_same_v<std::remove_cvref_t<Fn>, Lambda> &&
             !std::is_same_v<std::remove_cvref_t<Fn>, std::nullptr_t>)
  Lambda(Fn&& fn) {  // NOLINT: implicit
    static_assert(kFits,
                  "tegula: the lambda does not fit here: a Lambda<R(P..)> is initialized by one "
                  "that takes the parameters P and returns an R");
    if constexpr (kFits) Base::operator=(std::forward<Fn>(fn));
  }
};

}  // namespace tegula
