#pragma once
// GPU models with shipped winners.
#include <filesystem>
#include <vector>

#include "runtime/context.h"

namespace tegula::autotune {

/// Returns the GPUs that have winners in the folder (shipped_folder()), sorted by name. The
/// properties are those that the device class of the winners describes.
std::vector<runtime::DeviceProperties> shipped_gpus(const std::filesystem::path& folder);

}  // namespace tegula::autotune
