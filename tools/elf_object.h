#pragma once
// An object file that holds bytes under a name.
#include <string>
#include <string_view>

namespace tegula::tools {

/// A relocatable ELF file for this machine with the read-only symbol `name`, aligned to 64 bytes.
std::string elf_object(const std::string& name, std::string_view bytes);

}  // namespace tegula::tools
