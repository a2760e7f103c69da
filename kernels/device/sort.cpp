// LSD radix sort with one pass over memory per digit (Adinolfi and Merrill, "Onesweep: A Faster
// Least Significant Digit Radix Sort for GPUs", 2022). One launch counts all digits of the keys.
// Then one launch per digit moves the keys: a program ranks the keys of a tile, finds by look-back
// the number of equal digits in earlier tiles, and reorders the tile in shared memory, so that keys
// of one digit are stored contiguously.
#include "tegula/kernels/device_sort.h"

#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/device/chunks.h"
#include "kernels/device/ordered_key.h"
#include "tegula/device_profile.h"
#include "tegula/look_back.h"

namespace tegula::kernels {
namespace {

using device::OrderedKey;

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
/// Maximum number of keys that one program sorts.
constexpr std::int64_t kMaxOneTile = 2048;
/// Bytes of the keys of a tile, which are exchanged through shared memory.
constexpr int kSortTileBytes = 16384;
template <class T>
constexpr int kSortTile = kSortTileBytes / (sizeof(T) < 4 ? 4 : static_cast<int>(sizeof(T)));

/// Counting programs per SM.
constexpr std::int64_t kCountersOfSm = 3;

/// A thread holds 16 keys of a tile with their ranks and values in registers. For moves, two CTAs
/// per SM hide each other's barriers.
constexpr PlanPatch kCountPlan{.num_warps = 8, .min_ctas_per_sm = 3},
    kMovePlan{.num_warps = 8, .min_ctas_per_sm = 2};

/// Returns the digit that a pass sorts by, from bit `shift` on. The shift is a run-time parameter,
/// so that all passes share one kernel.
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

/// Clears the counters of all digits and the words of the look-back.
auto sort_zero_kernel() {
  return kernel("device_sort_zero", [](Out<u64, 1> words, Out<i32, 2> counts, int passes) {
    constexpr int kWords = 2048;
    for (auto w : grid(words, kWords)) {
      words(w) = zeros<u64>(kWords);
      if_(w.first() == 0, [&] { counts(all, all) = zeros<i32>(passes, kDigits); });
    }
  });
}

/// starts[pass, digit] = number of keys with a smaller digit, for all passes. The last program to
/// arrive scans the counts.
template <class T>
auto starts_kernel() {
  return kernel("device_sort_starts", [](In<T, 1> keys, InOut<i32, 2> starts, Ptr<u32> arrivals,
                                         Scalar<i32> programs, Direction direction) {
    constexpr int kPasses = OrderedKey<T>::kBits / kDigitBits;
    for (auto p : grid({programs}, 1)) {
      grid_dependency_wait();
      std::vector<Tile> counts(kPasses, zeros<i32>(kDigits));
      for (auto c :
           steps(p.first() * kSortTile<T>, keys.dim(0), kSortTile<T>, programs * kSortTile<T>)) {
        const Tile word = OrderedKey<T>(direction).word_of(keys(c));
        for (int pass = 0; pass < kPasses; ++pass)
          counts[pass] += histogram(digit_of(word, pass * kDigitBits), kDigits);
      }
      for (int pass = 0; pass < kPasses; ++pass)
        atomic_add(starts(pass, arange(kDigits)), counts[pass]);
      if_(arrive_and_test_last(arrivals, programs), [&] {
        for (int pass = 0; pass < kPasses; ++pass)
          starts(pass, all) = cumsum(starts(pass, all), 0, {.exclusive = true});
      });
    }
  });
}

/// Moves keys and values of a tile to their positions, which follow from the digits' starts and the
/// counts of earlier tiles. Tickets number the tiles, so programs of earlier tiles have started.
template <class T>
auto move_kernel() {
  return kernel("device_sort_move", [](In<T, 1> keys, In<i32, 2> starts, Out<T, 1> sorted,
                                       std::optional<In<i32, 1>> values,
                                       std::optional<Out<i32, 1>> sorted_values, Ptr<u64> words,
                                       Ptr<u32> tickets, Scalar<i32> pass, Direction direction) {
    using Word = typename OrderedKey<T>::Word;
    const OrderedKey<T> order(direction);
    constexpr int kElements = kSortTile<T>;
    for ([[maybe_unused]] auto program : grid(keys, kElements)) {
      grid_dependency_wait();
      const Tile number = ticket(tickets, cast<i32>(cdiv(keys.dim(0), kElements)));
      const Index own = slice(number * kElements, kElements);
      const Tile present = min(cast<i32>(keys.dim(0)) - number * kElements, kElements);
      // Words after the last key are the largest, and therefore stay after all keys.
      const Tile is_present = arange(kElements) < present,
                 word = where(is_present, fill_absent(order.word_of(keys(own)), any_value),
                              order.last()),
                 start = fill_absent(starts(pass, all), 0), shift = pass * kDigitBits,
                 digit = digit_of(word, shift);
      const auto [ranks, digits] = key_ranks(digit, kDigits);
      const Tile counts =
          where(arange(kDigits) < kDigits - 1, digits, digits + present - kElements);
      const LookBack<i32> tiles(words, pass);
      tiles.publish(number, counts);
      // Values are loaded and the tile is reordered while earlier tiles publish their counts.
      std::optional<Tile> companion;
      if (sorted_values)
        companion = values ? (*values)(own) : number * kElements + arange(kElements);
      const Tile of_smaller = cumsum(counts, 0, {.exclusive = true});
      const Tile place = (gather(of_smaller, digit, 0) + ranks) & (kElements - 1);
      const auto in_order = [&]<class E>(E, const Tile& t) {
        return scatter(zeros<E>(kElements), place, fill_absent(t, any_value), 0);
      };
      const Tile in_tile = in_order(Word(), word);
      if (companion) companion = in_order(i32(), *companion);
      const auto plus = [](const Tile& a, const Tile& b) { return a + b; };
      const Tile before = tiles.collect(number, counts, 0, plus);
      const Tile first = gather(start + before - of_smaller, digit_of(in_tile, shift), 0);
      const Tile to = where(is_present, first + arange(kElements), -1);
      sorted(to) = order.key_of(in_tile);
      if (sorted_values) (*sorted_values)(to) = *companion;
    }
  });
}

template <class T>
struct SortKernels {
  decltype(one_tile_kernel<T>()) one_tile = one_tile_kernel<T>();
  decltype(sort_zero_kernel()) zero = sort_zero_kernel();
  decltype(starts_kernel<T>()) starts = starts_kernel<T>().with_plan(kCountPlan);
  decltype(move_kernel<T>()) move = move_kernel<T>().with_plan(kMovePlan);
};

/// Keys and values between two passes.
struct Pairs {
  PlanSlot keys, values;
};

/// Builds the plan of a call; arguments: keys, sorted, values, sorted values.
template <class T>
class RadixSortBuilder {
 public:
  RadixSortBuilder(PlanBuilder& plan, Direction direction)
      : plan_(plan),
        direction_(direction),
        elements_(plan.tensor(plan.argument(0)).size(0)),
        has_values_(plan.tensor(plan.argument(3)).defined()) {}

  void build() const {
    if (elements_ <= kMaxOneTile) return one_tile();
    const std::int64_t tiles = ceil_div<std::int64_t>(elements_, kSortTile<T>),
                       programs = std::min(tiles, num_sms(plan_.device()) * kCountersOfSm);
    constexpr int kPasses = OrderedKey<T>::kBits / kDigitBits;
    const PlanSlot words = plan_.scratch({kDigits * tiles}, DType::u64),
                   starts = plan_.scratch({kPasses, kDigits}, DType::i32),
                   counters = plan_.counters(1);
    plan_.launch(kernels().zero, words, starts, kPasses);
    plan_.launch(kernels().starts, plan_.argument(0), starts, counters,
                 static_cast<std::int32_t>(programs), direction_);
    Pairs from{plan_.argument(0), plan_.argument(2)},
        to = scratch(), next{plan_.argument(1), has_values_ ? plan_.argument(3) : PlanSlot()};
    // The number of passes is even: the last pass writes the results.
    for (int pass = 0; pass < kPasses; ++pass) {
      plan_.launch(kernels().move, from.keys, starts, to.keys, from.values, to.values, words,
                   counters, pass, direction_);
      from = std::exchange(to, pass == 0 ? next : from);
    }
  }

 private:
  static const SortKernels<T>& kernels() {
    static const auto* const all = new SortKernels<T>;  // leaked: static destructors may call
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
  static const auto* const plans = new CallPlans;  // leaked: static destructors may call
  plans->call(stream, tensor_args(keys, sorted, o.values, o.sorted_values),
              PlanOptions{static_cast<std::int64_t>(o.direction)},
              [&](PlanBuilder& plan) { RadixSortBuilder<T>(plan, o.direction).build(); });
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
  device::require_places(name, "keys", keys);
  require_tensor(name, "sorted", sorted, keys.dtype(), keys.shape());
  require_optional(name, "sorted_values", options.sorted_values, DType::i32, keys.shape());
  require_optional(name, "values", options.values, DType::i32, keys.shape());
  // Checks the overlap here: with many keys, no single launch has both tensors as arguments.
  const ByteRange read = keys.byte_range(), written = sorted.byte_range();
  if (keys.is_contiguous() && sorted.is_contiguous() && read.begin < written.end &&
      written.begin < read.end)
    throw_argument_error(ErrorId::overlap, 0, 1, name, 1);
  if (options.values.defined())
    require_tensor(name, "sorted_values", options.sorted_values, DType::i32, keys.shape());
  if (!sorts_any<bf16, f16, f32, f64, i32, u32, i64, u64>(stream, keys, sorted, options))
    device::throw_type(name, "keys", keys, "bf16, f16, f32, f64, i32, u32, i64 or u64");
}

}  // namespace tegula::kernels
