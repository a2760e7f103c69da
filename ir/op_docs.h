#pragma once
// docs/ir.md, made from the op table.
#include <string>

namespace tegula::ir {
std::string ops_markdown();
}
