#pragma once
// Runs a tile program twice on the same arguments: in the interpreter, and lowered by the passes in
// the simulator.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "codegen/sim/simulator.h"
#include "ir/eval/eval.h"
#include "ir/pipeline.h"
#include "runtime/jit_verbs.h"

namespace tegula::fuzz {

/// One host argument: a view on its own bytes, or a scalar.
struct Argument {
  DType dtype = DType::f32;
  bool is_view = false;
  ir::Ints dims, strides;
  std::vector<std::byte> bytes;
  ir::Cell scalar{.i = 0};
  /// Output only: how far the two executions may differ.
  double tolerance = 0;

  std::int64_t elements() const {
    return static_cast<std::int64_t>(bytes.size()) / size_bytes(dtype);
  }
  ir::Cell at(std::int64_t i) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size_bytes(dtype),
                static_cast<std::size_t>(size_bytes(dtype)));
    return ir::from_bits(bits, dtype);
  }
  void put(std::int64_t i, ir::Cell c) {
    const std::uint64_t bits = ir::to_bits(ir::canonical(c, dtype), dtype);
    std::memcpy(bytes.data() + i * size_bytes(dtype), &bits,
                static_cast<std::size_t>(size_bytes(dtype)));
  }
};
using Arguments = std::vector<Argument>;

/// Kernels that count tiles leave the counter at 0.
inline std::uint32_t& tile_counter() {
  thread_local std::uint32_t counter = 0;
  return counter;
}

/// The counter of kernels that count tiles follows their arguments.
inline std::vector<ir::EvalArg> eval_args(Arguments& args) {
  std::vector<ir::EvalArg> out;
  for (Argument& a : args) {
    if (a.is_view)
      out.emplace_back(ir::TensorArg{a.bytes.data(), a.dims, a.strides, a.dtype});
    else
      out.emplace_back(a.scalar);
  }
  std::uint32_t* counter = &tile_counter();
  out.emplace_back(ir::PointerArg{counter, counter, counter + 1});
  return out;
}

/// Returns the interpreter's findings; "" if there are none.
inline std::string interpret(const ir::Kernel& tile, Arguments& args) {
  return ir::evaluate(tile, eval_args(args),
                      {.check = true, .shuffle_seed = std::nullopt, .threads = 1})
      .str();
}

inline ir::Kernel lowered(const ir::Kernel& tile, std::optional<ir::Plan> plan = {}) {
  ir::Kernel k = ir::clone(tile);
  ir::PassContext context;
  context.plan = plan;
  ir::run_pipeline(k, runtime::optimize_passes(), context);
  return k;
}

inline sim::SimArg sim_arg(const ir::Param& p, const Arguments& args) {
  if (p.attrs.s(ir::AttrName::component) == "counter") return sim::arg_pointer(&tile_counter());
  const Argument& a = args.at(static_cast<std::size_t>(p.attrs.i(ir::AttrName::arg)));
  const std::string_view part = p.attrs.s(ir::AttrName::component);
  const auto axis = static_cast<std::size_t>(p.attrs.i(ir::AttrName::axis));
  if (part == "ptr") return sim::arg_pointer(a.bytes.data());
  if (part == "dim") return a.dims.at(axis);
  if (part == "stride") return a.strides.at(axis);
  return is_float(a.dtype) ? sim::SimArg(a.scalar.f) : sim::SimArg(a.scalar.i);
}

inline sim::Report simulate(const ir::Kernel& simt, std::array<std::int64_t, 3> grid,
                            Arguments& args, std::uint64_t seed = 1,
                            std::int64_t max_steps = 200'000'000) {
  sim::SimOptions options;
  options.seed = seed;
  options.max_steps = max_steps;
  for (const Argument& a : args)
    if (a.is_view) options.ranges.push_back({a.bytes.data(), a.bytes.data() + a.bytes.size()});
  options.ranges.push_back({&tile_counter(), &tile_counter() + 1});
  std::vector<sim::SimArg> list;
  for (const ir::Param& p : simt.params()) list.push_back(sim_arg(p, args));
  return sim::simulate(
      simt, {static_cast<int>(grid[0]), static_cast<int>(grid[1]), static_cast<int>(grid[2])}, list,
      options);
}

/// Gaps of the layout passes that stop compilation (no wrong results). Remove a gap when it is
/// closed.
inline std::string known_gap(std::string_view error) {
  for (const char* gap : {"broadcast: the threads hold different parts",
                          "reshape: a padded dimension would be cut or merged"})
    if (error.find(gap) != std::string_view::npos) return gap;
  return "";
}

/// Returns the first element in which the arguments differ by more than the tolerance; "" if none
/// does.
inline std::string difference(const Arguments& want, const Arguments& got) {
  for (std::size_t a = 0; a < want.size(); ++a) {
    if (!want[a].is_view) continue;
    for (std::int64_t i = 0; i < want[a].elements(); ++i) {
      const ir::Cell w = want[a].at(i), g = got[a].at(i);
      if (!is_float(want[a].dtype)) {
        if (w.i != g.i)
          return fmt::format("argument {} element {}: interpreter {}, simulator {}", a, i, w.i,
                             g.i);
        continue;
      }
      const bool same = w.f == g.f || (std::isnan(w.f) && std::isnan(g.f)) ||
                        std::abs(w.f - g.f) <= want[a].tolerance;
      if (!same)
        return fmt::format("argument {} element {}: interpreter {}, simulator {}, allowed {}", a, i,
                           w.f, g.f, want[a].tolerance);
    }
  }
  return "";
}

}  // namespace tegula::fuzz
