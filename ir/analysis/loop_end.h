#pragma once
// Ends of loops near the largest number of their type, beyond which a step wraps around.
#include "ir/analysis/facts.h"
#include "ir/builder.h"

namespace tegula::ir {

/// Whether what lies `steps` steps behind an index of the loop may be no index.
bool may_pass_indices(const Facts& facts, const Kernel& k, OpId loop, std::int64_t steps = 1);

/// The index one step further on, or the loop's end, if that is nearer.
Value next_index(Builder& b, OpId loop, Value index);

/// Whether the loop has an iteration at `index`, which is some steps behind one of its indices and,
/// if it may have passed the largest one, in front of them all.
Value has_iteration(Builder& b, OpId loop, Value index, bool may_pass);

/// How often the loop from `lo` to `hi` runs.
Value trip_count(Builder& b, Value lo, Value hi, Value step);

}  // namespace tegula::ir
