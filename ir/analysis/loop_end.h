#pragma once
// Handles loops that end near the largest number of their type, where another step wraps around.
#include "ir/analysis/facts.h"
#include "ir/builder.h"

namespace tegula::ir {

/// Returns true if an index of the loop plus `steps` steps may overflow.
bool may_pass_indices(const Facts& facts, const Kernel& k, OpId loop, std::int64_t steps = 1);

/// Returns the next index, or the loop's end if that is closer.
Value next_index(Builder& b, OpId loop, Value index);

/// Returns an i1 that is true if the loop has an iteration at `index`, an index of the loop plus
/// some steps. If `may_pass`, the sum may have wrapped around and be less than the first index.
Value has_iteration(Builder& b, OpId loop, Value index, bool may_pass);

/// Returns the trip count of the loop from `lo` to `hi`.
Value trip_count(Builder& b, Value lo, Value hi, Value step);

}  // namespace tegula::ir
