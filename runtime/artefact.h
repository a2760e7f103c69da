#pragma once
// A compiled kernel as data: what compilation leaves behind, without IR, pointers or a device. The
// disk cache stores it, and any number of GPUs load it (runtime/loaded_artefact.h).
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
  none,   ///< nothing: a kernel of the simulator or the interpreter
  cubin,  ///< machine code of one target
  ptx     ///< text that the driver compiles when it loads it: the way without an assembler
};

struct Artefact {
  std::string name;  ///< the kernel's name, in the image too
  ir::Target target;
  Backend backend = Backend::Llvm;
  ImageKind kind = ImageKind::none;
  std::vector<char> image;
  std::string code;  ///< the back end's text: PTX of LLVM, CUDA C++ for NVRTC
  LaunchRecipe recipe;
  int threads = 0;                          ///< threads of a CTA
  int cluster = 1;                          ///< CTAs of a cluster
  std::uint32_t shared_bytes = 0;           ///< dynamic shared memory of a CTA
  bool programmatic_launch = false;         ///< may overlap the end of the kernel before
  bool persistent = false;                  ///< each CTA computes many tiles
  bool cooperative = false;                 ///< its CTAs wait for one another
  bool has_mma = false, has_wgmma = false;  ///< tensor core instructions in the code
  std::string key_text;                     ///< the key as text, for people
  std::string schedule_text;                ///< the plan as text
  AssembleReport report;                    ///< empty where nothing was assembled
};

/// The image is the cubin or, where there is none, the PTX.
void set_image(Artefact& artefact, std::vector<char> cubin);

/// CTAs that one SM of the target holds at once, from registers, threads and shared memory;
/// registers count where the report has them.
int ctas_per_sm(const Artefact& artefact, const AssembleReport& report);

/// Registers, memory and spills as text, then the assembler's warnings, a line each.
std::string assembler_text(const AssembleReport& report, std::int64_t shared_bytes,
                           std::size_t cubin_bytes);

/// The PTX, empty where there is no code. An artefact of NVRTC has it made now; throws DeviceError
/// where NVRTC is missing.
std::string ptx_of(const Artefact& artefact);

}  // namespace tegula::runtime
