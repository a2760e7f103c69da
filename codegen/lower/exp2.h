#pragma once
// 2^x without the special function unit, which computes 16 a clock and SM where 128 fma's are.
#include "ir/builder.h"

namespace tegula::codegen {

/// 2^x of f32, a scalar or registers: 2 ulp, as of the op exp2; from 2^127.5 on infinity.
ir::Value exp2_by_polynomial(ir::Builder& b, ir::Value x);

}  // namespace tegula::codegen
