// Lines of generated pages.
#include "support/markdown.h"

#include <gtest/gtest.h>

namespace tegula::markdown_test {
namespace {

TEST(Markdown, ItemsAreAsWideAsThePage) {
  const std::string word(39, 'x');
  EXPECT_EQ(markdown_item(word + " " + word), "- " + word + " " + word + "\n");
  // Three words and the dash are 2 + 3 * 39 + 2 = 121 columns.
  EXPECT_EQ(markdown_item(word + " " + word + " " + word),
            "- " + word + " " + word + "\n  " + word + "\n");
  EXPECT_EQ(markdown_paragraph(word + "  " + word + " " + word),
            word + " " + word + " " + word + "\n");
}

TEST(Markdown, ALongWordStaysWhole) {
  const std::string word(200, 'x');
  EXPECT_EQ(markdown_item("a " + word), "- a\n  " + word + "\n");
  EXPECT_EQ(markdown_item(word), "- " + word + "\n");
}

}  // namespace
}  // namespace tegula::markdown_test
