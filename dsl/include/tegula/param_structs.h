#pragma once
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

/// Structs of kernel parameters. C++20 has no reflection: members are counted by the braced
/// initialisers that the struct accepts, and their types are read by structured bindings.
namespace tegula::detail {

template <class... T>
struct TypeList {
  static constexpr std::size_t kSize = sizeof...(T);
  template <template <class...> class Template>
  using Apply = Template<T...>;
};

template <class... Lists>
struct Concat {
  using Type = TypeList<>;
};
template <class... T>
struct Concat<TypeList<T...>> {
  using Type = TypeList<T...>;
};
template <class... T, class... U, class... Rest>
struct Concat<TypeList<T...>, TypeList<U...>, Rest...> : Concat<TypeList<T..., U...>, Rest...> {};

/// A parameter that is expanded into its members. Views, scalars and pointers are not aggregates.
template <class P>
concept ParamStruct = std::is_class_v<P> && std::is_aggregate_v<P>;

inline constexpr std::size_t kMaxMembers = 16;

/// Initialises any member of Struct; used in unevaluated operands only. The conversion has a body
/// because Clang warns if it has none and the constructor of an optional member uses it.
template <class Struct>
struct AnyMember {
  template <class T>
    requires(!std::is_same_v<T, Struct>)
  operator T() const {
    __builtin_unreachable();
  }
};

template <class Struct, std::size_t... I>
consteval bool takes_initialisers(std::index_sequence<I...>) {
  return requires { Struct{((void)I, AnyMember<Struct>{})...}; };
}

/// Returns the largest number of initialisers that Struct accepts, up to kMaxMembers + 1. Views
/// have no default value, so Struct may accept no smaller number: if it accepts none of these, it
/// has more members.
template <class Struct, std::size_t N = kMaxMembers + 1>
consteval std::size_t member_count() {
  if constexpr (takes_initialisers<Struct>(std::make_index_sequence<N>{}))
    return N;
  else if constexpr (N == 0)
    return kMaxMembers + 1;
  else
    return member_count<Struct, N - 1>();
}

template <class... T>
TypeList<std::remove_cv_t<T>...> types_of(const T&...) {
  return {};
}

/// Returns the list of the members' types; called in unevaluated operands only.
template <class Struct>
auto member_types([[maybe_unused]] Struct& s) {
  constexpr std::size_t kCount = member_count<Struct>();
  static_assert(kCount <= kMaxMembers,
                "tegula: a struct of kernel parameters has at most 16 members; put some of them "
                "into a nested struct");
  if constexpr (kCount == 0 || kCount > kMaxMembers) {
    return TypeList<>{};
  } else if constexpr (kCount == 1) {
    auto& [a] = s;
    return types_of(a);
  } else if constexpr (kCount == 2) {
    auto& [a, b] = s;
    return types_of(a, b);
  } else if constexpr (kCount == 3) {
    auto& [a, b, c] = s;
    return types_of(a, b, c);
  } else if constexpr (kCount == 4) {
    auto& [a, b, c, d] = s;
    return types_of(a, b, c, d);
  } else if constexpr (kCount == 5) {
    auto& [a, b, c, d, e] = s;
    return types_of(a, b, c, d, e);
  } else if constexpr (kCount == 6) {
    auto& [a, b, c, d, e, f] = s;
    return types_of(a, b, c, d, e, f);
  } else if constexpr (kCount == 7) {
    auto& [a, b, c, d, e, f, g] = s;
    return types_of(a, b, c, d, e, f, g);
  } else if constexpr (kCount == 8) {
    auto& [a, b, c, d, e, f, g, h] = s;
    return types_of(a, b, c, d, e, f, g, h);
  } else if constexpr (kCount == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = s;
    return types_of(a, b, c, d, e, f, g, h, i);
  } else if constexpr (kCount == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = s;
    return types_of(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (kCount == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = s;
    return types_of(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (kCount == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = s;
    return types_of(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (kCount == 13) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = s;
    return types_of(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (kCount == 14) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = s;
    return types_of(a, b, c, d, e, f, g, h, i, j, k, l, m, n);
  } else if constexpr (kCount == 15) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = s;
    return types_of(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
  } else if constexpr (kCount == 16) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = s;
    return types_of(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
  }
}

template <class Struct>
using MemberTypes = decltype(member_types(std::declval<Struct&>()));

/// The parameters that P expands to: itself, or the expansions of its members, in order.
template <class P>
struct LeavesOf {
  using Type = TypeList<P>;
};
template <class List>
struct LeavesOfEach;
template <class... P>
struct LeavesOfEach<TypeList<P...>> : Concat<TypeList<>, typename LeavesOf<P>::Type...> {};
template <ParamStruct P>
struct LeavesOf<P> : LeavesOfEach<MemberTypes<P>> {};

template <class... P>
using Leaves = typename LeavesOfEach<TypeList<P...>>::Type;

/// Returns the index of each parameter's first leaf among the leaves of all parameters.
template <class... P>
consteval auto first_leaves() {
  const std::array<std::size_t, sizeof...(P) + 1> sizes{Leaves<P>::kSize..., 0};
  std::array<std::size_t, sizeof...(P) + 1> first{};
  for (std::size_t i = 0; i < sizeof...(P); ++i) first[i + 1] = first[i] + sizes[i];
  return first;
}

}  // namespace tegula::detail
