// Stream compaction: a chunk packs its elements in shared memory and stores them contiguously.
#include "tegula/kernels/device_select.h"

#include "kernels/device/chunks.h"

namespace tegula::kernels {
namespace {

using device::chunk_at;
using device::kChunk;

template <class T>
auto select_kernel() {
  return kernel("device_select", [](In<T, 1> x, In<bool, 1> keep, In<i32, 1> starts, Out<T, 1> y) {
    for (auto i : grid(starts, 1)) {
      grid_dependency_wait();
      y.partial();
      const Index c = chunk_at(i.first());
      const Tile is_kept = fill_absent(keep(c), 0), flags = cast<i32>(is_kept);
      const Tile place = where(is_kept, cumsum(flags, 0, {.exclusive = true}), -1);
      const Tile packed = scatter(zeros<T>(kChunk), place, fill_absent(x(c), 0), 0);
      const Tile start = starts(i);
      y(slice(start, kChunk).until(start + sum(flags))) = packed;
    }
  });
}

template <class T>
bool selects(const Stream& stream, const Tensor& x, const Tensor& keep, const Tensor& y,
             const Tensor& count) {
  if (x.dtype() != dtype_of<T>) return false;
  static const auto* const plans = new CallPlans;  // leaked: static destructors may call
  static const auto* const starts_kernel = new auto(device::chunk_starts<bool, i32>());
  static const auto* const kernel_of_type = new auto(select_kernel<T>());
  plans->call(stream, tensor_args(x, keep, y, count), {}, [&](PlanBuilder& plan) {
    const PlanSlot starts = plan.scratch({device::chunks_of(x.size(0))}, DType::i32);
    plan.launch(*starts_kernel, plan.argument(1), starts, plan.argument(3), plan.counters(1));
    plan.launch(*kernel_of_type, plan.argument(0), plan.argument(1), starts, plan.argument(2));
  });
  return true;
}

}  // namespace

void device_select(const Stream& stream, const Tensor& x, const Tensor& keep, const Tensor& y,
                   const Tensor& count, Loc at) {
  const detail::CallPlace here(at);
  require_rank("device_select", "x", x, 1);
  device::require_places("device_select", "x", x);
  require_tensor("device_select", "keep", keep, DType::i1, x.shape());
  require_tensor("device_select", "y", y, x.dtype(), x.shape());
  require_tensor("device_select", "count", count, DType::i32, {1});
  if (!(selects<bf16>(stream, x, keep, y, count) || selects<f16>(stream, x, keep, y, count) ||
        selects<f32>(stream, x, keep, y, count) || selects<i32>(stream, x, keep, y, count) ||
        selects<i64>(stream, x, keep, y, count)))
    device::throw_type("device_select", "x", x, "bf16, f16, f32, i32 or i64");
}

}  // namespace tegula::kernels
