#pragma once
// Random programs in tile form, with arguments. What a program computes is known well enough to
// compare exactly: every value carries a bound of its magnitude, whether it is a whole number, and
// how far two correct executions of it may differ.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "tests/fuzz/random_features.h"
#include "tests/fuzz/run_program.h"

namespace tegula::fuzz {

/// A value in scope and what is known about it.
struct Known {
  ir::Value v;
  double magnitude = 0;
  double error = 0;   ///< by which two correct executions may differ
  bool whole = true;  ///< an integer, whatever its type
  /// Per dimension: elements may be absent.
  std::vector<bool> absent{};
  bool absent_as_a_whole = false;

  bool is_present() const {
    return !absent_as_a_whole && std::ranges::find(absent, true) == absent.end();
  }
};

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed, Features features = features_from_env());

  ir::Kernel kernel{"random"};
  Arguments args;

 private:
  using Shape = ir::Ints;
  using Grow = void (RandomProgram::*)();
  struct Growth {
    int weight;
    Grow grow;
    bool Features::* needs = nullptr;
  };
  static constexpr double kCarry = 1000;  ///< bound of every float a loop carries

  // ---- chance
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))];
  }
  ir::Opcode one_of(std::initializer_list<ir::Opcode> list) {
    return list.begin()[below(static_cast<std::int64_t>(list.size()))];
  }
  const char* one_of(std::initializer_list<const char*> list) {
    return list.begin()[below(static_cast<std::int64_t>(list.size()))];
  }
  std::int64_t extent();
  Shape shape();
  DType number() {
    return std::array{DType::i32, DType::i32, DType::f32, DType::f32,
                      DType::bf16}[static_cast<std::size_t>(below(5))];
  }

  // ---- values
  ir::Type type(const Known& k) const { return kernel.type(k.v); }
  Shape shape_of(const Known& k) const { return {type(k).shape().begin(), type(k).shape().end()}; }
  ir::Type tile(DType d, const Shape& s) const {
    return s.empty() ? ir::Type::scalar(d) : ir::Type::tile({d, false}, s);
  }
  Known& keep(Known k) {
    k.absent.resize(static_cast<std::size_t>(type(k).is_tile() ? type(k).rank() : 0));
    scope_.push_back(std::move(k));
    return scope_.back();
  }
  Known constant(DType d, const Shape& s, double value);
  Known argument(DType d, std::int64_t rank, const Shape& tile_shape);
  Known load(DType d, const Shape& s);
  Known leaf(DType d, const Shape& s);
  Known index(DType d, const Shape& s);
  /// Something of this type: from the scope where there is one, else made.
  Known get(
      DType d, const Shape& s,
      const std::function<bool(const Known&)>& fits = [](const Known&) { return true; });
  Known broadcast(Known k, const Shape& s);
  Known clamp(Known k, double bound);
  Known whole(Known k);
  Known cast(Known k, DType d);
  Known any_tile();
  Known join(ir::Value v, std::initializer_list<const Known*> from) const;
  ir::Value scalar_condition();

  // ---- growth
  void grow_unary();
  void grow_binary();
  void grow_division();
  void grow_fma();
  void grow_cmp();
  void grow_logic();
  void grow_select();
  void grow_cast();
  void grow_math();
  void grow_shape();
  void grow_reshape();
  void grow_crop();
  // Parts of tiles (random_program_parts.h).
  void grow_slice();
  void grow_concat();
  void grow_gather();
  void grow_scatter();
  void grow_batched_dot();
  void grow_cluster();
  Known index_into(const Shape& s, std::size_t axis, std::int64_t extent);
  void grow_reduce();
  void grow_reduce_flags();
  void grow_scan();
  void grow_arg_reduce();
  void grow_scan_with();
  void grow_sort();
  void grow_key_ranks();
  void grow_dot();
  Known contracted(const Known& a, Known b);
  void grow_leaf();
  void grow_for();
  void grow_while();
  void grow_if();
  void grow_store();
  void grow_memory();
  void grow_reduce_with();
  void grow_fill();
  void grow_some(std::int64_t steps);
  static const std::vector<Growth>& growths();

  /// A carry's or branch's value: present, exact, bounded.
  Known settled(DType d, const Shape& s);
  Known carried(ir::Value v) const;

  // ---- memory that is written and read again
  struct Memory {
    ir::Value view;
    DType dtype;
    Shape dims;  ///< after the program's
  };
  struct Box {
    Shape shape;
    std::vector<ir::Value> offsets;
    bool is_inside;
  };
  struct Pointers {
    ir::Value v;
    Shape shape;
  };
  Memory& memory();
  Box box_of(const Memory& m);
  ir::Value view_of(const Memory& m);
  static ir::Ints axes_of(const Box& box);
  Known stored(DType d, const Shape& s);
  Known remembered(const Memory& m, ir::Value v, bool is_inside) const;
  void write_box(const Memory& m);
  void read_box(const Memory& m);
  void touch_element(const Memory& m);
  void combine_box(const Memory& m);
  Pointers pointers_to(const Memory& m);
  ir::AttrList promise(const Memory& m, Pointers& p);
  void use_pointers(const Memory& m);
  void combine_pointers(const Memory& m);
  void hand_over(ir::Value pointers, ir::Value values);
  std::vector<ir::Value> folded(const std::vector<ir::Value>& left,
                                const std::vector<ir::Value>& right);
  void store(const Known& k, ir::Value row);
  std::int64_t add_view(DType d, const Shape& dims, ir::Access access);
  ir::Value offset_for(std::int64_t dim, std::int64_t box);
  ir::Value index_tile(std::int64_t n);

  Features features_;
  std::mt19937_64 random_;
  ir::Builder b_;
  std::vector<Known> scope_;
  std::vector<Memory> memories_;
  std::vector<Shape> shapes_;
  std::vector<ir::Value> loop_indices_;
  ir::Value program_;
  std::int64_t programs_ = 1;
  std::int64_t executions_ = 1;  ///< how often the current region runs
  int depth_ = 0;
};

// ---- chance -------------------------------------------------------------------------------------
inline std::int64_t RandomProgram::extent() {
  static const std::vector<std::int64_t> kTypical{1,  2,   4,   8,   16,  32,  64,  3,   5,
                                                  6,  7,   12,  20,  24,  33,  48,  65,  80,
                                                  96, 100, 127, 128, 129, 200, 255, 256, 300};
  return chance(70) ? one_of(kTypical) : between(1, 300);
}

inline RandomProgram::Shape RandomProgram::shape() {
  const std::int64_t rank =
      std::array<std::int64_t, 6>{1, 1, 2, 2, 2, 3}[static_cast<std::size_t>(below(6))];
  const std::int64_t most = chance(10) ? 4096 : 1024;
  for (;;) {
    Shape s;
    for (std::int64_t i = 0; i < rank; ++i) s.push_back(extent());
    std::int64_t padded = 1;
    for (std::int64_t e : s)
      padded *= static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(e)));
    if (padded <= most) return s;
  }
}

// ---- values -------------------------------------------------------------------------------------
inline Known RandomProgram::constant(DType d, const Shape& s, double value) {
  const ir::Type t = tile(d, s);
  const ir::Value v =
      is_float(d) ? b_.constant(t, value) : b_.constant(t, static_cast<std::int64_t>(value));
  return {v, std::abs(value)};
}

inline std::int64_t RandomProgram::add_view(DType d, const Shape& dims, ir::Access access) {
  Argument a{
      .dtype = d, .is_view = true, .dims = dims, .strides = ir::Ints(dims.size()), .bytes = {}};
  std::vector<std::size_t> by_stride(dims.size());
  std::iota(by_stride.rbegin(), by_stride.rend(), std::size_t{0});
  if (chance(15)) std::ranges::shuffle(by_stride, random_);
  std::int64_t step = 1;
  for (std::size_t i : by_stride) {
    a.strides[i] = step;
    step *= dims[i];
    if (chance(40)) step = (step + 15) / 16 * 16;
  }
  a.bytes.resize(static_cast<std::size_t>(step * size_bytes(d)));
  const std::int64_t bound = d == DType::bf16 ? 8 : 50;
  for (std::int64_t i = 0; i < step; ++i) {
    const std::int64_t n = access == ir::Access::In ? between(-bound, bound) : 77;
    a.put(i, is_float(d) ? ir::Cell{.f = static_cast<double>(n)} : ir::Cell{.i = n});
  }
  ir::ViewFacts facts;
  facts.access = access;
  facts.align = chance(70) ? 16 : size_bytes(d);
  Shape known = dims;
  const bool divisors = chance(70);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool unit = a.strides[i] == 1;
    facts.strides.push_back(chance(unit ? 85 : 20) ? a.strides[i] : ir::kDynamic);
    facts.dim_div.push_back(divisors ? std::gcd(dims[i], std::int64_t{16}) : 1);
    facts.stride_div.push_back(divisors ? std::gcd(a.strides[i], std::int64_t{16}) : 1);
    if (chance(75)) known[i] = ir::kDynamic;
  }
  const auto arg = static_cast<std::int64_t>(args.size());
  kernel.add_param(fmt::format("v{}", arg), ir::Type::view(d, known, facts),
                   ir::attr_list({{ir::AttrName::arg, arg}}));
  args.push_back(std::move(a));
  return arg;
}

inline ir::Value RandomProgram::offset_for(std::int64_t dim, std::int64_t box) {
  const std::int64_t way = below(10);
  if (way < 3) return b_.i32(0);
  if (way < 5) return b_.mul(program_, b_.i32(box));
  if (way < 7 && !loop_indices_.empty())
    return chance(50) ? b_.mul(one_of(loop_indices_), b_.i32(box)) : one_of(loop_indices_);
  return b_.i32(chance(50) ? below(dim) : below(dim) / 8 * 8);
}

/// `n` places from memory, some of which may be absent.
inline ir::Value RandomProgram::index_tile(std::int64_t n) {
  const std::int64_t count = between(std::max<std::int64_t>(1, n - 3), n + 3);
  const auto arg = static_cast<std::size_t>(add_view(DType::i32, {count}, ir::Access::In));
  return b_.op(ir::Opcode::LoadView, {kernel.params()[arg].value, b_.i32(0)}, tile(DType::i32, {n}),
               {{ir::AttrName::axes, ir::Ints{0}}});
}

inline Known RandomProgram::load(DType d, const Shape& s) {
  Shape dims;
  ir::Ints axes;
  const std::size_t extra = chance(25) ? 1 : 0;
  const auto extra_at = static_cast<std::size_t>(below(static_cast<std::int64_t>(s.size()) + 1));
  for (std::size_t i = 0; i <= s.size(); ++i) {
    if (extra == 1 && i == extra_at) dims.push_back(between(1, 4));
    if (i == s.size()) break;
    axes.push_back(static_cast<std::int64_t>(dims.size()));
    const std::int64_t ragged = between(std::max<std::int64_t>(1, s[i] / 2), s[i] + 5);
    dims.push_back(std::array{s[i], s[i] * programs_, ragged,
                              (ragged + 7) / 8 * 8}[static_cast<std::size_t>(below(4))]);
  }
  const auto arg = static_cast<std::size_t>(add_view(d, dims, ir::Access::In));
  std::vector<ir::Value> operands{kernel.params()[arg].value};
  // Along one dimension an index tile may select, also outside of the view.
  const std::int64_t gathered = chance(15) && args.size() < 9 ? below(std::ssize(s)) : -1;
  bool outside = false;
  for (std::size_t i = 0, t = 0; i < dims.size(); ++i) {
    const bool is_axis = t < axes.size() && axes[t] == static_cast<std::int64_t>(i);
    const std::int64_t at = chance(90) ? below(dims[i]) : chance(50) ? -1 : dims[i];
    outside = outside || (!is_axis && (at < 0 || at >= dims[i]));
    operands.push_back(!is_axis                      ? b_.i32(at)
                       : std::cmp_equal(t, gathered) ? index_tile(s[t])
                                                     : offset_for(dims[i], s[t]));
    if (is_axis) ++t;
  }
  const ir::Value v =
      b_.op(ir::Opcode::LoadView, operands, tile(d, s), {{ir::AttrName::axes, axes}});
  return {.v = v,
          .magnitude = 50,
          .absent = std::vector<bool>(s.size(), true),
          .absent_as_a_whole = outside};
}

inline Known RandomProgram::index(DType d, const Shape& s) {
  const auto dim = static_cast<std::size_t>(below(static_cast<std::int64_t>(s.size())));
  const std::int64_t start = between(-5, 5);
  Known k{b_.op(ir::Opcode::Arange, {}, tile(DType::i32, {s[dim]}), {{ir::AttrName::start, start}}),
          static_cast<double>(s[dim] + 5)};
  for (std::size_t i = 0; i < s.size(); ++i)
    if (i != dim)
      k.v = b_.op(ir::Opcode::ExpandDims, {k.v},
                  {{ir::AttrName::axis, static_cast<std::int64_t>(i)}});
  if (shape_of(k) != s) k.v = b_.op(ir::Opcode::Broadcast, {k.v}, tile(DType::i32, s));
  return cast(std::move(k), d);
}

inline Known RandomProgram::leaf(DType d, const Shape& s) {
  if (d == DType::i1) {
    const Known a = leaf(DType::i32, s);
    Known k = a;
    k.v = b_.cmp(one_of({"lt", "ge", "ne"}), a.v, b_.i32(between(-5, 20)));
    k.magnitude = 1;
    return k;
  }
  if (s.empty()) {
    if (d == DType::i32 && chance(50))
      return {chance(50) || loop_indices_.empty() ? program_ : one_of(loop_indices_), 2000};
    return constant(d, s, static_cast<double>(between(-9, 9)));
  }
  const std::int64_t way = below(10);
  if (way < 6 && args.size() < 9) return load(d, s);
  if (way < 8) return index(d, s);
  if (way == 8) return constant(d, s, static_cast<double>(between(-20, 20)));
  Known k = get(d, {});
  k.v = b_.op(ir::Opcode::Splat, {k.v}, tile(d, s));
  return k;
}

inline Known RandomProgram::broadcast(Known k, const Shape& s) {
  if (shape_of(k) == s) return k;
  k.v = b_.op(ir::Opcode::Broadcast, {k.v}, tile(type(k).dtype(), s));
  return k;
}

inline Known RandomProgram::get(DType d, const Shape& s,
                                const std::function<bool(const Known&)>& fits) {
  std::vector<Known> same, narrower;
  for (const Known& k : scope_) {
    if (!(type(k).is_tile() || type(k).is_scalar()) || type(k).is_pointer() ||
        type(k).dtype() != d || !fits(k))
      continue;
    const Shape from = shape_of(k);
    if (from == s)
      same.push_back(k);
    else if (from.size() == s.size() &&
             std::ranges::equal(from, s, [](auto a, auto b) { return a == 1 || a == b; }))
      narrower.push_back(k);
  }
  // The latest values are preferred, so that programs grow deep.
  if (!same.empty() && chance(80)) return chance(50) ? same.back() : one_of(same);
  if (!narrower.empty() && chance(70)) return broadcast(one_of(narrower), s);
  for (int i = 0; i < 8; ++i) {
    Known k = leaf(d, s);
    k.absent.resize(s.size());
    if (fits(k)) return k;
  }
  return constant(d, s, 1);
}

inline Known RandomProgram::join(ir::Value v, std::initializer_list<const Known*> from) const {
  Known k{v, 0};
  k.absent.resize(kernel.type(v).is_tile() ? static_cast<std::size_t>(kernel.type(v).rank()) : 0);
  for (const Known* f : from) {
    k.error = std::max(k.error, f->error);
    k.whole = k.whole && f->whole;
    k.magnitude = std::max(k.magnitude, f->magnitude);
    k.absent_as_a_whole = k.absent_as_a_whole || f->absent_as_a_whole;
    for (std::size_t i = 0; i < f->absent.size() && i < k.absent.size(); ++i)
      k.absent[i] = k.absent[i] || f->absent[i];
  }
  return k;
}

inline Known RandomProgram::clamp(Known k, double bound) {
  if (k.magnitude <= bound) return k;
  const DType d = type(k).dtype();
  const Known high = constant(d, {}, bound), low = constant(d, {}, -bound);
  k.v = b_.op(ir::Opcode::Max, {b_.op(ir::Opcode::Min, {k.v, high.v}), low.v});
  k.magnitude = bound;
  k.whole = k.whole && bound == std::floor(bound);
  return k;
}

inline Known RandomProgram::whole(Known k) {
  if (k.whole) return k;
  k.v = b_.op(one_of({ir::Opcode::Round, ir::Opcode::Trunc, ir::Opcode::Floor, ir::Opcode::Ceil}),
              {k.v});
  k.whole = true;
  k.magnitude += 1;
  return k;
}

inline Known RandomProgram::cast(Known k, DType d) {
  const DType from = type(k).dtype();
  if (from == d) return k;
  if (is_float(from) && !is_float(d)) k = clamp(std::move(k), 1e6), k.whole = true;
  k.v = b_.cast(k.v, d);
  if (d == DType::bf16 && k.error > 0) k.error += k.magnitude * 0x1p-8;
  k.magnitude = is_float(d) ? k.magnitude * 1.01 : k.magnitude;
  return k;
}

inline Known RandomProgram::any_tile() {
  std::vector<Known> tiles;
  for (const Known& k : scope_)
    if (type(k).is_tile()) tiles.push_back(k);
  if (tiles.empty() || chance(10)) return keep(leaf(number(), one_of(shapes_)));
  return chance(60) ? tiles.back() : one_of(tiles);
}

// ---- elementwise --------------------------------------------------------------------------------
inline void RandomProgram::grow_unary() {
  const Known a = any_tile();
  const DType d = type(a).dtype();
  if (d == DType::i1) return void(keep(join(b_.op(ir::Opcode::Not, {a.v}), {&a})));
  if (is_float(d)) {
    const ir::Opcode op = one_of({ir::Opcode::Neg, ir::Opcode::Abs, ir::Opcode::Floor,
                                  ir::Opcode::Ceil, ir::Opcode::Round, ir::Opcode::Trunc});
    const bool rounds = op != ir::Opcode::Neg && op != ir::Opcode::Abs;
    if (rounds && a.error > 0) return;
    Known k = join(b_.op(op, {a.v}), {&a});
    k.whole = k.whole || rounds;
    k.magnitude += rounds ? 1 : 0;
    return void(keep(k));
  }
  Known k = join(b_.op(one_of({ir::Opcode::Neg, ir::Opcode::Abs, ir::Opcode::Not, ir::Opcode::Popc,
                               ir::Opcode::Clz}),
                       {a.v}),
                 {&a});
  k.magnitude = 0x1p31;
  keep(k);
}

inline void RandomProgram::grow_binary() {
  Known a = any_tile();
  const DType d = type(a).dtype();
  if (d == DType::i1) return grow_logic();
  Known b = chance(25) ? get(d, {}) : get(d, shape_of(a));
  if (chance(30)) std::swap(a, b);
  if (is_float(d)) {
    a = clamp(a, 1e9), b = clamp(b, 1e9);
    const ir::Opcode op = one_of(
        {ir::Opcode::Add, ir::Opcode::Sub, ir::Opcode::Mul, ir::Opcode::Min, ir::Opcode::Max});
    Known k = join(b_.op(op, {a.v, b.v}), {&a, &b});
    const bool product = op == ir::Opcode::Mul;
    if (op == ir::Opcode::Add || op == ir::Opcode::Sub)
      k.magnitude = a.magnitude + b.magnitude, k.error = a.error + b.error;
    if (product)
      k.magnitude = a.magnitude * b.magnitude,
      k.error = a.error * (b.magnitude + b.error) + b.error * a.magnitude;
    if (k.error > 0) k.error += k.magnitude * (d == DType::bf16 ? 0x1p-8 : 0x1p-23);
    return void(keep(k));
  }
  using enum ir::Opcode;
  const ir::Opcode op = one_of({Add, Sub, Mul, And, Or, Xor, Min, Max, MulHi, Shl, Shr});
  if (op == Shl || op == Shr) b.v = b_.op(And, {b.v, b_.i32(15)});
  Known k = join(b_.op(op, {a.v, b.v}), {&a, &b});
  k.magnitude = 0x1p31;
  keep(k);
}

inline void RandomProgram::grow_division() {
  const Known a = any_tile();
  const DType d = type(a).dtype();
  if (d == DType::i1 || a.error > 0) return;
  Known b = get(d, chance(30) ? Shape{} : shape_of(a), [](const Known& k) { return k.error == 0; });
  if (is_float(d)) {
    b.v = b_.add(b_.op(ir::Opcode::Abs, {b.v}), constant(d, {}, 1).v);
    Known k = join(b_.div(a.v, b.v), {&a, &b});
    k.magnitude = a.magnitude;
    k.whole = false;
    return void(keep(k));
  }
  b.v = b_.add(b_.op(ir::Opcode::And, {b.v, b_.i32(15)}), b_.i32(1));
  keep(join(chance(50) ? b_.div(a.v, b.v) : b_.rem(a.v, b.v), {&a, &b})).magnitude = 0x1p31;
}

inline void RandomProgram::grow_fma() {
  Known a = any_tile();
  const DType d = type(a).dtype();
  if (!is_float(d) || a.error > 0) return;
  const auto exact = [](const Known& k) { return k.error == 0; };
  a = clamp(a, 1e6);
  const Known b = clamp(get(d, shape_of(a), exact), 1e6),
              c = clamp(get(d, chance(50) ? Shape{} : shape_of(a), exact), 1e6);
  Known k = join(b_.op(ir::Opcode::Fma, {a.v, b.v, c.v}), {&a, &b, &c});
  k.magnitude = a.magnitude * b.magnitude + c.magnitude;
  keep(k);
}

inline void RandomProgram::grow_cmp() {
  const Known a = any_tile();
  const DType d = type(a).dtype();
  if (d == DType::i1 || a.error > 0) return;
  const Known b =
      get(d, chance(40) ? Shape{} : shape_of(a), [](const Known& k) { return k.error == 0; });
  Known k = join(b_.cmp(one_of({"eq", "ne", "lt", "le", "gt", "ge"}), a.v, b.v), {&a, &b});
  k.magnitude = 1;
  k.whole = true;
  keep(k);
}

inline void RandomProgram::grow_logic() {
  const Shape s = shape_of(any_tile());
  const Known a = get(DType::i1, s), b = get(DType::i1, s);
  keep(join(b_.op(one_of({ir::Opcode::And, ir::Opcode::Or, ir::Opcode::Xor}), {a.v, b.v}),
            {&a, &b}));
}

inline void RandomProgram::grow_select() {
  const Known a = any_tile();
  const DType d = type(a).dtype();
  const Known b = get(d, chance(30) ? Shape{} : shape_of(a)), c = get(DType::i1, shape_of(a));
  Known k = join(chance(50) ? b_.select(c.v, a.v, b.v) : b_.select(c.v, b.v, a.v), {&a, &b, &c});
  k.whole = a.whole && b.whole;
  keep(k);
}

inline void RandomProgram::grow_cast() {
  const Known a = any_tile();
  const DType to = number();
  if (!is_float(to) && a.error > 0) return;
  keep(cast(a, to));
}

/// Functions whose two executions may differ, and the ones the hardware approximates.
inline void RandomProgram::grow_math() {
  using enum ir::Opcode;
  const Shape s = shape_of(any_tile());
  Known a = get(DType::f32, s, [](const Known& k) { return k.error == 0; });
  const ir::Opcode op = one_of({Exp, Exp2, Sin, Cos, Tanh, Log, Log2, Sqrt, Rsqrt, Rcp, Erf});
  const bool positive = op == Log || op == Log2 || op == Sqrt || op == Rsqrt || op == Rcp;
  a = clamp(a, positive ? 1e4 : 8);
  if (positive) a.v = b_.add(b_.op(Abs, {a.v}), b_.f32(1));
  Known k = join(b_.op(op, {a.v}), {&a});
  k.magnitude = op == Exp || op == Exp2 ? 3000 : positive ? 101 : 1;
  k.whole = false;
  k.error = std::max(1.0, k.magnitude) * 0x1p-18;
  keep(k);
}

}  // namespace tegula::fuzz
