// expect: the function of map takes one scalar Tile per operand and returns one
// expect: the function of map takes one scalar Tile per operand and returns one
// expect: the function of reduce takes two scalar Tiles and returns one
// expect: the function of reduce of N tiles takes two std::array<Tile, N> and returns one
// expect: the function of scan takes two scalar Tiles and returns one
// expect: the function of scan of N tiles takes two std::array<Tile, N> and returns one
// expect: the branches of if_ are lambdas without parameters
// expect: while_ takes two lambdas without parameters; the first returns a Tile
// expect: while_ takes two lambdas without parameters; the first returns a Tile
// expect: the model of ptx takes one Tile per operand and returns one
// expect: a Lambda<R(P..)> is initialized by one that takes the parameters P and returns an R
#include <tegula/tegula.h>
using namespace tegula;
#ifndef WRONG
#define WRONG 0
#endif
Tile f(Tile x) {
#if WRONG == 1
  return map([](Tile a, Tile) { return a; }, x);
#elif WRONG == 2
  return map([](Tile) {}, x);
#elif WRONG == 3
  return reduce(x, axis(0), [](Tile a) { return a; });
#elif WRONG == 4
  return reduce(std::array{x, x}, axis(0), [](Tile a, Tile) { return a; })[0];
#elif WRONG == 5
  return scan(x, axis(0), [](auto a, auto, auto) { return a; });
#elif WRONG == 6
  return scan(std::array{x, x}, axis(0), [](auto a, auto) { return a[0]; })[0];
#elif WRONG == 7
  if_(x, [](Tile) {});
#elif WRONG == 8
  while_([](int) { return true; }, [] {});
#elif WRONG == 9
  while_([] {}, [] {});
#elif WRONG == 10
  x = ptx<u32>("brev.b32 $0, $1;", "=r,r", [](Tile a, Tile) { return a; }, x);
#elif WRONG == 11
  const Lambda<Tile(Tile, Tile)> causal = [](auto kv) { return kv; };
#else
  const Lambda<Tile(Tile, Tile)> causal = [](auto q, auto kv) { return q >= kv; };
  if_(x > 0, [&] { x = x + 1; });
  if_(x > 0, [&] { x = x + 1; }, [&] { x = x - 1; });
  while_([&] { return x > 1; }, [&] { x = x - 1; });
  x = ptx<u32>("brev.b32 $0, $1;", "=r,r", [](const Tile& a) { return a; }, x);
  x = map([](Tile a, const Tile& b) { return a + b; }, x, x(all) + 1);
  x = scan(std::array{x, x}, axis(0),
           [](auto a, auto b) { return std::array{a[0] + b[0], max(a[1], b[1])}; })[0];
  x = scan(x, axis(0), [](auto a, auto b) { return a + b; });
  x = reduce(std::array{x, x}, axis(0), [](const auto& a, const auto&) { return a; })[0];
  x = reduce(x, axis(0), [](Tile a, Tile b) { return a + b; });
#endif
  return x;
}
