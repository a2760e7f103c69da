#pragma once
#include <string_view>
#include <vector>

#include "codegen/lower/lowering.h"

namespace tegula::codegen {

/// Returns the attributes of an access of `width` elements, with the cache hints of the op `from`.
ir::AttrList access_attrs(const ir::AttrList& from, std::int64_t width);

/// Returns a predicate: true in registers that hold an element, not padding; null if all do.
ir::Value is_element(Lowering& l, const ir::LinearLayout& layout);

/// Emits an atomic reduction without a result. Operands: addresses, values and optionally a
/// predicate. Each element becomes the combination of itself and the value.
void emit_reduction(Lowering& l, const std::vector<ir::Value>& operands, std::string_view kind,
                    std::int64_t run);

}  // namespace tegula::codegen
