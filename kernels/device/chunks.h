#pragma once
// Reduce-then-scan (Sengupta, Harris, Zhang and Owens 2007): one launch sums the chunks of an
// array, its last program scans the sums, and the next launch scans each chunk from its start
// value. The order of arrival has no effect, so floats have the same bits in every run.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "kernels/argument_error.h"
#include "tegula/call_plan.h"
#include "tegula/int_math.h"
#include "tegula/tegula.h"

namespace tegula::kernels::device {

/// Elements per chunk.
inline constexpr int kChunk = 8192;
/// Chunk sums that the last program scans at a time.
inline constexpr int kSumsPerStep = 4096;

/// Returns the number of chunks of an array, at least one.
inline std::int64_t chunks_of(std::int64_t elements) {
  return std::max<std::int64_t>(1, ceil_div<std::int64_t>(elements, kChunk));
}

/// Returns the elements of chunk `number`.
inline Index chunk_at(const Tile& number) { return slice(number * kChunk, kChunk); }

/// Replaces the sums by their exclusive scan, and returns the total.
template <class T>
Tile scan_sums(const InOut<T, 1>& sums) {
  Tile carried = full<T>(0);
  for (auto c : steps(sums.dim(0), kSumsPerStep)) {
    const Tile part = fill_absent(sums(c), 0);
    sums(c) = carried + cumsum(part, 0, {.exclusive = true});
    carried += sum(part);
  }
  return carried;
}

/// First launch: starts[i] = the sum of all chunks before chunk i. Elements are converted to `T`
/// first, so that booleans are counted.
template <class From, class T>
auto chunk_starts() {
  return kernel("device_chunk_starts", [](In<From, 1> x, InOut<T, 1> starts,
                                          std::optional<Out<T, 1>> total, Ptr<u32> arrivals) {
    for (auto i : grid(starts, 1)) {
      grid_dependency_wait();
      starts(i) = sum(cast<T>(x(chunk_at(i.first()))));
      if_(arrive_and_test_last(arrivals, cast<i32>(starts.dim(0))), [&] {
        const Tile all_of_them = scan_sums(starts);
        if (total) (*total)(0) = all_of_them;
      });
    }
  });
}

/// Second launch of a scan. Processes the last chunks first, which are still in L2.
template <class T>
auto scan_chunks() {
  return kernel("device_scan", [](In<T, 1> x, In<T, 1> starts, Out<T, 1> y, bool is_exclusive) {
    for (auto i : grid(starts, 1)) {
      grid_dependency_wait();
      const Tile chunk = starts.dim(0) - 1 - i.first();
      y(chunk_at(chunk)) =
          starts(chunk) + cumsum(x(chunk_at(chunk)), 0, {.exclusive = is_exclusive});
    }
  });
}

/// Adds the launches of y = running sums of x to a plan.
template <class T>
void plan_scan(PlanBuilder& plan, PlanSlot x, PlanSlot y, bool is_exclusive) {
  static const auto* const starts_kernel = new auto(chunk_starts<T, T>());
  static const auto* const scan_kernel = new auto(scan_chunks<T>());
  const PlanSlot starts = plan.scratch({chunks_of(plan.tensor(x).size(0))}, dtype_of<T>);
  plan.launch(*starts_kernel, x, starts, PlanSlot(), plan.counters(1));
  plan.launch(*scan_kernel, x, starts, y, is_exclusive);
}

/// Throws T1662 if a dimension has 2^31 or more elements: indices into it are i32.
inline void require_places(const char* kernel, const char* name, const Tensor& tensor,
                           int dim = 0) {
  if (tensor.size(dim) > std::numeric_limits<std::int32_t>::max())
    throw_argument_error(ErrorId::kernel_argument, kernel, name, tensor.str(),
                         "fewer than 2147483648 elements: their positions are i32");
}

/// Throws T1662 for an element type that is not among those listed in `types`.
[[noreturn]] inline void throw_type(const char* kernel, const char* name, const Tensor& tensor,
                                    const char* types) {
  throw_argument_error(ErrorId::kernel_argument, kernel, name, tensor.str(), types);
}

}  // namespace tegula::kernels::device
