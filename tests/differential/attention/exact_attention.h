#pragma once
// Causal attention whose every output is known to the bit. A key belongs to a class, and a query
// sees its own class alone: keys of another one get exp(-360) or less, which f32 does not hold. So
// weights are 1 and 0, other ones at each step, and a row is the mean of small integers.
#include <cstdint>
#include <vector>

#include "tegula/tegula.h"

namespace tegula::test {

struct ExactAttention {
  Tensor Q, K, V, want;

  ExactAttention(std::int64_t heads, std::int64_t length, std::int64_t dim, Device device) {
    constexpr std::int64_t kClasses = 8;
    const Dims shape{1, heads, length, dim};
    const auto of_key = Tensor::integers({heads, length}, DType::i32, 0, kClasses, 1, Device::cpu())
                            .to_vector<std::int32_t>();
    V = Tensor::integers(shape, DType::bf16, -8, 9, 2, device);
    const auto v = V.to_doubles();
    std::vector<bf16> keys(v.size(), bf16(0)), out;
    out.reserve(v.size());
    std::vector<double> sum(at(kClasses * dim)), count(at(kClasses));
    for (std::int64_t i = 0; i < heads * length; ++i) {
      if (i % length == 0) {
        sum.assign(sum.size(), 0);
        count.assign(count.size(), 0);
      }
      const std::int64_t mine = of_key[at(i)];
      // 64 * 64 is a power of 2, so that the scaled score is exact whatever it is multiplied by.
      keys[at(i * dim + mine)] = bf16(64);
      ++count[at(mine)];
      for (std::int64_t d = 0; d < dim; ++d) {
        double& total = sum[at(mine * dim + d)];
        total += v[at(i * dim + d)];
        // The f32 quotient's error cannot change how it rounds to bf16: means of fewer than 192
        // such integers that lie half-way between two of bf16 have a power of 2 of them.
        out.push_back(bf16(static_cast<float>(total / count[at(mine)])));
      }
    }
    Q = Tensor::from(keys, shape, device);
    K = Tensor::from(keys, shape, device);
    want = Tensor::from(out, shape, device);
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
};

}  // namespace tegula::test
