#pragma once
// A matmul whose numbers of k-iterations per tile are in a tensor: the input of a tile scheduler.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tegula/tegula.h"

namespace tegula::test {

constexpr int kTile = 128, kBlock = 64;

/// C[m, n] = the first blocks[m / 128] blocks of 64 columns of A, times those rows of B.
using UnevenProduct = Kernel<In<bf16, 2>, In<bf16, 2>, In<i32, 1>, Out<f32, 2>>;
inline UnevenProduct uneven_product() {
  return kernel("uneven", [](In<bf16, 2> A, In<bf16, 2> B, In<i32, 1> blocks, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, kTile, kTile)) {
      const Tile count = fill_absent(blocks(m.first() / kTile), 0);
      auto sum = zeros<f32>(kTile, kTile);
      for (auto i : steps(full<i32>(0), count, 1)) {
        const Index k = slice(i.first() * kBlock, kBlock);
        sum = dot(A(m, k), B(k, n), sum);
      }
      C(m, n) = sum;
    }
  });
}

/// `rows` tiles one below the other, of 0 to 4 blocks.
struct UnevenInputs {
  UnevenInputs(std::int64_t rows, Device device)
      : depth(4 * kBlock),
        A(Tensor::integers({rows * kTile - (rows > 0 ? 8 : 0), depth}, DType::bf16, -4, 4, 1,
                           device)),
        B(Tensor::integers({depth, kTile}, DType::bf16, -4, 4, 2, device)) {
    for (std::int64_t r = 0; r < rows; ++r) counts.push_back(static_cast<i32>(r * 7 % 5));
    blocks = Tensor::from(counts, {rows}, device);
  }
  Tensor result() const { return Tensor::full({A.size(0), kTile}, -1, DType::f32, A.device()); }

  /// In integers that every order of adding gives exactly.
  std::vector<double> expected() const {
    const auto a = A.to_doubles(), b = B.to_doubles();
    std::vector<double> c(static_cast<std::size_t>(A.size(0) * kTile));
    for (std::size_t i = 0; i < c.size(); ++i) {
      const std::size_t row = i / kTile, column = i % kTile;
      const auto end = static_cast<std::size_t>(counts[row / kTile] * kBlock);
      for (std::size_t k = 0; k < end; ++k)
        c[i] += a[row * static_cast<std::size_t>(depth) + k] * b[k * kTile + column];
    }
    return c;
  }

  std::int64_t depth;
  Tensor A, B, blocks;
  std::vector<i32> counts;
};

}  // namespace tegula::test
