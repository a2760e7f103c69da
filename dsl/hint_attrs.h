#pragma once
// Hints of the language as attributes of ops.
#include "ir/kernel.h"
#include "tegula/hints.h"

namespace tegula::dsl {

ir::AttrList attrs_of(Hints hints);

}  // namespace tegula::dsl
