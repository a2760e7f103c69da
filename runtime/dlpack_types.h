#pragma once
// Mapping of element types to DLPack's.
#include "tegula/dlpack.h"
#include "tegula/dtype.h"

namespace tegula::runtime {

dlpack::DataType dlpack_type(DType dtype);

}  // namespace tegula::runtime
