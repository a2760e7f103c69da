#pragma once
// The two back ends that turn the simt form into machine code.
#include <cstdint>
#include <string_view>

namespace tegula::runtime {

enum class Backend : std::uint8_t { Llvm, Nvrtc };
std::string_view name(Backend b);
/// Returns the back end of TEGULA_BACKEND, else LLVM.
Backend default_backend();

}  // namespace tegula::runtime
