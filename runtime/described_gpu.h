#pragma once
// A GPU that is known by its description alone.
#include "runtime/context.h"

namespace tegula::runtime {

/// From now on GPU 0 of this process is the one that is described, whatever the driver lists: only
/// its properties are known, by which calls of the library are decided ahead of time.
void describe_gpu(DeviceProperties properties);

}  // namespace tegula::runtime
