// Scalar semantics of the functions of one float. f32 and smaller types are evaluated in double and
// rounded to f32, which is the correctly rounded value of the exact function except for a few
// arguments in 2^28. An approximate GPU instruction may differ from it by the error that its row
// states.
#include <cfloat>

#include "ir/eval/scalar.h"

namespace tegula::ir {
namespace {

/// Selects whether the GPU's f32 instruction flushes subnormal arguments and results to zero.
enum class Subnormals : bool { Keep, Flush };

float flushed(float v) { return std::fabs(v) < FLT_MIN ? std::copysign(0.0f, v) : v; }

template <class F>
void map_function(std::string_view op, const ElementwiseCall& c, Subnormals mode, F f) {
  for_float(op, c.out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<1>(c, [&](Cell a) {
      if constexpr (std::is_same_v<T, f64>) {
        return give<T>(f(a.f));
      } else if (mode == Subnormals::Keep) {
        return give<T>(static_cast<float>(f(a.f)));
      } else {
        return give<T>(flushed(static_cast<float>(f(flushed(static_cast<float>(a.f))))));
      }
    });
  });
}

Subnormals of_approx(const AttrList& attrs) {
  return attrs.i(AttrName::approx) != 0 ? Subnormals::Flush : Subnormals::Keep;
}

constexpr auto kKeep = Subnormals::Keep;
constexpr auto kFlush = Subnormals::Flush;

}  // namespace

void scalar_Exp2(const ElementwiseCall& c) {
  map_function("exp2", c, kFlush, [](double x) { return std::exp2(x); });
}
void scalar_Log2(const ElementwiseCall& c) {
  map_function("log2", c, kFlush, [](double x) { return std::log2(x); });
}
void scalar_Sqrt(const ElementwiseCall& c) {
  map_function("sqrt", c, of_approx(c.attrs), [](double x) { return std::sqrt(x); });
}
void scalar_Rsqrt(const ElementwiseCall& c) {
  map_function("rsqrt", c, kKeep, [](double x) { return 1.0 / std::sqrt(x); });
}
void scalar_Rcp(const ElementwiseCall& c) {
  map_function("rcp", c, of_approx(c.attrs), [](double x) { return 1.0 / x; });
}
void scalar_TanhApprox(const ElementwiseCall& c) {
  map_function("tanh_approx", c, kKeep, [](double x) { return std::tanh(x); });
}
void scalar_SinApprox(const ElementwiseCall& c) {
  map_function("sin_approx", c, kFlush, [](double x) { return std::sin(x); });
}
void scalar_CosApprox(const ElementwiseCall& c) {
  map_function("cos_approx", c, kFlush, [](double x) { return std::cos(x); });
}
void scalar_Floor(const ElementwiseCall& c) {
  map_function("floor", c, kKeep, [](double x) { return std::floor(x); });
}
void scalar_Ceil(const ElementwiseCall& c) {
  map_function("ceil", c, kKeep, [](double x) { return std::ceil(x); });
}
void scalar_Round(const ElementwiseCall& c) {
  map_function("round", c, kKeep, [](double x) { return std::nearbyint(x); });
}
void scalar_Trunc(const ElementwiseCall& c) {
  map_function("trunc", c, kKeep, [](double x) { return std::trunc(x); });
}

void scalar_Exp(const ElementwiseCall& c) {
  map_function("exp", c, kKeep, [](double x) { return std::exp(x); });
}
void scalar_Log(const ElementwiseCall& c) {
  map_function("log", c, kKeep, [](double x) { return std::log(x); });
}
void scalar_Sin(const ElementwiseCall& c) {
  map_function("sin", c, kKeep, [](double x) { return std::sin(x); });
}
void scalar_Cos(const ElementwiseCall& c) {
  map_function("cos", c, kKeep, [](double x) { return std::cos(x); });
}
void scalar_Tanh(const ElementwiseCall& c) {
  map_function("tanh", c, kKeep, [](double x) { return std::tanh(x); });
}
void scalar_Erf(const ElementwiseCall& c) {
  map_function("erf", c, kKeep, [](double x) { return std::erf(x); });
}
void scalar_WithGradient(const ElementwiseCall& c) {
  map_cells<1>(c, [](Cell value) { return value; });
}

}  // namespace tegula::ir
