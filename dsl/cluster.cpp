// Programs that run as one cluster: ranks, slices, and folds over all of them.

#include "dsl/elementwise.h"
#include "ir/layout/dims.h"
#include "ir/reduce_kind.h"
#include "tegula/cluster_folds.h"
#include "tegula/control.h"
#include "tegula/math.h"
#include "tegula/tile_ops.h"

namespace tegula {
namespace {

/// Returns the number of programs in a cluster of the kernel being traced.
int programs(Tracer& t, std::string_view what, Loc at) {
  if (!t.grid_seen) fail(ErrorId::before_grid, at, {}, what);
  return t.kernel.info.cluster;
}

std::int64_t part_of(std::string_view what, std::int64_t extent, int parts, Loc at) {
  // With extent == parts a part has one element, and an index of one element drops its dimension.
  if (parts > 1 && (extent % parts != 0 || extent == parts))
    fail(ErrorId::cluster_parts, at, {}, what, extent, parts);
  return extent / parts;
}

/// Throws if the call is in a loop, branch or fold: all programs of the cluster must execute it
/// exactly once.
void require_body(const Tracer& t, std::string_view what, Loc at) {
  for (const ScopeKind kind :
       {ScopeKind::Loop, ScopeKind::While, ScopeKind::Branch, ScopeKind::Fold})
    if (t.in_scope(kind)) fail(ErrorId::cluster_in_loop, at, {}, what, dsl::name(kind));
}

ir::Value rank_of(Tracer& t) {
  return t.build.op(Opcode::ClusterRank, {}, ir::Type::scalar(DType::i32));
}

}  // namespace

Tile cluster_rank(std::source_location at) {
  Tracer& t = Tracer::at(at, "cluster_rank");
  if (programs(t, "cluster_rank", at) == 1) return t.tile(t.build.i32(0));
  return t.tile(rank_of(t));
}

Index cluster_slice(const Index& whole, std::source_location at) {
  Tracer& t = Tracer::at(at, "cluster_slice");
  const int parts = programs(t, "cluster_slice", at);
  const std::int64_t extent = part_of("cluster_slice", whole.block(), parts, at);
  if (parts == 1) return whole;
  const ir::Value rank = t.build.cast(rank_of(t), t.index_type());
  const ir::Value first = t.build.mul(rank, t.build.constant(t.kernel.type(rank), extent));
  return whole.slice(Arg(t.tile(first), at), extent);
}

Tile cluster_reduce_scatter(const Arg& x, Axis axis) {
  const Loc at = x.loc();
  Tracer& t = Tracer::at(at, "cluster_reduce_scatter");
  const int parts = programs(t, "cluster_reduce_scatter", at);
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  if (!type.is_tile()) fail(ErrorId::not_a_tile, at, {}, "cluster_reduce_scatter");
  dsl::require_arithmetic("cluster_reduce_scatter", type.dtype(), at);
  if (size_bits(type.dtype()) < 32)
    fail(ErrorId::narrow_accumulator, at, {t.origin(v, "the tile")}, name(type.dtype()));
  const int a = dsl::checked_axis("cluster_reduce_scatter", type, axis.value(), at);
  require_body(t, "cluster_reduce_scatter", at);
  ir::Ints shape(type.shape().begin(), type.shape().end());
  std::int64_t& extent = shape[static_cast<std::size_t>(a)];
  extent = part_of("cluster_reduce_scatter", extent, parts, at);
  if (parts == 1) return t.tile(v);
  return t.tile(t.build.op(Opcode::ClusterReduceScatter, {v}, ir::Type::tile(type.elem(), shape),
                           {{AttrName::axis, a}}));
}

namespace {

/// An operand of a gather as a tile (a scalar becomes a tile of one element), and the shape of the
/// gathered result, whose leading dimension is the number of programs.
struct Given {
  ir::Value tile;
  ir::Ints shape;
};

Given given(Tracer& t, std::string_view what, ir::Value v, int programs, Loc at) {
  ir::Type type = t.kernel.type(v);
  if (type.is_pointer() || (type.is_tile() && type.rank() == ir::kMaxRank))
    fail(ErrorId::gathered_type, at, {t.origin(v, "the tile")}, what, type.str());
  Given out{v, {programs}};
  if (!type.is_tile()) {
    out.tile = t.build.op(Opcode::Splat, {v}, ir::Type::tile(type.elem(), ir::Ints{1}));
    return out;
  }
  out.shape.insert(out.shape.end(), type.shape().begin(), type.shape().end());
  return out;
}

std::vector<Tile> record_gather(std::string_view what, std::span<const ir::Value> values, Loc at) {
  Tracer& t = Tracer::at(at, what);
  const int ctas = programs(t, what, at);
  require_body(t, what, at);
  std::vector<Given> all;
  for (const ir::Value v : values) all.push_back(given(t, what, v, ctas, at));
  std::vector<ir::Value> gathered;
  for (const Given& g : all) gathered.push_back(g.tile);
  std::vector<ir::Type> types;
  for (const Given& g : all) {
    const ir::Type type = t.kernel.type(g.tile);
    ir::Ints shape{ctas};
    shape.insert(shape.end(), type.shape().begin(), type.shape().end());
    types.push_back(ir::Type::tile(type.elem(), shape));
  }
  if (ctas > 1) {
    const ir::OpId op =
        t.build.create(Opcode::ClusterGather, gathered, std::span<const ir::Type>(types));
    gathered.assign(t.kernel[op].results.begin(), t.kernel[op].results.end());
  } else {
    // A single program receives its own tile, with absent elements replaced by 0 as in a gather.
    for (ir::Value& v : gathered) {
      const ir::Type type = t.kernel.type(v);
      v = t.build.op(Opcode::FillAbsent,
                     {v, ir::reduce_kind("sum").identity(t.build, type.dtype())}, type);
    }
  }
  std::vector<Tile> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ir::Value& v = gathered[i];
    const ir::Type wanted = ir::Type::tile(t.kernel.type(v).elem(), all[i].shape);
    if (t.kernel.type(v) != wanted) v = t.build.op(Opcode::Reshape, {v}, wanted);
    out.push_back(t.tile(v));
  }
  return out;
}

/// Gathers the tiles of all programs, with the identity of the fold for absent elements.
Tile gathered_for(std::string_view what, const char* kind, const Arg& x) {
  Tracer& t = Tracer::at(x.loc(), what);
  ir::Value v = dsl::operand(t, x);
  if (!t.kernel.type(v).is_pointer()) {
    v = dsl::convert(t, v, dsl::order_type(t.kernel.type(v).dtype()));
    const ir::Type type = t.kernel.type(v);
    v = t.build.op(Opcode::FillAbsent, {v, ir::reduce_kind(kind).identity(t.build, type.dtype())},
                   type);
  }
  return record_gather(what, std::span(&v, 1), x.loc()).front();
}

/// Computes extremes of 8-bit floats in f16.
Tile cluster_extreme(std::string_view what, const char* kind, const Arg& x) {
  const Tile all = gathered_for(what, kind, x);
  const Tile best = std::string_view(kind) == "max" ? max(all, axis(0)) : min(all, axis(0));
  Tracer& t = Tracer::at(x.loc(), what);
  const DType d = t.kernel.type(dsl::operand(t, x)).dtype();
  return dsl::is_f8(d) ? t.tile(dsl::from_order_type(t, t.value(best), d)) : best;
}

}  // namespace

Tile cluster_gather(const Arg& x) {
  const ir::Value v = dsl::operand(Tracer::at(x.loc(), "cluster_gather"), x);
  return record_gather("cluster_gather", std::span(&v, 1), x.loc()).front();
}
Tile cluster_sum(const Arg& x) {
  Tracer& t = Tracer::at(x.loc(), "cluster_sum");
  dsl::require_arithmetic("cluster_sum", t.kernel.type(dsl::operand(t, x)).dtype(), x.loc());
  return sum(gathered_for("cluster_sum", "sum", x), axis(0));
}
Tile cluster_max(const Arg& x) { return cluster_extreme("cluster_max", "max", x); }
Tile cluster_min(const Arg& x) { return cluster_extreme("cluster_min", "min", x); }

std::vector<Tile> detail::cluster_gather(std::span<const Tile> tiles, Loc at) {
  Tracer& t = Tracer::at(at, "cluster_reduce");
  std::vector<ir::Value> values;
  for (const Tile& tile : tiles) values.push_back(t.value(tile));
  return record_gather("cluster_reduce", values, at);
}

}  // namespace tegula
