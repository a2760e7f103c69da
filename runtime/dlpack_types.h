#pragma once
// Element types in DLPack's words.
#include "tegula/dlpack.h"
#include "tegula/dtype.h"

namespace tegula::runtime {

dlpack::DataType dlpack_type(DType dtype);

}  // namespace tegula::runtime
