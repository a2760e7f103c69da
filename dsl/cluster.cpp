// Programs that run as one cluster: which one this is, what it takes, and the sum of what all have.
#include <algorithm>

#include "dsl/elementwise.h"
#include "tegula/control.h"
#include "tegula/tile_ops.h"

namespace tegula {
namespace {

/// Programs of a cluster of the kernel being traced.
int programs(Tracer& t, std::string_view what, Loc at) {
  if (!t.grid_seen) fail(ErrorId::before_grid, at, {}, what);
  return t.kernel.info.cluster;
}

std::int64_t part_of(std::string_view what, std::int64_t extent, int parts, Loc at) {
  // An index of one element would drop its dimension.
  if (parts > 1 && (extent % parts != 0 || extent == parts))
    fail(ErrorId::cluster_parts, at, {}, what, extent, parts);
  return extent / parts;
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
    fail(ErrorId::narrow_sum, at, {t.origin(v, "the tile")}, name(type.dtype()));
  const int a = dsl::checked_axis("cluster_reduce_scatter", type, axis.value(), at);
  for (const ScopeKind kind :
       {ScopeKind::Loop, ScopeKind::While, ScopeKind::Branch, ScopeKind::Fold})
    if (t.in_scope(kind)) fail(ErrorId::cluster_in_loop, at, {}, dsl::name(kind));
  ir::Ints shape(type.shape().begin(), type.shape().end());
  std::int64_t& extent = shape[static_cast<std::size_t>(a)];
  extent = part_of("cluster_reduce_scatter", extent, parts, at);
  if (parts == 1) return t.tile(v);
  return t.tile(t.build.op(Opcode::ClusterReduceScatter, {v}, ir::Type::tile(type.elem(), shape),
                           {{AttrName::axis, a}}));
}

}  // namespace tegula
