#pragma once
// A schedule as a picture: who the roles of a CTA are, which rings they share, and what each does
// when.
#include <string>

#include "tools/timeline.h"

namespace tegula::tools {

/// A kernel whose passes have run up to machine form, and the plan that they carried out.
struct Scheduled {
  ir::Kernel machine;
  ir::Plan plan;
};

/// Runs the passes of `optimize` up to the lowering.
Scheduled scheduled(const ir::Kernel& tile, ir::Target target);

/// The picture, an SVG file. `title` names the kernel.
std::string schedule_svg(const Scheduled& s, const Timeline& t, const std::string& title);

}  // namespace tegula::tools
