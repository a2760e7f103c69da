#pragma once
// Compile-time construction of the launch recipe.
#include "ir/kernel.h"
#include "runtime/recipe.h"

namespace tegula::runtime {

/// Returns the recipe of a kernel whose tile form contains the launch region and whose simt form
/// contains the flattened parameters. Throws InternalError if a parameter does not name an
/// argument.
LaunchRecipe make_recipe(const ir::Kernel& tile, const ir::Kernel& simt);

/// Returns true if a grid program can compute the op.
bool is_grid_op(ir::Opcode opcode);

/// Returns the part of the recipe that depends on the tile form alone: `ranks`, `steps` and `grid`.
LaunchRecipe grid_recipe(const ir::Kernel& tile);

}  // namespace tegula::runtime
