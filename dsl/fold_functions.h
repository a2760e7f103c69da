#pragma once
// Folds and scans by a user's function, whose trace becomes the region of the op.
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "dsl/tracer.h"

namespace tegula::dsl {

using FoldFunction = std::function<void(std::span<Tile> left, std::span<const Tile> right)>;

/// Throws CompileError unless all tiles have the first one's shape.
void check_one_shape(Tracer& t, std::string_view what, std::span<const ir::Value> tiles, Loc at);
/// Traces `combine` on scalars of the operands' types as the region of `op`, and returns the op's
/// results.
std::vector<Tile> trace_fold(Tracer& t, std::string_view what, ir::OpId op,
                             std::span<const ir::Value> operands, const FoldFunction& combine,
                             Loc at);

}  // namespace tegula::dsl
