#pragma once
// XML text of pages and pictures.
#include <string>
#include <string_view>

namespace tegula::tools {

/// Returns a text escaped for use between tags or as an attribute value.
std::string escaped(std::string_view text);

}  // namespace tegula::tools
