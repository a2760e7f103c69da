// Top-k of rows: several short rows per program; long rows first in parts, then among the
// candidates of the parts, until one part is left. Parts keep the order of the row, so ties still
// go to the smaller index.
//
// Rows of 128 to 1024 elements are searched in two steps. The k best elements are in the k groups
// of adjacent elements whose best elements rank highest (of equal ones, the first group). These
// groups are loaded again, in ascending order, and searched. For bf16, a key and its position are
// packed into one word, so the order of the groups has no effect: each lane loads the groups that
// it compares, and lanes exchange only candidates.
#include "tegula/kernels/device_topk.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/device/chunks.h"
#include "kernels/device/placed_key.h"
#include "kernels/row_tiles.h"

namespace tegula::kernels {
namespace {

constexpr std::int64_t kMaxKept = 4096;
/// Minimum number of elements in a part of a row.
constexpr std::int64_t kMinPart = 4096;

/// A slice of one column drops the dimension, but an index tile of one element does not.
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
      const Tile groups = row.reshape({tile_rows, row.shape()[1] / group, group});
      Tile best_of =
          direction == Direction::descending ? max(groups, axis(2)) : min(groups, axis(2));
      // The best element of a group of NaNs is NaN, which ranks after infinities, too.
      if constexpr (!std::is_same_v<T, i32>)
        best_of = where(any(groups == groups, axis(2)), best_of,
                        cast<T>(std::numeric_limits<float>::quiet_NaN()));
      // 16-bit keys are sorted as single words.
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

/// Groups of a row that are loaded again; elements of a 16-byte access.
constexpr int kGroups = 8, kAccess = 8;

/// Concatenates the parts along axis 1, by recursive halving.
Tile side_by_side(std::span<const Tile> parts) {
  if (parts.size() == 1) return parts[0];
  const std::size_t half = parts.size() / 2;
  return cat({side_by_side(parts.first(half)), side_by_side(parts.last(half))}, axis(1));
}

/// `groups` is a view of x with one row per group of elements.
auto words_kernel() {
  return kernel(
      "device_topk_words", [](In<bf16, 2> x, In<bf16, 2> groups, Out<bf16, 2> values,
                              Out<i32, 2> indices, int tile_rows, int k, Direction direction) {
        for (auto r : grid(rows(x), tile_rows)) {
          const int columns = x.static_dim(1), group = groups.static_dim(1),
                    number = columns / group, lanes = number / kGroups, part = lanes * kAccess;
          const device::PlacedKey keys(direction);
          std::vector<Tile> parts;
          for (int at = 0; at < columns; at += part)
            parts.push_back(fill_absent(x.with(kReadOnce)(r, slice(at, part)), any_value));
          for (int at = 0; at < columns; at += part) {
            Tile& best = parts[static_cast<std::size_t>(at / part)];
            best = reduce(best.reshape({tile_rows, part / group, group}), axis(2),
                          [&](const Tile& a, const Tile& b) {
                            return direction == Direction::descending ? max(a, b) : min(a, b);
                          });
            best = keys.word(best, arange(part / group, at / group)(none, all));
          }
          const Tile found =
              keys.place(topk(side_by_side(parts), kGroups, 1, Direction::ascending).values);
          // Loads one group per lane of a row at a time.
          const int turns = std::max(1, kGroups / lanes), each = kGroups / turns;
          const Tile turned = found.reshape({tile_rows, each, turns}),
                     row = min(cast<i32>(r.indices()), cast<i32>(x.rows()) - 1)(all, none);
          std::vector<Tile> candidates;
          for (int turn = 0; turn < turns; ++turn) {
            const Tile of_turn = slice(turned, axis(2), turn, 1).reshape({tile_rows, each});
            const Tile elements = fill_absent(
                groups((row * number + of_turn).reshape({tile_rows * each}), all), any_value);
            const Tile place = (of_turn * group)(all, all, none) + arange(group)(none, none, all);
            candidates.push_back(keys.word(elements.reshape({tile_rows, each * group}),
                                           place.reshape({tile_rows, each * group})));
          }
          const Tile best = topk(side_by_side(candidates), k, 1, Direction::ascending).values;
          values(r, first_columns(k)) = keys.key(best);
          indices(r, first_columns(k)) = keys.place(best);
        }
      });
}

/// Finds the k best elements of each part. If x has earlier candidates, `from` has their positions.
template <class T>
auto topk_parts_kernel() {
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

/// A thread holds 16 elements of two words each in 64 registers. Rows that are compared by groups
/// use tiles that fill a sorting network with the best of their groups.
constexpr PlanPatch kPlan{.num_warps = 8, .min_ctas_per_sm = 4},
    kGroupsPlan{.num_warps = 4, .min_ctas_per_sm = 4};
constexpr int kTopKTileBytes = 32768;
/// Half as many warps as kPlan, so that eight programs per SM hide each other's latencies.
constexpr PlanPatch kWordsPlan{.num_warps = 4, .min_ctas_per_sm = 8};
constexpr std::int64_t kWordsTile = 8192;

/// Returns the elements per group for rows with this many columns; 1: compare all elements.
int elements_of_group(std::int64_t columns, int k) {
  constexpr int kMaxKept = 32, kMaxColumns = 1024;
  const auto held = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(columns))),
             kept = static_cast<int>(std::bit_ceil(static_cast<unsigned>(k)));
  if (kept > kMaxKept || held > kMaxColumns) return 1;
  int group = 1;
  while (4 * group * group * kept <= held) group *= 2;
  // Groups are loaded again unmasked, so each must be complete.
  const bool is_whole = columns % group == 0 && columns / group >= k;
  return is_whole && held / group + kept * group <= held / 2 ? group : 1;
}

/// Returns the elements per group for bf16 rows that are compared by words; 0 if unsupported.
int elements_of_words(const Tensor& x, int k) {
  const std::int64_t columns = x.size(1);
  const bool is_whole = std::has_single_bit(static_cast<std::uint64_t>(columns)) &&
                        columns >= 128 && columns <= 1024 && x.is_contiguous() && k <= kGroups;
  if (!is_whole || x.numel() / 4 > INT32_MAX) return 0;
  return columns == 128 ? 4 : 8;
}

template <class T>
struct TopkKernels {
  decltype(rows_kernel<T>()) rows = rows_kernel<T>().with_plan(kPlan);
  decltype(groups_kernel<T>()) groups = groups_kernel<T>().with_plan(kGroupsPlan);
  decltype(topk_parts_kernel<T>()) parts = topk_parts_kernel<T>().with_plan(kPlan);
};

bool build_words(PlanBuilder& plan, int k, Direction direction) {
  static const auto* const words = new auto(words_kernel().with_plan(kWordsPlan));
  const PlanSlot x = plan.argument(0);
  const int group = elements_of_words(plan.tensor(x), k);
  if (group == 0) return false;
  const PlanSlot groups =
      plan.view(x, [group](const Tensor& t) { return t.reshape({t.numel() / group, group}); });
  plan.launch(*words, x, groups, plan.argument(1), plan.argument(2),
              static_cast<int>(kWordsTile / plan.tensor(x).size(1)), k, direction);
  return true;
}

template <class T>
void build(PlanBuilder& plan, int k, Direction direction) {
  if constexpr (std::is_same_v<T, bf16>)
    if (build_words(plan, k, direction)) return;
  static const auto* const kernels = new TopkKernels<T>;  // leaked: static destructors may call
  PlanSlot x = plan.argument(0), from;
  const std::int64_t rows = plan.tensor(x).size(0);
  std::int64_t n = plan.tensor(x).size(1);
  if (const int group = elements_of_group(n, k); group > 1) {
    const auto row_bytes =
        static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(n)) * sizeof(T));
    return plan.launch(kernels->groups, x, plan.argument(1), plan.argument(2),
                       kTopKTileBytes / row_bytes, k, group, direction);
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
  static const auto* const plans = new CallPlans(StrideKey::exact);  // never destroyed
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
  device::require_places(name, "x", x, 1);
  const std::int64_t k = values.size(1), most = std::min(x.size(1), kMaxKept);
  if (k < 1 || k > most) throw_argument_error(ErrorId::topk_row_limit, k, x.size(1), kMaxKept);
  require_tensor(name, "values", values, x.dtype(), {x.size(0), k});
  require_tensor(name, "indices", indices, DType::i32, {x.size(0), k});
  if (!(finds<bf16>(stream, x, values, indices, direction) ||
        finds<f16>(stream, x, values, indices, direction) ||
        finds<f32>(stream, x, values, indices, direction) ||
        finds<i32>(stream, x, values, indices, direction)))
    device::throw_type(name, "x", x, "bf16, f16, f32 or i32");
}

}  // namespace tegula::kernels
