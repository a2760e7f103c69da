#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Prefix sums of arrays of any length, on all SMs.
namespace tegula::kernels {

/// Whether the sum at an element includes the element.
enum class ScanKind : std::uint8_t {
  inclusive,  ///< y[0] = x[0]
  exclusive,  ///< y[0] = 0
};

/// Options of device_scan.
struct DeviceScanOptions {
  ScanKind kind = ScanKind::inclusive;  ///< whether y[i] includes x[i]
  /// Whether an f32 array is read only once, each program waiting for the sums of its predecessors
  /// (decoupled look-back). The order of additions then depends on timing, so last bits may differ
  /// between runs.
  bool look_back = false;
};

/// y[i] = x[0] + .. + x[i], or up to x[i - 1]: x and y are i32, i64, f32 or f64 [n]; i32 and i64
/// wrap around. i32 is read once, other types twice. Then floats have the same bits in every run
/// and on every GPU, as the order of additions depends on n only. Throws CompileError (T1661,
/// T1662) for invalid arguments.
void device_scan(const Stream& stream, const Tensor& x, const Tensor& y,
                 const DeviceScanOptions& options = {}, Loc at = std::source_location::current());

}  // namespace tegula::kernels
