// Lowering of sorts: a bitonic network (Batcher 1968) over the bits of an element's index, each of
// which is a bit of the register, the lane or the warp. If only the first K elements are needed,
// runs of K are sorted; of each two runs, one in reverse order, the better half is kept, which is
// bitonic again.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "codegen/lower/shuffle.h"
#include "codegen/lower/sort_key.h"
#include "codegen/lower/sort_memory.h"
#include "codegen/lower/topk.h"
#include "ir/layout/distributed.h"
#include "ir/layout/linear_layout.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

namespace {

class Network {
 public:
  Network(Lowering& l, SortKey& key, const LinearLayout& layout, int axis, Tuple keys)
      : l_(l), key_(key), axis_(axis), bits_(layout.bits(axis)), keys_(std::move(keys)) {
    for (int r = 0; r < layout.registers(); ++r) slots_.push_back(layout.apply({.reg = r}));
    places_.resize(static_cast<std::size_t>(bits_));
    int found = 0;
    for (HwDim in : {HwDim::Register, HwDim::Lane, HwDim::Warp})
      for (int bit = 0; bit < layout.in_bits(in); ++bit)
        if (const int step = layout.basis(in, bit)[axis]) {
          places_[static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(step)))] = {in,
                                                                                              bit};
          ++found;
        }
    if (found != bits_) throw InternalError(fmt::format("sort along {} of {}", axis, layout.str()));
  }

  /// Returns the registers of `result`, the layout of the first elements.
  Tuple run(const LinearLayout& result) {
    const int kept = result.bits(axis_);
    for (int size = 1; size <= kept; ++size) merge(size);
    for (int bit = kept; bit < bits_; ++bit) {
      keep_better(bit);
      clean(kept, bit + 1);
    }
    std::vector<std::int64_t> order;
    for (int r = 0; r < result.registers(); ++r) order.push_back(slot_at(result.apply({.reg = r})));
    return pick(l_, keys_, order);
  }

 private:
  struct Place {
    HwDim in = HwDim::Register;
    int bit = 0;
  };

  /// Merges pairs of runs in opposite order into runs of 2^size.
  void merge(int size) { clean(size, size); }
  /// Sorts bitonic runs of 2^size; in reverse where the index has bit `backwards`, if it exists.
  void clean(int size, int backwards) {
    for (int bit = size - 1; bit >= 0; --bit) exchange(bit, backwards);
  }

  const Place& place(int bit) const { return places_[static_cast<std::size_t>(bit)]; }
  bool has_bit(const Dims& slot, int bit) const { return (slot[axis_] >> bit & 1) != 0; }
  std::int64_t slot_at(const Dims& index) const {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i] == index) return static_cast<std::int64_t>(i);
    throw InternalError("sort: no register has the element");
  }

  /// Returns a predicate: true if the thread's lane or warp number has the bit set.
  Value thread_bit(const Place& p) {
    Value& known = thread_bits_[{p.in, p.bit}];
    if (!known)
      known = l_.b.cmp("ne", l_.b.op(Opcode::And, {l_.coordinate(p.in), l_.b.i32(1 << p.bit)}),
                       l_.b.i32(0));
    return known;
  }
  /// Returns the exclusive or of two conditions. A null condition is always false.
  Value either(Value a, Value b) {
    if (!a || !b) return a ? a : b;
    return l_.b.op(Opcode::Xor, {a, b});
  }

  bool is_register(int bit) const { return bit < bits_ && place(bit).in == HwDim::Register; }
  /// Returns a predicate: true in threads that sort in reverse because of a lane or warp bit.
  Value backwards_in_thread(int bit) {
    return bit < bits_ && !is_register(bit) ? thread_bit(place(bit)) : Value();
  }
  Value backwards(int bit) {
    if (!is_register(bit)) return backwards_in_thread(bit);
    std::vector<std::int64_t> flags;
    for (const Dims& slot : slots_) flags.push_back(has_bit(slot, bit) ? 1 : 0);
    return l_.constants(DType::i1, flags);
  }

  void exchange(int bit, int backwards_bit) {
    if (is_register(bit)) return exchange_registers(bit, backwards_bit);
    const Tuple other = from_partner(bit);
    // The upper of the two threads keeps the worse key.
    const Value keeps_worse = either(backwards(backwards_bit), thread_bit(place(bit)));
    keys_ = choose(l_, either(key_.less(other, keys_), keeps_worse), other, keys_);
  }

  /// Pairs of registers whose indices differ in one bit, in the order required by the sort.
  struct Pairs {
    std::vector<std::int64_t> first, second;
  };
  Pairs pairs_along(int bit, int backwards_bit) const {
    Pairs pairs;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (has_bit(slots_[i], bit)) continue;
      Dims upper = slots_[i];
      upper[axis_] |= 1 << bit;
      auto low = static_cast<std::int64_t>(i), high = slot_at(upper);
      if (is_register(backwards_bit) && has_bit(slots_[i], backwards_bit)) std::swap(low, high);
      pairs.first.push_back(low);
      pairs.second.push_back(high);
    }
    return pairs;
  }

  void exchange_registers(int bit, int backwards_bit) {
    const Pairs pairs = pairs_along(bit, backwards_bit);
    const Tuple a = pick(l_, keys_, pairs.first), b = pick(l_, keys_, pairs.second);
    Tuple first, second;
    if (const Value is_reversed = backwards_in_thread(backwards_bit);
        !is_reversed && key_.is_word()) {
      first = {l_.b.op(Opcode::Min, {a[0], b[0]})}, second = {l_.b.op(Opcode::Max, {a[0], b[0]})};
    } else {
      const Value swap = either(key_.less(b, a), is_reversed);
      first = choose(l_, swap, b, a), second = choose(l_, swap, a, b);
    }
    std::vector<std::int64_t> back(slots_.size());
    for (std::size_t i = 0; i < pairs.first.size(); ++i) {
      back[static_cast<std::size_t>(pairs.first[i])] = static_cast<std::int64_t>(i);
      back[static_cast<std::size_t>(pairs.second[i])] =
          static_cast<std::int64_t>(pairs.first.size() + i);
    }
    for (std::size_t i = 0; i < keys_.size(); ++i)
      keys_[i] = l_.regs(l_.concat(std::vector{first[i], second[i]}), back);
  }

  /// Keeps the better of each two elements whose indices differ in the bit, in one thread or in
  /// two.
  void keep_better(int bit) {
    if (!is_register(bit)) {
      keys_ = better(from_partner(bit), keys_);
      return;
    }
    const Pairs pairs = pairs_along(bit, bits_);
    const Tuple a = pick(l_, keys_, pairs.first), b = pick(l_, keys_, pairs.second);
    keys_ = better(b, a);
    std::vector<Dims> left;
    for (std::int64_t i : pairs.first) left.push_back(slots_[static_cast<std::size_t>(i)]);
    slots_ = std::move(left);
  }

  Tuple better(const Tuple& a, const Tuple& b) {
    return key_.is_word() ? Tuple{l_.b.op(Opcode::Min, {a[0], b[0]})}
                          : choose(l_, key_.less(a, b), a, b);
  }

  /// Returns the keys of the thread whose lane or warp number differs in the bit.
  Tuple from_partner(int bit) {
    const Place& p = place(bit);
    Tuple out;
    for (Value v : keys_)
      out.push_back(p.in == HwDim::Lane ? shuffle(l_, v, l_.b.i32(1 << p.bit), "xor")
                                        : through_shared(v, 1 << p.bit));
    return out;
  }

  /// Exchanges registers between warps through scratch memory with layout [register][thread].
  Value through_shared(Value v, int warps_apart) {
    const Type type = l_.type(v);
    const std::int64_t bytes = size_bytes(type.dtype()), threads = 32 * std::int64_t{l_.warps()};
    std::vector<std::int64_t> rows;
    for (std::int64_t r = 0; r < type.count(); ++r) rows.push_back(r * threads * bytes);
    const Value base = l_.scratch(type.count() * threads * bytes, 16);
    const auto column = [&](Value warp) {
      const Value thread = l_.b.add(l_.b.mul(warp, l_.b.i32(32)), l_.coordinate(HwDim::Lane));
      return l_.b.add(l_.constants(DType::i32, rows),
                      l_.b.add(l_.b.mul(thread, l_.b.i32(bytes)), base));
    };
    const Value warp = l_.coordinate(HwDim::Warp);
    l_.barrier();
    l_.b.effect(Opcode::StShared, {column(warp), v}, {{AttrName::width, 1}});
    l_.barrier();
    const Value partner = l_.b.op(Opcode::Xor, {warp, l_.b.i32(warps_apart)});
    return l_.b.op(Opcode::LdShared, {column(partner)}, type, {{AttrName::width, 1}});
  }

  Lowering& l_;
  SortKey& key_;
  int axis_, bits_;
  std::vector<Place> places_;  ///< place of each bit of an index along the axis
  std::vector<Dims> slots_;    ///< register part of each register's index
  Tuple keys_;
  std::map<std::pair<HwDim, int>, Value> thread_bits_;
};

/// Selects this lane's elements in `result` from those that all lanes along the axis hold in `all`.
Tuple own_elements(Lowering& l, Tuple keys, int axis, const LinearLayout& all,
                   const LinearLayout& result) {
  std::vector<Dims> slots;
  for (int r = 0; r < all.registers(); ++r) slots.push_back(all.apply({.reg = r}));
  const auto registers_of = [&](const std::vector<Dims>& wanted) {
    std::vector<std::int64_t> registers;
    for (const Dims& index : wanted)
      registers.push_back(std::ranges::find(slots, index) - slots.begin());
    return registers;
  };
  for (int bit = 0; bit < result.in_bits(HwDim::Lane); ++bit) {
    const int step = result.basis(HwDim::Lane, bit)[axis];
    if (step == all.basis(HwDim::Lane, bit)[axis]) continue;
    std::vector<Dims> low, high;
    for (const Dims& index : slots) ((index[axis] & step) == 0 ? low : high).push_back(index);
    const Value is_high = l.b.cmp(
        "ne", l.b.op(Opcode::And, {l.coordinate(HwDim::Lane), l.b.i32(1 << bit)}), l.b.i32(0));
    for (Value& v : keys)
      v = l.b.select(is_high, l.regs(v, registers_of(high)), l.regs(v, registers_of(low)));
    slots = std::move(low);
  }
  std::vector<Dims> wanted;
  for (int r = 0; r < result.registers(); ++r) wanted.push_back(result.apply({.reg = r}));
  Tuple out;
  for (Value v : keys) out.push_back(l.regs(v, registers_of(wanted)));
  return out;
}

/// Returns true if threads may have exchanged values through shared memory before the op: unless it
/// is at the top level and only ops that never exchange values precede it.
bool follows_exchanges(const Kernel& k, OpId op) {
  using enum Opcode;
  constexpr std::array kOwn{
      Const,   Arange,    Splat,  ExpandDims,           Broadcast,         LoadView,
      ViewDim, ProgramId, Assume, GridLaunchDependents, GridDependencyWait};
  if (k[k[op].parent].owner) return true;
  for (OpId before = k[op].prev; before; before = k[before].prev) {
    const Opcode opcode = k[before].opcode;
    if (info(opcode).family != Family::Elementwise && std::ranges::find(kOwn, opcode) == kOwn.end())
      return true;
  }
  return false;
}

}  // namespace

void lower_Sort(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type type = l.from.type(d.operands[0]);
  const LinearLayout& layout = layout_of(type);
  const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
  const bool is_descending = d.attrs.i(AttrName::descending) != 0;
  const SortWord word = sort_word(l.from, d, layout.cover()[axis]);
  SortKey key(l, type.dtype(), is_descending, word);
  const Value given = d.operands.size() > 1 ? l.get(d.operands[1]) : Value();
  const Value inside = inside_along(l, layout, axis), index = index_along(l, layout, axis);
  // Treats padding as absent: if its flag came through shared memory, the flag is undefined.
  const Value present =
      inside && given
          ? l.b.select(inside, given, l.b.constant(Type::scalar(DType::i1), std::int64_t{0}))
          : l.and_predicates(inside, given);
  const LinearLayout& result = layout_of(l.from.type(d.results[0]));
  const std::int64_t count = result.shape()[axis];
  const bool has_short_keys = key.is_word() || type.dtype() == DType::f32;
  const bool selects = has_short_keys && d.attrs.has(AttrName::count) &&
                       (PackedTopk::is_possible(layout, axis, count) ||
                        (key.is_word() && is_in_word_order(layout, axis, static_cast<int>(count))));
  const Value elements = l.get(d.operands[0]);
  const auto by_network = [&] {
    const Tuple keys = key.encode(elements, index, present);
    if (is_sorted_in_memory(l.from, d))
      return key.decode(sorted_in_memory(l, key, layout, axis, keys, result));
    const LinearLayout first = first_elements(layout, axis, static_cast<int>(count));
    const Tuple best = Network(l, key, layout, axis, keys).run(first);
    return key.decode(own_elements(l, best, axis, first, result));
  };
  const Tuple sorted = selects ? PackedTopk(l, key, layout, axis, result, is_descending,
                                            follows_exchanges(l.from, op))
                                     .run(elements, index, present)
                               : by_network();
  for (std::size_t i = 0; i < 2; ++i) l.set(d.results[i], sorted[i]);
}

}  // namespace tegula::codegen
