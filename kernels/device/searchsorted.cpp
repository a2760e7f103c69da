// Binary search, with one value per thread and several searches in flight.
#include "tegula/kernels/device_searchsorted.h"

#include <bit>

#include "kernels/device/chunks.h"

namespace tegula::kernels {
namespace {

constexpr int kValues = 1024;

/// Returns true if the element precedes the position of the value.
template <class T>
Tile stands_before(const Tile& element, const Tile& value, SearchSide side) {
  const Tile is_before = side == SearchSide::left ? element < value : element <= value;
  if constexpr (is_float(dtype_of<T>))
    return is_before || isnan(value);
  else
    return is_before;
}

template <class T>
auto search_kernel() {
  return kernel("device_searchsorted", [](In<T, 1> sorted, In<T, 1> values, Out<i32, 1> y,
                                          Scalar<i32> halvings, SearchSide side) {
    for (auto c : grid(y, kValues)) {
      const Tile value = fill_absent(values(c), 0);
      Tile low = zeros<i32>(kValues), high = broadcast(cast<i32>(sorted.dim(0)), {kValues});
      for ([[maybe_unused]] auto halving : steps(halvings, 1)) {
        const Tile middle = low + (high - low) / 2, is_open = low < high,
                   is_before = stands_before<T>(sorted(middle), value, side);
        low = where(is_open && is_before, middle + 1, low);
        high = where(is_open && !is_before, middle, high);
      }
      y(c) = low;
    }
  });
}

template <class T>
bool searches(const Stream& stream, const Tensor& sorted, const Tensor& values, const Tensor& y,
              SearchSide side) {
  if (sorted.dtype() != dtype_of<T>) return false;
  static const auto* const search = new auto(search_kernel<T>().with_plan({.num_warps = 4}));
  const int halvings = std::bit_width(static_cast<std::uint64_t>(sorted.size(0)));
  (*search)(stream, sorted, values, y, halvings, side);
  return true;
}

}  // namespace

void device_searchsorted(const Stream& stream, const Tensor& sorted, const Tensor& values,
                         const Tensor& y, SearchSide side, Loc at) {
  const detail::CallPlace here(at);
  require_rank("device_searchsorted", "sorted", sorted, 1);
  device::require_places("device_searchsorted", "sorted", sorted);
  require_rank("device_searchsorted", "values", values, 1);
  require_tensor("device_searchsorted", "values", values, sorted.dtype(), values.shape());
  require_tensor("device_searchsorted", "y", y, DType::i32, values.shape());
  if (!(searches<f32>(stream, sorted, values, y, side) ||
        searches<i32>(stream, sorted, values, y, side) ||
        searches<i64>(stream, sorted, values, y, side)))
    device::throw_type("device_searchsorted", "sorted", sorted, "f32, i32 or i64");
}

}  // namespace tegula::kernels
