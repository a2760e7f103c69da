#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Histogram of the keys of an array of any length.
namespace tegula::kernels {

/// counts[b] = number of keys equal to b: keys of i32, i64 or u8 [n], counts i32 [bins]. Keys
/// outside [0, bins) are not counted; counts of 2^31 and more wrap around. For up to 4096 bins,
/// programs count in shared memory and add their counts; more bins are counted with atomic
/// additions in global memory. Throws CompileError (T1661, T1662) for invalid
/// arguments.
void device_histogram(const Stream& stream, const Tensor& keys, const Tensor& counts,
                      Loc at = std::source_location::current());

}  // namespace tegula::kernels
