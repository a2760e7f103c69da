#pragma once
// Object files that contain bytes under a symbol name.
#include <string>
#include <string_view>

namespace tegula::tools {

/// Returns a relocatable ELF file for this machine with the read-only symbol `name`, aligned to 64
/// bytes.
std::string elf_object(const std::string& name, std::string_view bytes);

}  // namespace tegula::tools
