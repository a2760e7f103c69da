#pragma once
// Random programs, continued: shape ops, folds, products, control flow and the arguments.
#include <optional>

#include "ir/analysis/index_facts.h"
#include "ir/passes/absence/tile_presence.h"
#include "tests/fuzz/random_program.h"

namespace tegula::fuzz {

// ---- shapes -------------------------------------------------------------------------------------
inline void RandomProgram::grow_shape() {
  Known a = any_tile();
  const Shape s = shape_of(a);
  if (chance(50) && s.size() > 1) {
    ir::Ints order(s.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random_);
    Known k = a;
    k.v = b_.op(ir::Opcode::Permute, {a.v}, {{ir::AttrName::order, order}});
    for (std::size_t i = 0; i < order.size(); ++i)
      k.absent[i] = a.absent[static_cast<std::size_t>(order[i])];
    return void(keep(k));
  }
  if (s.size() > 2) return;
  const auto axis = static_cast<std::size_t>(below(static_cast<std::int64_t>(s.size()) + 1));
  a.v =
      b_.op(ir::Opcode::ExpandDims, {a.v}, {{ir::AttrName::axis, static_cast<std::int64_t>(axis)}});
  a.absent.insert(a.absent.begin() + static_cast<std::ptrdiff_t>(axis), false);
  Shape wide = shape_of(a);
  const std::int64_t count = type(a).count();
  for (const Shape& other : shapes_)
    if (wide[axis] == 1) wide[axis] = one_of(other);
  keep(count * wide[axis] <= 1024 && chance(80) ? broadcast(a, wide) : a);
}

inline void RandomProgram::grow_reshape() {
  Known a = any_tile();
  const auto padded = [](std::int64_t e) {
    return !std::has_single_bit(static_cast<std::uint64_t>(e));
  };
  const bool is_ragged = !a.is_present();
  if (!features_.reshape && (is_ragged || std::ranges::any_of(shape_of(a), padded))) return;
  const std::int64_t count = type(a).count();
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= count; ++d)
    if (count % d == 0 && d <= 300 && count / d <= 300) divisors.push_back(d);
  Shape s{count};
  if (count > 300 || chance(70)) {
    if (divisors.empty()) return;
    const std::int64_t d = one_of(divisors);
    s = {d, count / d};
  }
  a.v = b_.op(ir::Opcode::Reshape, {a.v}, tile(type(a).dtype(), s));
  a.absent.assign(s.size(), is_ragged);
  keep(a);
}

/// Ends before the tile, in it and after it.
inline void RandomProgram::grow_crop() {
  Known a = any_tile();
  const std::int64_t axis = below(type(a).rank());
  const std::int64_t first = between(0, 9),
                     end = first + between(-1, type(a).shape()[static_cast<std::size_t>(axis)] + 1);
  a.v =
      b_.op(ir::Opcode::Crop,
            {a.v, b_.i32(static_cast<std::int32_t>(first)), b_.i32(static_cast<std::int32_t>(end))},
            type(a), {{ir::AttrName::axis, axis}});
  a.absent[static_cast<std::size_t>(axis)] = true;
  keep(a);
}

// ---- folds --------------------------------------------------------------------------------------
inline void RandomProgram::grow_reduce() {
  Known a = any_tile();
  const DType d = type(a).dtype();
  if (d == DType::i1) return grow_reduce_flags();
  const std::int64_t axis = below(type(a).rank());
  const auto n = static_cast<double>(type(a).shape()[static_cast<std::size_t>(axis)]);
  const char* kind = is_float(d) ? one_of({"sum", "sum", "max", "min", "prod"})
                                 : one_of({"sum", "max", "min", "prod", "and", "or", "xor"});
  const bool sums = std::string_view(kind) == "sum", multiplies = std::string_view(kind) == "prod";
  if (is_float(d) && multiplies)
    a = clamp(
        whole(a.error == 0 ? a : get(d, shape_of(a), [](const Known& k) { return k.error == 0; })),
        1);
  if (is_float(d) && sums) a = clamp(a, std::floor(0x1p23 / n));
  Known k = a;
  k.v = b_.op(ir::Opcode::Reduce, {a.v}, {{ir::AttrName::axis, axis}, {ir::AttrName::kind, kind}});
  k.absent.erase(k.absent.begin() + axis);
  k.absent_as_a_whole = false;
  if (sums) k.magnitude = n * a.magnitude;
  if (is_float(d) && sums && (!a.whole || a.error > 0))
    k.error = n * a.error + n * n * a.magnitude * 0x1p-23 +
              (d == DType::bf16 ? n * a.magnitude * 0x1p-8 : 0);
  if (!is_float(d)) k.magnitude = 0x1p31;
  // The fold of nothing is the identity, which is infinite for an extreme.
  if (is_float(d) && !sums && !multiplies && !a.is_present()) {
    // Whole, so that identities become whole numbers too.
    k.magnitude = std::ceil(a.magnitude);
    k.v = b_.op(ir::Opcode::Max, {b_.op(ir::Opcode::Min, {k.v, constant(d, {}, k.magnitude).v}),
                                  constant(d, {}, -k.magnitude).v});
  }
  keep(k);
}

inline void RandomProgram::grow_reduce_flags() {
  const Known a = get(DType::i1, shape_of(any_tile()));
  const std::int64_t axis = below(type(a).rank());
  Known k = a;
  k.v = b_.op(ir::Opcode::Reduce, {a.v},
              {{ir::AttrName::axis, axis}, {ir::AttrName::kind, one_of({"and", "or", "xor"})}});
  if (!k.absent.empty()) k.absent.erase(k.absent.begin() + axis);
  k.absent_as_a_whole = false;
  keep(k);
}

inline void RandomProgram::grow_scan() {
  Known a = any_tile();
  const DType d = type(a).dtype();
  if (d == DType::i1) return;
  const std::int64_t axis = below(type(a).rank());
  const auto n = static_cast<double>(type(a).shape()[static_cast<std::size_t>(axis)]);
  const char* kind = one_of({"sum", "sum", "max", "min", "prod"});
  if (is_float(d) && a.error > 0) return;
  const bool sums = std::string_view(kind) == "sum", multiplies = std::string_view(kind) == "prod";
  if (is_float(d) && multiplies) a = clamp(whole(a), 1);
  if (is_float(d) && sums) a = clamp(whole(a), std::floor(0x1p23 / n));
  const bool exclusive = chance(30);
  Known k = a;
  k.v = b_.op(ir::Opcode::Scan, {a.v},
              {{ir::AttrName::axis, axis},
               {ir::AttrName::kind, kind},
               {ir::AttrName::reverse, chance(30)},
               {ir::AttrName::exclusive, exclusive}});
  k.magnitude = !is_float(d) ? 0x1p31 : sums ? n * a.magnitude : a.magnitude;
  if (is_float(d) && !sums && !multiplies) {
    k.magnitude = std::ceil(a.magnitude);
    k.v = b_.op(ir::Opcode::Max, {b_.op(ir::Opcode::Min, {k.v, constant(d, {}, k.magnitude).v}),
                                  constant(d, {}, -k.magnitude).v});
  }
  keep(k);
}

inline void RandomProgram::grow_arg_reduce() {
  const Known a = any_tile();
  const DType d = type(a).dtype();
  if (d == DType::i1 || a.error > 0) return;
  const std::int64_t axis = below(type(a).rank());
  const bool of_nothing = a.absent_as_a_whole || a.absent[static_cast<std::size_t>(axis)];
  if (of_nothing && !features_.folds) return;
  const std::array operands{a.v};
  const ir::OpId op = b_.create(
      ir::Opcode::ArgReduce, operands,
      ir::attr_list({{ir::AttrName::axis, axis}, {ir::AttrName::kind, one_of({"max", "min"})}}));
  Known value = a;
  value.absent.erase(value.absent.begin() + axis);
  Known at = value;
  value.v = kernel[op].results[0], at.v = kernel[op].results[1];
  at.magnitude = 300;
  at.whole = true;
  value.absent_as_a_whole = at.absent_as_a_whole = false;
  // The value of nothing is infinite.
  if (of_nothing && is_float(d)) {
    value.magnitude = std::ceil(value.magnitude);
    value.v = b_.op(ir::Opcode::Max,
                    {b_.op(ir::Opcode::Min, {value.v, constant(d, {}, value.magnitude).v}),
                     constant(d, {}, -value.magnitude).v});
  }
  keep(value);
  keep(at);
}

/// Fills the second operand of a dot if the loads of both begin together along the contraction and
/// end apart, which is a fault of the program.
inline Known RandomProgram::contracted(const Known& a, Known b) {
  const auto rank = static_cast<std::size_t>(type(a).rank());
  ir::TilePresence presence(kernel);
  const ir::PresentLines left = presence.of(a.v), right = presence.of(b.v);
  if (!left.is_known || !right.is_known) return b;
  const auto end_of = [&](const ir::LoadedInterval& i) -> std::optional<std::int64_t> {
    const auto param = std::ranges::find(kernel.params(), i.view, &ir::Param::value);
    if (param == kernel.params().end()) return std::nullopt;
    const auto& dims = args[static_cast<std::size_t>(param->attrs.i(ir::AttrName::arg))].dims;
    const std::int64_t end = dims[static_cast<std::size_t>(i.axis)];
    const auto first = ir::constant_value(kernel, i.offset);
    return first ? std::min(end, *first + type(a).shape()[rank - 1]) : end;
  };
  for (const ir::LoadedInterval& x : left.dims[rank - 1].all)
    for (const ir::LoadedInterval& y : right.dims[rank - 2].all) {
      if (!ir::is_same(kernel, x.offset, y.offset) || (end_of(x) && end_of(x) == end_of(y)))
        continue;
      b.v = b_.op(ir::Opcode::FillAbsent, {b.v, constant(type(b).dtype(), {}, 3).v}, type(b));
      b.magnitude = std::max(b.magnitude, 3.0);
      b.absent.assign(rank, false);
      b.absent_as_a_whole = false;
      return b;
    }
  return b;
}

inline void RandomProgram::grow_dot() {
  const bool tensor = chance(60);
  static const std::vector<std::int64_t> kRows{16, 32, 48, 64}, kCols{8, 16, 24, 32, 40},
      kDepth{16, 32};
  const std::int64_t m = tensor ? one_of(kRows) : between(1, 24),
                     n = tensor ? one_of(kCols) : between(1, 24),
                     k = tensor ? one_of(kDepth) : between(1, 20);
  const DType d = chance(tensor ? 85 : 40) ? DType::bf16 : DType::f32;
  const auto plain = [](const Known& v) { return v.error == 0 && v.whole; };
  const Known a = clamp(get(d, {m, k}, plain), 16),
              b = contracted(a, clamp(get(d, {k, n}, plain), 16));
  const Known acc =
      chance(60) ? constant(DType::f32, {m, n}, 0) : clamp(get(DType::f32, {m, n}, plain), 4096);
  Known r{b_.op(ir::Opcode::Dot, {a.v, b.v, acc.v}), acc.magnitude + static_cast<double>(k) * 256};
  r.absent = acc.absent;
  r.absent_as_a_whole = acc.absent_as_a_whole;
  r.absent.resize(2);
  r.absent[0] = r.absent[0] || (a.absent.size() == 2 && a.absent[0]);
  r.absent[1] = r.absent[1] || (b.absent.size() == 2 && b.absent[1]);
  shapes_.push_back({m, n});
  keep(r);
}

inline void RandomProgram::grow_leaf() {
  keep(leaf(number(), chance(70) ? one_of(shapes_) : shape()));
}

// ---- control ------------------------------------------------------------------------------------
inline Known RandomProgram::settled(DType d, const Shape& s) {
  const Known k = get(d, s, [this](const Known& v) {
    return v.error == 0 && (features_.carries || v.is_present());
  });
  return is_float(d) ? clamp(whole(k), kCarry) : k;
}

/// A carry, or what a branch has given.
inline Known RandomProgram::carried(ir::Value v) const {
  const ir::Type t = kernel.type(v);
  Known k{.v = v, .magnitude = is_float(t.dtype()) ? kCarry : 0x1p31};
  if (!features_.carries || !t.is_tile()) return k;
  k.absent.assign(static_cast<std::size_t>(t.rank()), true);
  k.absent_as_a_whole = true;
  return k;
}

inline void RandomProgram::grow_for() {
  if (depth_ >= 3 || executions_ > 12) return;
  const std::int64_t trips = between(0, depth_ == 0 ? 4 : 2), step = between(1, 3),
                     low = between(0, 3);
  std::vector<ir::Value> inits;
  std::vector<ir::Type> types;
  const std::int64_t carries = between(0, 3);
  for (std::int64_t i = 0; i < carries; ++i) {
    const Known k = settled(number(), chance(85) ? one_of(shapes_) : Shape{});
    inits.push_back(k.v);
    types.push_back(type(k));
  }
  const std::int64_t high = trips == 0 ? low : low + (trips - 1) * step + 1;
  const ir::OpId loop = b_.make_for(b_.i32(low), b_.i32(high), b_.i32(step), inits);
  const ir::RegionId outer = b_.region(), body = kernel[loop].regions[0];
  const std::vector<Known> saved = scope_;
  const std::int64_t executions = executions_;
  executions_ *= std::max<std::int64_t>(1, trips);
  ++depth_;
  b_.at_end(body);
  loop_indices_.push_back(kernel[body].args[0]);
  for (std::size_t i = 0; i < inits.size(); ++i) keep(carried(kernel[body].args[i + 1]));
  grow_some(between(1, 5));
  if (chance(35)) grow_store();
  std::vector<ir::Value> next;
  for (ir::Type t : types)
    next.push_back(settled(t.dtype(), {t.shape().begin(), t.shape().end()}).v);
  b_.yield(next);
  b_.at_end(outer);
  loop_indices_.pop_back();
  --depth_;
  executions_ = executions;
  scope_ = saved;
  for (ir::Value v : kernel[loop].results) keep(carried(v));
}

/// Counts to a small bound, carrying a tile.
inline void RandomProgram::grow_while() {
  if (depth_ >= 2 || executions_ > 6) return;
  const Known init = settled(number(), one_of(shapes_));
  const std::vector<ir::Value> inits{b_.i32(0), init.v};
  const std::vector<ir::Type> types{ir::Type::scalar(DType::i32), type(init)};
  const std::int64_t trips = between(0, 3);
  const ir::OpId loop = b_.create(ir::Opcode::While, inits, types);
  const ir::RegionId outer = b_.region(), test = kernel.add_region(loop),
                     body = kernel.add_region(loop);
  for (ir::RegionId r : {test, body})
    for (ir::Type t : types) kernel.add_arg(r, t);
  b_.at_end(test);
  const std::array more{b_.cmp("lt", kernel[test].args[0], b_.i32(trips))};
  b_.yield(more);
  const std::vector<Known> saved = scope_;
  const std::int64_t executions = executions_;
  executions_ *= std::max<std::int64_t>(1, trips);
  ++depth_;
  b_.at_end(body);
  keep(carried(kernel[body].args[1]));
  grow_some(between(1, 4));
  const std::array next{
      b_.add(kernel[body].args[0], b_.i32(1)),
      settled(types[1].dtype(), {types[1].shape().begin(), types[1].shape().end()}).v};
  b_.yield(next);
  b_.at_end(outer);
  --depth_;
  executions_ = executions;
  scope_ = saved;
  keep(carried(kernel[loop].results[1]));
}

/// A condition must be there: an absent one is a finding of cpu and sim.
inline ir::Value RandomProgram::scalar_condition() {
  const Known a =
      get(DType::i32, {}, [](const Known& k) { return k.error == 0 && k.is_present(); });
  return b_.cmp(one_of({"lt", "ge", "eq", "ne"}),
                chance(50) ? b_.op(ir::Opcode::And, {a.v, b_.i32(1)}) : a.v, b_.i32(between(0, 2)));
}

inline void RandomProgram::grow_if() {
  if (depth_ >= 3) return;
  std::vector<ir::Type> types;
  const std::int64_t results = between(0, 2);
  for (std::int64_t i = 0; i < results; ++i)
    types.push_back(tile(number(), chance(85) ? one_of(shapes_) : Shape{}));
  const ir::OpId branch = b_.make_if(scalar_condition(), types);
  const ir::RegionId outer = b_.region();
  for (ir::RegionId r :
       std::vector<ir::RegionId>(kernel[branch].regions.begin(), kernel[branch].regions.end())) {
    const std::vector<Known> saved = scope_;
    ++depth_;
    b_.at_end(r);
    grow_some(between(0, 3));
    if (chance(25)) grow_store();
    std::vector<ir::Value> out;
    for (ir::Type t : types)
      out.push_back(settled(t.dtype(), {t.shape().begin(), t.shape().end()}).v);
    b_.yield(out);
    --depth_;
    scope_ = saved;
  }
  b_.at_end(outer);
  for (ir::Value v : kernel[branch].results) keep(carried(v));
}

// ---- stores -------------------------------------------------------------------------------------
/// Row `row` (none: the box of this program) of a separate view.
inline void RandomProgram::store(const Known& value, ir::Value row) {
  Known k = value;
  if (type(k).dtype() == DType::i1) k = cast(k, DType::i32);
  const DType d = type(k).dtype();
  if (type(k).is_scalar()) k.v = b_.op(ir::Opcode::Splat, {k.v}, tile(d, {1}));
  const Shape s = shape_of(k);
  Shape dims;
  ir::Ints axes;
  std::vector<ir::Value> offsets;
  if (row) dims = {programs_, 16}, offsets = {program_, row};
  for (std::size_t i = 0; i < s.size(); ++i) {
    const bool split = !row && i == 0;
    axes.push_back(static_cast<std::int64_t>(dims.size()));
    const std::int64_t full = split ? s[i] * programs_ : s[i];
    dims.push_back(chance(40) ? full : between(std::max<std::int64_t>(1, full - 9), full + 3));
    offsets.push_back(split ? b_.mul(program_, b_.i32(s[i])) : b_.i32(0));
  }
  const bool combines = d == DType::i32 && chance(30);
  const auto arg =
      static_cast<std::size_t>(add_view(d, dims, combines ? ir::Access::InOut : ir::Access::Out));
  args[arg].tolerance = k.error;
  std::vector<ir::Value> operands{kernel.params()[arg].value, k.v};
  operands.insert(operands.end(), offsets.begin(), offsets.end());
  if (!combines) {
    b_.effect(ir::Opcode::StoreView, operands, {{ir::AttrName::axes, axes}});
    return;
  }
  const ir::Value old =
      b_.op(ir::Opcode::AtomicView, operands, type(k),
            {{ir::AttrName::axes, axes}, {ir::AttrName::kind, one_of({"add", "max", "min"})}});
  if (!row && args.size() < 12 && chance(50))
    store({.v = old, .magnitude = 0x1p31, .absent = std::vector<bool>(s.size(), true)}, {});
}

inline void RandomProgram::grow_store() {
  if (args.size() > 11) return;
  store(any_tile(), loop_indices_.empty() ? b_.i32(3) : loop_indices_.back());
}

}  // namespace tegula::fuzz
