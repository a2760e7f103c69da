#pragma once
// The two ways from the simt form to machine code.
#include <cstdint>
#include <string_view>

namespace tegula::runtime {

enum class Backend : std::uint8_t { Llvm, Nvrtc };
std::string_view name(Backend b);
/// TEGULA_BACKEND, else LLVM.
Backend default_backend();

}  // namespace tegula::runtime
