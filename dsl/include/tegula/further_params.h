#pragma once
#include <type_traits>

/// For kernels around a lambda of the user's, whose last parameters are the kernel's own.
namespace tegula::detail {

/// The parameters of a call operator behind the first `Skip` of them:
/// `FurtherParams<decltype(&Fn::operator()), 3>::Append<Body, Fn>` is Body<Fn, the further ones..>.
template <class Call, int Skip>
struct FurtherParams;
template <class C, class R, class... P>
struct FurtherParams<R (C::*)(P...) const, 0> {
  template <template <class...> class Body, class... Before>
  using Append = Body<Before..., std::remove_cvref_t<P>...>;
};
template <class C, class R, class First, class... P, int Skip>
  requires(Skip > 0)
struct FurtherParams<R (C::*)(First, P...) const, Skip>
    : FurtherParams<R (C::*)(P...) const, Skip - 1> {};

}  // namespace tegula::detail
