#pragma once
// Casts with sat = 1 from the largest operand there is (infinity where the type has one): where the
// result's type holds it, it must arrive, elsewhere the largest finite value must. Simulator and
// both emitters are held to this one list.
#include <fmt/format.h>

#include <string>

#include "tegula/dtype.h"

namespace tegula::emit_cases {

struct SatCast {
  DType from, to;
  std::uint64_t operand, result;  ///< bits
  bool saturates;                 ///< instructions are needed for it
};

inline constexpr SatCast kSatCasts[] = {
    {DType::f8e5m2, DType::f8e5m2, 0x7c, 0x7c, false},
    {DType::f8e5m2, DType::f16, 0x7c, 0x7c00, false},
    {DType::f8e5m2, DType::bf16, 0x7c, 0x7f80, false},
    {DType::f8e5m2, DType::f32, 0x7c, 0x7f800000, false},
    {DType::f8e5m2, DType::f64, 0x7c, 0x7ff0000000000000, false},
    {DType::f8e4m3, DType::f16, 0x7e, 0x5f00, false},
    {DType::f8e4m3, DType::bf16, 0x7e, 0x43e0, false},
    {DType::f8e4m3, DType::f32, 0x7e, 0x43e00000, false},
    {DType::f16, DType::f16, 0x7c00, 0x7c00, false},
    {DType::f16, DType::f32, 0x7c00, 0x7f800000, false},
    {DType::bf16, DType::f32, 0xff80, 0xff800000, false},
    {DType::f32, DType::f32, 0x7f800000, 0x7f800000, false},
    {DType::f32, DType::f64, 0x7f800000, 0x7ff0000000000000, false},
    {DType::i16, DType::i32, 0x7fff, 0x7fff, false},
    {DType::u16, DType::i32, 0xffff, 0xffff, false},
    // A type narrower in range or in digits saturates.
    {DType::f8e5m2, DType::f8e4m3, 0x7c, 0x7e, true},
    {DType::f8e4m3, DType::f8e5m2, 0x7e, 0x5f, true},
    {DType::f16, DType::bf16, 0x7c00, 0x7f7f, true},
    {DType::bf16, DType::f16, 0x7f80, 0x7bff, true},
    {DType::f32, DType::f16, 0xff800000, 0xfbff, true},
    {DType::f32, DType::f8e5m2, 0x7f800000, 0x7b, true},
    {DType::f64, DType::f32, 0x7ff0000000000000, 0x7f7fffff, true},
    {DType::i32, DType::f16, 70000, 0x7bff, true},
    {DType::i32, DType::u16, 0xffffffff, 0, true},
    {DType::i16, DType::i8, 0x7fff, 0x7f, true},
};

inline std::string name_of(const SatCast& c) {
  return fmt::format("{} to {}", name(c.from), name(c.to));
}

/// Two elements, so that the ways for pairs are taken.
inline std::string kernel_of(const SatCast& c) {
  return fmt::format(R"(kernel @k simt target(sm_90a) threads(32) (%p: ptr<{0}>, %q: ptr<{1}>) {{
  %x = ld_global %p [width = 2] : v<2x{0}>
  %y = cast %x [sat = 1] : v<2x{1}>
  st_global %q, %y [width = 2]
}})",
                     name(c.from), name(c.to));
}

/// Any of the ways in which the emitters' PTX ends in the largest value.
inline bool has_saturation(const std::string& text) {
  for (const char* way : {"satfinite", "cvt.sat", "setp.eq.u"})
    if (text.find(way) != std::string::npos) return true;
  return false;
}

}  // namespace tegula::emit_cases
