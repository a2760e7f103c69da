#pragma once
#include <string>
#include <string_view>

/// Markdown as our generated pages have it.
namespace tegula {

/// Longest line of a page.
inline constexpr std::size_t kPageWidth = 120;

/// A list item: "- " and the text, whose further lines are indented by two blanks. A word longer
/// than a line stays whole.
std::string markdown_item(std::string_view text);

/// A paragraph of lines that are as long as the page is wide.
std::string markdown_paragraph(std::string_view text);

}  // namespace tegula
