// Scans. Segments are not an op: flags are scanned with the values, and the function combines two
// parts only if no segment begins between them.
#include "tegula/scan.h"

#include <algorithm>

#include "dsl/elementwise.h"
#include "dsl/errors.h"
#include "dsl/fold_functions.h"
#include "ir/reduce_kind.h"
#include "tegula/math.h"

namespace tegula {
namespace {

using dsl::AttrName;
using dsl::FoldFunction;
using dsl::Opcode;
using dsl::Tracer;

/// One scan by a function; its identity is given if the scan is exclusive.
struct Request {
  std::string_view what;
  std::vector<ir::Value> tiles, identity;
  int axis;
  bool is_reverse, is_exclusive;
  Loc at;
};

ir::AttrList scan_attrs(int axis, bool is_reverse, bool is_exclusive) {
  ir::AttrList attrs = ir::attr_list({{AttrName::axis, axis}});
  if (is_reverse) attrs.set(AttrName::reverse, std::int64_t{1});
  if (is_exclusive) attrs.set(AttrName::exclusive, std::int64_t{1});
  return attrs;
}

std::vector<Tile> record_scan(Tracer& t, const Request& r, const FoldFunction& combine) {
  std::vector<ir::Value> operands = r.tiles;
  if (r.is_exclusive) operands.insert(operands.end(), r.identity.begin(), r.identity.end());
  const ir::OpId op =
      t.build.create(Opcode::ScanWith, operands, scan_attrs(r.axis, r.is_reverse, r.is_exclusive));
  return dsl::trace_fold(t, r.what, op, r.tiles, combine, r.at);
}

void check_starts(Tracer& t, const Request& r, ir::Value starts) {
  const ir::Type type = t.kernel.type(starts), tile = t.kernel.type(r.tiles[0]);
  if (is_bool(type.dtype()) && std::ranges::equal(type.shape(), tile.shape())) return;
  fail(ErrorId::scan_starts, r.at, {t.origin(starts, "starts"), t.origin(r.tiles[0], "the tile")},
       r.what, type.str(), tile.str());
}

/// Extends `combine` by flags for segments. The value of a part combines its elements from the last
/// segment start on, or in a reverse scan those before the first start after its first element. The
/// flag of a part is true if a segment begins in it. A reverse scan has two flags: a segment begins
/// at the first element, or at a later one.
FoldFunction within_segments(const FoldFunction& combine, bool is_reverse) {
  const std::size_t flags = is_reverse ? 2 : 1;
  return [combine, is_reverse, flags](std::span<Tile> l, std::span<const Tile> r) {
    std::vector<Tile> joined(l.begin() + static_cast<std::ptrdiff_t>(flags), l.end());
    combine(joined, r.subspan(flags));
    const Tile cut = is_reverse ? l[1] || r[0] : r[0];
    for (std::size_t i = 0; i < joined.size(); ++i)
      l[flags + i] = where(cut, is_reverse ? l[flags + i] : r[flags + i], joined[i]);
    if (is_reverse)
      l[1] = cut || r[1];
    else
      l[0] = l[0] || r[0];
  };
}

std::vector<Tile> record_segments(Tracer& t, Request r, const Tile& starts,
                                  const FoldFunction& combine) {
  const ir::Value first = t.value(starts);
  check_starts(t, r, first);
  const ir::Type flag = t.kernel.type(first);
  const ir::Value no = t.build.constant(ir::Type::of(flag.elem()), std::int64_t{0});
  const std::vector<ir::Value> identity = r.identity;
  const std::size_t flags = r.is_reverse ? 2 : 1;
  if (r.is_reverse) r.tiles.insert(r.tiles.begin(), t.build.constant(flag, std::int64_t{0}));
  r.tiles.insert(r.tiles.begin(), first);
  r.identity.insert(r.identity.begin(), flags, no);
  std::vector<Tile> all = record_scan(t, r, within_segments(combine, r.is_reverse));
  std::vector<Tile> values(all.begin() + static_cast<std::ptrdiff_t>(flags), all.end());
  // Elements before a segment's first one, in scan order, belong to another segment.
  if (r.is_exclusive)
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Tile cut = (r.is_reverse ? all[0] : starts) && dsl::presence(t, t.value(values[i]));
      values[i] = where(cut, t.tile(identity[i]), values[i]);
    }
  return values;
}

std::vector<Tile> record_scans(Tracer& t, const Request& r, const Tile& starts,
                               const FoldFunction& combine) {
  return starts.defined() ? record_segments(t, r, starts, combine) : record_scan(t, r, combine);
}

FoldFunction function_of(Opcode op) {
  return [op](std::span<Tile> l, std::span<const Tile> r) {
    l[0] = op == Opcode::Add   ? l[0] + r[0]
           : op == Opcode::Mul ? l[0] * r[0]
           : op == Opcode::Max ? max(l[0], r[0])
                               : min(l[0], r[0]);
  };
}

Tile named(std::string_view what, const char* kind, const Arg& x, int axis,
           const ScanOptions& options) {
  Tracer& t = Tracer::at(x.loc(), what);
  const ir::Value v = dsl::operand(t, x);
  const DType d = t.kernel.type(v).dtype();
  const bool is_extreme = std::string_view(kind) == "max" || std::string_view(kind) == "min";
  if (!is_extreme) dsl::require_arithmetic(what, d, x.loc());
  const int a = dsl::checked_axis(what, t.kernel.type(v), axis, x.loc());
  const DType wide = is_float(d) && d != DType::f64      ? DType::f32
                     : !is_float(d) && size_bits(d) < 32 ? DType::i32
                                                         : d;
  const ir::Value in = dsl::convert(t, v, wide);
  ir::Value out;
  if (options.starts.defined()) {
    const ir::ReduceKind& fold = ir::reduce_kind(kind);
    const Request request{.what = what,
                          .tiles = {in},
                          .identity = {fold.identity(t.build, wide)},
                          .axis = a,
                          .is_reverse = options.reverse,
                          .is_exclusive = options.exclusive,
                          .at = x.loc()};
    out = t.value(record_segments(t, request, options.starts, function_of(fold.op)).front());
  } else {
    ir::AttrList attrs = scan_attrs(a, options.reverse, options.exclusive);
    attrs.set(AttrName::kind, std::string(kind));
    const ir::OpId op = t.build.create(Opcode::Scan, std::span(&in, 1), std::move(attrs));
    out = t.kernel[op].results[0];
  }
  return t.tile(is_float(d) ? dsl::from_order_type(t, out, d) : out);
}

}  // namespace

Tile cumsum(const Arg& x, Axis axis, ScanOptions o) {
  return named("cumsum", "sum", x, axis.value(), o);
}
Tile cumprod(const Arg& x, Axis axis, ScanOptions o) {
  return named("cumprod", "prod", x, axis.value(), o);
}
Tile cummax(const Arg& x, Axis axis, ScanOptions o) {
  return named("cummax", "max", x, axis.value(), o);
}
Tile cummin(const Arg& x, Axis axis, ScanOptions o) {
  return named("cummin", "min", x, axis.value(), o);
}

std::vector<Tile> detail::scan_with(std::span<const Tile> tiles, std::span<const Arg> identity,
                                    Axis axis, const CombineFn& combine, const ScanOptions& options,
                                    Loc at) {
  Tracer& t = Tracer::at(at, "scan");
  Request r{.what = "scan",
            .tiles = {},
            .identity = {},
            .axis = 0,
            .is_reverse = options.reverse,
            .is_exclusive = options.exclusive,
            .at = at};
  for (const Tile& tile : tiles) r.tiles.push_back(t.value(tile));
  r.axis = dsl::checked_axis("scan", t.kernel.type(r.tiles[0]), axis.value(), at);
  dsl::check_one_shape(t, "scan", r.tiles, at);
  if (options.exclusive && identity.empty()) fail(ErrorId::scan_identity, at, {});
  for (std::size_t i = 0; i < identity.size(); ++i)
    r.identity.push_back(dsl::operand(t, identity[i], t.kernel.type(r.tiles[i]).dtype()));
  return record_scans(t, r, options.starts, combine);
}

}  // namespace tegula
