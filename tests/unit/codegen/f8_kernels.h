#pragma once
// One op on fp8 in a separate kernel: what both emitters must refuse below sm_90, with the same
// words, and what they must not.
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tegula::test {

/// Need a conversion, which the hardware lacks.
inline constexpr std::string_view kConvertsF8[] = {
    "%y = cast %f : v<2xf8e4m3>",  // a pair, for which there is an instruction
    "%y = cast %d : v<2xf8e5m2>",
    "%y = cast %g : v<4xf8e4m3>",
    "%y = cast %h : v<2xf32>",
    "%y = cast %h : v<2xi32>",
    "%y = cast %i : v<2xf8e5m2>",
    "%y = add %h, %h : v<2xf8e4m3>",
    "%y = cmp %h, %h [pred = \"lt\"] : v<2xi1>"};
/// Look at the bits alone.
inline constexpr std::string_view kMovesF8[] = {
    "%y = neg %h : v<2xf8e4m3>", "%y = abs %h : v<2xf8e4m3>", "%y = bitcast %h : v<2xi8>",
    "%y = select %c, %h, %h : v<2xf8e4m3>"};

/// How f64 becomes f8e5m2 with one rounding: rounded to odd in f32 first.
inline constexpr std::string_view kF64ToF8[] = {
    "cvt.rz.f32.f64 w, ",          "cvt.f64.f32 back, w;",
    "setp.equ.f64 exact, back, ",  "mov.b32 odd, w;",
    "@!exact or.b32 odd, odd, 1;", "mov.b32 w, odd;",
    "cvt.rn.satfinite.e5m2x2.f32 "};

/// The conversions above that a text lacks or has in another order, or "" where it has nothing else
/// that converts between them and the end.
inline std::string lacks_f64_to_f8(std::string_view text) {
  std::size_t at = text.find("cvt.");
  for (std::string_view instruction : kF64ToF8) {
    at = text.find(instruction, at);
    if (at == std::string_view::npos) return std::string(instruction);
  }
  return text.find("cvt.", at + 1) == std::string_view::npos ? "" : "a conversion too many";
}

inline std::string f8_kernel(std::string_view target, std::string_view op) {
  const auto type = op.substr(op.find(": ") + 2);
  const auto elem = type.substr(4, type.size() - 5);
  return fmt::format(
      R"(kernel @k simt target({}) threads(32) (%p: ptr<f8e4m3>, %q: ptr<f32>, %r: ptr<f64>, %s: ptr<i32>, %c: i1, %out: ptr<{}>) {{
  %h = ld_global %p [width = 2] : v<2xf8e4m3>
  %f = ld_global %q [width = 2] : v<2xf32>
  %g = ld_global %q [width = 4] : v<4xf32>
  %d = ld_global %r [width = 2] : v<2xf64>
  %i = ld_global %s [width = 2] : v<2xi32>
  {}
  st_global %out, %y [width = {}]
}})",
      target, elem, op, type[2]);
}

}  // namespace tegula::test
