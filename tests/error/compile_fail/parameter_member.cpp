// expect: tegula: kernel parameters are In, Out, InOut, Scalar, Ptr, or C++ numbers, bools and
#include <tegula/tegula.h>
#include <string>
using namespace tegula;
template <class T>
struct Operands {
  In<f32, 2> x;
  T mode;
  std::optional<Out<f32, 2>> z;
};
#ifdef WRONG
auto k = kernel("k", [](Operands<std::string>) {});
#else
struct Mode {
  bool exact;
};
auto k = kernel("k", [](Operands<Mode>) {});
#endif
