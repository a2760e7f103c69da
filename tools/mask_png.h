#pragma once
// The blocks of a mask as a PNG file.
#include <string>

#include "tools/mask_picture.h"

namespace tegula::tools {

/// A PNG file of the blocks, each of the size and colour it has in the SVG document, with white
/// between them; the caption is its Description (a text chunk). Throws CompileError for more pixels
/// than libpng writes.
std::string png(const MaskPicture& picture);

}  // namespace tegula::tools
