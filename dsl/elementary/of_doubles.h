#pragma once
// f64 versions of the functions that are instructions, or ops, for f32.
#include "tegula/value.h"

namespace tegula::dsl::elementary {

/// These take f32 as well.
Tile exp_of(const Tile& x);
Tile exp2_of(const Tile& x);
Tile tanh_of(const Tile& x);
Tile log_of(const Tile& x);
Tile log2_of(const Tile& x);
Tile sin_of(const Tile& x);
Tile cos_of(const Tile& x);
Tile rsqrt_of(const Tile& x);
Tile erf_of(const Tile& x);

}  // namespace tegula::dsl::elementary
