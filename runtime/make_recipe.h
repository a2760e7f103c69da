#pragma once
// The compiler's side of the launch recipe.
#include "ir/kernel.h"
#include "runtime/recipe.h"

namespace tegula::runtime {

/// The recipe of a kernel whose tile form holds the launch region, and whose simt form the
/// flattened parameters. Throws InternalError where a parameter names no argument.
LaunchRecipe make_recipe(const ir::Kernel& tile, const ir::Kernel& simt);

/// Whether a grid program can compute the op.
bool is_grid_op(ir::Opcode opcode);

/// The part of the recipe that the tile form alone decides: `ranks`, `steps` and `grid`.
LaunchRecipe grid_recipe(const ir::Kernel& tile);

}  // namespace tegula::runtime
