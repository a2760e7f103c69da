#pragma once
// Embedding and the gradient of its table.
#include "tegula/kernels/embedding.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

struct EmbeddingCase {
  std::int64_t rows, columns, tokens;
};

/// Ids among which a few are frequent, and some are not rows.
inline Tensor ids_of(const EmbeddingCase& c, Device device) {
  Doubles ids(c.tokens);
  for (std::int64_t t = 0; t < c.tokens; ++t)
    ids[t] = static_cast<double>(t % 3 == 0 ? 0 : (t * 7919) % (c.rows + 2) - 1);
  return Tensor::from(ids, {c.tokens}, Device::cpu()).cast(DType::i32).to(device);
}

inline void check_embedding(const EmbeddingCase& c, DType dtype, Device device, bool is_aligned) {
  const Stream stream(device);
  const Tensor table = random_rows({c.rows, c.columns}, dtype, 1, device, is_aligned),
               ids = ids_of(c, device),
               y = unwritten_rows({c.tokens, c.columns}, dtype, device, is_aligned);
  embedding(stream, table, ids, y);
  const Doubles rows = table.to_doubles(), numbers = ids.to_doubles();
  Doubles want(c.tokens * c.columns, 0);
  const auto row_of = [&](std::int64_t t) { return static_cast<std::int64_t>(numbers[t]); };
  const auto is_row = [&](std::int64_t r) { return r >= 0 && r < c.rows; };
  for (std::int64_t t = 0; t < c.tokens; ++t)
    if (is_row(row_of(t)))
      std::copy_n(rows.begin() + row_of(t) * c.columns, c.columns, want.begin() + t * c.columns);
  expect_elements(y, want, 0, 0);

  const Tensor dy = random_rows({c.tokens, c.columns}, dtype, 2, device, is_aligned),
               before = random_rows({c.rows, c.columns}, DType::f32, 3, device);
  const Doubles gradients = dy.to_doubles();
  Doubles sums = before.to_doubles();
  for (std::int64_t t = 0; t < c.tokens; ++t)
    for (std::int64_t i = 0; i < c.columns && is_row(row_of(t)); ++i)
      sums[row_of(t) * c.columns + i] += gradients[t * c.columns + i];
  for (const ScatterOrder order : {ScatterOrder::any, ScatterOrder::tokens}) {
    Doubles first;
    for (int run = 0; run < 2; ++run) {
      const Tensor dtable = before.clone();
      embedding_backward(stream, dy, ids, dtable, order);
      expect_elements(dtable, sums, 100);
      if (order == ScatterOrder::any) continue;
      if (run == 0) first = dtable.to_doubles();
      EXPECT_EQ(dtable.to_doubles(), first);
    }
  }
}

inline void check_embeddings(Device device) {
  for (const EmbeddingCase& c :
       {EmbeddingCase{1, 1, 1}, EmbeddingCase{5, 64, 0}, EmbeddingCase{5, 0, 9},
        EmbeddingCase{0, 7, 9}, EmbeddingCase{130, 7, 67}, EmbeddingCase{70, 130, 1100},
        EmbeddingCase{3, 5000, 20}})
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
      SCOPED_TRACE(testing::Message() << name(dtype) << " " << c.rows << " x " << c.columns << ", "
                                      << c.tokens << " tokens");
      check_embedding(c, dtype, device, c.rows != 130);
    }
}

}  // namespace tegula::test
