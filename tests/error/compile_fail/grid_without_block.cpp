// expect: tegula: grid(space, block...) needs the extents of a block
#include <tegula/tegula.h>
using namespace tegula;
void f(Out<f32, 1> z) {
#ifdef WRONG
  for (auto i : grid(z)) (void)i;
#else
  for (auto i : grid(z, 16)) (void)i;
#endif
}
