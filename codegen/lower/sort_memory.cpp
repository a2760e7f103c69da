// Bitonic networks on keys in shared memory, for lines whose network of registers the assembler
// cannot compile in reasonable time. All threads repeat one pass in loops: each thread loads 16
// keys whose numbers differ in four bits, exchanges along these bits in registers, and stores the
// keys.
#include "codegen/lower/sort_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "codegen/lower/linear_exchange.h"
#include "support/errors.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Bits of a key's number along which one pass exchanges, and the keys that a thread then holds.
constexpr int kPassBits = 4, kPassKeys = 1 << kPassBits;
/// Keys of each run that a thread compares at a time when it keeps the better half.
constexpr int kHalvedKeys = 4;

class MemoryNetwork {
 public:
  MemoryNetwork(Lowering& l, SortKey& key, const LinearLayout& layout, int axis, const Tuple& keys,
                int count)
      : l_(l),
        key_(key),
        layout_(layout),
        axis_(axis),
        bits_(layout.bits(axis)),
        kept_(std::max<int>(kPassBits, std::bit_width(static_cast<unsigned>(count - 1)))) {
    for (int d = 0; d < layout.rank(); ++d) keys_in_all_ *= layout.cover()[d];
    for (const Value v : keys) dtypes_.push_back(l.type(v).dtype());
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < dtypes_.size(); ++i) bytes += keys_in_all_ * word_bytes(i);
    require_room(bytes);
    Value base = l.scratch(bytes, 16);
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      bases_.push_back(base);
      base = l.b.add(base, l.b.i32(keys_in_all_ * word_bytes(i)));
    }
    l.barrier();
    store(numbers(layout, swizzled(index_along(l, layout, axis))), keys, l.is_replica_zero(layout));
    l.barrier();
  }

  /// Returns the registers of `result`, the layout of the first elements.
  Tuple run(const LinearLayout& result) {
    pass_of_runs();
    loop(l_.b.i32(kPassBits + 1), l_.b.i32(kept_ + 1), l_.b.i32(1), [&](Value size) {
      clean(size, l_.b.i32(0), size, l_.b.i32(keys_in_all_ / kPassKeys), has_even_passes());
    });
    loop(l_.b.i32(0), l_.b.i32(bits_ - kept_), l_.b.i32(1), [&](Value level) {
      keep_better(level);
      const Value next = l_.b.add(level, l_.b.i32(1));
      clean(l_.b.i32(kept_), next, l_.b.add(next, l_.b.i32(kept_)),
            shr(l_.b.i32(keys_in_all_ / kPassKeys), next), false);
    });
    return load(result);
  }

 private:
  /// Indices are words of 16 bits in memory.
  std::int64_t word_bytes(std::size_t word) const {
    return dtypes_[word] == DType::i32 ? 2 : size_bytes(dtypes_[word]);
  }

  void require_room(std::int64_t bytes) const {
    const TargetRow& target = *l_.from.info.target;
    if (bytes <= target.shared_bytes_per_cta) return;
    std::int64_t most = std::int64_t{1} << bits_;
    while (bytes > target.shared_bytes_per_cta) bytes /= 2, most /= 2;
    fail(ErrorId::sort_extent, l_.b.loc, {}, "sort", layout_.shape()[axis_], axis_,
         fmt::format("{}, which fit the shared memory of {}", most, l_.from.info.target.name()));
  }

  Value shl(Value a, Value by) { return l_.b.op(Opcode::Shl, {a, by}); }
  Value shr(Value a, Value by) { return l_.b.op(Opcode::Shr, {a, by}); }
  Value both(Value a, Value b) { return l_.b.op(Opcode::And, {a, b}); }
  Value flipped(Value a, Value b) { return l_.b.op(Opcode::Xor, {a, b}); }

  template <class F>
  void loop(Value from, Value to, Value step, const F& body) {
    const OpId op = l_.b.make_for(from, to, step, {});
    const RegionId inner = l_.to[op].regions[0], outer = l_.b.region();
    l_.b.at_end(inner);
    body(l_.to[inner].args[0]);
    l_.b.yield({});
    l_.b.at_end(outer);
  }

  /// Runs body(number, is_own) for this thread's share of the numbers below `count`. All threads
  /// run it equally often; `is_own` is none if all of them have a number each time.
  template <class F>
  void share(Value count, bool is_even, const F& body) {
    const Value warp = l_.b.mul(l_.coordinate(HwDim::Warp), l_.b.i32(32)),
                thread = l_.b.add(warp, l_.coordinate(HwDim::Lane));
    loop(l_.b.i32(0), count, l_.b.i32(threads()), [&](Value first) {
      const Value number = l_.b.add(first, thread);
      body(number, is_even ? Value() : l_.b.cmp("lt", number, count));
    });
  }
  std::int64_t threads() const { return 32 * std::int64_t{l_.warps()}; }
  bool has_even_passes() const { return keys_in_all_ / kPassKeys % threads() == 0; }

  /// Returns the numbers of a layout's elements, lines one after another, from their indices.
  Value numbers(const LinearLayout& layout, Value number) {
    std::int64_t stride = std::int64_t{1} << bits_;
    for (int d = layout.rank() - 1; d >= 0; --d) {
      if (d == axis_) continue;
      number = l_.b.add(number, l_.b.mul(index_along(l_, layout, d), l_.b.i32(stride)));
      stride *= layout_.cover()[d];
    }
    return l_.as_vec(number);
  }

  /// Returns the places of numbers: the lanes of a warp access different banks in each pass, two
  /// lanes the same one in passes along bit 0. The place of a sum of numbers without common bits is
  /// the exclusive or of their places.
  Value swizzled(Value number) {
    return flipped(number, both(shr(number, l_.b.i32(4)), l_.b.i32(30)));
  }

  /// Returns the places of a result's elements. They are not computed as those of the operand are,
  /// which would then stay in registers during the whole sort.
  Value places_of_result(const LinearLayout& result) {
    if (!index_fn(result, axis_).is_additive)
      return numbers(result, swizzled(index_along(l_, result, axis_)));
    const IndexParts parts = l_.index_parts(result, axis_);
    const Value of_registers = swizzled(l_.constants(DType::i32, parts.constant));
    return numbers(result,
                   parts.thread ? flipped(of_registers, swizzled(parts.thread)) : of_registers);
  }

  /// Returns the keys of a result. Two indices are loaded as one register, if neighbours are.
  Tuple load(const LinearLayout& result) {
    const Value places = places_of_result(result);
    Dims neighbour = Dims::filled(result.rank(), 0);
    neighbour[axis_] = 1;
    if (dtypes_.back() != DType::i32 || result.in_bits(HwDim::Register) == 0 ||
        result.basis(HwDim::Register, 0) != neighbour)
      return load(places);
    Tuple keys{load_word(places, 0, dtypes_[0])};
    std::vector<std::int64_t> evens, order;
    const std::int64_t pairs = l_.type(places).count() / 2;
    for (std::int64_t i = 0; i < pairs; ++i) {
      evens.push_back(2 * i);
      order.insert(order.end(), {i, i + pairs});
    }
    const Value both_indices = load_word(l_.as_vec(l_.regs(places, evens)), 1, DType::u32);
    const auto number = [&](std::int64_t v) { return l_.b.constant(Type::scalar(DType::u32), v); };
    const Value low = both(both_indices, number(0xffff)), high = shr(both_indices, number(16));
    const Value indices = l_.regs(l_.concat(std::vector{low, high}), order);
    keys.push_back(l_.b.op(Opcode::Bitcast, {indices}, l_.type(indices).with_dtype(DType::i32)));
    return keys;
  }

  Value addresses(Value places, std::size_t word) {
    return l_.b.add(l_.b.mul(places, l_.b.i32(word_bytes(word))), bases_[word]);
  }
  void store(Value places, const Tuple& keys, Value where = {}) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const bool is_index = dtypes_[i] == DType::i32;
      std::vector<Value> operands{addresses(places, i),
                                  is_index ? l_.b.cast(keys[i], DType::u16) : keys[i]};
      if (where) operands.push_back(l_.splat(where, l_.type(places).count()));
      l_.b.effect(Opcode::StShared, operands, {{AttrName::width, 1}});
    }
  }
  Tuple load(Value places, Value where = {}) {
    Tuple keys;
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      const bool is_index = dtypes_[i] == DType::i32;
      const Value v = load_word(places, i, is_index ? DType::u16 : dtypes_[i], where);
      keys.push_back(is_index ? l_.b.cast(v, DType::i32) : v);
    }
    return keys;
  }
  Value load_word(Value places, std::size_t word, DType dtype, Value where = {}) {
    std::vector<Value> operands{addresses(places, word)};
    if (where) operands.push_back(l_.splat(where, l_.type(places).count()));
    return l_.b.op(Opcode::LdShared, operands, l_.type(places).with_dtype(dtype),
                   {{AttrName::width, 1}});
  }

  /// Orders the loads of indices before the stores: two lanes load the halves of one word.
  void order_halves() {
    if (dtypes_.back() == DType::i32) l_.b.effect(Opcode::WarpSync, {});
  }

  static std::vector<std::int64_t> first_integers(std::int64_t count) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  /// Returns a predicate: true if the bit of the number within its line is set. Runs whose numbers
  /// have the bit are sorted in reverse.
  Value has_bit(Value number, Value bit) {
    const Value in_line = both(number, l_.b.i32((std::int64_t{1} << bits_) - 1));
    return l_.b.cmp("ne", both(shr(in_line, bit), l_.b.i32(1)), l_.b.i32(0));
  }

  /// Sorts bitonic runs of 2^size keys, in reverse where the number has the bit `backwards`. Runs
  /// are 2^(kept + level) apart if level is not 0. A pass that starts at bit 0 may repeat exchanges
  /// of the pass before, which change nothing.
  void clean(Value size, Value level, Value backwards, Value groups, bool is_even) {
    const Value passes = l_.b.div(l_.b.add(size, l_.b.i32(kPassBits - 1)), l_.b.i32(kPassBits));
    loop(l_.b.i32(1), l_.b.add(passes, l_.b.i32(1)), l_.b.i32(1), [&](Value pass) {
      const Value low =
          l_.b.op(Opcode::Max, {l_.b.sub(size, l_.b.mul(pass, l_.b.i32(kPassBits))), l_.b.i32(0)});
      const Value steps = swizzled(shl(l_.constants(DType::i32, first_integers(kPassKeys)), low));
      share(groups, is_even, [&](Value group, Value is_own) {
        const Value below = both(group, l_.b.sub(shl(l_.b.i32(1), low), l_.b.i32(1)));
        const Value above = shl(shr(group, low), l_.b.add(low, l_.b.i32(kPassBits)));
        const Value first = spread(l_.b.op(Opcode::Or, {below, above}), level);
        exchange_all(flipped(swizzled(first), steps), has_bit(first, backwards), kPassBits, is_own);
      });
      l_.barrier();
    });
  }

  /// Returns the number of a key of the runs that are left at `level`.
  Value spread(Value number, Value level) {
    if (kept_ == bits_) return number;
    const Value run = shr(number, l_.b.i32(kept_));
    return l_.b.op(Opcode::Or, {both(number, l_.b.i32((std::int64_t{1} << kept_) - 1)),
                                shl(run, l_.b.add(level, l_.b.i32(kept_)))});
  }

  /// Sorts the first runs, of kPassKeys keys.
  void pass_of_runs() {
    const Value steps = l_.constants(DType::i32, first_integers(kPassKeys));
    share(l_.b.i32(keys_in_all_ / kPassKeys), has_even_passes(), [&](Value group, Value is_own) {
      const Value first = shl(group, l_.b.i32(kPassBits));
      exchange_all(flipped(swizzled(first), steps), has_bit(first, l_.b.i32(kPassBits)), 1, is_own);
    });
    l_.barrier();
  }

  /// Keeps the better of each two keys of two runs in opposite order, in the place of the first.
  void keep_better(Value level) {
    const Value distance = shl(l_.b.i32(1), l_.b.add(level, l_.b.i32(kept_)));
    const Value steps = l_.constants(DType::i32, first_integers(kHalvedKeys));
    const Value next = l_.b.add(level, l_.b.i32(1));
    share(shr(l_.b.i32(keys_in_all_ / kHalvedKeys), next), false, [&](Value group, Value is_own) {
      const Value first = spread(l_.b.mul(group, l_.b.i32(kHalvedKeys)), next);
      const Value places = flipped(swizzled(first), steps);
      const Tuple a = load(places, is_own),
                  b = load(flipped(swizzled(l_.b.add(first, distance)), steps), is_own);
      order_halves();
      store(places, choose(l_, key_.less(b, a), b, a), is_own);
    });
    l_.barrier();
  }

  /// Loads the keys at these places, merges runs of 2^(size - 1), .. 2^(kPassBits - 1) keys, and
  /// stores them. The last merge, of all keys, is in reverse where the flag is set.
  void exchange_all(Value places, Value is_reversed, int size, Value is_own) {
    Tuple keys = load(places, is_own);
    order_halves();
    // The complement of a word reverses its order.
    Value complement;
    if (key_.is_word()) {
      const auto number = [&](std::int64_t v) {
        return l_.b.constant(Type::scalar(dtypes_[0]), v);
      };
      complement = l_.b.select(is_reversed, number(-1), number(0));
      keys[0] = flipped(keys[0], l_.splat(complement, kPassKeys));
    }
    for (; size <= kPassBits; ++size)
      for (int bit = size - 1; bit >= 0; --bit)
        keys = exchanged(keys, bit, size == kPassBits ? 0 : 1 << size, is_reversed);
    if (complement) keys[0] = flipped(keys[0], l_.splat(complement, kPassKeys));
    store(places, keys, is_own);
  }

  /// Exchanges along a bit of the register; in reverse in registers that have the bits `backwards`.
  Tuple exchanged(const Tuple& keys, int bit, int backwards, Value is_reversed) {
    std::vector<std::int64_t> firsts, seconds, back(kPassKeys);
    for (int r = 0; r < kPassKeys; ++r) {
      if ((r >> bit & 1) != 0) continue;
      const int upper = r | 1 << bit;
      const bool is_backwards = (r & backwards) != 0;
      back[static_cast<std::size_t>(is_backwards ? upper : r)] =
          static_cast<std::int64_t>(firsts.size());
      back[static_cast<std::size_t>(is_backwards ? r : upper)] =
          static_cast<std::int64_t>(firsts.size()) + kPassKeys / 2;
      firsts.push_back(is_backwards ? upper : r);
      seconds.push_back(is_backwards ? r : upper);
    }
    const Tuple a = pick(l_, keys, firsts), b = pick(l_, keys, seconds);
    Tuple first, second;
    if (key_.is_word()) {
      first = {l_.b.op(Opcode::Min, {a[0], b[0]})}, second = {l_.b.op(Opcode::Max, {a[0], b[0]})};
    } else {
      const Value swap = flipped(key_.less(b, a), l_.splat(is_reversed, kPassKeys / 2));
      first = choose(l_, swap, b, a), second = choose(l_, swap, a, b);
    }
    Tuple out;
    for (std::size_t i = 0; i < keys.size(); ++i)
      out.push_back(l_.regs(l_.concat(std::vector{first[i], second[i]}), back));
    return out;
  }

  Lowering& l_;
  SortKey& key_;
  const LinearLayout& layout_;
  int axis_, bits_, kept_;
  std::int64_t keys_in_all_ = 1;
  std::vector<DType> dtypes_;
  std::vector<Value> bases_;
};

}  // namespace

Tuple sorted_in_memory(Lowering& l, SortKey& key, const LinearLayout& layout, int axis,
                       const Tuple& keys, const LinearLayout& result) {
  return MemoryNetwork(l, key, layout, axis, keys, result.shape()[axis]).run(result);
}

}  // namespace tegula::codegen
