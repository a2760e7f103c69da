// Random chains of the language's functions on random bit patterns: `cpu` and `sim` (and a GPU,
// where there is one) compute the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "number_from_env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/math_functions.h"

namespace tegula::random_functions_test {
namespace {

using Random = std::mt19937_64;

/// One function with operands of a type; the result is cast to the chain's type again.
struct Function {
  const char* name;
  std::function<Tile(const Tile& a, const Tile& b, const Tile& words)> apply;
};

Tile whole(const Tile& x) { return cast<i32>(fill_absent(clamp(cast<f32>(x), -1000, 1000), 0)); }

const Function kFunctions[] = {
    {"a * b + 0.5", [](const Tile& a, const Tile& b, const Tile&) { return a * b + 0.5f; }},
    {"fma", [](const Tile& a, const Tile& b, const Tile&) { return fma(a, b, a); }},
    {"a / b", [](const Tile& a, const Tile& b, const Tile&) { return a / b; }},
    {"min, NaN",
     [](const Tile& a, const Tile& b, const Tile&) { return min(a, b, Nan::propagate); }},
    {"max, NaN",
     [](const Tile& a, const Tile& b, const Tile&) { return max(a, b, Nan::propagate); }},
    {"rand", [](const Tile& a, const Tile&, const Tile& w) { return rand(w, 3, a.dtype()); }},
    {"randn", [](const Tile&, const Tile&, const Tile& w) { return randn(5, w); }},
    {"randint", [](const Tile& a, const Tile& b,
                   const Tile& w) { return cast<f32>(randint(w, 1, whole(a), whole(b))); }},
    {"dropout", [](const Tile& a, const Tile&, const Tile& w) { return dropout(a, 0.3, 1, w); }},
    {"to bf16 by random bits",
     [](const Tile& a, const Tile&, const Tile& w) {
       return cast<f32>(cast<bf16>(a, Stochastic{w}));
     }},
    {"to f16 by random bits", [](const Tile& a, const Tile&,
                                 const Tile& w) { return cast<f32>(cast<f16>(a, Stochastic{w})); }},
    {"to f8e4m3 by random bits",
     [](const Tile& a, const Tile&, const Tile& w) {
       return cast<f32>(cast<f8e4m3>(a, Stochastic{w}));
     }},
    {"to f8e5m2 towards zero", [](const Tile& a, const Tile&,
                                  const Tile&) { return cast<f32>(cast<f8e5m2>(a, Round::zero)); }},
    {"to f16 towards zero, saturated",
     [](const Tile& a, const Tile&, const Tile&) {
       return cast<f32>(cast<f16>(a, Round::zero, Saturate::always));
     }},
    {"to the nearest i16", [](const Tile& a, const Tile&,
                              const Tile&) { return cast<f32>(cast<i16>(a, Round::nearest)); }},
};

/// The functions above and the math functions whose bits are the same everywhere.
const std::vector<Function>& functions() {
  static const std::vector<Function> kAll = [] {
    std::vector<Function> all(std::begin(kFunctions), std::end(kFunctions));
    for (const test::MathFunction& f : test::math_functions())
      if (f.narrow >= 0)
        all.push_back({f.name, [apply = f.apply](const Tile& a, const Tile& b, const Tile&) {
                         return apply(a, b);
                       }});
    all.push_back(
        {"nextafter", [](const Tile& a, const Tile& b, const Tile&) { return nextafter(a, b); }});
    return all;
  }();
  return kAll;
}

constexpr std::int64_t kElements = 200;

/// Bits of all kinds: random ones, numbers of ordinary size, special values.
template <class T>
Tensor numbers(Random& random, Device d) {
  std::vector<std::uint8_t> bytes(kElements * sizeof(T));
  for (std::size_t i = 0; i < kElements; ++i) {
    const std::uint64_t r = random();
    const double ordinary = std::ldexp(static_cast<double>(r >> 11), -53) * 8 - 4;
    const double special[] = {0, -0.0, 1, -1, inf, -inf, nan, 0.5, 2, 1e30};
    const T value = r % 4 == 0   ? static_cast<T>(static_cast<float>(special[r / 4 % 10]))
                    : r % 4 == 1 ? static_cast<T>(static_cast<float>(std::exp(ordinary * 8)))
                                 : static_cast<T>(static_cast<float>(ordinary));
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
    if (r % 8 == 3) std::memcpy(&bytes[i * sizeof(T)], &r, sizeof(T));
  }
  const Tensor raw = Tensor::from(bytes, d);
  return Tensor::borrow(raw.data(), {kElements}, dtype_of<T>, d).clone();
}

struct Step {
  const Function* function;
  int a, b;  ///< values of the chain
};

template <class T>
std::vector<T> run(const std::vector<Step>& steps, std::uint64_t seed, Device d) {
  const auto k = kernel("chain", [steps](In<T, 1> x, In<T, 1> y, In<u32, 1> w, Out<T, 1> out) {
    for (auto i : grid(out, 64)) {
      std::vector<Tile> values{x(i), y(i)};
      const Tile words = w(i);
      for (const Step& s : steps)
        values.push_back(cast<T>(s.function->apply(values[s.a], values[s.b], words)));
      out(i) = values.back();
    }
  });
  Random random(seed);
  const Tensor x = numbers<T>(random, d), y = numbers<T>(random, d);
  std::vector<u32> words(kElements);
  for (u32& w : words) w = static_cast<u32>(random());
  const Tensor out = Tensor::empty({kElements}, dtype_of<T>, d);
  k(x, y, Tensor::from(words, d), out);
  return out.to_vector<T>();
}

template <class T>
void expect_equal_bits(std::uint64_t seed) {
  Random random(seed);
  std::vector<Step> steps;
  std::string text;
  const int count = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < count; ++i) {
    const auto any = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    steps.push_back({&functions()[random() % functions().size()], any(2 + i), any(2 + i)});
    text += std::string(steps.back().function->name) + "; ";
  }
  std::vector<T> first;
  for (Device d : test::devices()) {
    const std::vector<T> out = run<T>(steps, seed, d);
    if (first.empty()) first = out;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (std::isnan(static_cast<double>(first[i])) && std::isnan(static_cast<double>(out[i])))
        continue;  // payloads are free
      ASSERT_EQ(std::memcmp(&first[i], &out[i], sizeof(T)), 0)
          << d.str() << ", seed " << seed << ", " << name(dtype_of<T>) << ": " << text << "element "
          << i << ": " << static_cast<double>(first[i]) << ", " << static_cast<double>(out[i]);
    }
  }
}

/// TEGULA_FUZZ_PROGRAMS chains from seed TEGULA_FUZZ_SEED on.
TEST(RandomFunctions, AllDevicesComputeTheSameBits) {
  const std::uint64_t first = fuzz::number_from_env("TEGULA_FUZZ_SEED", 1);
  const std::uint64_t count = fuzz::number_from_env("TEGULA_FUZZ_PROGRAMS", 150);
  for (std::uint64_t seed = first; seed < first + count && !HasFatalFailure(); ++seed) {
    if (seed % 4 == 0)
      expect_equal_bits<f64>(seed);
    else if (seed % 4 == 1)
      expect_equal_bits<bf16>(seed);
    else
      expect_equal_bits<f32>(seed);
  }
}

}  // namespace
}  // namespace tegula::random_functions_test
