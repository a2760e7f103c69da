// Attention to pages is assembled: wgmma on rows that cp.async or TMA copies, no spills.
#include <gtest/gtest.h>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/tegula.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::paged_attention_test {
using namespace kernels;
namespace {

/// Kernels of a step of two requests with `queries` rows of Q in all, and `columns` pages each.
std::vector<ir::Kernel> traced_paged(const std::vector<std::string>& names, std::int64_t rows,
                                     std::int64_t dim, std::int64_t queries,
                                     std::int64_t max_seqlen_q, std::int64_t columns = 3,
                                     bool keys_in_m = true) {
  const Attention attention({.mask = masks::causal()}, {.keys_in_m = keys_in_m});
  const Tensor Q = host({queries, 8, dim}), O = host({queries, 8, dim}),
               pages = host({6, rows, 2, dim});
  const auto numbers = [](const Dims& shape) {
    return Tensor::zeros(shape, DType::i32, Device::cpu());
  };
  const KvCache cache{pages, pages, numbers({2, columns})};
  KvBatch batch{numbers({3}), numbers({2}), max_seqlen_q};
  const bool is_scheduled = columns * rows >= 1024;
  if (is_scheduled) batch.schedule = numbers({schedule_words(2, Device::cpu())});
  return all_traced(names, [&] {
    const Stream stream(Device::cpu());
    if (is_scheduled) attention.schedule(stream, Q, cache, batch, batch.schedule);
    attention.paged(stream, Q, cache, O, batch);
  });
}

void expect_without_spills(const ir::Kernel& tile) {
  runtime::CompileRequest request;
  request.target = ir::Target("sm_90a");
  request.backend = runtime::Backend::Llvm;
  const runtime::Compilation k = assembled(tile, request);
  EXPECT_TRUE(k.plan.wgmma);
  EXPECT_EQ(k.report.spill_stores + k.report.spill_loads, 0);
}

TEST_F(Assembled, PagedAttention) {
  for (const std::int64_t dim : {64, 128})
    for (const std::int64_t rows : {1, 24, 64})
      for (const std::int64_t longest : {1, 300}) {
        SCOPED_TRACE(testing::Message() << dim << " rows " << rows << " queries " << longest);
        expect_clean(traced_paged({"attention"}, rows, dim, 300, longest).front(), "sm_90a", true);
      }
}

/// The list of a step's work, and the kernel that reads it and combines the parts of a request.
TEST_F(Assembled, PagedAttentionByWorkList) {
  const auto kernels = traced_paged({"attention_schedule", "attention"}, 16, 128, 2, 1, 128);
  expect_clean(kernels[0], "sm_90a", false);
  expect_clean(kernels[1], "sm_90a", true);
  for (const auto& [dim, keys_in_m] : {std::pair{64, true}, {64, false}, {128, false}})
    expect_clean(traced_paged({"attention"}, 16, dim, 2, 1, 128, keys_in_m).front(), "sm_90a",
                 true);
}

/// A step of prompts and decoding requests has a kernel for either kind.
TEST_F(Assembled, PagedAttentionOfMixedSteps) {
  for (const std::int64_t dim : {64, 128, 256})
    for (const std::int64_t rows : {2, 64}) {
      SCOPED_TRACE(testing::Message() << dim << ", pages of " << rows);
      const auto kernels =
          traced_paged({"attention", "attention_few"}, rows, dim, 300, 300, 2048 / rows);
      expect_without_spills(kernels[0]);
      EXPECT_EQ(expect_clean(kernels[1], "sm_90a", true).min_ctas_per_sm, dim > 128 ? 1 : 2);
    }
}

/// With 256 columns, the accumulator of 64 rows fills half of the registers.
TEST_F(Assembled, PagedAttentionByWorkListOfWideHeads) {
  for (const bool keys_in_m : {true, false})
    expect_without_spills(traced_paged({"attention"}, 16, 256, 2, 1, 128, keys_in_m).front());
}

/// Two CTAs share an SM, also if TMA copies the keys, unless heads are wide. By work list their
/// threads copy.
TEST_F(Assembled, PagedAttentionWithKeysInM) {
  for (const std::int64_t dim : {64, 80, 128, 192, 256})
    for (const std::int64_t rows : {2, 48})
      for (const std::int64_t queries : {1, 8}) {
        if (queries > 1 && dim > 128) continue;  // heads are not packed
        SCOPED_TRACE(testing::Message() << dim << ", pages of " << rows << ", " << queries);
        const auto kernels =
            traced_paged({"attention"}, rows, dim, 2 * queries, queries, 2048 / rows);
        for (const runtime::Backend backend : here()) {
          const ir::Plan plan = expect_clean(kernels.front(), "sm_90a", true, backend);
          EXPECT_EQ(plan.num_warps, 4);
          EXPECT_EQ(plan.min_ctas_per_sm, dim > 128 ? 1 : 2);
          EXPECT_EQ(plan.producer_warps > 0, rows == 48 && dim > 128);
        }
        expect_clean(kernels.front(), "sm_80", false);
      }
  const auto undivided = traced_paged({"attention"}, 48, 128, 2, 1);
  EXPECT_GT(expect_clean(undivided.front(), "sm_90a", true).producer_warps, 0);
}

/// Kernels of `varlen` with two packed sequences of `queries` queries each.
std::vector<ir::Kernel> traced_varlen(const std::vector<std::string>& names, std::int64_t dim,
                                      std::int64_t head_dim_v, std::int64_t queries,
                                      const AttentionSchedule& schedule,
                                      const Mask& mask = masks::causal()) {
  const Attention attention({.mask = mask, .align_bottom_right = true}, schedule);
  const Tensor Q = host({2 * queries, 8, dim}), O = host({2 * queries, 8, head_dim_v}),
               K = host({3000, 2, dim}), V = host({3000, 2, head_dim_v}),
               starts = Tensor::zeros({3}, DType::i32, Device::cpu());
  return all_traced(names, [&] {
    attention.varlen(Stream(Device::cpu()), Q, K, V, O, {starts, starts, queries});
  });
}

/// Packed sequences with few queries: TMA copies keys, and two CTAs share an SM unless heads are
/// wide.
TEST_F(Assembled, PackedSequencesWithKeysInM) {
  for (const auto& [dim, head_dim_v, queries] :
       {std::tuple{64, 64, 1}, {128, 128, 8}, {192, 128, 1}, {192, 128, 8}, {256, 256, 1}})
    for (const int split_kv : {1, 2}) {
      SCOPED_TRACE(testing::Message() << dim << ", queries " << queries << ", " << split_kv);
      const auto kernels =
          traced_varlen({"attention"}, dim, head_dim_v, queries, {.split_kv = split_kv});
      for (const runtime::Backend backend : here()) {
        const ir::Plan plan = expect_clean(kernels.front(), "sm_90a", true, backend);
        EXPECT_EQ(plan.num_warps, 4);
        EXPECT_EQ(plan.min_ctas_per_sm, dim > 128 ? 1 : 2);
        EXPECT_GT(plan.producer_warps, 0);
      }
      expect_clean(kernels.front(), "sm_80", false);
    }
}

/// The list that the call writes, and packed rows in M.
TEST_F(Assembled, PackedSequencesByWorkList) {
  const AttentionSchedule rows_in_m{.split_kv = 2, .keys_in_m = false};
  const auto kernels = traced_varlen({"attention_schedule", "attention"}, 128, 128, 4, rows_in_m,
                                     masks::sliding_window(1000));
  expect_clean(kernels[0], "sm_90a", false);
  expect_without_spills(kernels[1]);
  expect_without_spills(traced_varlen({"attention"}, 256, 256, 1, rows_in_m).front());
}

/// The producer holds eight entries of the page table for a block of 128 keys.
TEST_F(Assembled, PagedAttentionOfManyBoxes) {
  for (const std::int64_t dim : {64, 128})
    expect_without_spills(traced_paged({"attention"}, 16, dim, 300, 300).front());
}

/// In M, rows of several queries are fragments in registers. Two CTAs share an SM if threads copy
/// all operands; TMA needs one.
TEST_F(Assembled, PagedAttentionOfSeveralQueries) {
  for (const std::int64_t dim : {64, 96, 128, 144})
    for (const auto& [rows, ctas] : {std::pair{24, 2}, std::pair{32, 1}}) {
      SCOPED_TRACE(testing::Message() << dim << ", pages of " << rows);
      const auto kernels = traced_paged({"attention"}, rows, dim, 8, 4, 128, false);
      EXPECT_EQ(expect_clean(kernels.front(), "sm_90a", true).min_ctas_per_sm, ctas);
    }
}

/// Appending is assembled without spills: rows are read and written 16 bytes at a time. With one
/// query per request, no thread searches for its request.
TEST_F(Assembled, Append) {
  const auto zeros = [](const Dims& shape, DType type) {
    return Tensor::zeros(shape, type, Device::cpu());
  };
  const Tensor Q = host({300, 8, 128}), K = host({300, 2, 128}), slots = zeros({300}, DType::i64);
  const KvCache cache{host({6, 16, 2, 128}), host({6, 16, 2, 128}), zeros({2, 3}, DType::i32)};
  const RopeTables rope{zeros({64, 64}, DType::f32), zeros({64, 64}, DType::f32)};
  for (const KvAppend& how :
       {KvAppend{}, KvAppend{.rope = rope, .Q = Q}, KvAppend{.rope = rope, .slots = slots},
        KvAppend{.pairs = RopePairs::interleaved, .rope = rope}})
    for (const std::int64_t longest : {1, 300}) {
      const KvBatch batch{zeros({3}, DType::i32), zeros({2}, DType::i32), longest};
      const ir::Kernel tile =
          traced("kv_append", [&] { append(Stream(Device::cpu()), K, K, cache, batch, how); });
      runtime::CompileRequest request;
      request.target = ir::Target("sm_90a");
      request.backend = here().front();
      const runtime::Compilation k = assembled(tile, request);
      EXPECT_EQ(k.report.spill_stores + k.report.spill_loads, 0);
      int single = 0;
      ir::walk(k.simt, k.simt.body(), [&](ir::OpId op) {
        const ir::OpData& d = k.simt[op];
        const bool is_store = d.opcode == ir::Opcode::StGlobal;
        EXPECT_TRUE(!is_store || d.attrs.i(ir::AttrName::width) == 8);
        single += d.opcode == ir::Opcode::LdGlobal && d.attrs.i(ir::AttrName::width) == 1;
      });
      EXPECT_TRUE(longest > 1 || single <= 8) << single;
    }
}

}  // namespace
}  // namespace tegula::test::paged_attention_test
