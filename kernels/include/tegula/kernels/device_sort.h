#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/order.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Radix sort of arrays of any length.
namespace tegula::kernels {

/// Options of a sort, and its values (payload).
struct DeviceSortOptions {
  Direction direction = Direction::ascending;  ///< order of the keys
  /// Receives the values in the order of the keys: i32 [n]. Optional.
  Tensor sorted_values = {};
  /// The values, i32 [n]; without them, `sorted_values` receives the indices of the keys in `keys`.
  Tensor values = {};
};

/// Sorts keys, like `sort` of a tile: stable in either direction; floats -0 and +0 are equal and
/// both become +0, and NaN follows all numbers. Keys are bf16, f16, f32, f64, i32, u32, i64 or
/// u64 [n], n < 2^31; `sorted` has the same type and shape and must not alias them. One launch
/// counts all 8-bit digits; then one launch per digit, least significant first, reads and writes
/// the keys once. A single program sorts up to 2048 keys. Throws CompileError for invalid types
/// (T1661) and shapes (T1662), and if `sorted` aliases `keys` (T0706).
///
///     device_sort(stream, keys, sorted,
///                 {.direction = Direction::descending, .sorted_values = order});
void device_sort(const Stream& stream, const Tensor& keys, const Tensor& sorted,
                 const DeviceSortOptions& options = {}, Loc at = std::source_location::current());

}  // namespace tegula::kernels
