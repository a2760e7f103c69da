#pragma once
// Measuring lies above this layer; here is where the C interface asks for it.
#include <span>

#include "dsl/instance.h"

namespace tegula::dsl {

/// Chooses the values of tune() for calls with such arguments, as Kernel::tune does.
using KernelTuner = TuneResult (*)(KernelInstance& kernel, const TuneOptions& options,
                                   std::span<const HostArg> args);
void set_kernel_tuner(KernelTuner tuner);
/// Null in a program without a tuner.
KernelTuner kernel_tuner();

}  // namespace tegula::dsl
