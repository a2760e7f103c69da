#pragma once
// Identity of a compiler or library by its content, so that replacing a tool changes the cache keys
// even if its version and time stay the same.
#include <filesystem>

#include "support/hash.h"

namespace tegula::runtime {

/// Returns the hash of a file's content. It is cached under (device, inode, size, mtime, ctime) for
/// this process, and in `memo_folder` (if not empty and writable) for later ones. Throws
/// DeviceError if the file cannot be read.
Hash128 tool_hash(const std::filesystem::path& file, const std::filesystem::path& memo_folder = {});

}  // namespace tegula::runtime
