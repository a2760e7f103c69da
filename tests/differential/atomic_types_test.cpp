// Every atomic operation of every type, with and without the old values, on every available device.
// Results do not depend on the order of programs: sums are exact, exchanges are of one value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::atomic_types_test {
namespace {

using test::expect_equal;

constexpr int kElements = 13, kValues = 96;  // many threads update one word

/// Combines x[i] with memory[i % 13] and keeps what was there.
enum class Kind { add, max, min, xchg, bit_and, bit_or, bit_xor };

Tile combined(Kind kind, const Tile& pointers, const Tile& values) {
  switch (kind) {
    case Kind::add:
      return atomic_add(pointers, values);
    case Kind::max:
      return atomic_max(pointers, values);
    case Kind::min:
      return atomic_min(pointers, values);
    case Kind::xchg:
      return atomic_xchg(pointers, values);
    case Kind::bit_and:
      return atomic_and(pointers, values);
    case Kind::bit_or:
      return atomic_or(pointers, values);
    default:
      return atomic_xor(pointers, values);
  }
}

class AtomicTypes : public test::OnDevice {
 protected:
  /// The contents of memory after 96 operations by `values`, beginning with `first`.
  template <class T>
  std::vector<double> after(Kind kind, const std::vector<double>& values, double first) {
    const auto into = kernel("into", [kind](In<T, 1> x, Ptr<T> memory) {
      for (auto i : grid(x, 32)) combined(kind, memory + i.indices() % kElements, x(i));
    });
    const Tensor memory = Tensor::full({kElements + 2}, first, dtype_of<T>, GetParam());
    into(stream(), tensor<T>(values), memory);
    return memory.to_doubles();
  }
  template <class T>
  Tensor tensor(const std::vector<double>& values) const {
    std::vector<T> list;
    for (double v : values) {
      if constexpr (std::is_integral_v<T>)
        list.push_back(static_cast<T>(static_cast<std::int64_t>(v)));
      else
        list.push_back(static_cast<T>(static_cast<float>(v)));
    }
    return Tensor::from(list, GetParam());
  }
  template <class T>
  void check(Kind kind, const char* what, const std::vector<double>& values, double first,
             const std::function<double(double, double)>& f) {
    SCOPED_TRACE(testing::Message() << what << " of " << name(dtype_of<T>));
    std::vector<double> want(kElements + 2, first);
    for (std::size_t i = 0; i < values.size(); ++i)
      want[i % kElements] = f(want[i % kElements], values[i]);
    const auto got = after<T>(kind, values, first);
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i]))
        EXPECT_TRUE(std::isnan(got[i])) << "element " << i;
      else
        EXPECT_EQ(got[i], want[i]) << "element " << i;
    }
    old_values<T>(kind, f(f(first, values[0]), values[0]), values[0], first, f);
  }
  /// Each element combined twice by one program: the second sees what the first left.
  template <class T>
  void old_values(Kind kind, double twice, double value, double first,
                  const std::function<double(double, double)>& f) {
    const auto seen = kernel("seen", [kind](In<T, 1> x, Ptr<T> memory, Out<T, 1> before,
                                            Out<T, 1> between, Out<T, 1> scalar, Ptr<T> word) {
      for (auto i : grid(x, 64)) {
        before(i) = combined(kind, memory + i.indices(), x(i));
        between(i) = combined(kind, memory + i.indices(), x(i));
        scalar(i) = combined(kind, word + 1, x(0)) + zeros<T>(64);
      }
    });
    const Tensor x = tensor<T>(std::vector<double>(64, value)),
                 memory = Tensor::full({64}, first, dtype_of<T>, GetParam()),
                 word = Tensor::full({3}, first, dtype_of<T>, GetParam()),
                 before = empty({64}, dtype_of<T>), between = empty({64}, dtype_of<T>),
                 scalar = empty({64}, dtype_of<T>);
    seen(stream(), x, memory, before, between, scalar, word);
    const double once = f(first, value);
    expect_equal(before, std::vector<double>(64, first));
    expect_equal(between, std::vector<double>(64, once));
    expect_equal(memory, std::vector<double>(64, twice));
    expect_equal(scalar, std::vector<double>(64, first));
    expect_equal(word, {first, once, first});
  }
  template <class T>
  void integers_of() {
    const bool has_sign = std::is_signed_v<T>;
    std::vector<double> values;
    for (int i = 0; i < kValues; ++i) values.push_back((i * 37 + 11) % 100 - (has_sign ? 50 : 0));
    const auto bits = [](auto f) {
      return [f](double a, double b) {
        return static_cast<double>(
            static_cast<T>(f(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b))));
      };
    };
    check<T>(Kind::add, "add", values, 3, bits(std::plus<>()));
    check<T>(Kind::max, "max", values, 3, [](double a, double b) { return std::max(a, b); });
    check<T>(Kind::min, "min", values, 60, [](double a, double b) { return std::min(a, b); });
    check<T>(Kind::bit_and, "and", values, 127, bits(std::bit_and<>()));
    check<T>(Kind::bit_or, "or", values, 3, bits(std::bit_or<>()));
    check<T>(Kind::bit_xor, "xor", values, 3, bits(std::bit_xor<>()));
    exchanges<T>();
  }
  template <class T>
  void exchanges() {
    check<T>(Kind::xchg, "xchg", std::vector<double>(kValues, 9), 3,
             [](double, double b) { return b; });
  }
  template <class T>
  void floats_of() {
    std::vector<double> values;
    for (int i = 0; i < kValues; ++i) values.push_back((i * 37 + 11) % 16 - 8);
    check<T>(Kind::add, "add", values, 3, std::plus<double>());
    check<T>(Kind::max, "max", values, -3, [](double a, double b) { return std::fmax(a, b); });
    check<T>(Kind::min, "min", values, 3, [](double a, double b) { return std::fmin(a, b); });
    exchanges<T>();
    // NaN loses, in either operand.
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();
    for (const double first : {nan, -infinity, -2.0, 2.0, infinity})
      for (const double with : {nan, -nan, 5.0, -5.0}) {
        std::vector<double> some = values;
        for (std::size_t i = 0; i < some.size(); ++i)
          if (i % 3 != 0 || i % kElements == 4) some[i] = with;
        EXPECT_EQ(after_all<T>(Kind::max, some, first),
                  wanted(some, first, [](double a, double b) { return std::fmax(a, b); }));
        EXPECT_EQ(after_all<T>(Kind::min, some, first),
                  wanted(some, first, [](double a, double b) { return std::fmin(a, b); }));
      }
  }
  /// As text, in which NaN equals NaN.
  static std::string text(const std::vector<double>& values) {
    std::string out;
    for (double v : values) out += std::isnan(v) ? "nan " : std::to_string(v) + " ";
    return out;
  }
  template <class T>
  std::string after_all(Kind kind, const std::vector<double>& values, double first) {
    return text(after<T>(kind, values, first));
  }
  static std::string wanted(const std::vector<double>& values, double first,
                            const std::function<double(double, double)>& f) {
    std::vector<double> want(kElements + 2, first);
    for (std::size_t i = 0; i < values.size(); ++i)
      want[i % kElements] = f(want[i % kElements], values[i]);
    return text(want);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AtomicTypes, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(AtomicTypes, Bytes) {
  integers_of<i8>();
  integers_of<u8>();
}
TEST_P(AtomicTypes, Of16Bits) {
  integers_of<i16>();
  integers_of<u16>();
}
TEST_P(AtomicTypes, Of32Bits) {
  integers_of<i32>();
  integers_of<u32>();
}
TEST_P(AtomicTypes, Of64Bits) {
  integers_of<i64>();
  integers_of<u64>();
}
TEST_P(AtomicTypes, Floats) {
  floats_of<f16>();
  floats_of<bf16>();
  floats_of<f32>();
  floats_of<f64>();
}

}  // namespace
}  // namespace tegula::atomic_types_test
