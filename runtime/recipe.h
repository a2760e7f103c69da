#pragma once
// The launch recipe of a compiled kernel: how the host arguments of a call become the grid and the
// block of machine arguments. Made once per kernel, evaluated at each launch without lock or
// allocation.
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
#include "runtime/launch.h"
#include "runtime/tensor_map.h"
#include "tegula/tensor.h"

namespace tegula::runtime {

/// One run-time argument of a call: a tensor, or the bytes of a scalar or address.
struct LaunchArg {
  const Tensor* tensor = nullptr;
  std::uint64_t bits = 0;
};

class LaunchRecipe {
 public:
  /// `tile` holds the launch region, `simt` the flattened parameters.
  static LaunchRecipe make(const ir::Kernel& tile, const ir::Kernel& simt);

  /// More programs than these are never launched: a persistent kernel runs the rest itself. They
  /// come in clusters of `cluster`, the last of which may have more programs than there is work
  /// for.
  void set_most_programs(std::int64_t programs, std::int64_t cluster) {
    most_programs_ = programs;
    cluster_ = cluster;
  }
  /// Grid extents of a call; 0 where there is nothing to do.
  std::array<std::int64_t, 3> grid(std::span<const LaunchArg> args) const;
  /// The kernel counts its tiles in memory.
  bool needs_counter() const { return needs_counter_; }
  /// Writes the machine arguments into a block of `block_bytes()`; `counter` is 0 between launches,
  /// or none where the kernel needs none.
  void pack(std::span<const LaunchArg> args, std::byte* block,
            std::uint32_t* counter = nullptr) const;
  /// Tensor maps are kept in `maps`, which must outlive the arguments.
  std::vector<sim::SimArg> sim_args(std::span<const LaunchArg> args,
                                    std::vector<codegen::TensorMap>& maps,
                                    std::uint32_t* counter = nullptr) const;

  std::span<const ArgumentSlot> slots() const { return layout_.slots(); }
  std::size_t block_bytes() const { return layout_.total_bytes(); }
  std::string str() const;

 private:
  enum class Part : std::uint8_t { Pointer, Dim, Stride, Value, Map, Counter };
  struct Field {
    Part part;
    std::uint8_t arg, axis;
    DType dtype;
    std::uint32_t offset;
    std::uint8_t map = 0;  ///< of maps_
  };
  /// Ends a tensor's dimension where another argument's ends, or at `value` (arg -1).
  struct Clip {
    std::size_t dim = 0;
    std::int64_t arg = -1, value = 0;
  };
  /// A tensor map but for what the arguments say: view dimensions innermost first, and the box.
  struct MapShape {
    std::array<std::uint8_t, codegen::kMaxTensorRank> order{};
    codegen::TensorMap map;
    std::vector<Clip> clips;
    std::unique_ptr<TensorMapCache> encoded;
  };
  /// One step of the grid's straight-line program: registers[i] = op(registers[a], registers[b],
  /// registers[c]).
  struct Step {
    std::int64_t (*op)(const Step&, const std::int64_t*, std::span<const LaunchArg>);
    std::int64_t immediate = 0;
    std::uint16_t a = 0, b = 0, c = 0;
    std::uint8_t arg = 0, axis = 0;
  };
  static constexpr std::size_t kMaxSteps = 128;

  std::int64_t value(const Field& f, std::span<const LaunchArg> args, std::uint32_t* counter) const;
  codegen::TensorMap tensor_map(const Field& f, std::span<const LaunchArg> args) const;
  std::uint8_t add_map(const ir::AttrList& attrs, DType dtype, const std::string& tensor);
  void compile_grid(const ir::Kernel& tile);
  void lay_out(const ir::Kernel& tile, const ir::Kernel& simt);

  friend struct GridCompiler;
  std::vector<Step> steps_;
  std::array<std::uint16_t, 3> grid_{};
  /// That a plan has divided each program of the traced grid into.
  std::int64_t splits_ = 1;
  std::int64_t most_programs_ = std::numeric_limits<std::int64_t>::max(), cluster_ = 1;
  bool needs_counter_ = false;
  std::vector<Field> fields_;
  std::vector<MapShape> maps_;
  ArgumentLayout layout_;
};

/// The arguments as the interpreter takes them, for parameters of `tile`.
std::vector<ir::EvalArg> eval_args(const ir::Kernel& tile, std::span<const LaunchArg> args);

}  // namespace tegula::runtime
