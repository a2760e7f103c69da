#pragma once
#include <concepts>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

#include "tegula/control.h"
#include "tegula/lambda.h"
#include "tegula/value.h"

/// Functions of single elements, with separate branches and loops for each element.
namespace tegula {

namespace detail {
class RecordedMap {
 public:
  RecordedMap(std::initializer_list<Arg> tiles, Loc at);
  const Tile& operand(std::size_t i) const { return operands_[i]; }
  Tile finish(const Tile& result);

 private:
  std::vector<Tile> operands_;
  OpenRegion open_;
};
}  // namespace detail

/// Returns f(t, ...) of the elements of tiles, which are broadcast to one shape. In `f` an element
/// is a Tile that conditions of `if_` and `while_` can use: each element takes its own branch and
/// its own number of iterations. Both branches are computed and one is selected; a loop runs until
/// all elements of the program are done. `f` may contain operators, math functions, where, casts,
/// if_, while_ and values from outside, which it cannot rebind; anything else is a CompileError.
template <class Fn, std::convertible_to<Tile>... T>
Tile map(Fn&& f, const T&... tiles) {
  static_assert(detail::Gives<Tile, Fn, std::conditional_t<true, const Tile, T>...>,
                "tegula: the function of map takes one scalar Tile per operand and returns one");
  detail::RecordedMap m({Arg(Tile(tiles))...}, std::source_location::current());
  return m.finish([&]<std::size_t... I>(std::index_sequence<I...>) {
    return detail::result_of<Tile>(f, m.operand(I)...);
  }(std::index_sequence_for<T...>{}));
}

}  // namespace tegula
