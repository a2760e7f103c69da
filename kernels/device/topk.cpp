// Top-k of rows: of short ones some in a program, of long ones first in parts, then among what the
// parts found, until one part is left. Parts keep the order of the row, so ties still go to the
// smaller index.
//
// Rows of 128 to 1024 elements are compared by the best of each group of neighbours first: the
// best k elements lie in the k groups whose best are the best, ties to the smaller index. Those
// groups are read again, in their order, and the best of them found.
#include "tegula/kernels/device_topk.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/device/chunks.h"
#include "kernels/row_tiles.h"

namespace tegula {
namespace {

constexpr std::int64_t kMaxKept = 4096;
/// Elements of the smallest part of a row.
constexpr std::int64_t kMinPart = 4096;

/// A slice of one column has no dimension, but an index tile of one has.
Subscript first_columns(int k) { return k == 1 ? Subscript(arange(1)) : Subscript(slice(0, k)); }

template <class T>
auto rows_kernel() {
  return kernel("device_topk_rows", [](In<T, 2> x, Out<T, 2> values, Out<i32, 2> indices,
                                       int tile_rows, int k, Direction direction) {
    for (auto r : grid(rows(x), tile_rows)) {
      const auto [best, place] = topk(x.with(kReadOnce)(r, all), k, -1, direction);
      values(r, first_columns(k)) = best;
      indices(r, first_columns(k)) = place;
    }
  });
}

template <class T>
auto groups_kernel() {
  return kernel("device_topk_groups", [](In<T, 2> x, Out<T, 2> values, Out<i32, 2> indices,
                                         int tile_rows, int k, int group, Direction direction) {
    for (auto r : grid(rows(x), tile_rows)) {
      const Tile row = x.with(kReadOnce)(r, all);
      const Tile groups = row.reshape({tile_rows, row.dim(1) / group, group});
      Tile best_of =
          direction == Direction::descending ? max(groups, axis(2)) : min(groups, axis(2));
      // The best of a group of NaN is behind all numbers, infinities among them.
      if constexpr (!std::is_same_v<T, i32>)
        best_of = where(any(groups == groups, axis(2)), best_of,
                        cast<T>(std::numeric_limits<float>::quiet_NaN()));
      // Keys of 16 bits sort by single words.
      const Tile order = sort(cast<i16>(topk(best_of, k, 1, direction).indices), 1);
      const Tile found = cast<i32>(order) * group;
      const Tile at =
          (found(all, all, none) + arange(group)(none, none, all)).reshape({tile_rows, k * group});
      const auto [best, place] = topk(x(cast<i32>(r.indices())(all, none), at), k, 1, direction);
      values(r, first_columns(k)) = best;
      indices(r, first_columns(k)) = gather(found, place / group, 1) + place % group;
    }
  });
}

/// The best of one part of a row. `from` are the places in the row, where x is what others found.
template <class T>
auto parts_kernel() {
  return kernel("device_topk_parts",
                [](In<T, 2> x, std::optional<In<i32, 2>> from, Out<T, 2> values,
                   Out<i32, 2> indices, Scalar<i32> parts, int part, int k, Direction direction) {
                  for (auto [r, p] : grid({x.rows(), parts}, 1, 1)) {
                    grid_dependency_wait();
                    const Tile first = cast<i32>(p.first()) * part;
                    const auto [best, at] = topk(x(r, slice(first, part)), k, 0, direction);
                    const Tile place = first + at, to = cast<i32>(p.first()) * k + arange(k);
                    values(r, to) = best;
                    indices(r, to) = from ? (*from)(r, place) : place;
                  }
                });
}

/// A thread has 16 elements, each of two words, in 64 registers; of rows by groups as many as fill
/// a network with the best of its groups.
constexpr PlanPatch kPlan{.num_warps = 8, .min_ctas_per_sm = 4},
    kGroupsPlan{.num_warps = 4, .min_ctas_per_sm = 4};
constexpr int kTileBytes = 32768;

/// Elements of a group of rows of this many columns; 1 if all are to be compared.
int elements_of_group(std::int64_t columns, int k) {
  constexpr int kMaxKept = 32, kMaxColumns = 1024;
  const auto held = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(columns))),
             kept = static_cast<int>(std::bit_ceil(static_cast<unsigned>(k)));
  if (kept > kMaxKept || held > kMaxColumns) return 1;
  int group = 1;
  while (4 * group * group * kept <= held) group *= 2;
  // Groups are read again as they are: each must be whole.
  const bool is_whole = columns % group == 0 && columns / group >= k;
  return is_whole && held / group + kept * group <= held / 2 ? group : 1;
}

template <class T>
struct TopkKernels {
  decltype(rows_kernel<T>()) rows = rows_kernel<T>().with_plan(kPlan);
  decltype(groups_kernel<T>()) groups = groups_kernel<T>().with_plan(kGroupsPlan);
  decltype(parts_kernel<T>()) parts = parts_kernel<T>().with_plan(kPlan);
};

template <class T>
void build(PlanBuilder& plan, int k, Direction direction) {
  static const auto* const kernels = new TopkKernels<T>;  // statics may call, too
  PlanSlot x = plan.argument(0), from;
  const std::int64_t rows = plan.tensor(x).size(0);
  std::int64_t n = plan.tensor(x).size(1);
  if (const int group = elements_of_group(n, k); group > 1) {
    const auto row_bytes =
        static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(n)) * sizeof(T));
    return plan.launch(kernels->groups, x, plan.argument(1), plan.argument(2),
                       kTileBytes / row_bytes, k, group, direction);
  }
  if (n <= kMinPart)
    return plan.launch(kernels->rows, x, plan.argument(1), plan.argument(2), rows_per_tile(n), k,
                       direction);
  const std::int64_t part = std::max<std::int64_t>(
      kMinPart, 4 * static_cast<std::int64_t>(std::bit_ceil(static_cast<unsigned>(k))));
  while (true) {
    const std::int64_t parts = ceil_div(n, part);
    const bool is_last = parts == 1;
    const std::int64_t found = (parts - 1) * k + std::min<std::int64_t>(k, n - (parts - 1) * part);
    const PlanSlot values = is_last ? plan.argument(1) : plan.scratch({rows, found}, dtype_of<T>),
                   indices = is_last ? plan.argument(2) : plan.scratch({rows, found}, DType::i32);
    plan.launch(kernels->parts, x, from, values, indices, static_cast<std::int32_t>(parts),
                static_cast<int>(part), k, direction);
    if (is_last) return;
    x = values, from = indices, n = found;
  }
}

template <class T>
bool finds(const Stream& stream, const Tensor& x, const Tensor& values, const Tensor& indices,
           Direction direction) {
  if (x.dtype() != dtype_of<T>) return false;
  static const auto* const plans = new CallPlans;  // statics may call, too
  plans->call(
      stream, tensor_args(x, values, indices), PlanOptions{static_cast<std::int64_t>(direction)},
      [&](PlanBuilder& plan) { build<T>(plan, static_cast<int>(values.size(1)), direction); });
  return true;
}

}  // namespace

void device_topk(const Stream& stream, const Tensor& x, const Tensor& values, const Tensor& indices,
                 Direction direction, Loc at) {
  const detail::CallPlace here(at);
  const char* const name = "device_topk";
  require_rank(name, "x", x, 2);
  require_rank(name, "values", values, 2);
  const std::int64_t k = values.size(1), most = std::min(x.size(1), kMaxKept);
  if (k < 1 || k > most) throw_argument_error(ErrorId::topk_kept, k, x.size(1), kMaxKept);
  require_tensor(name, "values", values, x.dtype(), {x.size(0), k});
  require_tensor(name, "indices", indices, DType::i32, {x.size(0), k});
  if (!(finds<bf16>(stream, x, values, indices, direction) ||
        finds<f16>(stream, x, values, indices, direction) ||
        finds<f32>(stream, x, values, indices, direction) ||
        finds<i32>(stream, x, values, indices, direction)))
    device::throw_type(name, "x", x, "bf16, f16, f32 or i32");
}

}  // namespace tegula
