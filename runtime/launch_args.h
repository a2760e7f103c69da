#pragma once
// Evaluates the launch recipe for the arguments of a call, without locks or allocations if a GPU
// runs the kernel.
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/sim/simulator.h"
#include "codegen/tensor_map.h"
#include "ir/eval/eval.h"
#include "ir/kernel.h"
#include "runtime/recipe.h"
#include "runtime/tensor_map.h"
#include "tegula/tensor.h"

namespace tegula::runtime {

/// One run-time argument of a call: a tensor, or the bytes of a scalar or address.
struct LaunchArg {
  const Tensor* tensor = nullptr;
  std::uint64_t bits = 0;
};

inline constexpr std::int64_t kAnyCtas = std::numeric_limits<std::int64_t>::max();

/// Returns the grid extents of a call; 0 if there is nothing to do. At most `max_ctas` CTAs are
/// launched along x: a persistent kernel loops over the remaining tiles. Computed in 64 bits,
/// whatever the type of the kernel's indices.
std::array<std::int64_t, 3> grid_of(const LaunchRecipe& recipe, std::span<const LaunchArg> args,
                                    std::int64_t max_ctas = kAnyCtas);
/// Returns the same as the launch takes it. Throws CompileError for an extent that no GPU supports.
std::array<unsigned, 3> checked_grid(const LaunchRecipe& recipe, std::span<const LaunchArg> args,
                                     std::int64_t max_ctas, const std::string& kernel);

/// The encoded maps of a kernel on one GPU: one cache per element of LaunchRecipe::maps.
using EncodedMaps = std::vector<std::unique_ptr<TensorMapCache>>;
EncodedMaps encoded_maps(const LaunchRecipe& recipe, const std::string& kernel);

/// Writes the machine arguments into a block of kMaxBlockBytes. `counter` is 0 between launches, or
/// null if the kernel does not need it.
void pack(const LaunchRecipe& recipe, std::span<const LaunchArg> args, const EncodedMaps& encoded,
          std::byte* block, std::uint32_t* counter = nullptr);

/// Returns the machine arguments for the simulator. Tensor maps are stored in `maps`, which must
/// outlive the arguments.
std::vector<sim::SimArg> sim_args(const LaunchRecipe& recipe, std::span<const LaunchArg> args,
                                  std::vector<codegen::TensorMap>& maps,
                                  std::uint32_t* counter = nullptr);

/// Returns the arguments for the interpreter, for the parameters of `tile`.
std::vector<ir::EvalArg> eval_args(const ir::Kernel& tile, std::span<const LaunchArg> args);

}  // namespace tegula::runtime
