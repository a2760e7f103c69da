// expect: tegula: this assigns to a temporary and would be lost. Only Out and InOut views can be
// stored to
#include <tegula/tegula.h>
using namespace tegula;
#ifdef WRONG
void f(In<f32, 1> x, Index i) { x(i) = 1; }
#else
void f(Out<f32, 1> x, Index i) { x(i) = 1; }
#endif
