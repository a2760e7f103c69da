#pragma once
// A compiled kernel as data: the result of compilation, without IR, pointers or a device. The disk
// cache stores it, and any number of GPUs load it (runtime/loaded_artefact.h).
#include <cstdint>
#include <string>
#include <vector>

#include "ir/target.h"
#include "runtime/assemble.h"
#include "runtime/backend.h"
#include "runtime/recipe.h"

namespace tegula::runtime {

/// Kind of the image that the driver loads.
enum class ImageKind : std::uint8_t {
  none,   ///< no image: a kernel of the simulator or the interpreter
  cubin,  ///< machine code of one target
  ptx     ///< text that the driver compiles at load time: used without an assembler
};

struct Artefact {
  std::string name;  ///< the kernel's name, also in the image
  ir::Target target;
  Backend backend = Backend::Llvm;
  ImageKind kind = ImageKind::none;
  std::vector<char> image;
  std::string code;  ///< the back end's output: PTX from LLVM, or CUDA C++ for NVRTC
  LaunchRecipe recipe;
  int threads = 0;                          ///< threads of a CTA
  int cluster = 1;                          ///< CTAs of a cluster
  std::uint32_t shared_bytes = 0;           ///< dynamic shared memory of a CTA
  bool programmatic_launch = false;         ///< may overlap the end of the previous kernel
  bool persistent = false;                  ///< each CTA computes many tiles
  bool cooperative = false;                 ///< its CTAs wait for one another
  bool has_mma = false, has_wgmma = false;  ///< tensor core instructions in the code
  std::string key_text;                     ///< human-readable text of the key
  std::string schedule_text;                ///< the plan as text
  AssembleReport report;                    ///< empty if nothing was assembled
};

/// Sets the image to the cubin or, if that is empty, to the PTX.
void set_image(Artefact& artefact, std::vector<char> cubin);

/// Returns the number of CTAs that are resident on one SM of the target, limited by registers,
/// threads and shared memory. Registers are ignored if the report lacks them.
int ctas_per_sm(const Artefact& artefact, const AssembleReport& report);

/// Returns registers, memory and spills as text, then the assembler's warnings, one per line.
std::string assembler_text(const AssembleReport& report, std::int64_t shared_bytes,
                           std::size_t cubin_bytes);

/// Returns the PTX; "" for an artefact without code. For an artefact of NVRTC this call compiles
/// it; throws DeviceError if NVRTC is missing.
std::string ptx_of(const Artefact& artefact);

}  // namespace tegula::runtime
