#pragma once
// GPUs that this machine does not have, for ahead-of-time decisions.
#include <string>

#include "runtime/context.h"

namespace tegula::tools {

/// Returns the first model with winners in this installation whose name contains `wanted`, ignoring
/// case; for an empty text, the model of the host's profile. Throws std::runtime_error that lists
/// the models if none matches.
runtime::DeviceProperties known_gpu(const std::string& wanted);

}  // namespace tegula::tools
