// Histogram. Up to 4096 bins are counted in shared memory, more bins by atomics in global memory.
// The counts are integers, so the order of the additions has no effect.
#include "tegula/kernels/device_histogram.h"

#include "kernels/device/chunks.h"
#include "tegula/device_profile.h"

namespace tegula::kernels {
namespace {

constexpr int kMaxTileBins = 4096, kKeys = 4096;
/// Returns the keys per tile: larger tiles amortize clearing and reading the counters.
constexpr int keys_of_tile(std::int64_t bins) { return bins > 1024 ? 2 * kKeys : kKeys; }
/// Programs per SM.
constexpr std::int64_t kProgramsOfSm = 4;

auto histogram_zero_kernel() {
  return kernel("device_histogram_zero", [](Out<i32, 1> counts) {
    for (auto b : grid(counts, 1024)) counts(b) = zeros<i32>(1024);
  });
}

template <class T>
auto tile_bins_kernel() {
  return kernel("device_histogram",
                [](In<T, 1> keys, InOut<i32, 1> counts, int bins, Scalar<i32> programs) {
                  const int each = keys_of_tile(bins);
                  for (auto p : grid({programs}, 1)) {
                    Tile mine = zeros<i32>(bins);
                    for (auto c : steps(p.first() * each, keys.dim(0), each, programs * each))
                      mine += histogram(keys(c), bins);
                    atomic_add(counts(arange(bins)), mine);
                  }
                });
}

template <class T>
auto many_bins_kernel() {
  return kernel("device_histogram_many", [](In<T, 1> keys, InOut<i32, 1> counts) {
    for (auto c : grid(keys, kKeys)) {
      const Tile key = cast<i64>(keys(c));
      atomic_add(counts(key), full<i32>(1, kKeys));
    }
  });
}

template <class T>
bool counts_keys(const Stream& stream, const Tensor& keys, const Tensor& counts) {
  if (keys.dtype() != dtype_of<T>) return false;
  static const auto* const plans = new CallPlans;  // leaked: static destructors may call
  static const auto* const zero = new auto(histogram_zero_kernel());
  static const auto* const tile_bins =
      new auto(tile_bins_kernel<T>().with_plan({.num_warps = 8, .min_ctas_per_sm = 4}));
  static const auto* const many_bins = new auto(many_bins_kernel<T>());
  plans->call(stream, tensor_args(keys, counts), {}, [&](PlanBuilder& plan) {
    const std::int64_t bins = counts.size(0);
    plan.launch(*zero, plan.argument(1));
    if (bins > kMaxTileBins) return plan.launch(*many_bins, plan.argument(0), plan.argument(1));
    const std::int64_t tiles = ceil_div<std::int64_t>(keys.size(0), keys_of_tile(bins)),
                       programs = std::min(tiles, num_sms(plan.device()) * kProgramsOfSm);
    plan.launch(*tile_bins, plan.argument(0), plan.argument(1), static_cast<int>(bins),
                static_cast<std::int32_t>(programs));
  });
  return true;
}

}  // namespace

void device_histogram(const Stream& stream, const Tensor& keys, const Tensor& counts, Loc at) {
  const detail::CallPlace here(at);
  require_rank("device_histogram", "keys", keys, 1);
  require_rank("device_histogram", "counts", counts, 1);
  require_tensor("device_histogram", "counts", counts, DType::i32, counts.shape());
  if (counts.size(0) == 0) return;
  if (!(counts_keys<i32>(stream, keys, counts) || counts_keys<i64>(stream, keys, counts) ||
        counts_keys<u8>(stream, keys, counts)))
    device::throw_type("device_histogram", "keys", keys, "i32, i64 or u8");
}

}  // namespace tegula::kernels
