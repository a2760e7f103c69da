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

/// Three numbers and the ratios between them, in a line.
std::string text(const AttentionWorkload& pairs);

/// A Markdown table: masks of the classes I and T, each at several lengths.
std::string work_table(const HeadShape& heads);

/// A Markdown table: the same masks, by a model of how even the work of programs is that take tiles
/// as they do today, or those with most steps first.
std::string order_table(const HeadShape& heads);

}  // namespace tegula::tools
