#pragma once
// Winners in bundles, beside the kernels that they name.
#include <string>
#include <string_view>
#include <vector>

#include "autotune/store/records.h"
#include "runtime/bundle.h"

namespace tegula::autotune {

/// The entry of a bundle that holds winners: lines as TuningStore::export_text() gives them.
runtime::BundledKernel winners_entry(std::string lines);

/// Winners of the bundles of this process, of one family and device class, the first bundle's
/// where several have one. Rows that are damaged are left out.
std::vector<Winner> bundled_winners(std::string_view device, std::string_view family,
                                    std::int64_t version);

}  // namespace tegula::autotune
