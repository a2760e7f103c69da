// Stores by TMA: each warpgroup writes its rows to shared memory, and one of its threads issues the
// store, one bulk group per store.
#include <functional>

#include "codegen/lower/shared.h"
#include "codegen/lower/tma.h"
#include "ir/access.h"
#include "ir/analysis/tma_store.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Named barriers: one for each of up to four warpgroups, after those of ping-pong and of the
/// order.
constexpr int kFirstBarrier = 8;

/// Returns the index of the warpgroup that runs the code. Each has its own tile, or rows of a
/// common one.
Value warpgroup(Lowering& l) {
  if (l.groups() > 1) return l.group();
  if (l.warps() == kWarpgroupWarps) return l.b.i32(0);
  return l.b.op(Opcode::Shr, {l.coordinate(HwDim::Warp), l.b.i32(2)});
}

void sync_warpgroup(Lowering& l) {
  l.b.effect(Opcode::BarSync, {l.b.add(warpgroup(l), l.b.i32(kFirstBarrier))},
             {{AttrName::count, kWarpgroupThreads}});
}

/// Emits `what` for one thread of each warpgroup, which owns all of its bulk groups.
void by_one(Lowering& l, const std::function<void()>& what) {
  const Value thread = l.b.op(Opcode::Tid, std::initializer_list<Value>{});
  const Value first =
      l.b.cmp("eq", l.b.op(Opcode::And, {thread, l.b.i32(kWarpgroupThreads - 1)}), l.b.i32(0));
  l.when(first, what);
}

void wait_until_read(Lowering& l, int but) {
  by_one(l,
         [&] { l.b.effect(Opcode::TmaWait, {}, {{AttrName::count, but}, {AttrName::read, 1}}); });
}

/// Stores the rows of one warpgroup, or its columns of shared rows, segment by segment.
class StoredBox {
 public:
  StoredBox(Lowering& l, const OpData& d, const SharedLayout& layout, Value base)
      : l_(l), d_(d), layout_(layout), base_(base), rows_(layout.shape()[0]) {
    const BoxAccess a = access_of(l.from, d);
    order_ = map_order(a.along, std::ssize(a.axes), 1);
    const auto clips = clips_of(l.from, d);
    for (const TensorMapBound& c : *clips) clip_.insert(clip_.end(), {c.dim, c.arg, c.value});
    for (std::int64_t v : order_)
      corner_.push_back(l.b.cast(l.get(a.axes[static_cast<std::size_t>(v)].offset), DType::i32));
    const int warpgroups = l.warps() / kWarpgroupWarps;
    if (warpgroups == 1) return;
    warpgroup_ = warpgroup(l);
    const auto own = [&](int extent) { return l.b.mul(warpgroup_, l.b.i32(extent)); };
    if (rows_ < kWgmmaRows * warpgroups) {
      columns_ = layout.shape()[1] / warpgroups;
      corner_[0] = l.b.add(corner_[0], own(columns_));
      base_ = l.b.add(base_, own(static_cast<int>(layout.offset({0, columns_}))));
      return;
    }
    rows_ /= warpgroups;
    corner_[1] = l.b.add(corner_[1], own(static_cast<int>(rows_)));
  }

  void store() {
    int column = 0;
    if (columns_ > 0) {  // whole segments, all alike
      const SwizzleSegment piece = layout_.piece_list().front();
      const int width = piece.width / layout_.element_bytes();
      for (; column < columns_; column += width) store_piece(piece, column);
      return;
    }
    for (const SwizzleSegment& piece : layout_.piece_list())
      for (int i = 0; i < piece.count; ++i) {
        store_piece(piece, column);
        column += piece.width / layout_.element_bytes();
      }
  }

 private:
  void store_piece(const SwizzleSegment& piece, int column) {
    Ints box(order_.size(), 1);
    box[0] = piece.width / layout_.element_bytes();
    box[1] = rows_;
    const Value map = l_.tensor_map(d_.operands[0], order_, box, piece.swizzle, clip_);
    Value from = l_.b.add(base_, l_.b.i32(layout_.offset({0, column})));
    if (warpgroup_ && columns_ == 0)
      from = l_.b.add(from, l_.b.mul(warpgroup_, l_.b.i32(static_cast<int>(rows_) * piece.width)));
    std::vector<Value> operands{map, from};
    operands.insert(operands.end(), corner_.begin(), corner_.end());
    if (column > 0) operands[2] = l_.b.add(corner_[0], l_.b.i32(column));
    AttrList attrs;
    if (const AttrValue* evict = d_.attrs.find(AttrName::evict)) attrs.set(AttrName::evict, *evict);
    const AttrValue* kind = d_.attrs.find(AttrName::kind);
    if (kind) attrs.set(AttrName::kind, *kind);
    l_.b.create(kind ? Opcode::TmaReduce : Opcode::TmaStore, operands, std::span<const Type>(),
                attrs);
  }

  Lowering& l_;
  const OpData& d_;
  const SharedLayout& layout_;
  Value base_, warpgroup_;
  std::int64_t rows_;
  int columns_ = 0;  ///< columns of a warpgroup that shares rows with others; 0: all columns
  Ints order_, clip_;
  std::vector<Value> corner_;
};

}  // namespace

void store_by_tma(Lowering& l, OpId store) {
  const OpData& d = l.from[store];
  const StoreStaging& staging = *l.store_staging();
  const StagingSlot slot = staging.slot(store);
  const Type tile = l.from.type(d.operands[1]);
  const SharedLayout layout = staged_layout(tile);
  if (slot.unread_before != StagingSlot::kNoWait) {
    wait_until_read(l, slot.unread_before);
    slot.all_warps_sync ? l.barrier() : sync_warpgroup(l);
  }
  // One register and immediates address all buffers.
  const std::int64_t offset = slot.offset;
  Value base = l.shared_address(0);
  if (l.groups() > 1)
    base = l.b.add(base, l.b.mul(l.group(), l.b.i32(static_cast<int>(staging.group_stride()))));
  store_shared(l, base, layout, layout_of(tile), l.get(d.operands[1]), true, offset);
  l.b.effect(Opcode::FenceProxyAsync, {});
  if (slot.unread_after != StagingSlot::kNoWait) wait_until_read(l, slot.unread_after);
  sync_warpgroup(l);
  by_one(l, [&] {
    StoredBox(l, d, layout, l.b.add(base, l.b.i32(static_cast<int>(offset)))).store();
    l.b.effect(Opcode::TmaCommit, {});
  });
}

void await_tma_stores(Lowering& l) { wait_until_read(l, 0); }

}  // namespace tegula::codegen
