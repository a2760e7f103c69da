#pragma once
// A Schedule as a picture: who the roles of a CTA are, which rings they share, and what each does
// when.
#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/schedule/schedule.h"

namespace tegula::tools {

struct PictureOptions {
  std::string title;
  std::vector<std::string> tensors = {};  ///< names of the kernel's arguments, where it has none
  int iterations = 6, tiles = 1;          ///< iterations of each scheduled loop, of each tile
};

/// The picture, an SVG file. `machine` is in machine form before its dots are pipelined, `s` legal
/// for it. Throws CompileError where there are no rings, or the roles wait for each other.
std::string schedule_svg(const ir::Kernel& machine, const ir::Schedule& s,
                         const PictureOptions& options);

}  // namespace tegula::tools
