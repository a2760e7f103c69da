#pragma once
#include <string_view>
#include <vector>

#include "codegen/lower/lowering.h"

namespace tegula::codegen {

/// Attributes of an access of `width` elements, with the hints of the op that makes it.
ir::AttrList access_attrs(const ir::AttrList& from, std::int64_t width);

/// Tells for each register whether it holds an element, not padding; none where all do.
ir::Value is_element(Lowering& l, const ir::LinearLayout& layout);

/// Operands addresses, values and a predicate, if any: each element there becomes the combination
/// of itself and the value.
void emit_reduction(Lowering& l, const std::vector<ir::Value>& operands, std::string_view kind,
                    std::int64_t run);

}  // namespace tegula::codegen
