#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/order.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Radix sort of arrays of any length.
namespace tegula {

/// Further arguments and results of a sort.
struct DeviceSortOptions {
  Direction direction = Direction::ascending;
  /// The keys' companions, in the keys' order: i32 [n], if wanted.
  Tensor sorted_values = {};
  /// The companions, i32 [n]; without them, `sorted_values` are the keys' places in `keys`.
  Tensor values = {};
};

/// The keys in order, as `sort` of a tile gives them: stable in either direction; of floats, -0
/// equals +0 and comes back as +0, and NaN stand behind all numbers. Keys of bf16, f16, f32, f64,
/// i32, u32, i64 or u64 [n], n below 2^31; `sorted` like them, in other memory. One launch counts
/// the digits of eight bits; then a launch a digit, the least significant first, reads the keys
/// once and writes them once. One program sorts up to 2048 keys. Throws CompileError for what does
/// not fit.
void device_sort(const Stream& stream, const Tensor& keys, const Tensor& sorted,
                 const DeviceSortOptions& options = {}, Loc at = std::source_location::current());

}  // namespace tegula
