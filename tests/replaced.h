#pragma once
// Faults planted in a text.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tegula::test {

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "no '" << from << "' in the kernel";
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

}  // namespace tegula::test
