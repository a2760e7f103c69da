// Prefix sums of an array: two launches, or a single pass with look-back.
#include "tegula/kernels/device_scan.h"

#include "kernels/device/chunks.h"
#include "tegula/look_back.h"

namespace tegula::kernels {
namespace {

using device::chunk_at;
using device::kChunk;

auto zero_words_kernel() {
  return kernel("device_scan_words", [](Out<u64, 1> words) {
    for (auto w : grid(words, 1024)) words(w) = zeros<u64>(1024);
  });
}

/// Single pass: chunks are numbered by ticket, so those before a program's chunk have started.
template <class T>
auto look_back_kernel() {
  return kernel("device_scan_look_back",
                [](In<T, 1> x, Out<T, 1> y, Ptr<u64> words, Ptr<u32> tickets, bool is_exclusive) {
                  for ([[maybe_unused]] auto program : grid(x, kChunk)) {
                    grid_dependency_wait();
                    const Tile number = ticket(tickets, cast<i32>(cdiv(x.dim(0), kChunk)));
                    const Index at = chunk_at(cast<i64>(number));
                    const Tile chunk = x(at);
                    const auto plus = [](const Tile& a, const Tile& b) { return a + b; };
                    const LookBack<T> chunks(words);
                    const Tile own = sum(chunk);
                    chunks.publish(number, own);
                    // The chunk is scanned while earlier chunks publish their sums.
                    const Tile running = cumsum(chunk, 0, {.exclusive = is_exclusive});
                    y(at) = chunks.collect(number, own, 0, plus) + running;
                  }
                });
}

template <class T>
void plan_look_back(PlanBuilder& plan, PlanSlot x, PlanSlot y, bool is_exclusive) {
  static const auto* const zero_words = new auto(zero_words_kernel());
  static const auto* const scan = new auto(look_back_kernel<T>());
  const PlanSlot words = plan.scratch({device::chunks_of(plan.tensor(x).size(0))}, DType::u64);
  plan.launch(*zero_words, words);
  plan.launch(*scan, x, y, words, plan.counters(1), is_exclusive);
}

template <class T>
bool scans(const Stream& stream, const Tensor& x, const Tensor& y,
           const DeviceScanOptions& options) {
  if (x.dtype() != dtype_of<T>) return false;
  static const auto* const plans = new CallPlans;  // leaked: static destructors may call
  const bool is_exclusive = options.kind == ScanKind::exclusive,
             looks_back = dtype_of<T> == DType::i32 || options.look_back;
  plans->call(
      stream, tensor_args(x, y), PlanOptions{is_exclusive, looks_back}, [&](PlanBuilder& plan) {
        if constexpr (sizeof(T) == 4)
          if (looks_back)
            return plan_look_back<T>(plan, plan.argument(0), plan.argument(1), is_exclusive);
        device::plan_scan<T>(plan, plan.argument(0), plan.argument(1), is_exclusive);
      });
  return true;
}

}  // namespace

void device_scan(const Stream& stream, const Tensor& x, const Tensor& y,
                 const DeviceScanOptions& options, Loc at) {
  const detail::CallPlace here(at);
  require_rank("device_scan", "x", x, 1);
  require_tensor("device_scan", "y", y, x.dtype(), x.shape());
  if (options.look_back && size_bytes(x.dtype()) != 4)
    device::throw_type("device_scan with look_back", "x", x, "i32 or f32");
  if (!(scans<i32>(stream, x, y, options) || scans<i64>(stream, x, y, options) ||
        scans<f32>(stream, x, y, options) || scans<f64>(stream, x, y, options)))
    device::throw_type("device_scan", "x", x, "i32, i64, f32 or f64");
}

}  // namespace tegula::kernels
