#include "support/markdown.h"

#include "support/text.h"

namespace tegula {
namespace {

std::string wrapped(std::string_view first, std::string_view further, std::string_view text) {
  std::string out(first);
  std::size_t column = first.size();
  bool is_at_begin = true;
  for (std::string_view word : split(text, ' ')) {
    if (word.empty()) continue;
    if (!is_at_begin && column + 1 + word.size() > kPageWidth) {
      out += "\n";
      out += further;
      column = further.size();
      is_at_begin = true;
    }
    if (!is_at_begin) out += " ";
    column += word.size() + (is_at_begin ? 0 : 1);
    out += word;
    is_at_begin = false;
  }
  return out + "\n";
}

}  // namespace

std::string markdown_item(std::string_view text) { return wrapped("- ", "  ", text); }

std::string markdown_paragraph(std::string_view text) { return wrapped("", "", text); }

}  // namespace tegula
