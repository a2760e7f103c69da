// Lowering of key_ranks. Each warp has a consecutive part of the line and counters of its own in
// shared memory. In a round, which a register is, the lanes with equal keys find each other by
// votes on the keys' bits; a lane's rank is the counter plus the lower lanes among them. The
// counters of earlier warps are added at the end. No atomic operation decides an order.
#include <bit>

#include "codegen/lower/fold_tuple.h"
#include "ir/layout/linear_layout.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr std::int64_t kCounterBytes = 4;

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
    // Registers of padding hold anything; votes and addresses are made of all lanes' keys.
    if (const Value inside = inside_along(l_, layout_, 0))
      keys = l_.b.select(inside, keys, l_.b.i32(-1));
    const Value known = is_in_bins(keys);
    counters_ = l_.scratch(l_.warps() * bins_ * kCounterBytes, 16);
    row_ = row_of(l_.coordinate(HwDim::Warp));
    l_.barrier();
    clear();
    std::vector<Value> ranks;
    for (int r = 0; r < layout_.registers(); ++r)
      ranks.push_back(round(one(keys, r), one(known, r)));
    l_.barrier();
    const Value rank = l_.b.add(l_.concat(ranks), of_earlier_warps(keys, known));
    l_.set(d.results[0], l_.b.select(known, rank, l_.b.i32(-1)));
    l_.set(d.results[1], all_counts(layout_of(l_.from.type(d.results[1]))));
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
  /// Vectors read as predicates say; scalars too.
  Value load(Value address, Value predicate) {
    const Value at = l_.as_vec(address);
    const std::int64_t count = l_.type(at).count();
    const Value where = l_.type(predicate).is_vec() ? predicate : l_.splat(predicate, count);
    return l_.b.op(Opcode::LdShared, {at, where}, Type::vec({DType::i32, false}, count),
                   {{AttrName::width, 1}});
  }
  void store(Value address, Value v, Value predicate) {
    l_.b.effect(Opcode::StShared, {l_.as_vec(address), l_.as_vec(v), l_.as_vec(predicate)},
                {{AttrName::width, 1}});
  }
  void sync_warp() { l_.b.effect(Opcode::WarpSync, {}); }

  void clear() {
    std::vector<std::int64_t> of_lane;
    for (std::int64_t bin = 0; bin < bins_; bin += 32) of_lane.push_back(bin);
    const Value bin = l_.b.add(l_.constants(DType::i32, of_lane), l_.coordinate(HwDim::Lane));
    const std::vector<std::int64_t> zeros(of_lane.size(), 0);
    store(counter(row_, bin), l_.constants(DType::i32, zeros),
          l_.b.cmp("lt", bin, l_.b.i32(bins_)));
    sync_warp();
  }

  Value ballot(Value predicate) {
    return l_.b.op(Opcode::Vote, {predicate}, {{AttrName::kind, "ballot"}});
  }
  /// Lanes whose key is this lane's, where it is in a bin.
  Value peers_of(Value key, Value known) {
    Value peers = ballot(known);
    for (std::int64_t bit = 1; bit < bins_; bit *= 2) {
      const Value has = l_.b.cmp("ne", l_.b.op(Opcode::And, {key, l_.b.i32(bit)}), l_.b.i32(0));
      const Value set = ballot(has);
      peers = l_.b.op(Opcode::And, {peers, l_.b.select(has, set, l_.b.op(Opcode::Not, {set}))});
    }
    return peers;
  }

  /// Rank of each lane's key within the warp; the lowest of equal lanes counts them.
  Value round(Value key, Value known) {
    const Value peers = peers_of(key, known), lower = l_.b.op(Opcode::And, {peers, lower_lanes()});
    const Value at = counter(row_, key);
    const Value old = one(load(at, known), 0);
    sync_warp();
    const Value none = l_.b.constant(Type::scalar(DType::u32), std::int64_t{0});
    const Value leads = l_.b.op(Opcode::And, {known, l_.b.cmp("eq", lower, none)});
    store(at, l_.b.add(old, count(peers)), leads);
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

  /// Warps that hold the same elements have counters of their own: a copy's rows are together.
  /// The upper bits of a warp's number name the copy.
  std::int64_t warps_of_copy() const {
    const int copies = std::popcount(layout_.free_bits(HwDim::Warp));
    return std::int64_t{1} << (layout_.in_bits(HwDim::Warp) - copies);
  }

  Value of_earlier_warps(Value keys, Value known) {
    const std::int64_t warps = warps_of_copy();
    const Value warp = l_.coordinate(HwDim::Warp);
    const Value mine = l_.b.op(Opcode::And, {warp, l_.b.i32(warps - 1)}),
                first = row_of(l_.b.sub(warp, mine));
    Value sum = l_.splat(l_.b.i32(0), layout_.registers());
    for (std::int64_t w = 0; w + 1 < warps; ++w) {
      const Value row = l_.b.add(first, l_.b.i32(w * bins_ * kCounterBytes));
      const Value theirs = load(counter(row, keys), known);
      const Value is_earlier = l_.b.op(Opcode::And, {known, l_.b.cmp("gt", mine, l_.b.i32(w))});
      sum = l_.b.add(sum, l_.b.select(is_earlier, theirs, l_.b.i32(0)));
    }
    return sum;
  }

  Value all_counts(const LinearLayout& layout) {
    const Value bin = index_along(l_, layout, 0);
    const Value inside = l_.b.cmp("lt", bin, l_.b.i32(bins_));
    Value sum = l_.splat(l_.b.i32(0), layout.registers());
    for (std::int64_t w = 0; w < warps_of_copy(); ++w) {
      const Value row = l_.b.add(counters_, l_.b.i32(w * bins_ * kCounterBytes));
      sum = l_.b.add(sum, load(counter(row, bin), inside));
    }
    return sum;
  }

  Lowering& l_;
  OpId op_;
  const LinearLayout& layout_;
  std::int64_t bins_;
  Value counters_, row_;  ///< shared memory: a row of counters for each warp; that of this one
  Value lower_lanes_;
};

}  // namespace

void lower_KeyRanks(Lowering& l, OpId op) { Ranking(l, op).run(); }

}  // namespace tegula::codegen
