#pragma once
// The launch recipe of a kernel, as data: how the arguments of a call become the grid and the block
// of machine arguments. The compiler creates it once (runtime/make_recipe.h), it is stored with the
// machine code (runtime/artefact_format.h), and a launch evaluates it (runtime/launch_args.h).
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/tensor_map.h"
#include "runtime/argument_layout.h"
#include "tegula/dtype.h"

namespace tegula::runtime {

enum class GridOp : std::uint8_t {
#define TEGULA_GRID_OP(name, value) name,
#include "runtime/grid_ops.def"
#undef TEGULA_GRID_OP
};
inline constexpr std::string_view kGridOpNames[] = {
#define TEGULA_GRID_OP(name, value) #name,
#include "runtime/grid_ops.def"
#undef TEGULA_GRID_OP
};

/// One step of the grid's straight-line program. The value of step i is op(step a, step b), or is
/// read from argument `arg`.
struct GridStep {
  GridOp op = GridOp::constant;
  std::uint8_t arg = 0, axis = 0;
  std::uint16_t a = 0, b = 0;
  std::int64_t immediate = 0;
  friend bool operator==(const GridStep&, const GridStep&) = default;
};

/// Component of an argument of the call that becomes a machine argument.
enum class ArgComponent : std::uint8_t { pointer, dim, stride, value, map, counter };
/// Names of the components in the attribute of a parameter in simt form.
inline constexpr std::string_view kArgComponentNames[] = {"ptr",   "dim", "stride",
                                                          "value", "map", "counter"};

/// One argument of the machine code.
struct MachineArg {
  ArgComponent component = ArgComponent::pointer;
  std::uint8_t arg = 0, axis = 0;
  std::uint8_t map = 0;  ///< index into LaunchRecipe::maps
  DType dtype = DType::u64;
  std::uint32_t offset = 0;  ///< in the block of arguments
  friend bool operator==(const MachineArg&, const MachineArg&) = default;

  std::uint32_t bytes() const;
};

/// Ends a dimension of a tensor map where dimension `value` of argument `arg` ends, or at `value`
/// where `arg` is -1.
struct MapBound {
  std::size_t dim = 0;
  std::int64_t arg = -1, value = 0;
  friend bool operator==(const MapBound&, const MapBound&) = default;
};

/// The part of a tensor map that does not depend on the call: `map` has the element type, the box
/// and the swizzle.
struct MapShape {
  std::string tensor;  ///< the argument's name, for messages
  std::array<std::uint8_t, codegen::kMaxTensorRank>
      order{};  ///< axes of the tensor, innermost first; the last may repeat one whose boxes end
                ///< where the kernel says
  codegen::TensorMap map;
  std::vector<MapBound> bounds;
  friend bool operator==(const MapShape&, const MapShape&) = default;
};

struct LaunchRecipe {
  static constexpr std::size_t kMaxSteps = 128;
  static constexpr std::int8_t kNoTensor = -1;

  /// Rank of each tensor argument of a call; kNoTensor for numbers and addresses.
  std::vector<std::int8_t> ranks;
  std::vector<GridStep> steps;
  std::array<std::uint16_t, 3> grid{};  ///< the steps whose values are the extents
  /// CTAs are launched in multiples of this: the cluster size of a persistent kernel, whose last
  /// cluster may have more CTAs than there is work for.
  std::int64_t cluster = 1;
  std::vector<MachineArg> args;
  std::vector<MapShape> maps;
  friend bool operator==(const LaunchRecipe&, const LaunchRecipe&) = default;

  /// Returns true if the kernel counts its tiles in memory.
  bool needs_counter() const;
  std::vector<ArgumentSlot> slots() const;
  std::string str() const;
};

/// Returns the reason why a launch must not evaluate the recipe: a step, argument, axis, map or
/// offset that is out of range. Returns "" for every recipe that the compiler creates.
std::string recipe_fault(const LaunchRecipe& recipe);

}  // namespace tegula::runtime
