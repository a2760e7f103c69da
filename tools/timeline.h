#pragma once
// The roles of a machine form in time: its own order of TMA loads, waits, MMAs and releases,
// with lengths of a simple model.
#include <cstdint>
#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/plan.h"

namespace tegula::tools {

/// The work of an SM of a Hopper GPU in a cycle, for pictures only (NVIDIA H100 white paper: 989
/// TFLOPS of dense bf16, 132 SMs of 128 lanes, 16 exp2 a cycle).
struct CycleModel {
  double multiply_adds = 2048;  ///< of 16-bit operands
  double lanes = 128, exponentials = 16;
  double copied_bytes = 64;  ///< from L2
  double latency = 700;      ///< of a TMA load
};

struct Timeline {
  /// A ring in shared memory.
  struct Ring {
    ir::Value of, full;
    std::string name;      ///< of the tensor that TMA reads
    std::int64_t arg = 0;  ///< its position among the kernel's arguments
    std::int64_t slots = 1, slot_bytes = 0;
  };
  /// Something that takes time. `number` counts the fills of the ring it is about.
  struct Span {
    double begin = 0, end = 0;
    std::int64_t number = 0;
    std::string text, note;
  };
  /// A slot from the TMA load's issue over its landing to the release by its last reader.
  struct Fill {
    std::size_t ring = 0;
    std::int64_t slot = 0, number = 0;
    double issued = 0, landed = 0, released = 0;
  };
  /// A warpgroup, or the thread that issues TMA loads.
  struct Role {
    std::string name;
    std::vector<Span> waits, computes, releases, mmas;
  };

  std::vector<Ring> rings;
  std::vector<Role> roles;  ///< the producer first
  std::vector<Span> mmas;   ///< of all roles, as the tensor cores run them
  std::vector<Fill> fills;
  double end = 0;
};

/// `names` are those of the arguments, where the kernel has none. Follows a machine form through
/// `tiles` output tiles of so many k-iterations each. Throws CompileError where it has no rings.
Timeline timeline_of(const ir::Kernel& machine, const ir::Plan& plan, int k_iterations, int tiles,
                     const std::vector<std::string>& names = {}, const CycleModel& model = {});

}  // namespace tegula::tools
