#pragma once
// Pictures of Schedules: the roles of a CTA, the rings that they share, and their timelines.
#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/schedule/schedule.h"

namespace tegula::tools {

struct PictureOptions {
  std::string title;
  std::vector<std::string> tensors = {};  ///< argument names for a kernel without them
  int iterations = 6, tiles = 1;          ///< iterations of each scheduled loop of each tile
};

/// Returns an SVG picture. `machine` is in machine form before its dots are pipelined, and `s` is
/// legal for it. Throws CompileError if there are no rings or if the roles deadlock.
std::string schedule_svg(const ir::Kernel& machine, const ir::Schedule& s,
                         const PictureOptions& options);

}  // namespace tegula::tools
