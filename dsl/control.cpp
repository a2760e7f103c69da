// Loops, branches, the grid and tunables of the public headers.
#include "tegula/control.h"

#include <fmt/format.h>

#include "dsl/eager.h"
#include "dsl/elementwise.h"
#include "dsl/host_scalars.h"
#include "dsl/raster_order.h"
#include "tegula/math.h"
#include "tegula/memory.h"

namespace tegula {
namespace {

/// Returns "arg0.1": the view and the dimension an extent is read from; "" for other extents.
const char* dimension_of(const Tracer& t, ir::Value extent) {
  const ir::OpId def = t.kernel[dsl::stated(t.kernel, extent)].def;
  if (!def || t.kernel[def].opcode != Opcode::ViewDim) return "";
  const ir::OpData& d = t.kernel[def];
  for (std::uint32_t i = 0; i < t.kernel.params().size(); ++i)
    if (t.param(i) == d.operands[0])
      return intern(t.dimension_text(i, static_cast<int>(d.attrs.i(AttrName::axis))));
  return "";
}

/// Returns the 64-bit integer that was narrowed to this 32-bit index, or nothing.
ir::Value wide_of_index(const Tracer& t, ir::Value index) {
  const ir::Value v = dsl::stated(t.kernel, index);
  const ir::OpId def = t.kernel[v].def;
  if (!def || t.kernel[def].opcode != Opcode::Cast) return {};
  const ir::Value from = t.kernel[def].operands[0];
  return size_bits(t.kernel.type(from).dtype()) > size_bits(t.kernel.type(v).dtype()) ? from
                                                                                      : ir::Value();
}

/// Returns `programs`, or a number above the launch limit if an extent is out of the range of
/// indices. A negative number stays negative.
ir::Value or_refused(dsl::HostScalars& host, ir::Builder& b, ir::Value programs, ir::Value wide) {
  const ir::Value extent = host.copy(wide);
  if (!extent) return programs;
  const ir::Type wide_type = b.kernel().type(extent);
  const ir::Value first = b.constant(wide_type, std::int64_t{1} << 31),
                  one = b.constant(wide_type, std::int64_t{1});
  const ir::Value is_beyond = b.op(Opcode::Min, {b.div(extent, first), one});
  const ir::Value beyond = b.cast(b.mul(is_beyond, first), DType::i32);
  return b.op(Opcode::Max, {programs, b.add(beyond, b.op(Opcode::Min, {programs, b.i32(0)}))});
}

/// Makes the launch reject a bound out of the range of indices, if the host can compute it.
void refuse_at_launch(Tracer& t, ir::Value wide) {
  const ir::OpId yield = t.kernel.terminator(t.kernel.launch());
  if (!yield || t.runs()) return;
  ir::Builder b(t.kernel, yield);
  b.loc = t.build.loc;
  dsl::HostScalars host(t.kernel, b);
  const ir::Value programs = or_refused(host, b, t.kernel[yield].operands[0], wide);
  t.kernel[yield].operands[0] = programs;
}

Tile bound(Tracer& t, std::string_view what, const Arg& a) {
  const Tile index = dsl::index_bound(t, what, a);
  if (const ir::Value wide = wide_of_index(t, t.value(index))) refuse_at_launch(t, wide);
  return index;
}

}  // namespace

// ---- steps --------------------------------------------------------------------------------------
namespace detail {

void OpenRegion::abandon(bool by_exception) const {
  if (Tracer* t = Tracer::current()) t->abandon(id, by_exception);
}

LoopRange::LoopRange(const Arg& lo, const Arg& hi, std::int64_t block, const Arg& by, Loc at)
    : block_(block), dimension_(""), loc_(at) {
  Tracer& t = Tracer::at(at, "steps");
  if (!dsl::is_block(block)) fail(ErrorId::bad_block, at, {}, block);
  lo_ = bound(t, "steps", lo);
  hi_ = bound(t, "steps", hi);
  dimension_ = dimension_of(t, t.value(hi_));
  if (!by.present()) return;
  by_ = bound(t, "steps", by);
  const Tracer::Pin pin(t, at);
  t.build.effect(
      Opcode::Assume, {t.value(*by_ > 0)},
      {{AttrName::message, "the argument by of steps(lo, hi, block, by) is not positive"}});
}
LoopRange::LoopRange(const LoopRange& o)
    : lo_(o.lo_),
      hi_(o.hi_),
      by_(o.by_),
      block_(o.block_),
      dimension_(o.dimension_),
      loc_(o.loc_),
      stages_(o.stages_),
      unroll_(o.unroll_),
      independent_(o.independent_),
      bounded_(o.bounded_) {}

LoopRange LoopRange::stages(int n) const {
  LoopRange r(*this);
  r.stages_ = n;
  return r;
}
LoopRange LoopRange::unroll() const {
  LoopRange r(*this);
  r.unroll_ = true;
  return r;
}
LoopRange LoopRange::independent() const {
  LoopRange r(*this);
  r.independent_ = true;
  return r;
}
LoopRange LoopRange::bounded() const {
  LoopRange r(*this);
  r.bounded_ = true;
  return r;
}
LoopRange LoopRange::chunk(const Arg& number, const Arg& parts) const {
  if (parts.is_literal() && parts.as_int() == 1) return *this;
  Tracer& t = Tracer::at(number.loc(), "steps");
  const Tracer::Pin pin(t, number.loc());
  const Arg step = by_ ? Arg(*by_) : Arg(block_), less = by_ ? Arg(*by_ - 1) : Arg(block_ - 1);
  const Tile count = (hi_ - lo_ + less) / step, n = bound(t, "steps", parts),
             extent = (count + (n - 1)) / n * step;
  LoopRange r(*this);
  r.lo_ = lo_ + bound(t, "steps", number) * extent;
  r.hi_ = min(r.lo_ + extent, hi_);
  return r;
}

std::uint64_t LoopRange::start() {
  Tracer& t = Tracer::at(loc_, "steps");
  ir::AttrList attrs;
  attrs.set(AttrName::loop, independent_ ? "independent" : "steps");
  if (stages_ > 0) attrs.set(AttrName::stages, std::int64_t{stages_});
  if (unroll_) attrs.set(AttrName::unroll, std::int64_t{1});
  const ir::Value step =
      by_ ? t.value(*by_) : t.build.constant(ir::Type::scalar(t.index_type()), block_);
  return t.open_loop(t.value(lo_), t.value(hi_), step, std::move(attrs));
}

void LoopRange::Iterator::operator++() {
  Tracer& t = Tracer::at({}, "steps");
  more_ = t.close_loop(range_->open_.id);
  if (!more_) range_->open_.id = 0;
}

Index LoopRange::Iterator::operator*() const {
  Tracer& t = Tracer::at({}, "steps");
  const Index i(t.tile(t.induction(range_->open_.id)), range_->block_, range_->dimension_);
  // An index of one element needs no bound: it is always before the end.
  return range_->bounded_ && range_->block_ > 1 ? i.until(Arg(range_->hi_).at(range_->loc_)) : i;
}

}  // namespace detail

detail::LoopRange steps(const Arg& extent, std::int64_t block) {
  return detail::LoopRange(Arg(0).at(extent.loc()), extent, block, {}, extent.loc());
}
detail::LoopRange steps(const Arg& lo, const Arg& hi, std::int64_t block) {
  return detail::LoopRange(lo, hi, block, {}, lo.loc());
}
detail::LoopRange steps(const Arg& lo, const Arg& hi, std::int64_t block, const Arg& by) {
  return detail::LoopRange(lo, hi, block, by, lo.loc());
}

// ---- the grid -----------------------------------------------------------------------------------
GridSpace::GridSpace(const View& view, std::source_location at) : loc_(at) {
  for (int i = 0; i < view.rank(); ++i) extents_.push_back(view.dim(i, at));
}
GridSpace::GridSpace(std::initializer_list<Arg> extents, std::source_location at) : loc_(at) {
  Tracer& t = Tracer::at(at, "grid");
  for (const Arg& e : extents) extents_.push_back(bound(t, "grid", e));
}
GridSpace::GridSpace(const Tile& extent, std::source_location at) : loc_(at) {
  extents_.push_back(bound(Tracer::at(at, "grid"), "grid", Arg(extent, at)));
}
GridSpace rows(const View& view, std::source_location at) {
  return GridSpace({Arg(view.dim(0, at), at)}, at);
}
GridSpace cols(const View& view, std::source_location at) {
  return GridSpace({Arg(view.dim(1, at), at)}, at);
}

namespace detail {
namespace {

/// Records the computation of the number of programs: the product of the counts, which are computed
/// from the extents.
void record_launch(Tracer& t, std::span<const ir::Value> counts, std::span<const Tile> extents,
                   int cluster) {
  ir::Builder b(t.kernel, t.kernel.launch());
  b.loc = t.build.loc;
  // The largest of several grids determines the launch.
  ir::Value others;
  if (const ir::OpId yield = t.kernel.terminator(t.kernel.launch())) {
    others = t.kernel[yield].operands[0];
    t.kernel.erase(yield);
  }
  dsl::HostScalars host(t.kernel, b);
  ir::Value programs;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const ir::Value count = host.copy(counts[i]);
    if (!count)
      fail(ErrorId::grid_extent, t.build.loc, {t.origin(t.value(extents[i]), "the extent")});
    programs = i == 0 ? count : b.mul(programs, count);
  }
  for (const Tile& extent : extents)
    if (const ir::Value wide = wide_of_index(t, t.value(extent)))
      programs = or_refused(host, b, programs, wide);
  if (cluster > 1) programs = b.mul(programs, b.i32(cluster));
  if (others) programs = b.op(Opcode::Max, {programs, others});
  const ir::Value one = b.i32(1);
  b.yield(std::vector{programs, one, one});
}

}  // namespace

GridLoop::GridLoop(const GridSpace& space, GridOptions options)
    : extents_(space.extents()), options_(std::move(options)), loc_(space.loc()) {}
GridLoop::GridLoop(const Segments& space, GridOptions options)
    : extents_(space.extents_), segments_(space), options_(std::move(options)), loc_(space.loc_) {}

void GridLoop::check(Tracer& t) const {
  if (t.in_scope(ScopeKind::Grid))
    fail(ErrorId::nested_grid, loc_, {{t.grid_loc, "it begins here"}}, "a grid loop");
  if (t.recording_region()) fail(ErrorId::nested_grid, loc_, {}, "a loop or branch");
  if (t.grid_seen && !t.has_met) fail(ErrorId::second_grid, loc_, {{t.grid_loc, "the first one"}});
  if (options_.blocks.size() > extents_.size())
    fail(ErrorId::grid_rank, loc_, {}, "grid", options_.blocks.size(), extents_.size());
  for (std::int64_t block : options_.blocks)
    if (!dsl::is_block(block)) fail(ErrorId::bad_block, loc_, {}, block);
  const int cluster = options_.cluster;
  if (cluster != 1 && cluster != 2 && cluster != 4 && cluster != 8)
    fail(ErrorId::bad_cluster, loc_, {}, cluster);
  if (t.meets && (segments_ || cluster > 1))
    fail(ErrorId::grid_barrier_place, loc_, {},
         segments_ ? "in a kernel over segments" : "in a kernel with clusters");
  if (segments_ && cluster > 1) fail(ErrorId::segments_cluster, loc_, {}, cluster);
}

std::uint64_t GridLoop::start() {
  Tracer& t = Tracer::at(loc_, "grid");
  check(t);
  const int cluster = options_.cluster;
  t.kernel.info.cluster = cluster;
  t.grid_seen = true;
  t.has_met = t.grid_done = false;
  t.grid_loc = loc_;
  std::vector<ir::Value> counts;
  for (std::size_t i = 0; i < options_.blocks.size(); ++i)
    counts.push_back(segments_ && i == 0
                         ? t.value(segments_->tile_count(options_.blocks[0]))
                         : dsl::block_count(t.build, t.value(extents_[i]), options_.blocks[i]));
  record_launch(t, counts, extents_, cluster);
  if (t.meets) {
    for (const ir::Value count : counts) counts_.push_back(t.tile(count));
    return open_tile_loop(t);
  }
  // All programs of a cluster work on the same tile.
  ir::AttrList attrs = cluster == 1 ? ir::attr_list({{AttrName::axis, 0}}) : ir::AttrList();
  if (options_.balanced_pairs) attrs.set(AttrName::balanced_pairs, std::int64_t{1});
  const ir::Type i32 = ir::Type::scalar(DType::i32);
  const ir::OpId program = t.build.create(cluster == 1 ? Opcode::ProgramId : Opcode::ClusterId, {},
                                          std::span(&i32, 1), std::move(attrs));
  const auto tiles =
      dsl::RasterOrder(t.build, options_, counts).decode(t.kernel[program].results[0]);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    // State the range, from which bounds proofs start; the decoding alone does not imply it.
    t.build.effect(Opcode::Assume, {t.build.cmp("lt", tiles[i], counts[i])},
                   {{AttrName::kind, "count"}});
    if (segments_ && i == 0) {
      place_ = segments_->at(t.tile(tiles[0]), options_.blocks[0]);
      starts_.push_back(place_->first);
      continue;
    }
    const ir::Value tile = t.build.cast(tiles[i], t.index_type());
    const std::int64_t block = options_.blocks[i];
    const ir::Type type = t.kernel.type(tile);
    const ir::Value start = block == 1 ? tile : t.build.mul(tile, t.build.constant(type, block));
    t.indices.set(start, dsl::IndexTypes::Kind::Index);
    starts_.push_back(t.tile(start));
  }
  return segments_ ? open_segment(t) : t.open_grid(t.kernel.body());
}

/// Opens a loop over tiles program_id, program_id + num_programs, .. (kernels with grid_barrier).
std::uint64_t GridLoop::open_tile_loop(Tracer& t) {
  const auto number = [&](Opcode opcode) {
    return t.build.op(opcode, {}, ir::Type::scalar(DType::i32), {{AttrName::axis, 0}});
  };
  ir::Value total = t.value(counts_[0]);
  for (std::size_t i = 1; i < counts_.size(); ++i) total = t.build.mul(total, t.value(counts_[i]));
  const std::uint64_t id =
      t.open_loop(number(Opcode::ProgramId), total, number(Opcode::NumPrograms), {});
  runs_ = id != 0;
  t.grid_done = !runs_;
  return id;
}

/// Returns the index along a dimension. It is decoded here, in the loop's body, because values of
/// the body are not usable after the loop.
Index GridLoop::index_in_tile_loop(Tracer& t, std::size_t dimension) const {
  std::vector<ir::Value> counts;
  for (const Tile& count : counts_) counts.push_back(t.value(count));
  const auto tiles = dsl::RasterOrder(t.build, options_, counts).decode(t.induction(open_.id));
  t.build.effect(Opcode::Assume, {t.build.cmp("lt", tiles[dimension], counts[dimension])},
                 {{AttrName::kind, "count"}});
  ir::Value start = t.build.cast(tiles[dimension], t.index_type());
  const ir::Type type = t.kernel.type(start);
  const std::int64_t block = options_.blocks[dimension];
  if (block > 1) start = t.build.mul(start, t.build.constant(type, block));
  start = t.indices.restated(t.build, start, dsl::IndexTypes::Kind::Index);
  return Index(t.tile(start), block, dimension_of(t, t.value(extents_[dimension])));
}

/// Opens the body, which is executed only if the tile of the segment has rows.
std::uint64_t GridLoop::open_segment(Tracer& t) {
  const ir::Value has_rows = t.build.cmp("lt", t.value(place_->first), t.value(place_->end));
  if (!t.runs()) return t.open_grid(t.kernel[t.build.make_if(has_rows, {})].regions[0]);
  runs_ = t.live->integer(has_rows, "whether a segment has rows") != 0;
  const std::uint64_t id = t.open_grid(t.kernel.body());
  if (runs_) return id;
  t.close_grid(id);
  t.grid_done = true;
  return 0;
}

bool GridLoop::close() {
  Tracer& t = Tracer::at({}, "grid");
  if (t.meets ? t.close_loop(open_.id) : t.close_grid(open_.id)) return true;
  open_.id = 0;
  t.grid_done = true;
  return false;
}

Index GridLoop::index(std::size_t dimension) const {
  Tracer& t = Tracer::at({}, "grid");
  if (t.meets) return index_in_tile_loop(t, dimension);
  if (segments_ && dimension == 0) return Index(place_->segment, 1);
  const std::size_t i = segments_ ? dimension - 1 : dimension;
  const Index part(starts_[i], options_.blocks[i], dimension_of(t, t.value(extents_[i])));
  return segments_ && i == 0 ? part.until(Arg(place_->end).at(loc_)) : part;
}

// ---- branches -----------------------------------------------------------------------------------
RecordedIf::RecordedIf(const Arg& condition) : condition_(condition) {}
std::uint64_t RecordedIf::start() {
  Tracer& t = Tracer::at(condition_.loc(), "if_");
  const ir::Value c = dsl::truth(t, condition_);
  if (t.kernel.type(c).is_tile() && !t.in_scope(ScopeKind::Map))
    fail(ErrorId::condition_type, condition_.loc(), {t.origin(c, "the condition")}, "if_",
         t.kernel.type(c).str(), dsl::condition_hint(t.kernel.type(c)));
  return t.open_branch(c, takes_);
}
bool RecordedIf::begin_otherwise() { return Tracer::at({}, "if_").else_branch(open_.id); }
void RecordedIf::close() {
  Tracer::at({}, "if_").close_branch(open_.id);
  open_.id = 0;
}

void record_grid_barrier(Loc at) {
  Tracer& t = Tracer::at(at, "grid_barrier");
  if (t.recording_region()) fail(ErrorId::grid_barrier_place, at, {}, "inside a loop or a branch");
  if (!t.grid_seen) fail(ErrorId::grid_barrier_place, at, {}, "before the grid loops");
  if (!t.meets) throw dsl::GridBarrierFound{};
  t.build.effect(Opcode::GridBarrier, {});
  t.has_met = true;
}

void record_while(const std::function<Tile()>& condition, const std::function<void()>& body,
                  Loc at) {
  Tracer::at(at, "while_").record_while(condition, body);
}

}  // namespace detail

int tune(const char* name, std::initializer_list<int> set, std::optional<int> otherwise,
         std::source_location at) {
  return Tracer::at(at, "tune").tune(name, set, otherwise, at);
}

// ---- grid dependencies --------------------------------------------------------------------------
void grid_dependency_wait(std::source_location at) {
  Tracer::at(at, "grid_dependency_wait").build.effect(Opcode::GridDependencyWait, {});
}
void grid_launch_dependents(std::source_location at) {
  Tracer::at(at, "grid_launch_dependents").build.effect(Opcode::GridLaunchDependents, {});
}

}  // namespace tegula
