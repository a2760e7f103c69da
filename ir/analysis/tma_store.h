#pragma once
// Decides which stores TMA can make from shared memory.
#include <optional>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// A bound that a launch knows: nothing is stored at or beyond it along dimension `dim` of the
/// view.
struct TensorMapBound {
  std::int64_t dim;
  std::int64_t arg;  ///< index of a parameter whose dimension `value` it is; -1: it is `value`
  std::int64_t value;
};

/// The limits of a store_view, but for those of the view itself; none where one of them is not
/// known at the launch.
std::optional<std::vector<TensorMapBound>> clips_of(const Kernel& k, const OpData& store);

/// The first op by which the kernel tells others that its results are there, or counts; none if it
/// does not.
OpId first_announcement(const Kernel& k);

/// Why TMA cannot store this tile (a store_view of tile or machine form); empty if it can. TMA
/// drops elements outside of the view, and nobody reads its writes before the kernel ends.
std::string_view why_not_tma_store(const Kernel& k, const OpData& store);

}  // namespace tegula::ir
