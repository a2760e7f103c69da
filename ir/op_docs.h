#pragma once
// Generates docs/ir.md from the op table.
#include <string>

namespace tegula::ir {
std::string ops_markdown();
}
