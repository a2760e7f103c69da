#pragma once
// Arguments of masks that mean nothing are refused where the mask is made: in the kernel they would
// be a division by 0, or a table of another type.
#include "kernels/argument_error.h"
#include "tegula/kernels/masks.h"

namespace tegula::masks {

/// Throws T1662 for a constant below `least`, at the line that gives it.
void require_at_least(int least, const char* mask, const char* name, const MaskScalar& number);
/// Throws T1662 for one below 1.
inline void require_positive(const char* mask, const char* name, const MaskScalar& number) {
  require_at_least(1, mask, name, number);
}
/// Throws T1662 for one below 0.
inline void require_count(const char* mask, const char* name, const MaskScalar& number) {
  require_at_least(0, mask, name, number);
}
/// Throws T1662 unless the tensor is i32 of one dimension, at the line of the call.
inline void require_table(const char* mask, const char* name, const Tensor& table) {
  tegula::require_table(mask, name, table, DType::i32, 1);
}

}  // namespace tegula::masks
