#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Places of values in a sorted array.
namespace tegula {

/// The place of a value among elements that equal it.
enum class SearchSide : std::uint8_t {
  left,   ///< in front of them: the number of elements below the value
  right,  ///< behind them: the number of elements that are not above it
};

/// y[i] = the place of values[i] in `sorted`, ascending: sorted [n] and values [m] of f32, i32 or
/// i64, y i32 [m], n below 2^31. A value that is NaN stands behind all elements, and NaN at the end
/// of `sorted` stand behind all numbers. Throws CompileError for what does not fit.
void device_searchsorted(const Stream& stream, const Tensor& sorted, const Tensor& values,
                         const Tensor& y, SearchSide side = SearchSide::left,
                         Loc at = std::source_location::current());

}  // namespace tegula
