#pragma once
#include <string>
#include <string_view>

/// Markdown in the format of the generated pages.
namespace tegula {

/// Maximum length of a line of a page.
inline constexpr std::size_t kPageWidth = 120;

/// Returns a list item: "- " and the text, with continuation lines indented by two spaces. A word
/// longer than a line is not broken.
std::string markdown_item(std::string_view text);

/// Returns a paragraph wrapped at the page width.
std::string markdown_paragraph(std::string_view text);

}  // namespace tegula
