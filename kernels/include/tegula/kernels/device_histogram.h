#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Counts of the keys of an array of any length.
namespace tegula {

/// counts[b] = number of keys that are b: keys of i32, i64 or u8 [n], counts i32 [bins]. Keys
/// outside [0, bins) are not counted; 2^31 keys of one bin and more wrap around. Up to 4096 bins,
/// programs count in shared memory and add up their counts; more bins are counted by atomic
/// additions in memory. Throws CompileError for what does not fit.
void device_histogram(const Stream& stream, const Tensor& keys, const Tensor& counts,
                      Loc at = std::source_location::current());

}  // namespace tegula
