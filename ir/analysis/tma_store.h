#pragma once
// Determines which stores TMA can make from shared memory.
#include <optional>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// A bound that is known at launch: elements at or beyond it along dimension `dim` of the view are
/// not stored.
struct TensorMapBound {
  std::int64_t dim;
  std::int64_t arg;  ///< parameter whose dimension `value` is the bound; -1: the bound is `value`
  std::int64_t value;
};

/// Returns the limits of a store_view other than those of the view itself, or nothing if one of
/// them is not known at launch.
std::optional<std::vector<TensorMapBound>> clips_of(const Kernel& k, const OpData& store);

/// Returns the first op that signals results to others or counts, or none.
OpId first_announcement(const Kernel& k);

/// Returns the reason why TMA cannot store this tile (a store_view of tile or machine form); empty
/// if it can. TMA drops elements outside the view, and its writes must not be read before the
/// kernel ends.
std::string_view why_not_tma_store(const Kernel& k, const OpData& store);

}  // namespace tegula::ir
