// expect: tegula: a traced value has no bool while the kernel is traced, so it cannot steer a C++
// if
#include <tegula/tegula.h>
using namespace tegula;
Tile f(Tile t) {
#ifdef WRONG
  return t > 0 ? t : -t;
#else
  return where(t > 0, t, -t);
#endif
}
