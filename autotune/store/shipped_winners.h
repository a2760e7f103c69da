#pragma once
// Winners that ship with the library, measured on one class of GPU. Each family has its own text
// file, so that a look-up reads only that family.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/store/records.h"

namespace tegula::autotune {

/// Returns the folder `tegula/winners` next to the library.
std::filesystem::path shipped_folder();

/// Replaces all but letters and digits by dashes: "nvidia-h100-80gb-hbm3-cc-9-0".
std::string file_name_of(std::string_view text);

/// Returns the winners of a family on a device class, sorted by (problem, numerics), from the lines
/// of `folder/DEVICE/FAMILY.jsonl` (TuningStore::export_text()). Empty if the file does not exist;
/// lines of another device, family or version are skipped.
std::vector<Winner> shipped_winners(const std::filesystem::path& folder, const std::string& device,
                                    const std::string& family, std::int64_t version);

}  // namespace tegula::autotune
