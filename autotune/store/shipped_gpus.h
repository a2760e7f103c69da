#pragma once
// The models of GPU that winners are shipped for.
#include <filesystem>
#include <vector>

#include "runtime/context.h"

namespace tegula::autotune {

/// The GPUs that have winners in the folder (shipped_folder()), as far as their device class
/// describes them, in the order of their names: `device_class` of each is that of its winners.
std::vector<runtime::DeviceProperties> shipped_gpus(const std::filesystem::path& folder);

}  // namespace tegula::autotune
