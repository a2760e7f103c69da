// expect: tegula: a struct of kernel parameters has at most 16 members
#include <tegula/tegula.h>

#include <array>
using namespace tegula;
struct Operands {
  In<f32, 1> x;
  std::array<Scalar<i32>, 16> n;
};
struct Whole {
  std::array<Operands, 3> parts;
#ifdef WRONG
  std::array<In<f32, 1>, 200> more;
#else
  std::array<std::array<In<f32, 1>, 4>, 3> more;
#endif
};
auto k = kernel("k", [](Whole) {});
