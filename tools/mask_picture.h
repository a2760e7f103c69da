#pragma once
// Pictures of the blocks of a mask.
#include <string>
#include <vector>

#include "ir/analysis/mask/blocks.h"

namespace tegula::tools {

struct MaskPicture {
  std::vector<std::vector<ir::BlockCoverage>>
      rows;                          ///< coverage of blocks, beginning at the first query
  std::vector<std::string> notes;    ///< note of each row, shown under the pointer
  std::vector<std::string> caption;  ///< lines under the blocks
};

/// Returns an SVG document: empty, partial and full blocks in their colours, a legend and the
/// caption.
std::string svg(const MaskPicture& picture);

}  // namespace tegula::tools
