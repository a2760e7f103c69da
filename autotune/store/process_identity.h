#pragma once
// Distinguishes a live process from a dead one whose process id was reused.
#include <cstdint>
#include <optional>
#include <string>

namespace tegula::autotune {

std::string host_name();
/// Returns the start of a process in clock ticks after boot, or nullopt if it does not exist.
std::optional<std::int64_t> start_of_process(std::int64_t pid);
/// Returns true if the process lives. Processes of another host are assumed to live.
bool is_alive(const std::string& host, std::int64_t pid, std::int64_t started);

}  // namespace tegula::autotune
