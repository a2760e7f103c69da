// expect: tegula: a struct of kernel parameters has at most 16 members
#include <tegula/tegula.h>

#include <array>
using namespace tegula;
#ifdef WRONG
auto k = kernel("k", [](std::array<In<f32, 1>, 18>) {});
#else
auto k = kernel("k", [](std::array<In<f32, 1>, 16>) {});
#endif
