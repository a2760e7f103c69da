// expect: tegula: kernel parameters are In, Out, InOut, Scalar, Ptr, or C++ numbers, bools and
// enums
#include <tegula/tegula.h>
#include <string>
using namespace tegula;
#ifdef WRONG
auto k = kernel("k", [](std::string) {});
#else
enum class Mode { fast, exact };
auto k = kernel("k", [](Mode, int, bool, Scalar<f32>, Ptr<bf16>) {});
#endif
