#pragma once
// A GPU that is known only by its description.
#include "runtime/context.h"

namespace tegula::runtime {

/// Replaces the properties of GPU `properties.ordinal` for the rest of the process, even if the
/// driver does not list that GPU. Library calls use the properties to make their decisions ahead of
/// time.
void describe_gpu(DeviceProperties properties);

}  // namespace tegula::runtime
