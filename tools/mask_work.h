#pragma once
// Compares the pairs that attention computes under masks with those that the masks keep.
#include <string>

#include "tegula/kernels/masks.h"
#include "tools/mask_entries.h"
#include "tools/workload/attention_pairs.h"

namespace tegula::tools {

struct HeadShape {
  int heads = 16, dim = 128;
};

AttentionWorkload pairs_under(const Mask& mask, const MaskLengths& lengths, const HeadShape& heads);

/// Returns three numbers and their ratios as a line.
std::string text(const AttentionWorkload& pairs);

/// Returns a Markdown table of masks of the classes I and T, each at several lengths.
std::string work_table(const HeadShape& heads);

/// Returns a Markdown table of the modelled load balance for the same masks, with tiles in today's
/// order and with the longest tiles first.
std::string order_table(const HeadShape& heads);

}  // namespace tegula::tools
