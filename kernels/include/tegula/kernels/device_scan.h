#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Running sums of arrays of any length, by all SMs.
namespace tegula {

/// Whether an element of a running sum counts itself.
enum class ScanKind : std::uint8_t { inclusive, exclusive };

struct DeviceScanOptions {
  ScanKind kind = ScanKind::inclusive;
  /// Whether an x of f32 is read once, each program waiting for the sums of those before it
  /// (decoupled look-back). The sums that it finds depend on time, so the last bits of two runs may
  /// differ.
  bool look_back = false;
};

/// y[i] = x[0] + .. + x[i], or up to x[i - 1]: x and y of i32, i64, f32 or f64 [n], i32 and i64
/// with wrap-around. i32 is read once, the others twice: then floats have the same bits in every
/// run and on every GPU, as the order of additions depends on n alone. Throws CompileError for what
/// does not fit.
void device_scan(const Stream& stream, const Tensor& x, const Tensor& y,
                 const DeviceScanOptions& options = {}, Loc at = std::source_location::current());

}  // namespace tegula
