#pragma once
// Masks of the library by name, with example numbers and tables.
#include <functional>
#include <string>
#include <vector>

#include "tegula/kernels/masks.h"

namespace tegula::tools {

struct MaskLengths {
  int q = 1024, kv = 1024;
};

using MaskScalars = std::vector<int>;
struct MaskEntry {
  std::string name;
  MaskScalars numbers;  ///< default numbers of the mask
  std::function<Mask(const MaskScalars&, const MaskLengths&)> make;
};

const std::vector<MaskEntry>& mask_entries();
const MaskEntry& mask_entry(const std::string& name);

}  // namespace tegula::tools
