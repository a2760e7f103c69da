// expect: tegula: a traced value has no bool while the kernel is traced, so it cannot steer a C++
// if
#include <tegula/tegula.h>
using namespace tegula;
void f(Tile t) {
#ifdef WRONG
  while (t > 1) t = t - 1;
#else
  while_([&] { return t > 1; }, [&] { t = t - 1; });
#endif
}
