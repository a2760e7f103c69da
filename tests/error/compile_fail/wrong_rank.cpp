// expect: for call to
#include <tegula/tegula.h>
using namespace tegula;
#ifdef WRONG
Tile f(In<f32, 2> x, Index i) { return x(i); }
#else
Tile f(In<f32, 2> x, Index i) { return x(i, all); }
#endif
