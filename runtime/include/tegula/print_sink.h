#pragma once
#include <functional>
#include <string_view>

namespace tegula {

/// Takes the lines of `print` and `watch_nan`, each with its end of line; standard output at first.
/// Called after kernels have ended, by whoever waits for them, one call at a time. An empty
/// function restores standard output.
void set_print_sink(std::function<void(std::string_view line)> sink);

}  // namespace tegula
