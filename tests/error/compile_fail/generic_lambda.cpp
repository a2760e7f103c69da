// expect: tegula: kernel(name, lambda) needs a lambda whose parameter types are written out:
// In<f32, 2> x, not auto x
#include <tegula/tegula.h>
using namespace tegula;
#ifdef WRONG
auto k = kernel("k", [](auto x) { (void)x; });
#else
auto k = kernel("k", [](In<f32, 1> x) { (void)x; });
#endif
