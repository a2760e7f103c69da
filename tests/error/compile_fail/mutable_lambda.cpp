// expect: does not take a mutable lambda
#include <tegula/tegula.h>
using namespace tegula;
#ifdef WRONG
auto k = kernel("k", [n = 0](In<f32, 1> x, Out<f32, 1> y) mutable {
#else
auto k = kernel("k", [n = 0](In<f32, 1> x, Out<f32, 1> y) {
#endif
  for (auto i : grid(y, 32)) y(i) = x(i) + n;
});
