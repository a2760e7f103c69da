// Running sums of an array.
#include "tegula/kernels/device_scan.h"

#include "kernels/device/chunks.h"

namespace tegula {
namespace {

template <class T>
bool scans(const Stream& stream, const Tensor& x, const Tensor& y, ScanKind kind) {
  if (x.dtype() != dtype_of<T>) return false;
  static const auto* const plans = new CallPlans;  // statics may call, too
  const bool is_exclusive = kind == ScanKind::exclusive;
  plans->call(stream, tensor_args(x, y), PlanOptions{is_exclusive}, [&](PlanBuilder& plan) {
    device::plan_scan<T>(plan, plan.argument(0), plan.argument(1), is_exclusive);
  });
  return true;
}

}  // namespace

void device_scan(const Stream& stream, const Tensor& x, const Tensor& y, ScanKind kind, Loc at) {
  const detail::CallPlace here(at);
  require_rank("device_scan", "x", x, 1);
  require_tensor("device_scan", "y", y, x.dtype(), x.shape());
  if (!(scans<i32>(stream, x, y, kind) || scans<i64>(stream, x, y, kind) ||
        scans<f32>(stream, x, y, kind) || scans<f64>(stream, x, y, kind)))
    device::throw_type("device_scan", "x", x, "i32, i64, f32 or f64");
}

}  // namespace tegula
