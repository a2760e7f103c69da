#include "codegen/lower/topk.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "codegen/lower/shuffle.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr int kMaxKeptBits = 5, kMinBits = 5, kMaxBits = 11;
/// Bytes of a key, and number of keys that one shared store writes.
constexpr std::int64_t kKeyBytes = 4, kVector = 4;

int log2_ceil(std::int64_t n) { return std::bit_width(static_cast<std::uint64_t>(n - 1)); }

/// Returns the bits of a coordinate that change the index along an axis, with their steps.
std::vector<std::pair<int, int>> steps_along(const LinearLayout& layout, HwDim in, int axis) {
  std::vector<std::pair<int, int>> steps;
  for (int bit = 0; bit < layout.in_bits(in); ++bit)
    if (const int step = layout.basis(in, bit)[axis]) steps.emplace_back(bit, step);
  return steps;
}

/// Returns the comparators of Batcher's odd-even merge sort of 2^n elements, layer by layer.
std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> merge_sort_layers(std::int64_t n) {
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> layers;
  for (std::int64_t run = 1; run < n; run *= 2)
    for (std::int64_t step = run; step >= 1; step /= 2) {
      auto& layer = layers.emplace_back();
      for (std::int64_t first = step % run; first + step < n; first += 2 * step)
        for (std::int64_t i = first; i < std::min(first + step, n - step); ++i)
          if (i / (2 * run) == (i + step) / (2 * run)) layer.emplace_back(i, i + step);
    }
  return layers;
}

}  // namespace

bool PackedTopk::is_possible(const LinearLayout& layout, int axis, std::int64_t count) {
  const int kept = log2_ceil(count), bits = layout.bits(axis);
  if (kept > kMaxKeptBits || bits < kMinBits || bits > kMaxBits) return false;
  if (!steps_along(layout, HwDim::Warp, axis).empty()) return false;
  int low = 0;
  for (const auto& [bit, step] : steps_along(layout, HwDim::Register, axis))
    if (step < 1 << kept) ++low;
  return low == kept;
}

PackedTopk::PackedTopk(Lowering& l, SortKey& key, const LinearLayout& layout, int axis,
                       const LinearLayout& result, bool is_descending, bool follows_exchanges)
    : l_(l),
      key_(key),
      is_descending_(is_descending),
      follows_exchanges_(follows_exchanges),
      layout_(layout),
      result_(result),
      axis_(axis),
      count_(result.shape()[axis]),
      kept_(std::int64_t{1} << log2_ceil(count_)),
      index_mask_((std::uint64_t{1} << layout.bits(axis)) - 1) {
  std::vector<std::pair<int, int>> steps;  // step in the result, largest first; bit
  for (const auto& [bit, step] : steps_along(layout, HwDim::Lane, axis))
    steps.emplace_back(-result.basis(HwDim::Lane, bit)[axis], bit);
  std::ranges::sort(steps);
  for (const auto& [step, bit] : steps) {
    lane_bits_.push_back(bit);
    if (step != 0) ++split_lanes_;
  }
  find_registers();
}

Dims PackedTopk::row_of(Dims index) const {
  index[axis_] = 0;
  return index;
}

void PackedTopk::find_registers() {
  std::vector<std::pair<std::int64_t, std::int64_t>> places;  // row, index
  for (int r = 0; r < layout_.registers(); ++r) {
    const Dims index = layout_.apply({.reg = r});
    auto row = std::ranges::find(row_index_, row_of(index));
    if (row == row_index_.end()) row = row_index_.insert(row, row_of(index));
    places.emplace_back(row - row_index_.begin(), index[axis_]);
  }
  order_.resize(places.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::sort(order_, {},
                    [&](std::int64_t r) { return places[static_cast<std::size_t>(r)]; });
}

Value PackedTopk::number(std::uint64_t v) {
  return l_.b.constant(Type::scalar(DType::u32), static_cast<std::int64_t>(v));
}
Value PackedTopk::bits_of(Value v, DType dtype) {
  return l_.b.op(Opcode::Bitcast, {v}, l_.type(v).with_dtype(dtype));
}

Value PackedTopk::expanded(Value of_rows, std::int64_t each) {
  Indices indices;
  for (std::int64_t i = 0; i < rows() * each; ++i) indices.push_back(i / each);
  return l_.regs(of_rows, indices);
}
Value PackedTopk::part_of_rows(Value v, std::int64_t each, std::int64_t first, std::int64_t count) {
  Indices indices;
  for (std::int64_t row = 0; row < rows(); ++row)
    for (std::int64_t i = 0; i < count; ++i) indices.push_back(row * each + first + i);
  return l_.regs(v, indices);
}

Tuple PackedTopk::from_lane(const Tuple& v, int bits) {
  Tuple out;
  for (Value x : v) out.push_back(shuffle(l_, x, l_.b.i32(bits), "xor"));
  return out;
}

/// Folds each row to one element by `f`, which combines two tuples, over registers and lanes.
template <class F>
Tuple PackedTopk::fold_rows(Tuple v, const F& f) {
  const auto half = [&](std::int64_t each, std::int64_t first) {
    Tuple out;
    for (Value x : v) out.push_back(part_of_rows(x, each, first, each / 2));
    return out;
  };
  for (std::int64_t each = per_row(); each > 1; each /= 2)
    v = f(half(each, 0), half(each, each / 2));
  for (int bit : lane_bits_) v = f(v, from_lane(v, 1 << bit));
  return v;
}

// ---- the network --------------------------------------------------------------------------------

/// Sorts each pair of words in each run of `length` words.
Value PackedTopk::exchange(Value words, std::int64_t length, const Pairs& pairs) {
  const std::int64_t all = l_.type(words).count();
  Indices first, second, back(static_cast<std::size_t>(all));
  for (std::int64_t run = 0; run < all; run += length)
    for (const auto& [a, b] : pairs) first.push_back(run + a), second.push_back(run + b);
  const auto count = static_cast<std::int64_t>(first.size());
  std::iota(back.begin(), back.end(), 2 * count);
  for (std::size_t i = 0; i < first.size(); ++i) {
    back[static_cast<std::size_t>(first[i])] = static_cast<std::int64_t>(i);
    back[static_cast<std::size_t>(second[i])] = count + static_cast<std::int64_t>(i);
  }
  const Value a = l_.regs(words, first), b = l_.regs(words, second);
  const std::vector<Value> parts{l_.b.op(Opcode::Min, {a, b}), l_.b.op(Opcode::Max, {a, b}), words};
  return l_.regs(l_.concat(parts), back);
}

Value PackedTopk::sort_runs(Value words) {
  for (const Pairs& layer : merge_sort_layers(kept_)) words = exchange(words, kept_, layer);
  return words;
}

/// Sorts bitonic runs of `length` words.
Value PackedTopk::clean(Value words, std::int64_t length) {
  for (std::int64_t step = length / 2; step >= 1; step /= 2) {
    Pairs pairs;
    for (std::int64_t i = 0; i < length; ++i)
      if ((i & step) == 0) pairs.emplace_back(i, i + step);
    words = exchange(words, length, pairs);
  }
  return words;
}

/// Keeps the better half of each two sorted runs.
Value PackedTopk::halve(Value words) {
  Indices first, second;
  for (std::int64_t run = 0; run < l_.type(words).count(); run += 2 * kept_)
    for (std::int64_t i = 0; i < kept_; ++i)
      first.push_back(run + i), second.push_back(run + 2 * kept_ - 1 - i);
  return clean(l_.b.op(Opcode::Min, {l_.regs(words, first), l_.regs(words, second)}), kept_);
}

/// Reverses each run of `length` words.
Value PackedTopk::backwards(Value words, std::int64_t length) {
  Indices back;
  for (std::int64_t i = 0; i < l_.type(words).count(); ++i)
    back.push_back(i / length * length + length - 1 - i % length);
  return l_.regs(words, back);
}

/// Sorts pairs of words of this lane and the lane whose bit differs: the lane whose bit is set
/// keeps the larger one.
Value PackedTopk::exchange_lanes(Value words, Value others, int bit) {
  const Value other = from_lane({others}, 1 << bit)[0];
  const Value takes = l_.b.op(Opcode::Xor, {l_.b.cmp("lt", other, words), has_lane_bit(bit)});
  return l_.b.select(takes, other, words);
}

/// Keeps the better half of a row's words on two sides: lanes that differ in the first `side_bits`
/// lane bits hold one side, and the lanes that also differ in the next bit hold the other.
///
/// Sorted word p of one side is compared with word kept_ - 1 - p of the other. The partner lane has
/// all of these lane bits complemented, and its registers are in reverse order. While lanes hold
/// several words of a row, each side keeps the lower half of its registers and sends the upper
/// half, so that the two sides compute different elements of a bitonic sequence, the other side's
/// half in reverse. Exchanges along the lane bits, in order of their steps, then leave bitonic
/// sequences in each lane's registers.
Value PackedTopk::merge_sides(Value words, std::size_t side_bits) {
  int lanes = 0;
  for (std::size_t i = 0; i < std::min(side_bits, split_lanes_); ++i) lanes |= 1 << lane_bits_[i];
  lanes |= 1 << lane_bits_[side_bits];
  const bool splits = side_bits < split_lanes_;
  std::int64_t length = kept_ >> std::min(side_bits, split_lanes_);
  const Value turned = backwards(words, length);
  if (splits) length /= 2;
  const Value own = part_of_rows(words, splits ? 2 * length : length, 0, length),
              other = from_lane({part_of_rows(turned, splits ? 2 * length : length, 0, length)},
                                lanes)[0];
  words = l_.b.op(Opcode::Min, {own, other});
  for (std::size_t i = 0; i < std::min(side_bits, split_lanes_); ++i)
    words = exchange_lanes(words, words, lane_bits_[i]);
  if (splits) words = exchange_lanes(words, backwards(words, length), lane_bits_[side_bits]);
  return clean(words, length);
}

// ---- elements of lanes --------------------------------------------------------------------------

Value PackedTopk::has_lane_bit(int bit) {
  return l_.b.cmp("ne", l_.b.op(Opcode::And, {l_.coordinate(HwDim::Lane), l_.b.i32(1 << bit)}),
                  l_.b.i32(0));
}

/// Gathers all words [rows][kept] from the parts that the lanes hold.
Value PackedTopk::of_all_lanes(Value words) {
  std::int64_t sharing = 0;
  for (std::size_t i = 0; i < split_lanes_; ++i) sharing |= std::int64_t{1} << lane_bits_[i];
  const Value others = l_.b.op(Opcode::And, {l_.coordinate(HwDim::Lane), l_.b.i32(31 & ~sharing)});
  std::vector<Value> parts;
  for (std::int64_t part = 0; part < std::int64_t{1} << split_lanes_; ++part) {
    std::int64_t lane = 0;  // the first of the split lane bits has the largest step
    for (std::size_t i = 0; i < split_lanes_; ++i)
      if (part >> (split_lanes_ - 1 - i) & 1) lane |= std::int64_t{1} << lane_bits_[i];
    parts.push_back(shuffle(l_, words, l_.b.op(Opcode::Or, {others, l_.b.i32(lane)}), "idx"));
  }
  Indices order;
  for (std::int64_t row = 0; row < rows(); ++row)
    for (std::int64_t i = 0; i < kept_; ++i)
      order.push_back(i / held() * rows() * held() + row * held() + i % held());
  return l_.regs(l_.concat(parts), order);
}

/// Selects this lane's part of words [rows][kept].
Value PackedTopk::of_this_lane(Value words) {
  for (std::size_t i = 0; i < split_lanes_; ++i) {
    const std::int64_t each = kept_ >> i;
    words = l_.b.select(has_lane_bit(lane_bits_[i]), part_of_rows(words, each, each / 2, each / 2),
                        part_of_rows(words, each, 0, each / 2));
  }
  return words;
}

// ---- exact keys ---------------------------------------------------------------------------------

/// Returns the offset in shared memory, [registers / kVector][thread][kVector], of an element of
/// the row.
Value PackedTopk::offset_of(Value index) {
  const std::int64_t vector = std::min(kVector, registers()),
                     threads = 32 * std::int64_t{l_.warps()};
  Indices weights(static_cast<std::size_t>(layout_.bits(axis_)));
  const auto weight = [&](int step) -> std::int64_t& {
    return weights[static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(step)))];
  };
  std::vector<int> in_registers;
  for (const auto& [bit, step] : steps_along(layout_, HwDim::Register, axis_))
    in_registers.push_back(step);
  std::ranges::sort(in_registers);
  for (std::size_t i = 0; i < in_registers.size(); ++i) {
    const std::int64_t r = std::int64_t{1} << i;
    weight(in_registers[i]) = kKeyBytes * (r < vector ? r : r * threads);
  }
  for (const auto& [bit, step] : steps_along(layout_, HwDim::Lane, axis_))
    weight(step) = kKeyBytes * vector * (std::int64_t{1} << bit);
  Value sum;
  for (std::size_t first = 0; first < weights.size();) {
    std::size_t end = first + 1;
    while (end < weights.size() && weights[end] == 2 * weights[end - 1]) ++end;
    const Value shifted =
        first == 0 ? index
                   : l_.b.op(Opcode::Shr, {index, l_.b.i32(static_cast<std::int64_t>(first))});
    const Value part =
        l_.b.op(Opcode::And, {shifted, l_.b.i32((std::int64_t{1} << (end - first)) - 1)});
    const Value bytes = l_.b.mul(part, l_.b.i32(weights[first]));
    sum = sum ? l_.b.add(sum, bytes) : bytes;
    first = end;
  }
  return sum;
}

/// Reads the keys of elements [rows][kept] by their indices. A row is in one warp, so only that
/// warp synchronizes; earlier users of the scratch memory have synchronized all warps.
Value PackedTopk::read_back(Value index) {
  const std::int64_t vector = std::min(kVector, registers()),
                     threads = 32 * std::int64_t{l_.warps()};
  const Value base = l_.scratch(registers() * threads * kKeyBytes, 16);
  const auto place = [&](Value lane) {
    const Value thread = l_.b.add(l_.b.mul(l_.coordinate(HwDim::Warp), l_.b.i32(32)), lane);
    return l_.b.add(l_.b.mul(thread, l_.b.i32(vector * kKeyBytes)), base);
  };
  Indices slots, of_rows;
  for (std::int64_t r = 0; r < registers(); r += vector) slots.push_back(r * threads * kKeyBytes);
  for (std::int64_t i = 0; i < rows() * kept_; ++i) {
    const std::int64_t r = i / kept_ * per_row();
    of_rows.push_back(kKeyBytes * (r / vector * vector * threads + r % vector));
  }
  std::int64_t along = 0;
  for (int bit : lane_bits_) along |= std::int64_t{1} << bit;
  const Value lane = l_.coordinate(HwDim::Lane),
              first = l_.b.op(Opcode::And, {lane, l_.b.i32(31 & ~along)});
  l_.b.effect(Opcode::StShared, {l_.b.add(l_.constants(DType::i32, slots), place(lane)), keys_},
              {{AttrName::width, static_cast<int>(vector)}});
  l_.b.effect(Opcode::WarpSync, {});
  const Value from =
      l_.b.add(l_.b.add(l_.constants(DType::i32, of_rows), place(first)), offset_of(index));
  return l_.b.op(Opcode::LdShared, {from}, Type::vec({DType::u32, false}, rows() * kept_),
                 {{AttrName::width, 1}});
}

Value PackedTopk::any_of(Value flags) {
  Value v = l_.as_vec(flags);
  while (l_.type(v).count() > 1) {
    const std::int64_t n = l_.type(v).count(), half = n / 2;
    Indices low(static_cast<std::size_t>(half)), high = low;
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), half);
    std::vector<Value> parts{l_.b.op(Opcode::Or, {l_.regs(v, low), l_.regs(v, high)})};
    if (n % 2 != 0) parts.push_back(l_.regs(v, Indices{n - 1}));
    v = l_.concat(parts);
  }
  return l_.b.op(Opcode::Regs, {v}, {{AttrName::indices, Ints{0}}});
}

/// Returns a predicate: true in threads of a row whose best elements may be wrong or out of order.
Value PackedTopk::is_wrong(Value words, Value best) {
  const auto last = [&](Value v) { return part_of_rows(v, kept_, count_ - 1, 1); };
  const auto better = [&](Value keys, std::int64_t each) {
    return l_.b.cast(l_.b.cmp("lt", keys, expanded(last(best), each)), DType::i32);
  };
  // NaN and absent elements have the same words.
  Value wrong = any_of(l_.b.cmp("ge", last(words), number(~index_mask_ & 0xffffffffu)));
  const auto also = [&](Value flags) { wrong = l_.b.op(Opcode::Or, {wrong, any_of(flags)}); };
  if (count_ > 1)
    also(l_.b.cmp("gt", part_of_rows(best, kept_, 0, count_ - 1),
                  part_of_rows(best, kept_, 1, count_ - 1)));
  const auto sum = [&](const Tuple& a, const Tuple& b) { return Tuple{l_.b.add(a[0], b[0])}; };
  const Value in_row = fold_rows({better(keys_, per_row())}, sum)[0];
  const Value of_best = better(best, kept_);
  Value among_best = part_of_rows(of_best, kept_, 0, 1);
  for (std::int64_t i = 1; i < count_; ++i)
    among_best = l_.b.add(among_best, part_of_rows(of_best, kept_, i, 1));
  also(l_.b.cmp("ne", in_row, among_best));
  return wrong;
}

/// Returns the best element of each row after (last_key, last_at) in sort order.
Tuple PackedTopk::next_best(Value last_key, Value last_at) {
  const Value follows_last =
      key_.less({expanded(last_key, per_row()), expanded(last_at, per_row())}, {keys_, at_});
  const Tuple candidates{l_.b.select(follows_last, keys_, number(0xffffffffu)),
                         l_.b.select(follows_last, at_, l_.b.i32(INT32_MAX))};
  return fold_rows(candidates, [&](const Tuple& a, const Tuple& b) {
    const Value is_better = key_.less(b, a);
    return Tuple{l_.b.select(is_better, b[0], a[0]), l_.b.select(is_better, b[1], a[1])};
  });
}

Tuple PackedTopk::search() {
  const Value none = l_.splat(number(0), rows()), front = l_.splat(l_.b.i32(-1), rows()),
              no_keys = l_.splat(number(0), rows() * kept_),
              no_at = l_.splat(l_.b.i32(0), rows() * kept_);
  const std::vector<Value> inits{none, front, no_keys, no_at};
  const OpId loop = l_.b.make_for(l_.b.i32(0), l_.b.i32(count_), l_.b.i32(1), inits);
  const RegionId body = l_.to[loop].regions[0], outer = l_.b.region();
  const std::vector<Value> args(l_.to[body].args.begin(), l_.to[body].args.end());
  l_.b.at_end(body);
  const Tuple best = next_best(args[1], args[2]);
  Indices places;
  for (std::int64_t i = 0; i < rows() * kept_; ++i) places.push_back(i % kept_);
  const Value is_here = l_.b.cmp("eq", l_.constants(DType::i32, places), args[0]);
  l_.b.yield(std::vector<Value>{best[0], best[1],
                                l_.b.select(is_here, expanded(best[0], kept_), args[3]),
                                l_.b.select(is_here, expanded(best[1], kept_), args[4])});
  l_.b.at_end(outer);
  return {of_this_lane(l_.to[loop].results[2]), of_this_lane(l_.to[loop].results[3])};
}

// ---- words ------------------------------------------------------------------------------------

/// Returns this lane's part of the best kept_ words of each row. `of_lane` completes a thread's
/// words.
Value PackedTopk::select(Value words, Value of_lane) {
  words = sort_runs(words);
  for (std::int64_t runs = per_row() / kept_; runs > 1; runs /= 2) words = halve(words);
  if (of_lane) words = l_.b.op(Opcode::Xor, {words, of_lane});
  for (std::size_t i = 0; i < lane_bits_.size(); ++i) words = merge_sides(words, i);
  return words;
}

/// Returns the registers of this lane's part of the best, [rows][held], in the order of the
/// result's registers.
PackedTopk::Indices PackedTopk::places() const {
  Indices places;
  for (int r = 0; r < result_.registers(); ++r) {
    const Dims index = result_.apply({.reg = r});
    const auto row = std::ranges::find(row_index_, row_of(index)) - row_index_.begin();
    places.push_back(row * held() + index[axis_]);
  }
  return places;
}

/// Returns the `flags` [rows][held] of elements that are in the result: more may have been kept.
Value PackedTopk::among_wanted(Value flags) {
  if (count_ == kept_) return flags;
  const Value index = index_along(l_, result_, axis_);
  Indices registers(static_cast<std::size_t>(rows() * held()));
  const Indices of_result = places();
  for (std::size_t r = 0; r < of_result.size(); ++r)
    registers[static_cast<std::size_t>(of_result[r])] = static_cast<std::int64_t>(r);
  return l_.b.op(Opcode::And, {flags, l_.b.cmp("lt", l_.regs(index, registers), l_.b.i32(count_))});
}

/// Yields f() if the condition is true in any thread of the warp, else g().
template <class F, class G>
Tuple PackedTopk::either(Value condition, DType first, const F& f, const G& g) {
  const Value any = l_.b.op(Opcode::Vote, {condition}, {{AttrName::kind, "any"}});
  const Type of_first = Type::vec({first, false}, rows() * held());
  const std::vector<Type> types{of_first, of_first.with_dtype(DType::i32)};
  const OpId branch = l_.branch(any, types, [&] { l_.b.yield(f()); }, [&] { l_.b.yield(g()); });
  return {l_.to[branch].results[0], l_.to[branch].results[1]};
}

/// Selects by words of the distance from the row's best number in units of its last place, with all
/// bits up to the range of a word. The bits of numbers of one sign are ordered, so the distance is
/// a difference of bits. Numbers of the other sign, NaN and absent elements are out of range if the
/// best number's magnitude is not too small or too large.
PackedTopk::Selection PackedTopk::by_distance(Value numbers) {
  constexpr std::uint64_t kSign = 0x80000000u, kInfinity = 0x7f800000u;
  const int index_bits = layout_.bits(axis_);
  const std::uint64_t reach = 0xffffffffu >> index_bits;
  const std::uint64_t min_magnitude = reach + 1, max_magnitude = kInfinity - reach;
  const Value farthest = number(reach);
  const auto larger = [&](const Tuple& a, const Tuple& b) {
    return Tuple{l_.b.op(Opcode::Max, {a[0], b[0]})};
  };
  const Value first = bits_of(fold_rows({numbers}, larger)[0], DType::u32);
  // bits * sign + base: first - bits of positive numbers, bits - first of negative ones.
  const Value is_negative = l_.b.cmp("ge", first, number(kSign));
  const Value sign = l_.b.select(is_negative, number(1), number(0xffffffffu)),
              base = l_.b.select(is_negative, l_.b.sub(number(0), first), first);
  const Value away = l_.b.add(l_.b.mul(bits_of(numbers, DType::u32), expanded(sign, per_row())),
                              expanded(base, per_row()));
  const Value near = l_.b.op(Opcode::Min, {away, farthest});
  Indices of_register;
  for (const std::int64_t r : order_)
    of_register.push_back(layout_.apply({.reg = static_cast<int>(r)})[axis_]);
  const Value in_thread = l_.constants(DType::u32, of_register);
  const Value of_lane =
      l_.b.op(Opcode::Xor, {l_.regs(bits_of(at_, DType::u32), Indices{0}),
                            number(static_cast<std::uint64_t>(of_register.front()))});
  const Value words =
      select(l_.b.add(l_.b.mul(near, number(std::uint64_t{1} << index_bits)), in_thread),
             l_.regs(of_lane, Indices(static_cast<std::size_t>(rows() * kept_), 0)));
  const Value kept = l_.b.op(Opcode::Shr, {words, number(static_cast<std::uint64_t>(index_bits))});
  const Value bits = l_.b.mul(l_.b.sub(kept, expanded(base, held())), expanded(sign, held()));
  const Value magnitude = l_.b.op(Opcode::And, {first, number(kSign - 1)});
  const Value fails =
      l_.b.op(Opcode::Or, {any_of(among_wanted(l_.b.cmp("ge", kept, farthest))),
                           any_of(l_.b.cmp("ge", l_.b.sub(magnitude, number(min_magnitude)),
                                           number(max_magnitude - min_magnitude)))});
  return {{oriented(bits_of(bits, DType::f32)),
           bits_of(l_.b.op(Opcode::And, {words, number(index_mask_)}), DType::i32)},
          fails};
}

/// Selects by words of the upper bits of the keys.
PackedTopk::Selection PackedTopk::by_upper_bits() {
  const Value words = of_all_lanes(
      select(l_.b.op(Opcode::Or, {l_.b.op(Opcode::And, {keys_, number(~index_mask_ & 0xffffffffu)}),
                                  bits_of(at_, DType::u32)}),
             {}));
  const Value index = bits_of(l_.b.op(Opcode::And, {words, number(index_mask_)}), DType::i32),
              best = read_back(index);
  return {{of_this_lane(best), of_this_lane(index)}, is_wrong(words, best)};
}

/// Selects by keys, which are exact and slower.
Tuple PackedTopk::by_keys(Value present) {
  const Tuple keys = key_.encode(given_, at_, present);
  keys_ = keys[0], at_ = keys[1];
  // Rows of padding may hold anything and must not determine an address.
  if (pads_) keys_ = l_.b.select(pads_, number(0), keys_);
  const Selection upper = by_upper_bits();
  return key_.decode(
      either(upper.fails, DType::u32, [&] { return search(); }, [&] { return upper.best; }));
}

Value PackedTopk::oriented(Value numbers) {
  return is_descending_ ? numbers : l_.b.op(Opcode::Neg, {numbers});
}

Tuple PackedTopk::run(Value numbers, Value index, Value present) {
  if (key_.is_word()) {
    const Value words = l_.regs(key_.encode(numbers, index, present)[0], order_);
    return key_.decode({l_.regs(select(words, {}), places())});
  }
  const auto number_of = [&](double v) { return l_.b.constant(Type::scalar(DType::f32), v); };
  const auto in_order = [&](Value v) { return v ? l_.regs(v, order_) : v; };
  given_ = in_order(numbers), at_ = in_order(index), present = in_order(present);
  for (int d = 0; d < layout_.rank(); ++d)
    if (const Value is_real = d == axis_ ? Value() : inside_along(l_, layout_, d)) {
      const Value is_pad = l_.b.op(Opcode::Not, {in_order(is_real)});
      pads_ = pads_ ? l_.b.op(Opcode::Or, {pads_, is_pad}) : is_pad;
    }
  Value known = oriented(given_);
  if (present)
    known = l_.b.select(present, known, number_of(-std::numeric_limits<double>::infinity()));
  if (pads_) known = l_.b.select(pads_, number_of(1), known);
  const Selection near = by_distance(known);
  // Rows that fail use scratch memory. Without a barrier before it, each warp continues as soon as
  // its numbers have arrived.
  if (follows_exchanges_) l_.barrier();
  const Tuple found =
      either(near.fails, DType::f32, [&] { return by_keys(present); }, [&] { return near.best; });
  return {l_.regs(found[0], places()), l_.regs(found[1], places())};
}

}  // namespace tegula::codegen
