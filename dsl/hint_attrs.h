#pragma once
// Converts hints of the language to attributes of ops.
#include "ir/kernel.h"
#include "tegula/hints.h"

namespace tegula::dsl {

ir::AttrList attrs_of(Hints hints);

}  // namespace tegula::dsl
