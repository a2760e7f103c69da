#include "dsl/fold_functions.h"

#include <algorithm>

#include "dsl/elementwise.h"
#include "dsl/errors.h"
#include "dsl/fold_body.h"
#include "tegula/tile_ops.h"

namespace tegula {

namespace dsl {

void check_one_shape(Tracer& t, std::string_view what, std::span<const ir::Value> tiles, Loc at) {
  const ir::Type leader = t.kernel.type(tiles[0]);
  for (ir::Value v : tiles)
    if (!std::ranges::equal(t.kernel.type(v).shape(), leader.shape()))
      fail(ErrorId::reduce_shapes, at, {t.origin(tiles[0], "the first"), t.origin(v, "another")},
           what, extents_text(leader.shape()), extents_text(t.kernel.type(v).shape()));
}

namespace {

/// Checks and returns the values that the function returns, which must have the operands' types.
std::vector<ir::Value> folded_values(Tracer& t, std::string_view what, ir::RegionId region,
                                     std::span<const ir::Value> operands,
                                     std::span<const Tile> folded, Loc at) {
  std::vector<ir::Value> values;
  for (std::size_t i = 0; i < folded.size(); ++i) {
    const ir::Value v = t.value(folded[i]);
    const ir::Type wanted = ir::Type::of(t.kernel.type(operands[i]).elem()), got = t.kernel.type(v);
    // An op that is not allowed may be the cause of a wrong type: report it first.
    const ir::Value arg = t.kernel[region].args[i];
    if (got != wanted || t.indices.is_index(v) != t.indices.is_index(arg)) {
      check_fold_body(t, what, region);
      fail(ErrorId::fold_type, at,
           {t.origin(v, "the result"), t.origin(operands[i], "the operand")}, what, t.type_text(v),
           t.type_text(arg), what);
    }
    values.push_back(v);
  }
  return values;
}

}  // namespace

std::vector<Tile> trace_fold(Tracer& t, std::string_view what, ir::OpId op,
                             std::span<const ir::Value> operands, const FoldFunction& combine,
                             Loc at) {
  const ir::RegionId region = t.kernel.add_region(op);
  const std::uint64_t scope = t.open_fold(op);
  {
    std::vector<Tile> left, right;
    for (auto* side : {&left, &right})
      for (ir::Value v : operands) {
        const ir::Value arg = t.kernel.add_arg(region, ir::Type::of(t.kernel.type(v).elem()));
        if (t.indices.is_index(v)) t.indices.set(arg, IndexTypes::Kind::Index);
        side->push_back(t.tile(arg));
      }
    combine(left, right);
    const auto folded = folded_values(t, what, region, operands, left, at);
    check_fold_body(t, what, region);
    t.build.yield(folded);
  }
  t.close_fold(scope);
  std::vector<Tile> results;
  for (ir::Value v : t.kernel[op].results) results.push_back(t.tile(v));
  return results;
}

}  // namespace dsl

std::vector<Tile> detail::reduce_with(std::span<const Tile> tiles, Axis axis,
                                      const CombineFn& combine, Loc at) {
  dsl::Tracer& t = dsl::Tracer::at(at, "reduce");
  std::vector<ir::Value> operands;
  for (const Tile& tile : tiles) operands.push_back(t.value(tile));
  const int a = dsl::checked_axis("reduce", t.kernel.type(operands[0]), axis.value(), at);
  dsl::check_one_shape(t, "reduce", operands, at);
  const ir::OpId op =
      t.build.create(dsl::Opcode::ReduceWith, operands, ir::attr_list({{dsl::AttrName::axis, a}}));
  return dsl::trace_fold(t, "reduce", op, operands, combine, at);
}

}  // namespace tegula
