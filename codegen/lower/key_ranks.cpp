// Lowering of key_ranks. Each warp ranks a contiguous part of the line with separate counters in
// shared memory. Each round handles one register: lanes with equal keys find each other by votes on
// the key bits, and a lane's rank is the counter plus the number of lower lanes among them. At the
// end, the counters of earlier warps are summed per bin and added. No rank depends on the order of
// atomic operations. If only the counts are used, all threads add to one set of counters.
#include <algorithm>
#include <bit>

#include "codegen/lower/fold_tuple.h"
#include "ir/layout/linear_layout.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr std::int64_t kCounterBytes = 4;
/// Counters per thread that are loaded before the first sum is stored, so that the loads overlap.
constexpr std::int64_t kCountersAtOnce = 32;

class Ranking {
 public:
  Ranking(Lowering& l, OpId op)
      : l_(l),
        op_(op),
        layout_(layout_of(l.from.type(l.from[op].operands[0]))),
        bins_(l.from[op].attrs.i(AttrName::count)) {}

  void run() {
    const OpData& d = l_.from[op_];
    Value keys = l_.get(d.operands[0]);
    // Padding registers may hold anything, but votes and addresses use the keys of all lanes.
    if (const Value inside = inside_along(l_, layout_, 0))
      keys = l_.b.select(inside, keys, l_.b.i32(-1));
    const Value known = is_in_bins(keys);
    if (!is_used(l_.from, d.results[0])) return count_alone(keys, known);
    counters_ = l_.scratch(l_.warps() * bins_ * kCounterBytes, 16);
    row_ = row_of(l_.coordinate(HwDim::Warp));
    find_copy();
    l_.barrier();
    clear(l_.coordinate(HwDim::Lane), 32);
    sync_warp();
    std::vector<Value> ranks;
    for (int r = 0; r < layout_.registers(); ++r)
      ranks.push_back(round(one(keys, r), one(known, r)));
    l_.barrier();
    Value rank = l_.concat(ranks);
    if (warps_of_copy_ > 1) {
      add_up_warps();
      l_.barrier();
      rank = l_.b.add(rank, of_earlier_warps(keys, known));
    }
    l_.set(d.results[0], l_.b.select(known, rank, l_.b.i32(-1)));
    set_counts(row_in_copy(warps_of_copy_ - 1));
  }

 private:
  Value one(Value v, int r) { return l_.b.op(Opcode::Regs, {v}, {{AttrName::indices, Ints{r}}}); }
  Value is_in_bins(Value keys) {
    return l_.b.op(Opcode::And,
                   {l_.b.cmp("ge", keys, l_.b.i32(0)), l_.b.cmp("lt", keys, l_.b.i32(bins_))});
  }
  Value row_of(Value warp) {
    return l_.b.add(counters_, l_.b.mul(warp, l_.b.i32(bins_ * kCounterBytes)));
  }
  Value counter(Value row, Value key) {
    return l_.b.add(l_.b.mul(key, l_.b.i32(kCounterBytes)), row);
  }
  /// Loads counters under a predicate; accepts vectors and scalars.
  Value load(Value address, Value predicate) {
    const Value addresses = l_.as_vec(address);
    const std::int64_t count = l_.type(addresses).count();
    const Value where = l_.type(predicate).is_vec() ? predicate : l_.splat(predicate, count);
    return l_.b.op(Opcode::LdShared, {addresses, where}, Type::vec({DType::i32, false}, count),
                   {{AttrName::width, 1}});
  }
  void store(Value address, Value v, Value predicate) {
    l_.b.effect(Opcode::StShared, {l_.as_vec(address), l_.as_vec(v), l_.as_vec(predicate)},
                {{AttrName::width, 1}});
  }
  void sync_warp() { l_.b.effect(Opcode::WarpSync, {}); }

  /// Clears the counters of the row, shared among `threads` threads.
  void clear(Value thread, std::int64_t threads) {
    std::vector<std::int64_t> of_thread;
    for (std::int64_t bin = 0; bin < bins_; bin += threads) of_thread.push_back(bin);
    const Value bin = l_.b.add(l_.constants(DType::i32, of_thread), thread);
    const std::vector<std::int64_t> zeros(of_thread.size(), 0);
    store(counter(row_, bin), l_.constants(DType::i32, zeros),
          l_.b.cmp("lt", bin, l_.b.i32(bins_)));
  }

  Value ballot(Value predicate) {
    return l_.b.op(Opcode::Vote, {predicate}, {{AttrName::kind, "ballot"}});
  }
  /// Returns the mask of the lanes whose key is in a bin and equals this lane's key.
  Value peers_of(Value key, Value known) {
    Value peers = ballot(known);
    for (std::int64_t bit = 0; std::int64_t{1} << bit < bins_; ++bit) {
      // Shift the bit to the sign: it gives the predicate and, shifted back, a mask of that bit.
      const Value sign = l_.b.op(Opcode::Shl, {key, l_.b.i32(31 - bit)});
      const Value own = l_.b.op(Opcode::Bitcast, {l_.b.op(Opcode::Shr, {sign, l_.b.i32(31)})},
                                Type::scalar(DType::u32));
      // These become one three-input instruction, which drops the lanes whose bit differs.
      const Value differ = l_.b.op(Opcode::Xor, {ballot(l_.b.cmp("lt", sign, l_.b.i32(0))), own});
      peers = l_.b.op(Opcode::And, {peers, l_.b.op(Opcode::Not, {differ})});
    }
    return peers;
  }

  /// Processes one register: returns the rank of each lane's key among those that the warp has
  /// seen, and updates the counters. The lowest of the lanes with equal keys updates their counter.
  Value round(Value key, Value known) {
    const Value peers = peers_of(key, known), lower = l_.b.op(Opcode::And, {peers, lower_lanes()});
    const Value address = counter(row_, key);
    const Value old = one(load(address, known), 0);
    sync_warp();
    const Value none = l_.b.constant(Type::scalar(DType::u32), std::int64_t{0});
    const Value leads = l_.b.op(Opcode::And, {known, l_.b.cmp("eq", lower, none)});
    store(address, l_.b.add(old, count(peers)), leads);
    sync_warp();
    return l_.b.add(old, count(lower));
  }
  Value count(Value lanes) {
    return l_.b.op(Opcode::Popc, {l_.b.op(Opcode::Bitcast, {lanes}, Type::scalar(DType::i32))});
  }
  Value lower_lanes() {
    if (lower_lanes_) return lower_lanes_;
    const Value bit = l_.b.op(Opcode::Shl, {l_.b.i32(1), l_.coordinate(HwDim::Lane)});
    return lower_lanes_ =
               l_.b.op(Opcode::Bitcast, {l_.b.sub(bit, l_.b.i32(1))}, Type::scalar(DType::u32));
  }

  /// Warps that hold copies of the same elements have separate counters, and the rows of one copy
  /// are contiguous. The upper bits of a warp's number select the copy.
  void find_copy() {
    const int copies = std::popcount(layout_.free_bits(HwDim::Warp));
    warps_of_copy_ = std::int64_t{1} << (layout_.in_bits(HwDim::Warp) - copies);
    const Value warp = l_.coordinate(HwDim::Warp);
    warp_in_copy_ = l_.b.op(Opcode::And, {warp, l_.b.i32(warps_of_copy_ - 1)});
    first_row_ = row_of(l_.b.sub(warp, warp_in_copy_));
  }
  /// Returns the address of the counters of a warp of the copy.
  Value row_in_copy(std::int64_t warp) {
    return l_.b.add(first_row_, l_.b.i32(warp * bins_ * kCounterBytes));
  }

  /// Replaces the counters of each warp by their sums over all warps of the copy up to this one;
  /// each thread handles some bins.
  void add_up_warps() {
    const std::int64_t threads = 32 * warps_of_copy_;
    std::vector<std::int64_t> of_thread;
    for (std::int64_t bin = 0; bin < bins_; bin += threads) of_thread.push_back(bin);
    const Value thread =
        l_.b.add(l_.b.mul(warp_in_copy_, l_.b.i32(32)), l_.coordinate(HwDim::Lane));
    const Value bin = l_.b.add(l_.constants(DType::i32, of_thread), thread),
                inside = l_.b.cmp("lt", bin, l_.b.i32(bins_));
    const std::int64_t at_once =
        std::max<std::int64_t>(1, kCountersAtOnce / static_cast<std::int64_t>(of_thread.size()));
    Value sum = load(counter(row_in_copy(0), bin), inside);
    for (std::int64_t first = 1; first < warps_of_copy_; first += at_once) {
      const std::int64_t end = std::min(first + at_once, warps_of_copy_);
      std::vector<Value> loaded;
      for (std::int64_t w = first; w < end; ++w)
        loaded.push_back(load(counter(row_in_copy(w), bin), inside));
      for (std::int64_t w = first; w < end; ++w) {
        sum = l_.b.add(sum, loaded[static_cast<std::size_t>(w - first)]);
        store(counter(row_in_copy(w), bin), sum, inside);
      }
    }
  }
  /// Returns the sums of the earlier warps' counters, after add_up_warps. The first warp reads its
  /// own row and discards the result, so that the loads need no branch.
  Value of_earlier_warps(Value keys, Value known) {
    const Value has_earlier = l_.b.cmp("gt", warp_in_copy_, l_.b.i32(0)),
                takes = l_.b.op(Opcode::And, {known, has_earlier});
    const Value back = l_.b.select(has_earlier, l_.b.i32(bins_ * kCounterBytes), l_.b.i32(0));
    const Value row = l_.b.sub(row_, back);
    return l_.b.select(takes, load(counter(row, keys), known), l_.b.i32(0));
  }

  void set_counts(Value row) {
    const Value counts = l_.from[op_].results[1];
    const Value bin = index_along(l_, layout_of(l_.from.type(counts)), 0);
    l_.set(counts, load(counter(row, bin), l_.b.cmp("lt", bin, l_.b.i32(bins_))));
  }

  /// Returns a predicate: true for known keys in the first of the threads that hold copies of an
  /// element.
  Value is_counted_here(Value known) {
    const Value first = is_first_copy(l_, layout_, lanes_of_copies(layout_));
    return first ? l_.b.op(Opcode::And, {known, first}) : known;
  }

  /// Computes counts without ranks: all threads add atomically to one row of counters.
  void count_alone(Value keys, Value known) {
    counters_ = row_ = l_.scratch(bins_ * kCounterBytes, 16);
    l_.barrier();
    const Value warp = l_.coordinate(HwDim::Warp);
    clear(l_.b.add(l_.b.mul(warp, l_.b.i32(32)), l_.coordinate(HwDim::Lane)), 32 * l_.warps());
    l_.barrier();
    const Value are_counted = is_counted_here(known);
    const std::vector<std::int64_t> ones(static_cast<std::size_t>(layout_.registers()), 1);
    l_.b.effect(
        Opcode::StShared,
        {l_.as_vec(counter(row_, keys)), l_.constants(DType::i32, ones), l_.as_vec(are_counted)},
        {{AttrName::width, 1}, {AttrName::kind, "add"}});
    l_.barrier();
    set_counts(row_);
    l_.set(l_.from[op_].results[0], l_.splat(l_.b.i32(0), layout_.registers()));
  }

  Lowering& l_;
  OpId op_;
  const LinearLayout& layout_;
  std::int64_t bins_;
  Value counters_, row_;  ///< shared memory: one row of counters per warp; this warp's row
  std::int64_t warps_of_copy_ = 1;
  Value warp_in_copy_, first_row_;  ///< this warp's number in its copy; first row of the copy
  Value lower_lanes_;
};

}  // namespace

void lower_KeyRanks(Lowering& l, OpId op) { Ranking(l, op).run(); }

}  // namespace tegula::codegen
