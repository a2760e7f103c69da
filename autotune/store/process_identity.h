#pragma once
// Telling a living process from one that died and from another that has its number by now.
#include <cstdint>
#include <optional>
#include <string>

namespace tegula::autotune {

std::string host_name();
/// Its start, in clock ticks after the machine's; none if there is no such process.
std::optional<std::int64_t> start_of_process(std::int64_t pid);
/// A process of another host is taken to live: nothing here can tell.
bool is_alive(const std::string& host, std::int64_t pid, std::int64_t started);

}  // namespace tegula::autotune
