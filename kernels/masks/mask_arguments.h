#pragma once
// Checks of mask arguments at construction: invalid ones would become a division by 0 or a table of
// the wrong type in the kernel.
#include "kernels/argument_error.h"
#include "tegula/kernels/masks.h"

namespace tegula::kernels::masks {

/// Throws T1662 for a constant below `least`, at the line that passes it.
void require_at_least(int least, const char* mask, const char* name, const MaskScalar& number);
/// Throws T1662 for a constant below 1.
inline void require_positive(const char* mask, const char* name, const MaskScalar& number) {
  require_at_least(1, mask, name, number);
}
/// Throws T1662 for a constant below 0.
inline void require_count(const char* mask, const char* name, const MaskScalar& number) {
  require_at_least(0, mask, name, number);
}
/// Throws T1662 at the line of the call unless the tensor is i32 with one dimension.
inline void require_table(const char* mask, const char* name, const Tensor& table) {
  kernels::require_table(mask, name, table, DType::i32, 1);
}

}  // namespace tegula::kernels::masks
