#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Helpers for texts and text files that {fmt} and the standard library lack.
namespace tegula {

/// Pieces of `text` between separators: "a,,b" gives "a", "", "b"; "" gives one empty piece. They
/// point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

/// `text` without spaces, tabs and line ends at both sides.
std::string_view trim(std::string_view text);

/// The whole content of a file, byte for byte. DeviceError with errno if it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Makes `path` hold exactly `content`: written beside it, then renamed, so that readers see the
/// old or the new content and nothing between. Makes missing folders. DeviceError with errno if it
/// cannot be written.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tegula
