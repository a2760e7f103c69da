#pragma once
// Random kernels with many conditions, each of which several others, selects and casts use, so that
// a back end that moves conditions has ties to break.
#include <array>
#include <random>
#include <vector>

#include "ir/builder.h"
#include "tests/fuzz/run_program.h"

namespace tegula::fuzz {

class RandomConditions {
 public:
  explicit RandomConditions(std::uint64_t seed);

  ir::Kernel kernel{"conditions"};
  Arguments args;

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  T one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(between(0, std::ssize(list) - 1))];
  }
  ir::Value one_of(const std::vector<ir::Value>& list) {
    // Older values are preferred, so that many need the same one.
    const std::int64_t last = std::ssize(list) - 1;
    return list[static_cast<std::size_t>(chance(60) ? between(0, last / 2) : between(0, last))];
  }
  ir::Type tile(DType d) const { return ir::Type::tile({d, false}, shape_); }

  ir::Value view(ir::Access access);
  std::vector<ir::Value> box(ir::Value view);
  void add_positions();
  void grow_number();
  void grow_condition();
  void grow(std::int64_t steps);
  void grow_loop();
  void store();

  std::mt19937_64 random_;
  ir::Builder b_;
  ir::Ints shape_, dims_;
  ir::Value program_;
  std::vector<ir::Value> numbers_, conditions_;
};

/// A row-major view of the results of all programs, sometimes without its last elements.
inline ir::Value RandomConditions::view(ir::Access access) {
  Argument a{.dtype = DType::i32, .is_view = true, .dims = dims_, .strides = dims_, .bytes = {}};
  std::int64_t count = 1;
  for (std::size_t i = dims_.size(); i-- > 0; count *= dims_[i]) a.strides[i] = count;
  a.bytes.resize(static_cast<std::size_t>(count) * 4);
  for (std::int64_t i = 0; i < count; ++i)
    a.put(i, {.i = access == ir::Access::In ? between(-100, 100) : 77});
  ir::ViewFacts facts;
  facts.access = access;
  facts.align = 16;
  facts.strides.assign(dims_.size(), ir::kDynamic);
  facts.strides.back() = 1;
  const auto arg = static_cast<std::int64_t>(args.size());
  args.push_back(std::move(a));
  return kernel.add_param(fmt::format("v{}", arg),
                          ir::Type::view(DType::i32, ir::Ints(dims_.size(), ir::kDynamic), facts),
                          ir::attr_list({{ir::AttrName::arg, arg}}));
}

/// The view and the offsets of this program's box.
inline std::vector<ir::Value> RandomConditions::box(ir::Value view) {
  std::vector<ir::Value> operands{view, b_.mul(program_, b_.i32(shape_[0]))};
  operands.resize(shape_.size() + 1, b_.i32(0));
  return operands;
}

/// Queries and keys, as masks have them.
inline void RandomConditions::add_positions() {
  for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
    ir::Value v =
        b_.op(ir::Opcode::Arange, {}, ir::Type::tile({DType::i32, false}, {{shape_[axis]}}),
              {{ir::AttrName::start, between(-3, 3)}});
    if (shape_.size() > 1)
      v = b_.op(ir::Opcode::ExpandDims, {v},
                {{ir::AttrName::axis, static_cast<std::int64_t>(1 - axis)}});
    if (shape_.size() > 1) v = b_.op(ir::Opcode::Broadcast, {v}, tile(DType::i32));
    numbers_.push_back(v);
  }
}

inline void RandomConditions::grow_number() {
  const ir::Value x = one_of(numbers_), y = one_of(numbers_);
  const std::int64_t n = between(2, 9);
  switch (between(0, 7)) {
    case 0:
      return numbers_.push_back(b_.rem(x, b_.i32(n)));
    case 1:
      return numbers_.push_back(b_.div(x, b_.i32(n)));
    case 2:
      return numbers_.push_back(b_.sub(x, y));
    case 3:
      return numbers_.push_back(b_.add(b_.mul(x, b_.i32(n)), y));
    case 4:
      return numbers_.push_back(b_.cast(one_of(conditions_), DType::i32));
    case 5:
      return numbers_.push_back(b_.select(one_of(conditions_), x, b_.i32(between(-9, 9))));
    default:
      return numbers_.push_back(b_.select(one_of(conditions_), x, y));
  }
}

inline void RandomConditions::grow_condition() {
  using enum ir::Opcode;
  static const std::vector<const char*> kPreds{"eq", "ne", "lt", "le", "gt", "ge"};
  static const std::vector<ir::Opcode> kLogic{And, And, Or, Or, Xor};
  if (conditions_.size() < 3 || chance(25)) {
    const ir::Value x = one_of(numbers_);
    const ir::Value y = chance(70) ? b_.i32(between(-20, 20)) : one_of(numbers_);
    return conditions_.push_back(b_.cmp(one_of(kPreds), x, y));
  }
  const ir::Value a = one_of(conditions_), c = one_of(conditions_);
  if (chance(20)) return conditions_.push_back(b_.op(Not, {a}));
  if (chance(12)) return conditions_.push_back(b_.select(one_of(conditions_), a, c));
  conditions_.push_back(b_.op(one_of(kLogic), {a, c}));
}

inline void RandomConditions::grow(std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i)
    chance(conditions_.empty() ? 0 : 30) ? grow_number() : grow_condition();
}

/// Adds a loop that carries a condition and a number, and uses earlier values.
inline void RandomConditions::grow_loop() {
  const std::array inits{one_of(conditions_), one_of(numbers_)};
  const ir::OpId loop = b_.make_for(b_.i32(0), b_.i32(between(0, 3)), b_.i32(1), inits);
  const ir::RegionId outer = b_.region(), body = kernel[loop].regions[0];
  const std::vector<ir::Value> numbers = numbers_, conditions = conditions_;
  b_.at_end(body);
  conditions_.push_back(kernel[body].args[1]);
  numbers_.push_back(kernel[body].args[2]);
  grow(between(4, 16));
  const std::array next{conditions_.back(), numbers_.back()};
  b_.yield(next);
  b_.at_end(outer);
  numbers_ = numbers, conditions_ = conditions;
  conditions_.push_back(kernel[loop].results[0]);
  numbers_.push_back(kernel[loop].results[1]);
}

/// A number that encodes all of the last conditions.
inline void RandomConditions::store() {
  ir::Value sum = one_of(numbers_);
  for (std::size_t i = conditions_.size() - std::min<std::size_t>(conditions_.size(), 6);
       i < conditions_.size(); ++i)
    sum = b_.add(b_.mul(sum, b_.i32(3)),
                 chance(50) ? b_.cast(conditions_[i], DType::i32)
                            : b_.select(conditions_[i], one_of(numbers_), b_.i32(between(0, 9))));
  std::vector<ir::Value> operands = box(view(ir::Access::Out));
  operands.insert(operands.begin() + 1, sum);
  ir::Ints axes;
  for (std::size_t i = 0; i < shape_.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  b_.effect(ir::Opcode::StoreView, operands, {{ir::AttrName::axes, axes}});
}

inline RandomConditions::RandomConditions(std::uint64_t seed) : random_(seed), b_(kernel) {
  const std::int64_t programs = between(1, 4);
  static const std::vector<std::int64_t> kLengths{32, 100, 128, 256, 512, 1024};
  static const std::vector<std::int64_t> kRows{8, 16, 32, 64}, kColumns{8, 20, 32, 64};
  shape_ = chance(60) ? ir::Ints{one_of(kLengths)} : ir::Ints{one_of(kRows), one_of(kColumns)};
  dims_ = shape_;
  dims_[0] = shape_[0] * programs - (chance(30) ? between(0, shape_[0] - 1) : 0);
  ir::Builder launch(kernel, kernel.launch());
  const std::array grid{launch.i32(programs), launch.i32(1), launch.i32(1)};
  launch.yield(grid);
  program_ =
      b_.op(ir::Opcode::ProgramId, {}, ir::Type::scalar(DType::i32), {{ir::AttrName::axis, 0}});
  ir::Ints axes;
  for (std::size_t i = 0; i < shape_.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  for (std::int64_t i = between(1, 2); i > 0; --i)
    numbers_.push_back(b_.op(ir::Opcode::LoadView, box(view(ir::Access::In)), tile(DType::i32),
                             {{ir::AttrName::axes, axes}}));
  if (chance(50)) add_positions();
  grow(between(6, 30));
  if (chance(40)) grow_loop();
  grow(between(0, 12));
  for (std::int64_t i = between(1, 2); i > 0; --i) store();
}

}  // namespace tegula::fuzz
