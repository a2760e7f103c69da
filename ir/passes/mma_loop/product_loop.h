#pragma once
// A loop with matrix products that become wgmmas on rings filled by TMA: what its two forms
// (async_products.cpp, late_product.cpp) share. Rings go on through the loops around this one.
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/passes/mma_loop/channel_ring.h"

namespace tegula::ir {

/// A ring and where the loop stands in it.
struct Feed {
  ChannelRing ring;
  int lag = 0;           ///< the loop's step i reads what was brought for step i - lag
  RingPosition begin{};  ///< of the loop's first step
  RingPosition end{};    ///< of the first step behind the loop
};

class ProductLoop {
 public:
  ProductLoop(Kernel& kernel, OpId loop, const Plan& plan, PassContext& context)
      : k(kernel), loop(loop), body(kernel[loop].regions[0]), plan_(plan), context_(context) {}

  /// Finds products and loads; false, with a remark, where not all of it can be wgmma and TMA.
  bool analyze();
  /// Shared memory and channels in front of all loops, and the positions that these carry. The
  /// loads of each dot in a feed of their own, the later one a step behind, if `late`.
  void allocate(bool late);
  /// What the loop loads beside operands is read from its ring: a carry of the loop's own, before
  /// all others that are added to it.
  void read_beside();
  /// The next step's, behind the slot that the step before has read.
  void fill_beside(Builder& b);
  /// Its ring stands where results of this op say that begin with the loop's.
  void end_beside(OpId op);
  /// The copies in front of a loop that starts with step `first`.
  void fill_first(int first);
  /// Into the slot that the step before has read goes the next one that is not under way.
  void fill_ahead(Builder& b, const Feed& feed, RingPosition at);
  /// The loops around carry on from `end` of the feeds; the loads go.
  void finish();

  // ---- building
  Builder before(OpId op);
  Value add_carry(OpId to, Value init);
  RingPosition add_carry(RingPosition init) {
    return {add_carry(loop, init.slot), add_carry(loop, init.phase)};
  }
  /// The loop's next turn has the position behind `at`.
  void advance(const Feed& feed, RingPosition at);
  void wait_once(Builder& b);
  /// Where the condition holds, the next turn of the loop around may overwrite it.
  void release_once(Builder& b, Value condition);
  /// What the next turn waits for, if this one has brought it.
  RingPosition next_once(Builder& b, Value brought) const;
  /// Values of a position that loops carry.
  template <class Position>
  auto once_carries(Position& at) const {
    return once_->slots() == 1 ? std::vector{&at.phase} : std::vector{&at.slot, &at.phase};
  }
  /// Where the feed stands behind all steps, counted, not followed: who skips the loop needs it.
  RingPosition counted_end(Builder& b, const Feed& feed) const;
  bool is_skipped_by_others() const { return plan_.alternate && is_nested(); }
  /// What comes behind may use the rings' memory, unless a further turn fills them.
  void meet(Builder& b);
  /// The product begun, on `a` and on the slot `at` of its feed.
  Value issue(Builder& b, OpId dot, Value acc, Value a, Value scale_d, RingPosition at);
  /// Takes all sums in flight and the operands `a` in registers; leaves `count` products running.
  static std::vector<Value> wait(Builder& b, std::vector<Value> pending,
                                 std::span<const Type> types, int count, std::vector<Value> a = {});
  static Value wait(Builder& b, Value pending, Type type, int count, Value a = {});
  /// Issued and waited for; gives the sum.
  Value complete(Builder& b, OpId dot, Value acc, Value a, RingPosition at);

  // ---- asking
  const OperandLoad* load_of(Value operand) const;
  bool is_load(OpId op) const;
  /// Whether a loop within the body has products. Their waits are for all that is in flight, and
  /// know nothing of this loop's sums.
  bool has_inner_products() const;
  int uses(Value v) const;
  /// Ops of the body that need the value, themselves, in what they contain or through others.
  std::unordered_set<OpId> dependents(Value on) const;
  bool is_nested() const { return !outer_.empty(); }
  bool takes_turns() const { return plan_.turns; }
  bool overlaps_tiles() const { return plan_.overlap_tiles; }
  /// The loop over a program's tiles, if this one stands in it directly.
  OpId tile_loop() const {
    return k.info.persistent && outer_.size() == 1 ? outer_.front() : OpId();
  }
  bool has_once() const { return once_.has_value(); }

  Kernel& k;
  const OpId loop;
  const RegionId body;
  std::vector<OpId> dots;
  std::vector<Feed> feeds;
  RingPosition once_at, once_end;

 private:
  bool find_outer_loops();
  /// What a loop repeats: the last of its regions.
  RegionId body_of(OpId outer) const { return k[outer].regions.back(); }
  bool is_tma(const OperandLoad& load) const;
  bool is_legal(OpId dot) const;
  bool is_tma_operand(Value a) const;
  /// In a kernel of clusters: marks loads that may be the same for both programs, where these keep
  /// step. Gives the i1 that says, for the tile at hand, that the other program has one too; else
  /// none.
  Value share_loads();
  void remark();
  /// Those of operands, and the one beside them.
  std::vector<Feed*> all_feeds();
  /// The op of the body, itself or by what it contains, that uses the value first.
  OpId first_user(Value v) const;
  void enter_outer_loops();
  void leave_outer_loops();
  void fill_step(Builder& b, const Feed& feed, Value iv, Value slot, Value free, bool with_once);

  const Plan& plan_;
  PassContext& context_;
  std::vector<OpId> outer_;          ///< loops around this one, outermost first
  std::vector<OperandLoad> loads_;   ///< until they are in feeds
  std::optional<ChannelRing> once_;  ///< brought before the first step
  std::optional<Feed> beside_;       ///< what is loaded beside operands
  RingPosition beside_at_;           ///< of the loop's turn
  std::size_t beside_carry_ = 0;     ///< its place among the loop's carries
  Value leader_;
};

/// Two products, the second on what is computed from the first: it runs a step late, beside the
/// first of the next step. Position of its sum among the carries; none where the loop is not so.
std::optional<std::size_t> late_sum(const ProductLoop& loop);
class TileOverlap;
/// With `tiles`, which have been entered, the last product runs beside the next tile's first.
void run_second_product_late(ProductLoop& loop, std::size_t sum, TileOverlap* tiles);

}  // namespace tegula::ir
