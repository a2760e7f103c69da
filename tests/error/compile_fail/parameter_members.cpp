// expect: tegula: a struct of kernel parameters has at most 16 members
#include <tegula/tegula.h>
using namespace tegula;
struct Sixteen {
  Scalar<i32> a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
};
#ifdef WRONG
struct Seventeen {
  Scalar<i32> a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q;
};
auto k = kernel("k", [](Seventeen) {});
#else
auto k = kernel("k", [](Sixteen) {});
#endif
