#pragma once
// Text in XML: pages and pictures.
#include <string>
#include <string_view>

namespace tegula::tools {

/// Text between tags, or the value of an attribute.
std::string escaped(std::string_view text);

}  // namespace tegula::tools
