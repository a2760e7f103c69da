// Random sums of rows, columns, positions and whole tiles, with masks, branches and folds: marked
// as `reassoc`, they keep their values through the pass hoist_broadcast_terms and all others.
// Numbers are small integers, so that no order of the sums rounds. TEGULA_FUZZ_PROGRAMS and
// TEGULA_FUZZ_SEED choose other programs; a failure prints its seed and program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/fuzz/run_program.h"

namespace tegula::fuzz::random_sums_test {
namespace {

using enum ir::Opcode;
using ir::Value;

/// A value and a bound of its magnitude; infinite ones hold -inf in some elements.
struct Sum {
  Value v;
  double magnitude = 0;
  bool infinite = false;
};

class RandomSums {
 public:
  explicit RandomSums(std::uint64_t seed) : random_(seed), b_(kernel) {
    has_products_ = chance(40);
    rows_ = std::int64_t{has_products_ ? 16 : 2} << below(has_products_ ? 2 : 4);
    columns_ = has_products_ ? 64 : std::int64_t{2} << below(4);
    const Value zero = b_.i32(0);
    zero_ = zero;
    for (int i = 0; i < 2; ++i)
      wide_.push_back({load(view({rows_, columns_}, ir::Access::In), {rows_, columns_}), 20});
    row_ = load(view({rows_}, ir::Access::In), {rows_});
    column_ = load(view({columns_}, ir::Access::In), {columns_});
    scalar_ = number(DType::f32, between(-3, 3));
    positive_ = number(DType::f32, 1 << below(3));  // so that quotients are exact
    first_ = number(DType::i32, between(0, 50));
    b_.effect(Assume, {b_.cmp("gt", positive_, b_.f32(0))});
    const ir::OpId loop = b_.make_for(zero, b_.i32(between(1, 3)), b_.i32(1), {});
    b_.at_end(kernel[loop].regions[0]);
    index_ = kernel[kernel[loop].regions[0]].args[0];
    for (std::int64_t i = between(6, 24); i > 0; --i) grow();
    // Few, as no part of a stored value can be deferred.
    for (const Sum& s : wide_)
      if (chance(15)) store(s.v);
    store(wide_.back().v);
    b_.yield({});
    b_.at_end(kernel.launch());
    b_.yield(std::vector{b_.i32(1), b_.i32(1), b_.i32(1)});
  }

  ir::Kernel kernel{"sums"};
  Arguments args;

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }

  ir::Type tile(DType d, const ir::Ints& shape) const { return ir::Type::tile({d, false}, shape); }
  Value view(const ir::Ints& dims, ir::Access access) {
    Argument a{.dtype = DType::f32, .is_view = true, .dims = dims, .strides = {}, .bytes = {}};
    std::int64_t step = 1;
    for (std::int64_t d : dims) step *= d;
    a.bytes.resize(static_cast<std::size_t>(step) * 4);
    for (std::int64_t i = 0; i < a.elements(); ++i)
      a.put(i, {.f = static_cast<double>(between(-20, 20))});
    ir::ViewFacts facts;
    for (std::int64_t d : dims) a.strides.push_back(step /= d);
    facts.strides = a.strides;
    facts.dim_div = facts.stride_div = ir::Ints(dims.size(), 1);
    facts.align = 16;
    facts.access = access;
    args.push_back(std::move(a));
    return param(ir::Type::view(DType::f32, dims, facts));
  }
  Value number(DType d, std::int64_t n) {
    Argument a{.dtype = d, .dims = {}, .strides = {}, .bytes = {}};
    a.scalar = is_float(d) ? ir::Cell{.f = static_cast<double>(n)} : ir::Cell{.i = n};
    args.push_back(std::move(a));
    return param(ir::Type::scalar(d));
  }
  Value param(ir::Type type) {
    const auto arg = static_cast<std::int64_t>(args.size()) - 1;
    return kernel.add_param(fmt::format("p{}", arg), type,
                            ir::attr_list({{ir::AttrName::arg, arg}}));
  }
  Value load(Value from, const ir::Ints& shape) {
    std::vector<Value> operands{from};
    ir::Ints axes;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      operands.push_back(zero_);
      axes.push_back(static_cast<std::int64_t>(i));
    }
    return b_.op(LoadView, operands, tile(DType::f32, shape), {{ir::AttrName::axes, axes}});
  }
  /// Each stored value has a separate tensor.
  void store(Value v) {
    const ir::Type type = kernel.type(v);
    const ir::Ints shape(type.shape().begin(), type.shape().end());
    std::vector<Value> operands{view(shape, ir::Access::Out), v};
    ir::Ints axes;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      operands.push_back(zero_);
      axes.push_back(static_cast<std::int64_t>(i));
    }
    b_.effect(StoreView, std::span<const Value>(operands), {{ir::AttrName::axes, axes}});
  }

  // ---- leaves
  Value repeated(Value line, int axis) {
    const DType d = kernel.type(line).dtype();
    line = b_.op(ExpandDims, {line}, {{ir::AttrName::axis, 1 - axis}});
    return b_.op(Broadcast, {line}, tile(d, {rows_, columns_}));
  }
  Value positions(int axis) {
    const Value at = b_.op(Arange, {}, tile(DType::i32, {axis == 0 ? rows_ : columns_}),
                           {{ir::AttrName::start, between(-2, 2)}});
    const Value step = chance(50) ? index_ : b_.mul(index_, b_.i32(16));
    const std::int64_t way = below(4);
    if (way == 0) return repeated(b_.add(first_, b_.add(at, step)), axis);
    if (way == 1) return repeated(b_.sub(first_, at), axis);
    return repeated(way == 2 ? b_.sub(at, step) : at, axis);
  }
  /// A sum of rows or columns before they are repeated.
  Sum sum_of_lines() {
    const bool rows = chance(50);
    const auto line = [&](Value v) {
      return b_.op(ExpandDims, {v}, {{ir::AttrName::axis, rows ? 1 : 0}});
    };
    const ir::Ints shape = rows ? ir::Ints{rows_, 1} : ir::Ints{1, columns_};
    const Value at =
        b_.op(Arange, {}, tile(DType::i32, {rows ? rows_ : columns_}), {{ir::AttrName::start, 0}});
    Value v = linear(Cast, {line(b_.add(at, first_))}, tile(DType::f32, shape));
    if (chance(60)) v = linear(Mul, {v, scalar_});
    if (chance(60)) v = linear(chance(50) ? Add : Sub, {v, line(rows ? row_ : column_)});
    if (chance(30)) v = linear(Neg, {v});
    return {b_.op(Broadcast, {v}, tile(DType::f32, {rows_, columns_})), 250};
  }
  Sum narrow() {
    switch (below(6)) {
      case 0:
        return {repeated(row_, 0), 20};
      case 1:
        return {repeated(column_, 1), 20};
      case 2:
        return {scalar_, 3};
      case 3:
        return {positive_, 4};
      case 4:
        return sum_of_lines();
      default:
        return {
            b_.constant(tile(DType::f32, {rows_, columns_}), static_cast<double>(between(-2, 2))),
            2};
    }
  }
  Sum distance() {
    const Value d = b_.op(chance(70) ? Sub : Add, {positions(below(2)), positions(below(2))});
    return {linear(Cast, {d}, tile(DType::f32, {rows_, columns_})), 250};
  }
  Sum any() {
    return wide_[static_cast<std::size_t>(below(static_cast<std::int64_t>(wide_.size())))];
  }
  Sum finite() {
    for (;;)
      if (const Sum s = any(); !s.infinite) return s;
  }
  Sum term() { return chance(40) ? narrow() : chance(40) ? distance() : finite(); }

  /// A product of halves that are whole numbers, with an accumulator of zeros.
  Value product() {
    const auto operand = [&](const ir::Ints& shape) {
      return b_.cast(load(view(shape, ir::Access::In), shape), DType::f16);
    };
    const ir::Type type = tile(DType::f32, {rows_, columns_});
    return b_.op(Dot,
                 {operand({rows_, kDepth}), operand({kDepth, columns_}), b_.constant(type, 0.0)},
                 {{ir::AttrName::label, "dot"}});
  }

  // ---- growth
  Value linear(ir::Opcode o, std::initializer_list<Value> operands, ir::Type type = {}) {
    const Value v = type ? b_.op(o, operands, type) : b_.op(o, operands);
    if (chance(85)) kernel[kernel[v].def].attrs.set(ir::AttrName::reassoc, std::int64_t{1});
    return v;
  }
  void keep(const Sum& s) {
    if (s.magnitude < 0x1p20) wide_.push_back(s);
  }
  void grow() {
    static constexpr std::array kWays{&RandomSums::add,  &RandomSums::add,    &RandomSums::multiply,
                                      &RandomSums::fuse, &RandomSums::hide,   &RandomSums::branch,
                                      &RandomSums::fold, &RandomSums::opaque, &RandomSums::negate,
                                      &RandomSums::score};
    (this->*kWays[static_cast<std::size_t>(below(kWays.size()))])();
  }
  void add() {
    const Sum x = any(), y = term();
    if (chance(50)) return keep({linear(Add, {x.v, y.v}), x.magnitude + y.magnitude, x.infinite});
    keep({linear(Sub, {x.v, y.v}), x.magnitude + y.magnitude, x.infinite});
  }
  void multiply() {
    const Sum x = any(), y = x.infinite || chance(30) ? Sum{positive_, 4} : narrow();
    keep({linear(Mul, {x.v, y.v}), x.magnitude * y.magnitude, x.infinite});
  }
  void fuse() {
    const Sum x = finite(), y = narrow(), z = term();
    keep({linear(Fma, {x.v, y.v, z.v}), x.magnitude * y.magnitude + z.magnitude});
  }
  void negate() {
    const Sum x = finite();
    keep({linear(Neg, {x.v}), x.magnitude});
  }
  Value mask() {
    return b_.cmp(chance(50) ? "lt" : "ge", positions(static_cast<int>(below(2))), first_);
  }
  void hide() {
    const Sum x = any();
    keep({b_.select(mask(), x.v, b_.f32(-INFINITY)), x.magnitude, true});
  }
  void branch() {
    const Sum x = any();
    const Value odd = b_.cmp("gt", index_, b_.i32(0));
    const ir::Type type = kernel.type(x.v);
    const ir::OpId op = b_.make_if(odd, std::span(&type, 1));
    const ir::RegionId outer = b_.region();
    b_.at_end(kernel[op].regions[0]);
    b_.yield(std::vector{b_.select(mask(), x.v, b_.f32(-INFINITY))});
    b_.at_end(kernel[op].regions[1]);
    const Sum y = chance(50) ? any() : x;
    b_.yield(std::vector{y.v});
    b_.at_end(outer);
    keep({kernel[op].results[0], std::max(x.magnitude, y.magnitude), true});
  }
  void fold() {
    const Sum x = any();
    const int axis = static_cast<int>(below(2));
    const char* kind = x.infinite || chance(60) ? "max" : chance(60) ? "min" : "sum";
    const Value line =
        b_.op(Reduce, {x.v}, {{ir::AttrName::axis, axis}, {ir::AttrName::kind, kind}});
    store(line);
    // Rows without a visible element have no finite maximum.
    const Value top = b_.op(Max, {line, b_.f32(-100)});
    keep({linear(Sub, {x.v, repeated(top, 1 - axis)}), x.magnitude * 17 + 100, x.infinite});
  }
  /// As in attention: a scaled product plus distances, reduced to a maximum.
  void score() {
    if (!has_products_) return;
    const Value scaled = linear(Mul, {product(), positive_});
    const Sum by = distance();
    const Value v = linear(Fma, {by.v, scalar_, scaled});
    const Value seen = chance(50) ? b_.select(mask(), v, b_.f32(-INFINITY)) : v;
    const Value top = b_.op(Reduce, {seen}, {{ir::AttrName::axis, 1}, {ir::AttrName::kind, "max"}});
    store(top);
    keep({linear(Sub, {seen, repeated(b_.op(Max, {top, b_.f32(-100)}), 0)}), 0x1p17, true});
  }
  void opaque() {
    const Sum x = any();
    keep({b_.op(Max, {x.v, b_.f32(0)}), x.magnitude});
  }

  std::mt19937_64 random_;
  ir::Builder b_;
  std::vector<Sum> wide_;
  static constexpr std::int64_t kDepth = 16;
  std::int64_t rows_ = 0, columns_ = 0;
  bool has_products_ = false;
  Value zero_, row_, column_, scalar_, positive_, first_, index_;
};

/// Programs that the pass changed, and those where an accumulator starts from terms.
struct Seen {
  int narrowed = 0, begun = 0;
};

/// Returns the fault found, or "".
std::string check(const RandomSums& p, Seen& seen) {
  ir::verify_or_throw(p.kernel);
  Arguments want = p.args, by_passes = p.args, by_all = p.args;
  if (const std::string found = interpret(p.kernel, want); !found.empty()) return found;
  ir::Kernel once = ir::clone(p.kernel);
  ir::PassContext context;
  seen.narrowed += ir::find_pass(ir::ir_passes(), "hoist_broadcast_terms")->run(once, context);
  seen.begun += std::ranges::any_of(context.remarks, [](const ir::Remark& r) {
    return r.reason == "an accumulator starts from terms";
  });
  ir::verify_or_throw(once, "hoist_broadcast_terms");
  if (const std::string found = interpret(once, by_passes); !found.empty()) return found;
  const std::string wrong = difference(want, by_passes);
  if (!wrong.empty()) return "hoist_broadcast_terms: " + wrong + "\n" + ir::print(once);
  const ir::Kernel simt = lowered(p.kernel);
  const sim::Report report =
      simulate(simt, ir::evaluate_launch(p.kernel, eval_args(by_all)), by_all);
  return report.clean() ? difference(want, by_all) : report.str();
}

std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

TEST(RandomSums, KeepTheirValues) {
  const std::uint64_t first = number_from_env("TEGULA_FUZZ_SEED", 1),
                      count = number_from_env("TEGULA_FUZZ_PROGRAMS", 300);
  Seen seen;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const RandomSums p(seed);
    const std::string wrong = check(p, seen);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << ir::print(p.kernel);
  }
  EXPECT_GT(seen.narrowed, static_cast<int>(count / 2)) << "too few programs prove something";
  EXPECT_GT(seen.begun, static_cast<int>(count / 30)) << "too few products begin with terms";
}

}  // namespace
}  // namespace tegula::fuzz::random_sums_test
