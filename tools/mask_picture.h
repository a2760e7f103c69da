#pragma once
// The blocks of a mask as a picture.
#include <string>
#include <vector>

#include "ir/analysis/mask/blocks.h"

namespace tegula::tools {

struct MaskPicture {
  std::vector<std::vector<ir::BlockCoverage>>
      rows;                          ///< coverage of blocks, from the first query on
  std::vector<std::string> notes;    ///< note of each row, shown under the pointer
  std::vector<std::string> caption;  ///< lines under the blocks
};

/// An SVG document: empty, partial and full blocks in their colours, a legend and the caption.
std::string svg(const MaskPicture& picture);

}  // namespace tegula::tools
