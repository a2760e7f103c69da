#pragma once
#include <tuple>
#include <type_traits>

/// For kernels that wrap a user's lambda and take over its last parameters.
namespace tegula::detail {

/// The parameters of a call operator after its first `Skip` ones:
/// `TrailingParams<decltype(&Fn::operator()), 3>::Append<Body, Fn>` is Body<Fn, trailing..>.
template <class Call, int Skip>
struct TrailingParams;
template <class C, class R, class... P>
struct TrailingParams<R (C::*)(P...) const, 0> {
  template <template <class...> class Body, class... Before>
  using Append = Body<Before..., std::remove_cvref_t<P>...>;
};
template <class C, class R, class First, class... P, int Skip>
  requires(Skip > 0)
struct TrailingParams<R (C::*)(First, P...) const, Skip>
    : TrailingParams<R (C::*)(P...) const, Skip - 1> {};

template <class Call>
struct ResultOfCall;
template <class C, class R, class... P>
struct ResultOfCall<R (C::*)(P...) const> {
  using Type = R;
};
/// The result of a call operator.
template <class Call>
using ResultOf = typename ResultOfCall<Call>::Type;

/// Returns the end of the run of parameters of type T that starts at parameter `from` of a call
/// operator.
template <class T, class C, class R, class... P>
consteval int run_end(R (C::* /*call*/)(P...) const, int from) {
  constexpr bool kIsT[] = {std::is_same_v<std::remove_cvref_t<P>, T>..., false};
  while (kIsT[from]) ++from;
  return from;
}

/// The parameters of a lambda after the first `Skip` and the T's that follow them.
template <class T, class Fn, int Skip>
using TrailingAfter = TrailingParams<decltype(&Fn::operator()), run_end<T>(&Fn::operator(), Skip)>;

/// Calls `fn(first.., maybe, rest..)`, without `maybe` if the lambda does not take it.
template <class Fn, class... First, class Maybe, class... Rest>
auto call_with(const Fn& fn, const std::tuple<First...>& first, const Maybe& maybe,
               const Rest&... rest) {
  return std::apply(
      [&](const auto&... values) {
        if constexpr (std::is_invocable_v<const Fn&, First..., const Maybe&, const Rest&...>)
          return fn(values..., maybe, rest...);
        else
          return fn(values..., rest...);
      },
      first);
}

}  // namespace tegula::detail
