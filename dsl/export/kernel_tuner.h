#pragma once
// The tuner is in a higher layer; the C interface calls it through this hook.
#include <span>

#include "dsl/instance.h"

namespace tegula::dsl {

/// Chooses the values of tune() for calls with such arguments, like Kernel::tune.
using KernelTuner = TuneResult (*)(KernelInstance& kernel, const TuneOptions& options,
                                   std::span<const HostArg> args);
void set_kernel_tuner(KernelTuner tuner);
/// Returns null in a program without a tuner.
KernelTuner kernel_tuner();

}  // namespace tegula::dsl
