#pragma once
// The blocks of a mask as a PNG file.
#include <string>

#include "tools/mask_picture.h"

namespace tegula::tools {

/// Returns a PNG file of the blocks in the size and colour of the SVG document, separated by white
/// lines. The caption is its Description (a text chunk). Throws CompileError if libpng cannot write
/// that many pixels.
std::string png(const MaskPicture& picture);

}  // namespace tegula::tools
