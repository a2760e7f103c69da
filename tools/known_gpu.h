#pragma once
// GPUs that this machine does not have, for what is decided ahead of time.
#include <string>

#include "runtime/context.h"

namespace tegula::tools {

/// The first model with winners in this installation whose name contains `wanted`, in letters of
/// any case, and with an empty text that of the host's profile. Throws std::runtime_error that
/// lists the models where there is none.
runtime::DeviceProperties known_gpu(const std::string& wanted);

}  // namespace tegula::tools
