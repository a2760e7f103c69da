#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Helpers for texts and text files that {fmt} and the standard library lack.
namespace tegula {

/// Returns the substrings of `text` between separators: "a,,b" gives "a", "", "b"; "" gives one
/// empty string. They point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Returns `text` without leading and trailing spaces, tabs and line ends.
std::string_view trim(std::string_view text);

/// Returns the whole content of a file, byte for byte. Throws DeviceError with errno if it cannot
/// be read.
std::string read_file(const std::filesystem::path& path);

/// Replaces the content of `path` atomically: writes a new file next to it, then renames that, so
/// that readers see either the old or the new content. Creates missing folders. Throws DeviceError
/// with errno if it cannot be written.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tegula
