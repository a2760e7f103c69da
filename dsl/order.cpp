// Sorting and counting of tiles.
#include "tegula/order.h"

#include <optional>

#include "dsl/elementwise.h"
#include "dsl/errors.h"
#include "tegula/math.h"

namespace tegula {
namespace {

using dsl::AttrName;
using dsl::Opcode;
using dsl::Tracer;

/// The key and the index of an element share one word of the sorting network.
constexpr std::int64_t kMaxSorted = std::int64_t{1} << 15;
constexpr int kMaxBins = 4096;

Sorted record_sort(std::string_view what, const Arg& x, int axis, Direction direction,
                   std::optional<std::int64_t> k = {}) {
  Tracer& t = Tracer::at(x.loc(), what);
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  const int a = dsl::checked_axis(what, type, axis, x.loc());
  if (type.is_pointer())
    fail(ErrorId::sort_type, x.loc(), {t.origin(v, "the tile")}, what, type.str());
  const std::int64_t extent = type.shape()[static_cast<std::size_t>(a)];
  if (extent > kMaxSorted)
    fail(ErrorId::sort_extent, x.loc(), {t.origin(v, "the tile")}, what, extent, a, kMaxSorted);
  if (k && (*k < 1 || *k > extent))
    fail(ErrorId::topk_count, x.loc(), {t.origin(v, "the tile")}, *k, extent, a);
  ir::AttrList attrs = ir::attr_list({{AttrName::axis, a}});
  if (direction == Direction::descending) attrs.set(AttrName::descending, std::int64_t{1});
  if (k && *k != extent) attrs.set(AttrName::count, *k);
  const ir::OpId op = t.build.create(Opcode::Sort, std::span(&v, 1), std::move(attrs));
  return {t.tile(t.kernel[op].results[0]), t.tile(t.kernel[op].results[1])};
}

/// Returns the keys as a line of i32; keys that an i32 cannot represent are in no bin.
Tile line_of_keys(std::string_view what, const Arg& keys, int bins) {
  Tracer& t = Tracer::at(keys.loc(), what);
  const ir::Value v = dsl::operand(t, keys);
  const ir::Type type = t.kernel.type(v);
  if (type.is_pointer() || is_float(type.dtype()) || !type.is_tile())
    fail(ErrorId::key_type, keys.loc(), {t.origin(v, "the keys")}, what, type.str());
  if (bins < 1 || bins > kMaxBins) fail(ErrorId::bin_count, keys.loc(), {}, what, bins, kMaxBins);
  Tile line = t.tile(v);
  const bool fits =
      is_bool(type.dtype()) || size_bits(type.dtype()) < 32 || type.dtype() == DType::i32;
  if (!fits) {
    const Tile is_bin = is_signed(type.dtype()) ? line >= 0 && line < bins : line < bins;
    line = where(is_bin, cast<i32>(line), -1);
  }
  if (type.rank() > 1) line = reshape(line, {type.count()});
  return cast<i32>(line);
}

ir::OpId record_ranks(Tracer& t, const Tile& line, int bins) {
  const ir::Value v = t.value(line);
  return t.build.create(Opcode::KeyRanks, std::span(&v, 1),
                        ir::attr_list({{AttrName::count, bins}}));
}

}  // namespace

Tile sort(const Arg& x, Axis axis, Direction direction) {
  return record_sort("sort", x, axis.value(), direction).values;
}
Tile argsort(const Arg& x, Axis axis, Direction direction) {
  return record_sort("argsort", x, axis.value(), direction).indices;
}
Sorted sort_with_indices(const Arg& x, Axis axis, Direction direction) {
  return record_sort("sort_with_indices", x, axis.value(), direction);
}
Sorted topk(const Arg& x, int k, Axis axis, Direction direction) {
  return record_sort("topk", x, axis.value(), direction, k);
}

Ranks key_ranks(const Arg& keys, int bins) {
  Tracer& t = Tracer::at(keys.loc(), "key_ranks");
  const ir::OpId op = record_ranks(t, line_of_keys("key_ranks", keys, bins), bins);
  const Tile ranks = t.tile(t.kernel[op].results[0]), counts = t.tile(t.kernel[op].results[1]);
  const ir::Type type = t.kernel.type(dsl::operand(t, keys));
  if (type.rank() == 1) return {ranks, counts};
  const ir::Type wanted = type.with_dtype(DType::i32);
  return {t.tile(t.build.op(Opcode::Reshape, {t.value(ranks)}, wanted)), counts};
}
Tile histogram(const Arg& keys, int bins) {
  Tracer& t = Tracer::at(keys.loc(), "histogram");
  const ir::OpId op = record_ranks(t, line_of_keys("histogram", keys, bins), bins);
  return t.tile(t.kernel[op].results[1]);
}

}  // namespace tegula
