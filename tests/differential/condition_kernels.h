#pragma once
// Kernels whose conditions are needed by several others, with what they give in plain C++.
#include <functional>
#include <string>
#include <vector>

#include "tegula/tegula.h"

namespace tegula::test {

using ConditionKernel = Kernel<In<i32, 1>, Out<i32, 1>>;

struct ConditionCase {
  const char* name;
  ConditionKernel kernel;
  std::function<int(int)> want;
};

inline constexpr int kConditionBlock = 1024;

/// Whole numbers are classed, once by selects and once by conversions of the same conditions.
inline std::vector<ConditionCase> condition_cases() {
  const auto classes = kernel("classes", [](In<i32, 1> x, Out<i32, 1> y) {
    for (auto i : grid(y, kConditionBlock)) {
      const Tile v = x(i);
      const Tile valid = v % 3 == 0;
      const Tile small = valid && v < 10;
      const Tile large = valid && v > 5 && !small;
      y(i) = where(small, 1, where(large, 2, 3));
    }
  });
  const auto counts = kernel("counts", [](In<i32, 1> x, Out<i32, 1> y) {
    for (auto i : grid(y, kConditionBlock)) {
      const Tile v = x(i);
      const Tile valid = v % 3 == 0;
      const Tile small = valid && v < 10;
      const Tile large = valid && v > 5 && !small;
      y(i) = cast<i32>(large) * 100 + cast<i32>(small);
    }
  });
  const auto xors = kernel("xors", [](In<i32, 1> x, Out<i32, 1> y) {
    for (auto i : grid(y, kConditionBlock)) {
      const Tile v = x(i);
      const Tile a = v % 5 > 1, b = v % 7 < 4;
      const Tile c = a ^ b, d = (a || v < 0) && !c;
      y(i) = where(c, 1, where(d, 2, 3));
    }
  });
  const auto is_small = [](int v) { return v % 3 == 0 && v < 10; };
  const auto is_large = [=](int v) { return v % 3 == 0 && v > 5 && !is_small(v); };
  return {{"classes", classes, [=](int v) { return is_small(v)   ? 1
                                                   : is_large(v) ? 2
                                                                 : 3; }},
          {"counts", counts, [=](int v) { return is_large(v) * 100 + is_small(v); }},
          {"xors", xors, [](int v) {
             const bool a = v % 5 > 1, b = v % 7 < 4, c = a != b;
             return c ? 1 : (a || v < 0) && !c ? 2 : 3;
           }}};
}

/// Elements in which a case's kernel differs from what it is to give.
inline std::int64_t wrong_elements(const ConditionCase& c, std::int64_t count, std::uint64_t seed,
                                   Device device) {
  const Tensor x = Tensor::integers({count}, DType::i32, -100, 100, seed, device),
               y = Tensor::full({count}, -7, DType::i32, device);
  const Stream stream(device);
  c.kernel(stream, x, y);
  stream.synchronize();
  const std::vector<i32> in = x.to_vector<i32>(), out = y.to_vector<i32>();
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < in.size(); ++i) wrong += out[i] != c.want(in[i]);
  return wrong;
}

}  // namespace tegula::test
