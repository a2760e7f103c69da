#pragma once
// Functions that need code for f64, but are a single instruction or op for f32.
#include "tegula/value.h"

namespace tegula::dsl::elementary {

/// These also accept f32.
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
