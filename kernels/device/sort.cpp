// Radix sort, least significant digit first. A pass counts the digits of each tile, adds up the
// counts of all digits and tiles in front, and moves the keys: a tile is put in order in shared
// memory, so that keys of one digit are stored side by side.
#include "tegula/kernels/device_sort.h"

#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/device/chunks.h"
#include "kernels/device/ordered_key.h"

namespace tegula {
namespace {

using device::OrderedKey;

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
/// Keys that one program sorts by itself.
constexpr std::int64_t kMaxOneTile = 2048;
/// Bytes of the keys of a tile: what the exchange through shared memory takes.
constexpr int kTileBytes = 16384;
template <class T>
constexpr int kTile = kTileBytes / (sizeof(T) < 4 ? 4 : static_cast<int>(sizeof(T)));

/// A thread has 16 keys of a tile, their ranks and companions in registers. Of moves, two CTAs an
/// SM hide each other's barriers.
constexpr const char *kCountPlan = "num_warps=8", *kMovePlan = "num_warps=8 min_ctas_per_sm=2";

/// The digit of a word that a pass sorts by, from bit `shift` on: a number of the launch, so that
/// all passes are one kernel.
Tile digit_of(const Tile& word, const Tile& shift) {
  if (size_bits(word.dtype()) == 64)
    return cast<i32>((word >> cast<u64>(shift)) & full<u64>(kDigits - 1));
  return cast<i32>((cast<u32>(word) >> cast<u32>(shift)) & full<u32>(kDigits - 1));
}

template <class T>
auto one_tile_kernel() {
  return kernel("device_sort_tile",
                [](In<T, 1> keys, Out<T, 1> sorted, std::optional<In<i32, 1>> values,
                   std::optional<Out<i32, 1>> sorted_values, int tile, bool is_descending) {
                  for (auto c : grid({Tile(1)}, 1)) {
                    const Index elements = slice(c.first() * tile, tile);
                    const auto [key, place] = sort_with_indices(
                        keys(elements), 0,
                        is_descending ? Direction::descending : Direction::ascending);
                    sorted(elements) = key;
                    if (sorted_values)
                      (*sorted_values)(elements) = values ? (*values)(place) : place;
                  }
                });
}

/// counts[digit * tiles + tile].
template <class T>
auto count_kernel() {
  return kernel("device_sort_count", [](In<T, 1> keys, Out<i32, 1> counts, Scalar<i32> tiles,
                                        Scalar<i32> shift, Direction direction) {
    for (auto c : grid(keys, kTile<T>)) {
      grid_dependency_wait();
      const Tile of_tile =
          histogram(digit_of(OrderedKey<T>(direction).word_of(keys(c)), shift), kDigits);
      counts(arange(kDigits) * tiles + cast<i32>(c.first() / kTile<T>)) = of_tile;
    }
  });
}

/// Moves keys and values to where `bases`, the exclusive sums of the counts, say.
template <class T>
auto move_kernel() {
  return kernel("device_sort_move", [](In<T, 1> keys, In<i32, 1> bases, Out<T, 1> sorted,
                                       std::optional<In<i32, 1>> values,
                                       std::optional<Out<i32, 1>> sorted_values, Scalar<i32> tiles,
                                       Scalar<i32> shift, Direction direction) {
    using Word = typename OrderedKey<T>::Word;
    const OrderedKey<T> order(direction);
    constexpr int kElements = kTile<T>;
    for (auto c : grid(keys, kElements)) {
      grid_dependency_wait();
      const Tile word = order.word_of(keys(c));
      // Read early: it comes while the keys are ranked.
      const Tile base = bases(arange(kDigits) * tiles + cast<i32>(c.first() / kElements));
      const Tile digit = digit_of(word, shift);
      const auto [ranks, counts] = key_ranks(digit, kDigits);
      const Tile starts = cumsum(counts, 0, {.exclusive = true});
      const Tile place = fill_absent(gather(starts, digit, 0) + ranks, -1);
      const auto in_order = [&]<class E>(E, const Tile& t) {
        return scatter(zeros<E>(kElements), place, fill_absent(t, 0), 0);
      };
      const Tile words = in_order(Word(), word);
      const Tile target = gather(base - starts, digit_of(words, shift), 0) + arange(kElements);
      const Tile present = cast<i32>(keys.dim(0) - c.first());
      const Tile to = where(arange(kElements) < present, target, -1);
      sorted(to) = order.key_of(words);
      if (!sorted_values) continue;
      (*sorted_values)(to) = in_order(i32(), values ? (*values)(c) : cast<i32>(c.indices()));
    }
  });
}

template <class T>
struct SortKernels {
  decltype(one_tile_kernel<T>()) one_tile = one_tile_kernel<T>();
  decltype(count_kernel<T>()) count = count_kernel<T>().with_plan(kCountPlan);
  decltype(move_kernel<T>()) move = move_kernel<T>().with_plan(kMovePlan);
};

/// Keys and their companions between two passes.
struct Pairs {
  PlanSlot keys, values;
};

/// A call while its plan is built; arguments: keys, sorted, values, sorted values.
template <class T>
class Building {
 public:
  Building(PlanBuilder& plan, Direction direction)
      : plan_(plan),
        direction_(direction),
        elements_(plan.tensor(plan.argument(0)).size(0)),
        has_values_(plan.tensor(plan.argument(3)).defined()) {}

  void build() const {
    if (elements_ <= kMaxOneTile) return one_tile();
    const std::int64_t tiles = ceil_div<std::int64_t>(elements_, kTile<T>);
    const PlanSlot counts = plan_.scratch({kDigits * tiles}, DType::i32),
                   bases = plan_.scratch({kDigits * tiles}, DType::i32);
    Pairs from{plan_.argument(0), plan_.argument(2)},
        to = scratch(), next{plan_.argument(1), has_values_ ? plan_.argument(3) : PlanSlot()};
    const auto n = static_cast<std::int32_t>(tiles);
    // An even number of passes: the last one writes the results.
    for (int shift = 0; shift < OrderedKey<T>::kBits; shift += kDigitBits) {
      plan_.launch(kernels().count, from.keys, counts, n, shift, direction_);
      device::plan_scan<i32>(plan_, counts, bases, true);
      plan_.launch(kernels().move, from.keys, bases, to.keys, from.values, to.values, n, shift,
                   direction_);
      from = std::exchange(to, shift == 0 ? next : from);
    }
  }

 private:
  static const SortKernels<T>& kernels() {
    static const auto* const all = new SortKernels<T>;  // statics may call, too
    return *all;
  }
  void one_tile() const {
    const auto held = static_cast<std::uint64_t>(std::max<std::int64_t>(elements_, 32));
    plan_.launch(kernels().one_tile, plan_.argument(0), plan_.argument(1), plan_.argument(2),
                 has_values_ ? plan_.argument(3) : PlanSlot(),
                 static_cast<int>(std::bit_ceil(held)), direction_ == Direction::descending);
  }
  Pairs scratch() const {
    return {plan_.scratch({elements_}, dtype_of<T>),
            has_values_ ? plan_.scratch({elements_}, DType::i32) : PlanSlot()};
  }

  PlanBuilder& plan_;
  Direction direction_;
  std::int64_t elements_;
  bool has_values_;
};

template <class T>
bool sorts(const Stream& stream, const Tensor& keys, const Tensor& sorted,
           const DeviceSortOptions& o) {
  if (keys.dtype() != dtype_of<T>) return false;
  static const auto* const plans = new CallPlans;  // statics may call, too
  plans->call(stream, tensor_args(keys, sorted, o.values, o.sorted_values),
              PlanOptions{static_cast<std::int64_t>(o.direction)},
              [&](PlanBuilder& plan) { Building<T>(plan, o.direction).build(); });
  return true;
}

template <class... T>
bool sorts_any(const Stream& stream, const Tensor& keys, const Tensor& sorted,
               const DeviceSortOptions& o) {
  return (sorts<T>(stream, keys, sorted, o) || ...);
}

}  // namespace

void device_sort(const Stream& stream, const Tensor& keys, const Tensor& sorted,
                 const DeviceSortOptions& options, Loc at) {
  const detail::CallPlace here(at);
  const char* const name = "device_sort";
  require_rank(name, "keys", keys, 1);
  require_tensor(name, "sorted", sorted, keys.dtype(), keys.shape());
  require_optional(name, "sorted_values", options.sorted_values, DType::i32, keys.shape());
  require_optional(name, "values", options.values, DType::i32, keys.shape());
  if (options.values.defined())
    require_tensor(name, "sorted_values", options.sorted_values, DType::i32, keys.shape());
  if (!sorts_any<bf16, f16, f32, f64, i32, u32, i64, u64>(stream, keys, sorted, options))
    device::throw_type(name, "keys", keys, "bf16, f16, f32, f64, i32, u32, i64 or u64");
}

}  // namespace tegula
