// Anchors are MMAs and memory accesses; all other ops follow their operands. Constants, ranges and
// broadcasts are rematerializable: computing them in the layout of their users costs nothing.
#include "ir/passes/layouts/layout_assignment.h"

#include <algorithm>
#include <array>
#include <bit>
#include <ranges>
#include <vector>

#include "ir/analysis/access_width.h"
#include "ir/analysis/sort_words.h"
#include "ir/analysis/tma_store.h"
#include "ir/layout/distributed.h"
#include "ir/layout/layout_ops.h"
#include "ir/layout/thread_fn.h"
#include "ir/loop.h"
#include "ir/matrix_type.h"
#include "ir/passes/layouts/flip_layouts.h"
#include "ir/passes/layouts/infer_operand_layout.h"
#include "ir/passes/layouts/warp_grid.h"
#include "ir/passes/schedule/kernel_summary.h"
#include "ir/schedule/staging_rings.h"

namespace tegula::ir {
namespace {

/// Bytes of a 32-byte sector that each of the four lanes of an accumulator row holds.
constexpr int kSectorShare = 8;
constexpr int kWord = 4;

/// Distance of neighbouring lanes in bytes above which a store of the widest accesses is worth a
/// conversion: it would write half a sector in as many lines as the warp has lanes.
constexpr int kFarLanes = 64;

/// Returns the distance in elements of lanes that are neighbours along the dimension; 0 if there
/// are none.
int lane_step(const LinearLayout& layout, int fast) {
  int step = 0;
  for (int bit = 0; bit < layout.in_bits(HwDim::Lane); ++bit)
    if (const int along = layout.basis(HwDim::Lane, bit)[fast]; along != 0)
      step = step == 0 ? along : std::min(step, along);
  return step;
}

/// Returns the number of rows over which a warp's lanes are spread.
int rows_of_warp(const LinearLayout& layout, int fast) {
  int rows = 1;
  for (int bit = 0; bit < layout.in_bits(HwDim::Lane); ++bit) {
    const Dims basis = layout.basis(HwDim::Lane, bit);
    const bool moves = std::ranges::any_of(basis, [](int step) { return step != 0; });
    if (moves && basis[fast] == 0) rows *= 2;
  }
  return rows;
}

/// Returns the order of dimensions, fastest first: `fast`, then the others from last to first.
Dims order_with(int rank, int fast) {
  Dims order;
  order.push_back(fast);
  for (int d = rank - 1; d >= 0; --d)
    if (d != fast) order.push_back(d);
  return order;
}

/// Returns true if each part of the columns consists of whole segments of the widest swizzle, as
/// TMA stores them.
bool has_whole_segments(Type tile, int parts) {
  constexpr int kWidestSwizzle = 128;
  const std::int64_t bytes = tile.shape()[1] * size_bytes(tile.dtype());
  return bytes % (parts * kWidestSwizzle) == 0;
}

}  // namespace

LayoutAssignment::LayoutAssignment(const Kernel& k, const PassContext& context)
    : k_(k),
      plan_(*context.plan),
      author_schedule_(context.planned.schedule.get()),
      uses_(k),
      loads_aux_in_accumulator_layout_(
          plan_.wgmma &&
          (plan_.tma_aux_loads || wanted_fields(k, context).tma_aux_loads.value_or(false))) {
  if (!plan_.wgmma) assign_sorted_loads();
  // The body's yields may determine the layouts of loop carries, so iterate until nothing changes.
  assign_remaining();
  propagate_accumulator_layouts();
  assign_remaining();
  // Results of control flow cannot be rematerialized like free ops: give undetermined ones the
  // standard layout.
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    if (!d.is(Opcode::For, Opcode::While, Opcode::If)) return;
    for (Value v : d.results)
      if (k.type(v).is_tile() && !of(v)) set(v, standard(k.type(v)));
  });
  assign_remaining();
}

void LayoutAssignment::assign_remaining() {
  do {
    changed_ = false;
    region(k_.body());
  } while (changed_);
}

bool LayoutAssignment::is_rematerializable(Opcode op) {
  using enum Opcode;
  constexpr std::array kFree{Const, Poison, Splat, Arange, Broadcast, ExpandDims, Permute};
  return std::ranges::find(kFree, op) != kFree.end();
}

const LinearLayout* LayoutAssignment::of(Value v) const {
  const auto it = chosen_.find(v);
  return it == chosen_.end() ? nullptr : it->second;
}

void LayoutAssignment::set(Value v, const LinearLayout* layout) {
  if (!layout || !k_.type(v).is_tile()) return;
  const auto [it, fresh] = chosen_.try_emplace(v, layout);
  changed_ = changed_ || fresh;
}

const LinearLayout* LayoutAssignment::first_known(const OpData& d) const {
  for (Value v : d.operands)
    if (k_.type(v).is_tile())
      if (const LinearLayout* l = of(v)) return l;
  return nullptr;
}

const LinearLayout* LayoutAssignment::standard(Type tile) const {
  const Dims shape = dims_of(tile.shape());
  const std::int64_t per_thread = std::max<std::int64_t>(1, tile.count() / (32 * plan_.num_warps));
  const int vector = static_cast<int>(std::min<std::int64_t>(
      4, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(per_thread)))));
  return intern_layout(
      coalesced(shape, vector, plan_.num_warps, order_with(shape.size(), shape.size() - 1)));
}

/// Runs of at least eight elements, so that 16-bit and 32-bit elements combine without a
/// conversion.
const LinearLayout* LayoutAssignment::by_runs(const OpData& d, Type tile) const {
  constexpr std::int64_t kRun = 8;
  const Dims shape = dims_of(tile.shape());
  const auto axis = static_cast<int>(d.attrs.i(AttrName::axis));
  const std::int64_t elements = d.attrs.i(AttrName::align) / size_bytes(tile.dtype());
  const std::int64_t per_thread = std::max<std::int64_t>(1, tile.count() / (32 * plan_.num_warps));
  const auto run = std::bit_floor(static_cast<std::uint64_t>(
      std::min({std::max(kRun, elements), per_thread, std::int64_t{shape[axis]}})));
  return intern_layout(
      coalesced(shape, static_cast<int>(run), plan_.num_warps, order_with(shape.size(), axis)));
}

const LinearLayout* LayoutAssignment::access(const OpData& box, Type tile) const {
  const int fast = contiguous_dim(k_, box);
  if (fast < 0) return standard(tile);
  const Dims shape = dims_of(tile.shape());
  const std::int64_t per_thread = std::max<std::int64_t>(1, tile.count() / (32 * plan_.num_warps));
  std::int64_t vector =
      std::min<std::int64_t>(access_elements(k_, box), 16 / size_bytes(tile.dtype()));
  vector = std::min<std::int64_t>(
      vector, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(per_thread))));
  vector = std::min<std::int64_t>(
      vector, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(shape[fast]))));
  return intern_layout(
      coalesced(shape, static_cast<int>(vector), plan_.num_warps, order_with(shape.size(), fast)));
}

const LinearLayout* LayoutAssignment::store(const OpData& d) const {
  const Type tile = k_.type(d.operands[1]);
  const LinearLayout* coalesced_layout = access(d, tile);
  const LinearLayout* own = of(d.operands[1]);
  if (!own) return coalesced_layout;
  if (is_by_tma(d)) return own;
  const int fast = contiguous_dim(k_, d);
  if (fast < 0) return own;
  const int widest = std::min(access_elements(k_, d), 16 / size_bytes(tile.dtype()));
  const auto width = [&](const LinearLayout& l) {
    return global_vectors(l, fast, widest).front().registers.size();
  };
  if (plan_.stage_stores) {
    if (width(*own) != width(*coalesced_layout))
      return width(*own) < width(*coalesced_layout) ? coalesced_layout : own;
    // A store of single elements writes a part of a sector in each row of the warp.
    const bool is_narrow = static_cast<int>(width(*own)) * size_bytes(tile.dtype()) < kWord;
    const bool writes_parts =
        is_narrow && rows_of_warp(*coalesced_layout, fast) < rows_of_warp(*own, fast);
    return writes_parts || lane_step(*own, fast) * size_bytes(tile.dtype()) >= kFarLanes
               ? coalesced_layout
               : own;
  }
  // Without shared memory, lanes exchange elements to widen their vectors. Four lanes of an
  // accumulator that hold 8 bytes each fill sectors already, and exchanged elements need registers
  // twice.
  if (static_cast<int>(width(*own)) * size_bytes(tile.dtype()) >= kSectorShare) return own;
  const auto wider = lengthen_runs(*own, fast, widest);
  return wider && width(*own) < width(*wider) ? intern_layout(*wider) : own;
}

bool LayoutAssignment::is_by_tma(const OpData& d) const {
  return plan_.tma_store && (!author_schedule_ || store_channel(*author_schedule_, d)) &&
         why_not_tma_store(k_, d).empty() && has_accumulator_layout(d.operands[1]);
}

/// Returns true if each warpgroup has 64 rows, or a part of their columns, in the lanes in which
/// wgmma leaves them.
bool LayoutAssignment::has_accumulator_layout(Value v) const {
  const LinearLayout* own = of(v);
  const Dims shape = dims_of(k_.type(v).shape());
  if (!own || !plan_.wgmma || shape.size() != 2 || shape[1] % kMmaColumns != 0) return false;
  if (shape[0] % (kWarpRows * plan_.num_warps) == 0)
    return *own == mma_m16n8k16_acc(shape, plan_.num_warps, 1);
  const int parts = plan_.num_warps / kWarpgroupWarps;
  return shape[0] == kWgmmaRows && has_whole_segments(k_.type(v), parts) &&
         *own == wgmma_acc(shape[0], shape[1], 1, parts);
}

/// Returns true for loads outside of mainloops, which wait for the layout of the accumulator that
/// they may be combined with.
bool LayoutAssignment::is_outside_mainloop(const OpData& load) const {
  if (!plan_.wgmma) return false;
  for (OpId op : k_.ops(load.parent))
    if (k_[op].opcode == Opcode::Dot) return false;
  return true;
}

/// Visits ops in reverse program order, so that the first of several users determines the layout.
void LayoutAssignment::propagate_accumulator_layouts() {
  accumulators_have_layouts_ = true;
  std::vector<OpId> ops;
  if (plan_.wgmma) walk(k_, k_.body(), [&](OpId op) { ops.push_back(op); });
  for (OpId op : std::views::reverse(ops)) {
    const OpData& d = k_[op];
    if (d.results.size() != 1 || !k_.type(d.results[0]).is_tile()) continue;
    if (!is_rematerializable(d.opcode) && d.opcode != Opcode::Load &&
        info(d.opcode).family != Family::Elementwise)
      continue;
    const LinearLayout* wanted = of(d.results[0]);
    if (const auto neighbour = neighbour_layouts_.find(d.results[0]);
        !wanted && neighbour != neighbour_layouts_.end())
      wanted = neighbour->second;
    if (!wanted) continue;
    for (Value v : d.operands)
      if (k_.type(v).is_tile() && !of(v))
        neighbour_layouts_[v] = infer_operand_layout(k_, d, v, *wanted);
  }
}

/// A load that is combined with an accumulator takes its layout, so that it needs no shared memory,
/// of which persistent rings leave none. Loads that an exchange within warps can widen are loaded
/// wider. If several threads hold an element, such as that of a bias, they load it from the cache.
const LinearLayout* LayoutAssignment::aux_layout(const OpData& load) const {
  const Type tile = k_.type(load.results[0]);
  const LinearLayout* coalesced_layout = access(load, tile);
  const auto found = neighbour_layouts_.find(load.results[0]);
  const int fast = contiguous_dim(k_, load);
  if (found == neighbour_layouts_.end() || fast < 0) return coalesced_layout;
  const LinearLayout* neighbour = found->second;
  if (neighbour->free_bits(HwDim::Lane) != 0) return neighbour;
  const int widest = std::min(access_elements(k_, load), 16 / size_bytes(tile.dtype()));
  const auto width = [&](const LinearLayout& l) {
    return static_cast<int>(global_vectors(l, fast, widest).front().registers.size());
  };
  const auto fills_sectors = [&](const LinearLayout& l) {
    return width(l) * size_bytes(tile.dtype()) >= kSectorShare;
  };
  if (fills_sectors(*neighbour)) return neighbour;
  const auto wider = lengthen_runs(*neighbour, fast, widest);
  const LinearLayout* own =
      wider && width(*neighbour) < width(*wider) ? intern_layout(*wider) : neighbour;
  return fills_sectors(*own) || width(*own) >= width(*coalesced_layout) ? own : coalesced_layout;
}

/// TMA loads are read from shared memory in the layout of the accumulator that they are combined
/// with. Without room for them, threads load in that layout, because a conversion would take even
/// more room.
const LinearLayout* LayoutAssignment::read_aux_layout(const OpData& load) const {
  const auto neighbour = neighbour_layouts_.find(load.results[0]);
  return neighbour != neighbour_layouts_.end() ? neighbour->second
                                               : access(load, k_.type(load.results[0]));
}

/// Each thread reads the values gathered for the rows or for all elements of accumulators itself,
/// so that warps do not synchronize. For columns, a thread would have to hold too many.
const LinearLayout* LayoutAssignment::gathered_aux_layout(const OpData& load) const {
  constexpr int kFewRegisterBits = 2;
  const LinearLayout* any = standard(k_.type(load.results[0]));
  const auto neighbour = neighbour_layouts_.find(load.results[0]);
  if (neighbour == neighbour_layouts_.end()) return any;
  const LinearLayout* own = neighbour->second;
  return own->in_bits(HwDim::Register) <= kFewRegisterBits || own->registers() <= any->registers()
             ? own
             : any;
}

/// Threads hold consecutive runs along the axis, the lanes of a warp consecutive threads, and warps
/// consecutive parts of long lines; the other lanes and warps take other lines.
const LinearLayout* LayoutAssignment::scan(Type tile, int axis) const {
  return intern_layout(scan_layout(dims_of(tile.shape()), axis, plan_.num_warps));
}

const LinearLayout* LayoutAssignment::sorted(const OpData& d) const {
  if (const auto own = kept_orders_.find(d.results[0]); own != kept_orders_.end())
    return own->second;
  const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
  const int kept = dims_of(k_.type(d.results[0]).shape())[axis];
  return intern_layout(
      order_layout(dims_of(k_.type(d.operands[0]).shape()), axis, plan_.num_warps, kept));
}

void LayoutAssignment::sort(const OpData& d) {
  const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
  const int kept = dims_of(k_.type(d.results[0]).shape())[axis];
  // A tile from whose registers each thread can select elements in place keeps its layout.
  const LinearLayout* own = of(d.operands[0]);
  const bool may_stay =
      own && d.attrs.has(AttrName::count) && own->registers() == sorted(d)->registers();
  const bool has_runs = may_stay && is_in_topk_order(*own, axis, kept);
  const bool has_words = may_stay && !has_runs && is_in_word_order(*own, axis, kept) &&
                         sort_word(k_, d, own->cover()[axis]) != SortWord::None;
  if (has_runs || has_words) kept_orders_.emplace(d.results[0], own);
  const LinearLayout* first =
      intern_layout(has_words ? shared_best_elements(*own, axis, kept)
                              : shared_first_elements(*sorted(d), axis, kept));
  for (Value v : d.results) set(v, first);
}

/// Shared memory may be read in any order. Segments that are 16 bytes after rounding to 16-bit
/// elements can be stored without a conversion.
const LinearLayout* LayoutAssignment::cluster_slice(Type tile) const {
  constexpr std::int64_t kRun = 8;
  const Dims shape = dims_of(tile.shape());
  const std::int64_t per_thread = std::max<std::int64_t>(1, tile.count() / (32 * plan_.num_warps));
  const auto run =
      std::bit_floor(static_cast<std::uint64_t>(std::min({kRun, per_thread, tile.shape().back()})));
  return intern_layout(coalesced(shape, static_cast<int>(run), plan_.num_warps,
                                 order_with(shape.size(), shape.size() - 1)));
}

/// Each thread receives from every CTA of the cluster the elements that it holds itself, and
/// reduces them alone.
void LayoutAssignment::cluster_gather(const OpData& d) {
  for (std::size_t i = 0; i < d.operands.size(); ++i) {
    const LinearLayout own = drop_register_copies(*own_or_standard(d.operands[i])).layout;
    set(d.results[i], intern_layout(*broadcast(expand_dim(own, 0), 0, k_.info.cluster)));
  }
}

DotLayouts LayoutAssignment::dot(const OpData& d) const {
  const Type a = k_.type(d.operands[0]), c = k_.type(d.results[0]);
  const Dims acc = dims_of(c.shape());
  const int m = acc[0], n = acc[1], k = static_cast<int>(a.shape()[1]);
  const MatrixType* type = matrix_type(k_, d);
  const auto [wm, wn] = warp_grid(m, n, plan_.warps_m, plan_.num_warps);
  DotLayouts out;
  if (type && m % 16 == 0 && n % 8 == 0 && k % type->step() == 0 && m >= 16 * wm && n >= 8 * wn) {
    const int bits = type->bits;
    out.tensor_core = true;
    // Warpgroups that share 64 rows have adjacent columns each, which is how their wgmmas take B.
    const bool has_parts = plan_.wgmma && wn > 1 && wm % kWarpgroupWarps == 0;
    out.acc = intern_layout(has_parts ? wgmma_acc(m, n, wm / kWarpgroupWarps, wn)
                                      : mma_m16n8k16_acc(acc, wm, wn));
    out.a = intern_layout(mma_operand(Operand::A, {m, k}, bits, wm, wn));
    out.b =
        intern_layout(mma_operand(Operand::B, {k, n}, bits, wm, wn,
                                  has_parts ? WarpColumns::Adjacent : WarpColumns::Interleaved));
    return out;
  }
  const auto per_thread = [](int extent) {
    return std::min(
        4, 1 << std::countr_zero(std::bit_floor(static_cast<unsigned>(std::max(1, extent / 8)))));
  };
  const int rows = per_thread(m), cols = per_thread(n);
  // If the number of warps is not a power of two, they divide rows: no thread could read columns
  // that they share from slots that are swizzled along them.
  const bool by_rows = m >= n || (!std::has_single_bit(static_cast<unsigned>(plan_.num_warps)) &&
                                  m % (4 * rows * plan_.num_warps) == 0);
  const Dims warps = by_rows ? Dims{plan_.num_warps, 1} : Dims{1, plan_.num_warps};
  const LinearLayout fma = blocked(acc, {rows, cols}, {4, 8}, warps, {1, 0});
  out.acc = intern_layout(fma);
  const auto operand = [&](Operand o) {
    const auto layout = fma_operand(o, fma, k);
    return layout ? intern_layout(*layout) : nullptr;
  };
  out.a = operand(Operand::A);
  out.b = operand(Operand::B);
  return out;
}

void LayoutAssignment::region(RegionId r) {
  for (OpId o : k_.ops(r)) op(o);
}

void LayoutAssignment::loop(OpId id) {
  const OpData& d = k_[id];
  for (RegionId r : d.regions) region(r);
  for (std::size_t i = 0; i < d.results.size(); ++i) {
    const Value carried = d.results[i];
    if (!k_.type(carried).is_tile()) continue;
    const LinearLayout* layout = of(loop_nexts(k_, id)[i]);
    if (!layout) layout = of(loop_inits(d)[i]);
    set(carried, layout);
    for (RegionId r : d.regions) set(loop_carries(k_, r)[i], of(carried));
  }
}

void LayoutAssignment::op(OpId id) {
  const OpData& d = k_[id];
  using enum Opcode;
  if (is_loop(d)) return loop(id);
  if (d.opcode == If) {
    for (RegionId r : d.regions) region(r);
    for (std::size_t i = 0; i < d.results.size(); ++i)
      for (RegionId r : d.regions) set(d.results[i], of(k_[k_.terminator(r)].operands[i]));
    return;
  }
  if (d.results.empty() || !k_.type(d.results[0]).is_tile() || of(d.results[0])) {
    return;
  }
  const Type type = k_.type(d.results[0]);
  if (d.opcode == LoadView) {
    if (loads_aux_in_accumulator_layout_ && is_aux_load(k_, id)) {
      if (accumulators_have_layouts_) set(d.results[0], read_aux_layout(d));
      return;
    }
    if (!is_outside_mainloop(d)) return set(d.results[0], access(d, type));
    if (accumulators_have_layouts_) set(d.results[0], aux_layout(d));
    return;
  }
  if (d.opcode == Dot) return set(d.results[0], dot(d).acc);
  if (d.opcode == Load && d.attrs.find(AttrName::align)) return set(d.results[0], by_runs(d, type));
  if (d.is(Load, AtomicRmw, AtomicCas, AtomicLoad)) {
    const LinearLayout* known = first_known(d);
    if (!known && d.opcode == Load && is_outside_mainloop(d)) {
      if (accumulators_have_layouts_) set(d.results[0], gathered_aux_layout(d));
      return;
    }
    return set(d.results[0], known ? known : standard(type));
  }
  const LinearLayout* known = first_known(d);
  if (d.is(Reduce, ArgReduce, ReduceWith)) {
    if (!known) known = standard(k_.type(d.operands[0]));
    const LinearLayout* result =
        intern_layout(slice(*known, static_cast<int>(d.attrs.i(AttrName::axis))));
    for (Value v : d.results) set(v, result);
    return;
  }
  if (d.opcode == ClusterReduceScatter) return set(d.results[0], cluster_slice(type));
  if (d.opcode == ClusterGather) return cluster_gather(d);
  if (d.is(Scan, ScanWith)) {
    const auto axis = static_cast<int>(d.attrs.i(AttrName::axis));
    const bool is_in_order = known && is_in_scan_order(*known, axis);
    for (Value v : d.results) set(v, is_in_order ? known : scan(type, axis));
    return;
  }
  if (d.opcode == Sort) return sort(d);
  if (d.opcode == KeyRanks) {
    set(d.results[0], ranked(d));
    return set(d.results[1], standard(k_.type(d.results[1])));
  }
  if (is_of_parts(d)) return set(d.results[0], of_parts(d));
  if (d.opcode == Reshape) {
    if (!known) return;
    const auto moved = reshape(*known, dims_of(type.shape()));
    if (!moved) return set(d.results[0], standard(type));
    if (!flip_layouts_.contains(d.results[0]))
      flip_layouts_.merge(flip_layouts(k_, uses_, d.results[0], *moved));
    const LinearLayout* flipped = flip_layouts_[d.results[0]];
    return set(d.results[0], flipped ? flipped : intern_layout(*moved));
  }
  if (d.opcode == Permute && known) {
    return set(d.results[0],
               intern_layout(permute(*known, dims_of(d.attrs.ints(AttrName::order)))));
  }
  if (is_rematerializable(d.opcode)) return;
  // A loaded value is converted before a cast widens it. Values made only of rematerializable ones
  // stay free.
  const auto neighbour = neighbour_layouts_.find(d.results[0]);
  set(d.results[0], known && neighbour != neighbour_layouts_.end() ? neighbour->second : known);
}

}  // namespace tegula::ir
