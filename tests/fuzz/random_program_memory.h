#pragma once
// Random programs, continued: memory that a program writes and reads again, folds by functions, and
// the filling of absent elements. Each program has a row of each memory to itself, so that nothing
// but the program's own order decides what is read.
#include "ir/made_view.h"
#include "tests/fuzz/random_program_parts.h"

namespace tegula::fuzz {

// ---- memory -------------------------------------------------------------------------------------
inline RandomProgram::Memory& RandomProgram::memory() {
  if (!memories_.empty() && (memories_.size() > 1 || args.size() > 9 || chance(80)))
    return memories_[static_cast<std::size_t>(below(std::ssize(memories_)))];
  static const std::vector<std::int64_t> kLengths{8, 16, 32, 33, 64, 100, 128, 256, 300, 512};
  static const std::vector<std::int64_t> kRows{4, 8, 16, 17, 32};
  const DType d = chance(65) ? DType::i32 : DType::f32;
  const Shape dims = chance(65) ? Shape{one_of(kLengths)} : Shape{one_of(kRows), one_of(kRows)};
  Shape all{programs_};
  all.insert(all.end(), dims.begin(), dims.end());
  const std::int64_t arg = add_view(d, all, ir::Access::InOut);
  memories_.push_back({kernel.params()[static_cast<std::size_t>(arg)].value, d, dims});
  return memories_.back();
}

/// A box of this program's row: its shape, the offsets, and whether all of it is inside.
inline RandomProgram::Box RandomProgram::box_of(const Memory& m) {
  Box box{{}, {program_}, true};
  for (const std::int64_t dim : m.dims) {
    const std::int64_t way = below(10);
    const std::int64_t extent = way < 4 ? dim : way < 9 ? between(1, dim) : dim + between(1, 4);
    std::int64_t at = chance(50) ? 0 : between(0, std::max<std::int64_t>(0, dim - extent));
    if (chance(6)) at = chance(50) ? at - 1 : at + 2;
    const bool moves = !loop_indices_.empty() && chance(35);
    box.is_inside = box.is_inside && !moves && at >= 0 && at + extent <= dim;
    box.shape.push_back(extent);
    box.offsets.push_back(moves ? b_.add(loop_indices_.back(), b_.i32(at)) : b_.i32(at));
  }
  return box;
}

inline ir::Ints RandomProgram::axes_of(const Box& box) {
  ir::Ints axes;
  for (std::size_t i = 0; i < box.shape.size(); ++i)
    axes.push_back(static_cast<std::int64_t>(i) + 1);
  return axes;
}

/// The value stored: the same on all devices, and small enough for what is computed of it.
inline Known RandomProgram::stored(DType d, const Shape& s) {
  const Known k = get(d, s, [](const Known& v) { return v.error == 0; });
  return is_float(d) ? clamp(k, kCarry) : k;
}

inline Known RandomProgram::remembered(const Memory& m, ir::Value v, bool is_inside) const {
  const bool is_f = is_float(m.dtype);
  Known k{.v = v, .magnitude = is_f ? kCarry : 0x1p31, .whole = !is_f};
  if (kernel.type(v).is_tile())
    k.absent.assign(static_cast<std::size_t>(kernel.type(v).rank()), !is_inside);
  return k;
}

inline void RandomProgram::grow_memory() {
  if (!features_.memory || (memories_.empty() && args.size() > 9)) return grow_leaf();
  const Memory m = memory();
  const std::int64_t way = below(12);
  if (way < 4) return write_box(m);
  if (way < 7) return read_box(m);
  if (way == 7) return touch_element(m);
  if (way == 8) return combine_box(m);
  way < 11 ? use_pointers(m) : combine_pointers(m);
}

/// The parameter, or a view that the program makes of the same elements.
inline ir::Value RandomProgram::view_of(const Memory& m) {
  if (!chance(20)) return m.view;
  std::vector<ir::Value> operands{b_.op(ir::Opcode::ViewPtr, {m.view})};
  for (const ir::Opcode part : {ir::Opcode::ViewDim, ir::Opcode::ViewStride})
    for (int axis = 0; axis < kernel.type(m.view).rank(); ++axis)
      operands.push_back(
          b_.op(part, {m.view}, ir::Type::scalar(DType::i32), {{ir::AttrName::axis, axis}}));
  return b_.op(ir::Opcode::MakeView, operands, ir::made_view_type(kernel, operands, 0));
}

inline void RandomProgram::write_box(const Memory& m) {
  const Box box = box_of(m);
  std::vector<ir::Value> operands{view_of(m), stored(m.dtype, box.shape).v};
  operands.insert(operands.end(), box.offsets.begin(), box.offsets.end());
  b_.effect(ir::Opcode::StoreView, operands, {{ir::AttrName::axes, axes_of(box)}});
}

inline void RandomProgram::read_box(const Memory& m) {
  const Box box = box_of(m);
  std::vector<ir::Value> operands{view_of(m)};
  operands.insert(operands.end(), box.offsets.begin(), box.offsets.end());
  keep(remembered(m,
                  b_.op(ir::Opcode::LoadView, operands, tile(m.dtype, box.shape),
                        {{ir::AttrName::axes, axes_of(box)}}),
                  box.is_inside));
}

/// One element, by an index that every thread has: read, or written.
inline void RandomProgram::touch_element(const Memory& m) {
  std::vector<ir::Value> at{program_};
  for (const std::int64_t dim : m.dims) at.push_back(b_.i32(below(dim)));
  std::vector<ir::Value> operands{m.view};
  const bool writes = chance(40);
  if (writes) operands.push_back(stored(m.dtype, {}).v);
  operands.insert(operands.end(), at.begin(), at.end());
  if (writes)
    return void(b_.effect(ir::Opcode::StoreView, operands, {{ir::AttrName::axes, ir::Ints{}}}));
  keep(remembered(m,
                  b_.op(ir::Opcode::LoadView, operands, ir::Type::scalar(m.dtype),
                        {{ir::AttrName::axes, ir::Ints{}}}),
                  true));
}

inline void RandomProgram::combine_box(const Memory& m) {
  if (m.dtype != DType::i32) return read_box(m);
  const Box box = box_of(m);
  std::vector<ir::Value> operands{m.view, stored(m.dtype, box.shape).v};
  operands.insert(operands.end(), box.offsets.begin(), box.offsets.end());
  const ir::Value old = b_.op(
      ir::Opcode::AtomicView, operands, tile(m.dtype, box.shape),
      {{ir::AttrName::axes, axes_of(box)}, {ir::AttrName::kind, one_of({"add", "max", "min"})}});
  if (chance(60)) keep(remembered(m, old, box.is_inside));
}

/// Pointers to elements of a memory of one dimension, no two to one element.
inline RandomProgram::Pointers RandomProgram::pointers_to(const Memory& m) {
  std::int64_t n = between(1, m.dims[0]);
  if (chance(60))
    n = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(m.dims[0])));
  const ir::Value count =
      b_.op(ir::Opcode::Arange, {}, tile(DType::i32, {n}), {{ir::AttrName::start, 0}});
  ir::Value index = b_.sub(b_.i32(n - 1), count);
  if (std::has_single_bit(static_cast<std::uint64_t>(n)) && chance(50))
    index = b_.op(ir::Opcode::And,
                  {b_.add(b_.mul(count, b_.i32(2 * between(0, 9) + 1)), b_.i32(between(0, 9))),
                   b_.i32(n - 1)});
  if (chance(25)) index = count;
  const auto stride = [&](int axis) {
    return b_.op(ir::Opcode::ViewStride, {m.view}, ir::Type::scalar(DType::i32),
                 {{ir::AttrName::axis, axis}});
  };
  const ir::Value row = b_.op(ir::Opcode::AddPtr,
                              {b_.op(ir::Opcode::ViewPtr, {m.view}), b_.mul(program_, stride(0))});
  return {b_.op(ir::Opcode::AddPtr, {row, b_.mul(index, stride(1))}), {n}};
}

/// Neighbours from a multiple of some bytes on, and the promise of that; nothing where the
/// program's row does not begin at one.
inline ir::AttrList RandomProgram::promise(const Memory& m, Pointers& p) {
  const auto is_view = [&](const ir::Param& param) { return param.value == m.view; };
  const auto& param = *std::ranges::find_if(kernel.params(), is_view);
  const Argument& a = args[static_cast<std::size_t>(param.attrs.i(ir::AttrName::arg))];
  const std::int64_t align = chance(70) ? 16 : 8;
  if (a.strides[1] != 1 || a.strides[0] * size_bytes(m.dtype) % align != 0) return {};
  const ir::Value stride = b_.op(ir::Opcode::ViewStride, {m.view}, ir::Type::scalar(DType::i32),
                                 {{ir::AttrName::axis, 0}});
  const ir::Value row =
      b_.op(ir::Opcode::AddPtr, {b_.op(ir::Opcode::ViewPtr, {m.view}), b_.mul(program_, stride)});
  p.v = b_.op(ir::Opcode::AddPtr, {row, b_.op(ir::Opcode::Arange, {}, tile(DType::i32, p.shape),
                                              {{ir::AttrName::start, 0}})});
  return ir::attr_list({{ir::AttrName::align, align}, {ir::AttrName::axis, 0}});
}

inline void RandomProgram::use_pointers(const Memory& m) {
  if (m.dims.size() != 1) return write_box(m);
  Pointers p = pointers_to(m);
  const ir::AttrList attrs = features_.promises && chance(40) ? promise(m, p) : ir::AttrList();
  const auto present = [](const Known& k) { return k.is_present(); };
  std::vector<ir::Value> operands{p.v};
  const bool writes = chance(50), is_masked = chance(40);
  if (writes) {
    Known k = get(m.dtype, p.shape, [](const Known& v) { return v.error == 0 && v.is_present(); });
    operands.push_back((is_float(m.dtype) ? clamp(k, kCarry) : k).v);
  }
  if (is_masked) operands.push_back(get(DType::i1, p.shape, present).v);
  if (writes)
    return void(b_.create(ir::Opcode::Store, operands, std::span<const ir::Type>(), attrs));
  if (is_masked) operands.push_back(constant(m.dtype, {}, 5).v);
  keep(remembered(m, kernel[b_.create(ir::Opcode::Load, operands, attrs)].results[0], true));
}

inline void RandomProgram::combine_pointers(const Memory& m) {
  if (m.dims.size() != 1 || m.dtype != DType::i32) return read_box(m);
  const Pointers p = pointers_to(m);
  const auto present = [](const Known& k) { return k.is_present(); };
  const auto value = [&] { return get(m.dtype, p.shape, present).v; };
  const std::int64_t way = below(10);
  if (way < 2) return hand_over(p.v, value());
  const ir::Value old =
      way < 4   ? b_.op(ir::Opcode::AtomicLoad, {p.v},
                        {{ir::AttrName::sem, one_of({"relaxed", "acquire"})},
                         {ir::AttrName::scope, "gpu"}})
      : way < 6 ? b_.op(ir::Opcode::AtomicCas, {p.v, value(), value()},
                        {{ir::AttrName::sem, "relaxed"}, {ir::AttrName::scope, "gpu"}})
                : b_.op(ir::Opcode::AtomicRmw, {p.v, value()},
                        {{ir::AttrName::kind, one_of({"add", "max", "min", "and", "or", "xor"})}});
  if (chance(60)) keep(remembered(m, old, true));
}

/// Stores, and at times an element that the program waits for afterwards: it is there.
inline void RandomProgram::hand_over(ir::Value pointers, ir::Value values) {
  b_.effect(ir::Opcode::AtomicStore, {pointers, values},
            {{ir::AttrName::sem, one_of({"relaxed", "release"})}, {ir::AttrName::scope, "gpu"}});
  if (!chance(40) || memories_.empty()) return;
  const Memory& m = memories_[static_cast<std::size_t>(below(std::ssize(memories_)))];
  if (m.dims.size() != 1 || m.dtype != DType::i32) return;
  const auto stride = [&](int axis) {
    return b_.op(ir::Opcode::ViewStride, {m.view}, ir::Type::scalar(DType::i32),
                 {{ir::AttrName::axis, axis}});
  };
  const ir::Value at =
      b_.add(b_.mul(program_, stride(0)), b_.mul(b_.i32(below(m.dims[0])), stride(1)));
  const ir::Value word = b_.op(ir::Opcode::AddPtr, {b_.op(ir::Opcode::ViewPtr, {m.view}), at});
  const ir::Value wanted = b_.i32(between(-9, 9));
  b_.effect(ir::Opcode::AtomicStore, {word, wanted},
            {{ir::AttrName::sem, "release"}, {ir::AttrName::scope, "gpu"}});
  b_.effect(ir::Opcode::WaitUntil, {word, wanted},
            {{ir::AttrName::kind, one_of({"eq", "ge"})}, {ir::AttrName::scope, "gpu"}});
}

// ---- folds by functions, absent elements --------------------------------------------------------
/// Functions of pairs whose folds do not depend on their order.
inline void RandomProgram::grow_reduce_with() {
  const Known any = any_tile();
  const Shape s = shape_of(any);
  const std::int64_t axis = below(std::ssize(s));
  const auto fits = [&](const Known& k) {
    return k.error == 0 && (features_.folds || k.is_present());
  };
  const bool is_float_fold = chance(30), is_pair = !is_float_fold && chance(50);
  std::vector<Known> from{get(is_float_fold ? DType::f32 : DType::i32, s, fits)};
  if (is_pair) from.push_back(index(DType::i32, s));
  std::vector<ir::Value> operands;
  for (const Known& k : from) operands.push_back(k.v);
  const ir::OpId op =
      b_.create(ir::Opcode::ReduceWith, operands, ir::attr_list({{ir::AttrName::axis, axis}}));
  const ir::RegionId outer = b_.region(), body = kernel.add_region(op);
  std::vector<ir::Value> left, right;
  for (const Known& k : from)
    left.push_back(kernel.add_arg(body, ir::Type::scalar(type(k).dtype())));
  for (const Known& k : from)
    right.push_back(kernel.add_arg(body, ir::Type::scalar(type(k).dtype())));
  b_.at_end(body);
  b_.yield(folded(left, right));
  b_.at_end(outer);
  for (std::size_t i = 0; i < from.size(); ++i) {
    Known k = join(kernel[op].results[i], {&from[0], &from.back()});
    k.absent = from[0].absent;
    k.absent.resize(s.size());
    k.absent.erase(k.absent.begin() + axis);
    // The fold of nothing is absent.
    const bool nothing = !from[0].is_present();
    if (nothing) k.absent.assign(k.absent.size(), true), k.absent_as_a_whole = true;
    k.magnitude = is_float_fold ? from[0].magnitude : 0x1p31;
    keep(k);
  }
}

inline std::vector<ir::Value> RandomProgram::folded(const std::vector<ir::Value>& left,
                                                    const std::vector<ir::Value>& right) {
  using enum ir::Opcode;
  if (left.size() == 2) {  // the largest or smallest, and where it is first
    const ir::Value better = b_.cmp(one_of({"gt", "lt"}), left[0], right[0]),
                    same = b_.cmp("eq", left[0], right[0]),
                    earlier = b_.cmp("lt", left[1], right[1]);
    const ir::Value takes = b_.op(Or, {better, b_.op(And, {same, earlier})});
    return {b_.select(takes, left[0], right[0]), b_.select(takes, left[1], right[1])};
  }
  if (is_float(kernel.type(left[0]).dtype()))
    return {b_.select(b_.cmp(one_of({"gt", "le"}), left[0], right[0]), left[0], right[0])};
  if (chance(30))  // the one of smaller magnitude, the positive one of two
    return {b_.select(b_.cmp("lt", left[0], right[0]), left[0], right[0])};
  return {b_.op(one_of({Add, Mul, Min, Max, And, Or, Xor}), {left[0], right[0]})};
}

inline void RandomProgram::grow_fill() {
  Known a = any_tile();
  const DType d = type(a).dtype();
  if (d == DType::i1) return;
  const double fill = static_cast<double>(between(-9, 9));
  a.v = b_.op(ir::Opcode::FillAbsent, {a.v, constant(d, {}, fill).v}, type(a));
  a.magnitude = std::max(a.magnitude, std::abs(fill));
  a.absent.assign(a.absent.size(), false);
  a.absent_as_a_whole = false;
  keep(a);
}

// ---- the whole ----------------------------------------------------------------------------------
inline const std::vector<RandomProgram::Growth>& RandomProgram::growths() {
  using R = RandomProgram;
  static const std::vector<Growth> kList{{6, &R::grow_unary},
                                         {14, &R::grow_binary},
                                         {4, &R::grow_division},
                                         {3, &R::grow_fma},
                                         {5, &R::grow_cmp},
                                         {2, &R::grow_logic},
                                         {5, &R::grow_select},
                                         {5, &R::grow_cast},
                                         {4, &R::grow_math},
                                         {9, &R::grow_shape},
                                         {3, &R::grow_reshape},
                                         {3, &R::grow_crop},
                                         {9, &R::grow_reduce},
                                         {2, &R::grow_reduce_flags},
                                         {4, &R::grow_scan},
                                         {4, &R::grow_arg_reduce},
                                         {4, &R::grow_dot},
                                         {5, &R::grow_leaf},
                                         {7, &R::grow_for},
                                         {2, &R::grow_while},
                                         {4, &R::grow_if},
                                         {3, &R::grow_reduce_with},
                                         {2, &R::grow_fill},
                                         {4, &R::grow_scan_with},
                                         {4, &R::grow_sort},
                                         {2, &R::grow_key_ranks},
                                         {3, &R::grow_slice},
                                         {3, &R::grow_concat},
                                         {4, &R::grow_gather},
                                         {4, &R::grow_scatter},
                                         {2, &R::grow_batched_dot},
                                         {18, &R::grow_memory, &Features::memory},
                                         {3, &R::grow_cluster, &Features::clusters}};
  return kList;
}

/// Without its feature, a step is another one.
inline void RandomProgram::grow_some(std::int64_t steps) {
  const auto is_drawn = [&](const Growth& g) { return !g.needs || features_.*g.needs; };
  int total = 0;
  for (const Growth& g : growths()) total += is_drawn(g) ? g.weight : 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    std::int64_t at = below(total);
    for (const Growth& g : growths()) {
      if (!is_drawn(g)) continue;
      at -= g.weight;
      if (at >= 0) continue;
      (this->*g.grow)();
      break;
    }
  }
}

inline RandomProgram::RandomProgram(std::uint64_t seed, Features features)
    : features_(features), random_(seed), b_(kernel) {
  if (features_.clusters && chance(15)) kernel.info.cluster = chance(60) ? 2 : 4;
  programs_ = kernel.info.cluster == 1 ? between(1, 3) : kernel.info.cluster * between(1, 2);
  ir::Builder launch(kernel, kernel.launch());
  const std::array grid{launch.i32(programs_), launch.i32(1), launch.i32(1)};
  launch.yield(grid);
  program_ =
      b_.op(ir::Opcode::ProgramId, {}, ir::Type::scalar(DType::i32), {{ir::AttrName::axis, 0}});
  shapes_ = {shape()};
  if (chance(40)) shapes_.push_back(shape());
  keep(leaf(number(), shapes_[0]));
  grow_some(between(3, 14));
  const std::size_t stored = scope_.size();
  store(scope_.back(), {});
  if (stored > 2) store(scope_[stored - 2], {});
  if (stored > 4 && chance(50)) store(one_of(scope_), {});
}

}  // namespace tegula::fuzz
