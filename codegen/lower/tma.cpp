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
  return to.add_param(p.name + "_map", Type::tensor_map(), attrs);
}

void lower_ProducerThread(Lowering& l, OpId op) {
  const Value producer_thread = l.is_producer_thread();
  l.set(l.from[op].results[0], producer_thread ? producer_thread : l.b.flag(true));
}

void Lowering::init_channels(std::span<const OpId> inits) {
  const Value first = b.cmp("eq", b.op(Opcode::Tid, std::initializer_list<Value>{}), b.i32(0));
  const RegionId outer = b.region();
  b.at_end(to[b.make_if(first, {})].regions[0]);
  bool of_cluster = false;
  for (OpId op : inits) {
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
  }
  b.effect(Opcode::FenceMbarInit, {});
  b.at_end(outer);
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
  const Value there = l.b.op(Opcode::MapShared, {l.mbarrier(d.operands[0]), to});
  const Value address = l.b.add(there, l.b.mul(l.get(d.operands[1]), l.b.i32(kBarrierBytes)));
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
    const Value end = ended_by();
    map_ = l.tensor_map(a_.view, order_, box_, piece_.swizzle);
    barrier_ = l.mbarrier(a_.target[2], a_.target[1]);
    for (std::int64_t v : order_)
      corner_.push_back(l.b.cast(l.get(a_.axes[static_cast<std::size_t>(v)].offset), DType::i32));
    if (end) end_ = l.b.cast(l.get(end), DType::i32);
  }

  void copy() {
    if (a_.multicast) return copy_halves();
    copy_pieces(piece_.count, {});
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

  /// Returns the limit that ends the box before the view ends, or a null value. Such a limit adds a
  /// dimension to the map (docs/wgmma-pipeline.md, "Boxes that end early").
  Value ended_by() {
    for (std::size_t v = 0; v < a_.axes.size() && a_.has_limits(); ++v) {
      if (is_extent_of(l_.from, a_.axes[v].limit, a_.view, static_cast<int>(v))) continue;
      ended_ = position(static_cast<std::int64_t>(v));
      order_.push_back(order_[ended_]);
      box_.push_back(1);
      return a_.axes[v].limit;
    }
    return {};
  }

  /// Returns the coordinates of the box. The n rows before the limit are those from row `first` on;
  /// the others are out of bounds.
  std::vector<Value> coordinates() const {
    std::vector<Value> all = corner_;
    if (!end_) return all;
    const Value first = corner_[ended_], rows = l_.b.i32(box_[ended_]);
    const Value inside = l_.b.op(Opcode::Min, {l_.b.sub(end_, first), rows}),
                n = l_.b.op(Opcode::Max, {inside, l_.b.i32(0)});
    all[ended_] = l_.b.sub(rows, n);
    all.back() = l_.b.add(first, n);
    return all;
  }

  /// If the other CTA loads the same box, multicasts one half to both; else loads both halves.
  void copy_halves() {
    const RegionId outer = l_.b.region();
    const OpId branch = l_.b.make_if(l_.get(a_.multicast), {});
    l_.b.at_end(l_.to[branch].regions[0]);
    copy_half(l_.b.op(Opcode::CtaRank, std::initializer_list<Value>{}), true);
    l_.b.at_end(l_.to[branch].regions[1]);
    for (int half : {0, 1}) copy_half(l_.b.i32(half), false);
    l_.b.at_end(outer);
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
    copy_pieces(halves_pieces() ? piece_.count / 2 : piece_.count, attrs);
    at_.base = base;
    corner_ = corner;
  }

  void copy_pieces(int count, const AttrList& attrs) {
    const std::vector<Value> at = coordinates();
    for (int p = 0; p < count; ++p) {
      ir::Dims first = ir::Dims::filled(at_.layout.rank(), 0);
      first[fast_] = p * width();
      std::vector<Value> operands{map_, l_.b.add(at_.base, l_.b.i32(at_.layout.offset(first))),
                                  barrier_};
      operands.insert(operands.end(), at.begin(), at.end());
      if (p > 0) operands[3] = l_.b.add(at[0], l_.b.i32(p * width()));
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
  std::size_t ended_ = 0;      ///< position of the dimension that it ends
  std::vector<Value> corner_;
};

}  // namespace

void lower_CopyTma(Lowering& l, OpId op) { TmaBox(l, op).copy(); }

}  // namespace tegula::codegen
