#pragma once
// Attention in double over the pairs that a predicate lets through, for tests of masks.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test {
using namespace kernels;

/// Whether query q of batch entry b and head h sees key kv.
using Sees = std::function<bool(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t kv)>;

struct AttentionInputs {
  std::int64_t batch, heads, kv_heads, queries, keys, dim;
  Tensor Q, K, V;

  AttentionInputs(const Dims& heads_of_batch, std::int64_t kv_heads_, std::int64_t q,
                  std::int64_t kv, std::int64_t d, Device device)
      : batch(heads_of_batch[0]),
        heads(heads_of_batch[1]),
        kv_heads(kv_heads_),
        queries(q),
        keys(kv),
        dim(d),
        Q(Tensor::normal({batch, heads, q, d}, DType::bf16, 0, 1, 1, device)),
        K(Tensor::normal({batch, kv_heads, kv, d}, DType::bf16, 0, 1, 2, device)),
        V(Tensor::normal({batch, kv_heads, kv, d}, DType::bf16, 0, 1, 3, device)) {}

  std::vector<double> run(const Attention& a) const {
    const Tensor O = Tensor::empty(Q.shape(), DType::bf16, Q.device());
    a(Q, K, V, O);
    return O.to_doubles();
  }
  std::vector<double> expected(const Sees& sees) const;
};

inline std::vector<double> AttentionInputs::expected(const Sees& sees) const {
  const auto q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles();
  std::vector<double> out(q.size()), row(static_cast<std::size_t>(dim));
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < queries; ++i) {
        const std::int64_t mine = ((b * heads + h) * queries + i) * dim,
                           theirs = (b * kv_heads + h / (heads / kv_heads)) * keys * dim;
        row.assign(at(dim), 0);
        double sum = 0;
        for (std::int64_t j = 0; j < keys; ++j) {
          if (!sees(b, h, i, j)) continue;
          double s = 0;
          for (std::int64_t d = 0; d < dim; ++d) s += q[at(mine + d)] * k[at(theirs + j * dim + d)];
          const double weight = std::exp(s / std::sqrt(static_cast<double>(dim)));
          sum += weight;
          for (std::int64_t d = 0; d < dim; ++d) row[at(d)] += weight * v[at(theirs + j * dim + d)];
        }
        for (std::int64_t d = 0; d < dim && sum > 0; ++d) out[at(mine + d)] = row[at(d)] / sum;
      }
  return out;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 0.03) << i;
}

}  // namespace tegula::test
