#pragma once
// The identity of a compiler or library by its content, so that a tool replaced at the same version
// and time makes new cache keys.
#include <filesystem>

#include "support/hash.h"

namespace tegula::runtime {

/// The hash of a file's content. Remembered under (device, inode, size, mtime, ctime) for this
/// process, and in `memo_folder` (if not empty and writable) for later ones. Throws DeviceError if
/// the file cannot be read.
Hash128 tool_hash(const std::filesystem::path& file, const std::filesystem::path& memo_folder = {});

}  // namespace tegula::runtime
