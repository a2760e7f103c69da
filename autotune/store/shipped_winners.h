#pragma once
// Winners that come with the library: measured on one kind of GPU, a file of text for each family,
// so that a look-up reads one family's alone.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/store/records.h"

namespace tegula::autotune {

/// The folder `tegula/winners` beside the library.
std::filesystem::path shipped_folder();

/// "nvidia-h100-80gb-hbm3-cc-9-0": letters and digits of a text, dashes for the rest.
std::string file_name_of(std::string_view text);

/// The winners of a family on a device class, sorted by (problem, numerics), from
/// `folder/DEVICE/FAMILY.jsonl`, whose lines are those of TuningStore::export_text(). None where
/// there is no such file; lines that are not of this device, family and version are left out.
std::vector<Winner> shipped_winners(const std::filesystem::path& folder, const std::string& device,
                                    const std::string& family, std::int64_t version);

}  // namespace tegula::autotune
