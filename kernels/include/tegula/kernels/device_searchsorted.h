#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Binary search of values in a sorted array.
namespace tegula::kernels {

/// Position of a value relative to equal elements.
enum class SearchSide : std::uint8_t {
  left,   ///< before them: the number of elements less than the value
  right,  ///< after them: the number of elements that are not greater than the value
};

/// y[i] = the position of values[i] in `sorted`, ascending: sorted [n] and values [m] are f32, i32
/// or i64, y is i32 [m], n < 2^31. NaN is greater than all numbers: a NaN value is placed after all
/// elements, and NaNs of `sorted` are at its end. Throws CompileError (T1661, T1662) for invalid
/// arguments.
void device_searchsorted(const Stream& stream, const Tensor& sorted, const Tensor& values,
                         const Tensor& y, SearchSide side = SearchSide::left,
                         Loc at = std::source_location::current());

}  // namespace tegula::kernels
