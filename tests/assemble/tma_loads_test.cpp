// Attention whose bias of each pair is loaded by TMA: neither emitter's code spills.
#include <tuple>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/assemble/assembled.h"

namespace tegula::tma_loads_test {
using namespace kernels;
namespace {

using namespace test;

void expect_loaded_by_tma(AttentionSpec spec, int dim, DType dtype,
                          const AttentionSchedule& schedule = {}) {
  SCOPED_TRACE(testing::Message() << "head dim " << dim << ", " << name(dtype));
  spec.score = scores::bias(Tensor::zeros({1, 1, 64, 64}, dtype, Device::cpu()));
  const Tensor t = host({1, 1, 64, dim}), O = host({1, 1, 64, dim});
  const Attention attention(spec, schedule);
  const ir::Kernel tile = traced("attention", [&] { attention(t, t, t, O); });
  for (const runtime::Backend backend : here())
    EXPECT_TRUE(expect_clean(tile, "sm_90a", true, backend).tma_aux_loads)
        << runtime::name(backend);
}

TEST_F(Assembled, AttentionWithABiasByTma) {
  for (const int dim : {64, 96, 128, 192, 256})
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
      expect_loaded_by_tma({}, dim, dtype);
      expect_loaded_by_tma({.mask = masks::causal()}, dim, dtype);
      expect_loaded_by_tma({.mask = masks::sliding_window(Scalar<i32>(20))}, dim, dtype);
    }
}

/// Steps of as many keys as gathers support; for head dim 64, more than the default.
TEST_F(Assembled, OtherStepsWithABiasByTma) {
  for (const auto& [dim, keys, dtype] :
       {std::tuple{64, 64, DType::f32}, {64, 128, DType::f32}, {128, 64, DType::bf16}})
    expect_loaded_by_tma({.mask = masks::causal()}, dim, dtype,
                         {.tiles = AttentionTileShape{128, keys}});
}

/// Together with the block search and with another tensor that threads read.
TEST_F(Assembled, AListWithABiasByTma) {
  const Mask documents = masks::document(Tensor::zeros({64}, DType::i32, Device::cpu())),
             padding = masks::key_padding(Tensor::zeros({1}, DType::i32, Device::cpu()));
  for (const int dim : {64, 128})
    for (const DType dtype : {DType::bf16, DType::f32})
      for (const Mask& mask : {documents, padding})
        expect_loaded_by_tma({.mask = mask}, dim, dtype);
}

/// Without room for the bias in rings, a few registers spill; the second compilation, with fewer
/// passes, needs more shared memory than the target has.
TEST_F(Assembled, ABiasThatTmaHasNoRoomForFits) {
  AttentionSpec spec;
  spec.score =
      scores::bias(Tensor::zeros({1, 1, 200, 332}, DType::f32, Device::cpu()).slice(3, 0, 330));
  const Tensor q = host({1, 2, 200, 64}), kv = host({1, 2, 330, 64}), O = host({1, 2, 200, 64});
  const Attention attention(spec, {.tiles = AttentionTileShape{128, 176}});
  const ir::Kernel tile = traced("attention", [&] { attention(q, kv, kv, O); });
  runtime::CompileRequest request;
  request.target = ir::Target("sm_90a");
  for (const runtime::Backend backend : here()) {
    SCOPED_TRACE(runtime::name(backend));
    request.backend = backend;
    const runtime::Compilation k = assembled(tile, request);
    EXPECT_TRUE(runtime::fits(k)) << k.simt.info.smem_bytes << " " << k.plan.str();
  }
}

/// Tiles of three warpgroups.
TEST_F(Assembled, TallAttentionWithABiasByTma) {
  for (const DType dtype : {DType::bf16, DType::f32})
    expect_loaded_by_tma({.mask = masks::causal()}, 64, dtype,
                         {.tiles = AttentionTileShape{192, 64}});
}

}  // namespace
}  // namespace tegula::tma_loads_test
