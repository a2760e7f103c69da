// Searches, weighted counts and compactions, as compositions of gathers, scatters and scans.
#include "tegula/search.h"

#include "dsl/elementwise.h"
#include "dsl/errors.h"
#include "tegula/control.h"
#include "tegula/math.h"
#include "tegula/scan.h"
#include "tegula/shape_ops.h"

namespace tegula {
namespace {

using dsl::Opcode;
using dsl::Tracer;

Tile flat(const Tile& t) { return t.rank() > 1 ? ravel(t) : t; }

Tile shaped_like(const Tile& line, const std::vector<std::int64_t>& shape) {
  Tracer& t = Tracer::at(Loc(), "reshape");
  const ir::Value v = t.value(line);
  return t.tile(t.build.op(Opcode::Reshape, {v}, ir::Type::tile(t.kernel.type(v).elem(), shape)));
}

/// Returns the number of present elements of a tile of one dimension.
Tile present_in_line(const Tile& x) {
  Tracer& t = Tracer::at(Loc(), "count");
  return sum(cast<i32>(dsl::presence(t, t.value(x))), axis(0));
}

/// Returns a line of zeros of the tile's type.
Tile zeros_like(const Tile& x, int extent) {
  Tracer& t = Tracer::at(Loc(), "zeros");
  const ir::Type type = ir::Type::tile({x.dtype(), false}, ir::Ints{extent});
  return t.tile(t.build.zero(type));
}

/// Returns for each element whether it differs from the one `by` positions further along the line;
/// true at the end.
Tile differs_from(const Tile& line, int by) {
  const int n = static_cast<int>(line.shape()[0]);
  const Tile at = arange(n) + by, is_inside = (at >= 0) & (at < n);
  return where(is_inside, gather(line, min(n - 1, max(0, at)), 0) != line, true);
}

/// Sums weights of equal keys: sorts the elements by key, forms a running sum in each segment, and
/// takes the last one of each.
Tile ordered_sums(const Tile& keys, const Tile& weights, int bins) {
  const Tile order = argsort(keys, 0);
  const Tile key = gather(keys, order, 0), weight = gather(weights, order, 0);
  ScanOptions segments;
  segments.starts = differs_from(key, -1);
  const Tile sums = cumsum(weight, 0, segments);
  return scatter(zeros_like(weight, bins), where(differs_from(key, 1), key, -1), sums, 0);
}

}  // namespace

/// Binary search: halves the remaining positions until there is one for each value.
Tile detail::searched(const Tile& length, const Arg& values, Side side,
                      const std::function<Tile(const Tile& index)>& element) {
  Tracer& t = Tracer::at(values.loc(), "searchsorted");
  const Tracer::Pin pin(t, values.loc());
  const ir::Value given = dsl::operand(t, values);
  const ir::Type type = t.kernel.type(given);
  const std::vector<std::int64_t> shape(type.shape().begin(), type.shape().end());
  const Tile v = flat(t.tile(given));
  const ir::Type places = t.kernel.type(t.value(v)).with_elem({DType::i32, false});
  Tile low = t.tile(t.build.zero(places)), high = low + length;
  const Tile last = max(0, length - 1);
  const auto is_right = [&](const Tile& e) {
    const Tile smaller = side == Side::left ? e < v : e <= v;
    if (!is_float(type.dtype())) return smaller;
    const Tile is_nan = v != v;
    return smaller | (side == Side::left ? is_nan & (e == e) : is_nan);
  };
  while_([&] { return type.is_tile() ? any(low < high) : low < high; },
         [&] {
           const Tile middle = low + (high - low) / 2, is_open = low < high;
           const Tile goes_right = is_right(element(min(middle, last)));
           low = where(is_open & goes_right, middle + 1, low);
           high = where(is_open & (goes_right == false), middle, high);
         });
  return shape.size() > 1 ? shaped_like(low, shape) : low;
}

Tile searchsorted(const Arg& sorted, const Arg& values, Side side) {
  Tracer& t = Tracer::at(sorted.loc(), "searchsorted");
  const Tracer::Pin pin(t, sorted.loc());
  const ir::Value s = dsl::operand(t, sorted);
  const ir::Type type = t.kernel.type(s);
  if (type.is_pointer() || type.rank() != 1)
    fail(ErrorId::key_type, sorted.loc(), {t.origin(s, "the sorted tile")}, "searchsorted",
         type.str());
  const Tile line = t.tile(s), all = fill_absent(line, 0);
  return detail::searched(present_in_line(line), values, side, [&](const Tile& index) {
    return index.rank() == 0 ? extract(all, 0, index) : gather(all, index, 0);
  });
}

Tile bincount(const Arg& keys, const Arg& weights, int bins) {
  Tracer& t = Tracer::at(keys.loc(), "bincount");
  const Tracer::Pin pin(t, keys.loc());
  std::vector<ir::Value> operands{dsl::operand(t, keys), dsl::operand(t, weights)};
  dsl::broadcast_shapes(t, "bincount", operands, keys.loc());
  const Tile all_keys = flat(t.tile(operands[0])), all_weights = flat(t.tile(operands[1]));
  const Tile ranks = key_ranks(all_keys, bins).ranks;  // rejects operands that are not keys
  const DType d = t.kernel.type(operands[1]).dtype();
  const bool is_wide = size_bits(d) == 64;
  // Keys without a bin, and absent keys, have no rank; absent weights are treated as 0.
  const Tile key = fill_absent(where(ranks >= 0, cast<i32>(all_keys), -1), -1);
  const Tile weight = fill_absent(all_weights, 0);
  const Tile term = is_wide ? weight : cast(weight, is_float(d) ? DType::f32 : DType::i32);
  return cast(is_float(d) ? ordered_sums(key, term, bins)
                          : scatter(zeros_like(term, bins), key, term, 0, Combine::add),
              d);
}

Compacted compact(const Arg& x, const Arg& keep, Axis axis) {
  Tracer& t = Tracer::at(x.loc(), "compact");
  const Tracer::Pin pin(t, x.loc());
  const ir::Value v = dsl::operand(t, x);
  const ir::Type type = t.kernel.type(v);
  const int a = dsl::checked_axis("compact", type, axis.value(), x.loc());
  // An element that is absent in the tile is not kept, whatever its condition.
  const Tile all = t.tile(v), wanted = fill_absent(t.tile(dsl::truth(t, keep)), false),
             kept = wanted && dsl::presence(t, v);
  const Tile number = cast<i32>(kept);
  ScanOptions before;
  before.exclusive = true;
  const Tile place = where(kept, cumsum(number, a, before), -1);
  const Tile nothing = crop(t.tile(t.build.zero(type)), a, 0, 0);
  return {scatter(nothing, place, all, a), sum(number, a)};
}

}  // namespace tegula
