#pragma once
// Says why a store left out an element, for reports of elements that were never stored.
#include <span>
#include <string>

#include "ir/eval/eval.h"

namespace tegula::ir {

/// Returns "the store at k.cpp:9:5 leaves out z[90], as its value is absent there: x at k.cpp:7:3,
/// which is [90]", with each argument that the value of the store_view is computed from and that
/// has no element for `index`.
std::string left_out(const Kernel& kernel, std::span<const EvalArg> args, OpId store,
                     std::string_view name, std::span<const std::int64_t> index);

}  // namespace tegula::ir
