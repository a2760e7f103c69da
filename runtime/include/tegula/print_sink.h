#pragma once
#include <functional>
#include <string_view>

namespace tegula {

/// Sets the function that receives the lines of `print` and `watch_nan`, each with its line end.
/// The default is standard output. It is called after kernels have ended, by the thread that waits
/// for them, one call at a time. An empty function restores standard output.
void set_print_sink(std::function<void(std::string_view line)> sink);

}  // namespace tegula
