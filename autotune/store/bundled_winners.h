#pragma once
// Winners in bundles, stored with the kernels that they refer to.
#include <string>
#include <string_view>
#include <vector>

#include "autotune/store/records.h"
#include "runtime/bundle.h"

namespace tegula::autotune {

/// Returns a bundle entry with winners, as lines of TuningStore::export_text().
runtime::BundledKernel winners_entry(std::string lines);

/// Returns the winners of one family and device class from the bundles of this process; the first
/// bundle takes precedence. Damaged rows are skipped.
std::vector<Winner> bundled_winners(std::string_view device, std::string_view family,
                                    std::int64_t version);

}  // namespace tegula::autotune
