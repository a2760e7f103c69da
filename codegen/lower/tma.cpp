// Lowering of channels and TMA loads: mbarriers, tensor maps, one bulk copy for each segment of a
// swizzled tile.
#include <algorithm>

#include "codegen/lower/lowering.h"
#include "codegen/lower/shared.h"
#include "codegen/lower/tma.h"
#include "ir/access.h"
#include "ir/analysis/access_width.h"
#include "ir/made_view.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr std::int64_t kBarrierBytes = 8;

}  // namespace

Ints map_order(std::span<const std::int64_t> axes, std::int64_t view_rank, int fast) {
  Ints order{axes[static_cast<std::size_t>(fast)]};
  for (std::size_t t = 0; t < axes.size(); ++t)
    if (static_cast<int>(t) != fast) order.push_back(axes[t]);
  for (std::int64_t v = view_rank - 1; v >= 0; --v)
    if (std::ranges::find(order, v) == order.end()) order.push_back(v);
  return order;
}

Value Lowering::mbarrier(Value machine_channel) {
  return shared_address(from[from[machine_channel].def].attrs.i(AttrName::offset));
}

Value Lowering::mbarrier(Value machine_channel, Value machine_slot) {
  return b.add(mbarrier(machine_channel), b.mul(get(machine_slot), b.i32(kBarrierBytes)));
}

Value Lowering::tensor_map(Value machine_view, const Ints& order, const Ints& box, int swizzle,
                           const Ints& clip) {
  const Param& p = *params_.at(machine_view);
  AttrList attrs;
  attrs.set(AttrName::arg, static_cast<std::int64_t>(&p - from.params().data()));
  attrs.set(AttrName::component, "map");
  attrs.set(AttrName::order, order);
  attrs.set(AttrName::box, box);
  attrs.set(AttrName::swizzle, std::int64_t{swizzle});
  if (!clip.empty()) attrs.set(AttrName::map_bounds, clip);
  for (const Param& made : to.params())
    if (made.attrs == attrs) return made.value;
  const bool ends_boxes = static_cast<int>(order.size()) > from.type(machine_view).rank();
  return to.add_param(p.name + (ends_boxes ? "_end_map" : "_map"), Type::tensor_map(), attrs);
}

void lower_ProducerThread(Lowering& l, OpId op) {
  const Value producer_thread = l.is_producer_thread();
  l.set(l.from[op].results[0], producer_thread ? producer_thread : l.b.flag(true));
}

void Lowering::init_channels(std::span<const OpId> inits) {
  bool of_cluster = false;
  const auto init = [&](OpId op) {
    const std::int64_t programs = from[op].attrs.i(AttrName::cluster_ctas, 1);
    of_cluster = of_cluster || programs > 1;
    for (std::size_t i = 0; i < from[op].operands.size(); ++i) {
      const Value channel = from[op].operands[i];
      const std::int64_t slots = from.type(channel).shape()[0];
      const std::int64_t offset = from[from[channel].def].attrs.i(AttrName::offset);
      for (std::int64_t s = 0; s < slots; ++s)
        b.effect(Opcode::MbarInit, {shared_address(offset + s * kBarrierBytes)},
                 {{AttrName::count, i == 0 ? 1 : programs * warps()}});
    }
  };
  when(b.cmp("eq", b.op(Opcode::Tid, std::initializer_list<Value>{}), b.i32(0)), [&] {
    std::ranges::for_each(inits, init);
    b.effect(Opcode::FenceMbarInit, {});
  });
  // Orders earlier writes of threads to this memory before the writes of TMA.
  b.effect(Opcode::FenceProxyAsync, {});
  if (!of_cluster) return barrier();
  is_signalled_by_cluster_ = true;
  cluster_barrier();
}

void lower_ChannelInit(Lowering& l, OpId op) { l.init_channels({&op, 1}); }

namespace {

/// Emits the arrivals of a release: one lane per CTA of the cluster arrives at that CTA's mbarrier;
/// if the peer is not in lockstep, both lanes arrive at this CTA's.
void release_to_cluster(Lowering& l, const OpData& d) {
  const Value lane = l.coordinate(HwDim::Lane);
  const Value rank = l.b.op(Opcode::CtaRank, std::initializer_list<Value>{});
  const Value in_step = l.b.cast(l.get(d.operands[3]), DType::i32);
  const Value to = l.b.op(Opcode::Xor, {rank, l.b.op(Opcode::And, {lane, in_step})});
  const Value peer = l.b.op(Opcode::MapShared, {l.mbarrier(d.operands[0]), to});
  const Value address = l.b.add(peer, l.b.mul(l.get(d.operands[1]), l.b.i32(kBarrierBytes)));
  const Value arrives =
      l.and_predicates(l.b.cmp("lt", lane, l.b.i32(l.from.info.cluster)), l.get(d.operands[2]));
  l.b.effect(Opcode::MbarArrive, {address, arrives}, {{AttrName::scope, "cluster"}});
}

}  // namespace

void lower_ChannelRelease(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  // All lanes' reads precede the TMA writes that one lane's arrival permits. Only writes of threads
  // need a proxy fence.
  if (d.attrs.i(AttrName::generic_proxy) == 1) l.b.effect(Opcode::WarpSync, {});
  if (d.operands.size() == 4) return release_to_cluster(l, d);
  const Value lane = l.b.cmp("eq", l.coordinate(HwDim::Lane), l.b.i32(0));
  l.b.effect(Opcode::MbarArrive, {l.mbarrier(d.operands[0], d.operands[1]),
                                  l.and_predicates(lane, l.get(d.operands[2]))});
}

void lower_ChannelExpectTx(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  l.b.effect(Opcode::MbarExpectTx, {l.mbarrier(d.operands[0], d.operands[1])},
             {{AttrName::bytes, d.attrs.i(AttrName::bytes)}});
}

void lower_ChannelWait(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  l.b.effect(Opcode::MbarWait, {l.mbarrier(d.operands[0], d.operands[1]), l.get(d.operands[2])});
}

namespace {

/// Segments of a box that TMA loads one by one, and its split into two halves: half the segments,
/// or half the rows of each segment.
class TmaBox {
 public:
  TmaBox(Lowering& l, OpId op)
      : l_(l),
        a_(access_of(l.from, l.from[op])),
        at_(slot_of(l, a_.target[0], a_.target[1])),
        fast_(at_.layout.order()[0]),
        piece_(piece_of(at_.layout)),
        order_(map_order(a_.along, std::ssize(a_.axes), fast_)) {
    box_.assign(order_.size(), 1);
    box_[0] = width();
    for (std::size_t t = 0; t < a_.along.size(); ++t)
      if (static_cast<int>(t) != fast_)
        box_[position(a_.along[t])] = at_.layout.shape()[static_cast<int>(t)];
    if (a_.multicast && !halves_pieces()) box_[row_position()] /= 2;
    barrier_ = l.mbarrier(a_.target[2], a_.target[1]);
    if (at_.layout.rank() > 1) {
      box_[row_position()] /= static_cast<std::int64_t>(a_.boxes());
      ended_ = row_position();
    }
    map_ = l.tensor_map(a_.view, order_, box_, piece_.swizzle);
    corner_ = corner_of(0);
    if (const Value end = ended_by()) end_ = l.b.cast(l.get(end), DType::i32);
  }

  void copy() {
    if (a_.rows) return copy_boxes(l_.b.cast(l_.get(a_.rows), DType::i32));
    if (a_.multicast) return copy_halves();
    copy_box(piece_.count, {});
  }

 private:
  /// Returns a tile's segment; a one-dimensional tile is one segment without swizzle.
  static SwizzleSegment piece_of(const SharedLayout& layout) {
    if (layout.rank() > 1) return layout.piece_list().front();
    return {0, static_cast<int>(layout.bytes()), 1};
  }
  int width() const { return piece_.width / at_.layout.element_bytes(); }
  bool halves_pieces() const { return piece_.count % 2 == 0; }
  int rows_dim() const { return 1 - fast_; }
  std::size_t position(std::int64_t axis) const {
    return static_cast<std::size_t>(std::ranges::find(order_, axis) - order_.begin());
  }
  std::size_t row_position() const {
    return position(a_.along[static_cast<std::size_t>(rows_dim())]);
  }

  /// Returns the first coordinates of one of the boxes.
  std::vector<Value> corner_of(std::size_t box) const {
    std::vector<Value> corner;
    const BoxAccess one = a_.box(box);
    for (std::int64_t v : order_)
      corner.push_back(l_.b.cast(l_.get(one.axes[static_cast<std::size_t>(v)].offset), DType::i32));
    return corner;
  }

  /// Copies boxes of pages, of which the first `rows` rows exist. If these are all rows, nothing
  /// but the coordinates is computed.
  void copy_boxes(Value rows) {
    const auto boxes = static_cast<std::int64_t>(a_.boxes());
    const Value base = at_.base;
    const auto copy = [&](bool is_whole) {
      for (std::int64_t box = 0; box < boxes; ++box) {
        ir::Dims first = ir::Dims::filled(at_.layout.rank(), 0);
        first[rows_dim()] = static_cast<int>(box * box_[ended_]);
        at_.base = l_.b.add(base, l_.b.i32(at_.layout.offset(first)));
        corner_ = corner_of(static_cast<std::size_t>(box));
        if (is_whole)
          copy_pieces(map_, corner_, piece_.count, {});
        else
          copy_page(l_.b.sub(rows, l_.b.i32(first[rows_dim()])));
      }
    };
    l_.branch(
        l_.b.cmp("ge", rows, l_.b.i32(boxes * box_[ended_])), {}, [&] { copy(true); },
        [&] { copy(false); });
    at_.base = base;
  }

  /// Copies a box of a page that may be missing.
  void copy_page(Value remaining) {
    if (const Value exists = is_inside()) remaining = l_.b.select(exists, remaining, l_.b.i32(0));
    copy_rows(remaining, piece_.count, {});
  }

  /// Returns true if the box is inside the view along the dimensions that its tile does not cover,
  /// or a null value if that is known.
  Value is_inside() const {
    const auto bits = [&](Value v) {
      return l_.b.op(Opcode::Bitcast, {v}, Type::scalar(DType::u32));
    };
    Value all;
    for (std::size_t i = a_.along.size(); i < order_.size(); ++i) {
      if (a_.axes[static_cast<std::size_t>(order_[i])].in_bounds) continue;
      const Value extent = l_.view_dim(a_.view, static_cast<int>(order_[i]), DType::i32);
      all = l_.and_predicates(all, l_.b.cmp("lt", bits(corner_[i]), bits(extent)));
    }
    return all;
  }

  /// Returns the limit that ends the box before the view ends, or a null value.
  Value ended_by() {
    for (std::size_t v = 0; v < a_.axes.size() && a_.has_limits(); ++v) {
      if (is_extent_of(l_.from, a_.axes[v].limit, a_.view, static_cast<int>(v))) continue;
      ended_ = position(static_cast<std::int64_t>(v));
      return a_.axes[v].limit;
    }
    return {};
  }

  /// Copies a box, which may end at a limit.
  void copy_box(int count, const AttrList& attrs) {
    if (!end_) return copy_pieces(map_, corner_, count, attrs);
    copy_rows(l_.b.sub(end_, corner_[ended_]), count, attrs);
  }

  /// Copies the first `remaining` rows of a box; the others arrive as 0. A map with an additional
  /// dimension ends the box (docs/wgmma-pipeline.md, "Boxes that end early"). Boxes with all rows
  /// or none do not need it, and none may use it: its base is not in the tensor.
  void copy_rows(Value remaining, int count, const AttrList& attrs) {
    const Value zero = l_.b.i32(0), rows = l_.b.i32(box_[ended_]);
    const auto copy_some = [&] {
      std::vector<Value> corner = corner_;
      corner[ended_] = l_.b.sub(rows, remaining);
      corner.push_back(l_.b.add(corner_[ended_], remaining));
      copy_pieces(map_of_ended(), corner, count, attrs);
    };
    const auto copy_all_or_none = [&] {
      std::vector<Value> corner = corner_;
      corner[ended_] =
          l_.b.select(l_.b.cmp("gt", remaining, zero), corner[ended_], l_.b.i32(-box_[ended_]));
      copy_pieces(map_, corner, count, attrs);
    };
    const Value has_some = l_.b.cmp("gt", remaining, zero),
                lacks_some = l_.b.cmp("lt", remaining, rows);
    l_.branch(l_.b.op(Opcode::And, {has_some, lacks_some}), {}, copy_some, copy_all_or_none);
  }

  Value map_of_ended() const {
    Ints order = order_, box = box_;
    order.push_back(order[ended_]);
    box.push_back(1);
    return l_.tensor_map(a_.view, order, box, piece_.swizzle);
  }

  /// If the other CTA loads the same box, multicasts one half to both; else loads both halves.
  void copy_halves() {
    const auto copy_own = [&] {
      copy_half(l_.b.op(Opcode::CtaRank, std::initializer_list<Value>{}), true);
    };
    const auto copy_both = [&] {
      for (int half : {0, 1}) copy_half(l_.b.i32(half), false);
    };
    l_.branch(l_.get(a_.multicast), {}, copy_own, copy_both);
  }

  void copy_half(Value half, bool for_cluster) {
    ir::Dims first = ir::Dims::filled(at_.layout.rank(), 0);
    const int dim = halves_pieces() ? fast_ : rows_dim();
    const int extent =
        halves_pieces() ? piece_.count / 2 * width() : at_.layout.shape()[rows_dim()] / 2;
    first[dim] = extent;
    const Value base = at_.base;
    const std::vector<Value> corner = corner_;
    at_.base = l_.b.add(base, l_.b.mul(half, l_.b.i32(at_.layout.offset(first))));
    Value& along = corner_[halves_pieces() ? 0 : row_position()];
    along = l_.b.add(along, l_.b.mul(half, l_.b.i32(extent)));
    AttrList attrs;
    if (for_cluster) attrs.set(AttrName::cluster_ctas, std::int64_t{l_.from.info.cluster});
    copy_box(halves_pieces() ? piece_.count / 2 : piece_.count, attrs);
    at_.base = base;
    corner_ = corner;
  }

  void copy_pieces(Value map, std::span<const Value> corner, int count, const AttrList& attrs) {
    for (int p = 0; p < count; ++p) {
      ir::Dims first = ir::Dims::filled(at_.layout.rank(), 0);
      first[fast_] = p * width();
      std::vector<Value> operands{map, l_.b.add(at_.base, l_.b.i32(at_.layout.offset(first))),
                                  barrier_};
      operands.insert(operands.end(), corner.begin(), corner.end());
      if (p > 0) operands[3] = l_.b.add(corner[0], l_.b.i32(p * width()));
      l_.b.create(Opcode::TmaLoad, operands, std::span<const Type>(), attrs);
    }
  }

  Lowering& l_;
  BoxAccess a_;
  SmemSlot at_;
  int fast_;
  SwizzleSegment piece_;
  Ints order_, box_;
  Value map_, barrier_, end_;  ///< `end_`: exclusive end of the rows, if a limit ends the box
  std::size_t ended_ = 0;      ///< position of the dimension that limits or numbers of rows end
  std::vector<Value> corner_;
};

}  // namespace

void lower_CopyTma(Lowering& l, OpId op) { TmaBox(l, op).copy(); }

}  // namespace tegula::codegen
