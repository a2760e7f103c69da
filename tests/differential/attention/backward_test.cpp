// Attention's gradients compared with double precision: masks, lengths, groups of heads, sinks,
// types.
#include "tests/differential/attention/backward_reference.h"

#include <string>

#include "tegula/kernels/masks.h"

namespace tegula::test::backward_test {
using namespace kernels;
namespace {

class Backward : public testing::TestWithParam<Device> {
 protected:
  static HostAttention host_of(std::function<bool(int q, int kv)> mask) {
    HostAttention host;
    host.mask = [mask = std::move(mask)](int, int, int q, int kv) { return mask(q, kv); };
    return host;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Backward, testing::ValuesIn(devices()), device_name);

TEST_P(Backward, FullAndCausal) {
  for (const int length : {1, 63, 130, 257})
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(causal);
      BackwardCase c(
          {.heads = 2, .seqlen_q = length, .seqlen_kv = length, .dim = 128, .head_dim_v = 128},
          GetParam());
      AttentionSpec spec;
      if (causal) {
        spec.mask = masks::causal();
        c.host = host_of([](int q, int kv) { return q >= kv; });
      }
      check_backward(spec, c);
      if (HasFatalFailure()) return;
    }
}

TEST_P(Backward, HeadDimsTypesAndGroups) {
  struct Case {
    int dim, head_dim_v, heads, kv_heads;
    DType dtype;
  };
  for (const Case& k : {Case{64, 64, 4, 1, DType::bf16},
                        {64, 64, 2, 2, DType::f16},
                        {40, 72, 5, 1, DType::bf16},
                        {8, 128, 7, 1, DType::f16},
                        {96, 96, 4, 2, DType::bf16}}) {
    SCOPED_TRACE(k.dim);
    BackwardCase c({.batch = 2,
                    .heads = k.heads,
                    .kv_heads = k.kv_heads,
                    .seqlen_q = 70,
                    .seqlen_kv = 150,
                    .dim = k.dim,
                    .head_dim_v = k.head_dim_v},
                   GetParam(), k.dtype);
    c.host = host_of([](int q, int kv) { return q + 80 >= kv; });
    check_backward({.mask = masks::causal(), .align_bottom_right = true}, c);
    if (HasFatalFailure()) return;
  }
}

/// Head dims above 128: two launches, blocks of 32 queries whose dQ is added transposed.
TEST_P(Backward, WideHeads) {
  struct Case {
    int dim, head_dim_v, heads, kv_heads;
    DType dtype;
  };
  for (const Case& k : {Case{136, 136, 1, 1, DType::bf16},
                        {192, 128, 2, 1, DType::bf16},
                        {256, 256, 1, 1, DType::f16},
                        {32, 200, 2, 1, DType::bf16}}) {
    SCOPED_TRACE(k.dim);
    BackwardCase c({.heads = k.heads,
                    .kv_heads = k.kv_heads,
                    .seqlen_q = 75,
                    .seqlen_kv = 140,
                    .dim = k.dim,
                    .head_dim_v = k.head_dim_v},
                   GetParam(), k.dtype);
    c.host = host_of([](int q, int kv) { return q + 65 >= kv; });
    check_backward({.mask = masks::causal(), .align_bottom_right = true}, c);
    if (HasFatalFailure()) return;
  }
}

/// The same with lists, whose blocks also have 32 queries, and with one gradient at a time.
TEST_P(Backward, WideHeadsWithLists) {
  const Mask mask = [](Tile, Tile h, Tile q, Tile kv) { return (q / 32 + kv / 128 + h) % 3 != 0; };
  const auto kept = [](int, int h, int q, int kv) { return (q / 32 + kv / 128 + h) % 3 != 0; };
  for (const bool is_listed : {false, true}) {
    BackwardCase c({.heads = 2,
                    .kv_heads = 1,
                    .seqlen_q = 100,
                    .seqlen_kv = 140,
                    .dim = 136,
                    .head_dim_v = 136},
                   GetParam());
    c.host.mask = kept;
    (is_listed ? c.dV : c.dQ) = Tensor();
    if (is_listed)
      c.blocks =
          Attention({.mask = mask}).block_list(Stream(GetParam()), c.Q, c.K, BlockListRows::keys);
    check_backward({.mask = mask}, c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Backward, Masks) {
  struct Case {
    const char* name;
    Mask mask;
    std::function<bool(int q, int kv)> host;
  };
  for (const Case& k :
       {Case{"window", masks::window(50, 20),
             [](int q, int kv) { return q - kv <= 50 && kv - q <= 20; }},
        {"prefix", masks::prefix_lm(40), [](int q, int kv) { return q >= kv || kv < 40; }},
        {"no keys",
         [](Tile, Tile, Tile q, Tile kv) { return q >= kv && q != 3 && (q < 100 || q >= 180); },
         [](int q, int kv) { return q >= kv && q != 3 && (q < 100 || q >= 180); }},
        {"sinks and window", masks::sink_window(4, 30),
         [](int q, int kv) { return q >= kv && (kv < 4 || q - kv <= 30); }}}) {
    SCOPED_TRACE(k.name);
    BackwardCase c({.heads = 2, .kv_heads = 1, .seqlen_q = 300, .seqlen_kv = 300}, GetParam());
    c.host = host_of(k.host);
    check_backward({.mask = k.mask}, c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Backward, SinksAndGradientOfLse) {
  BackwardCase c({.batch = 2, .heads = 3, .seqlen_q = 140, .seqlen_kv = 90}, GetParam());
  c.with_sinks();
  c.host.mask = [](int, int, int q, int kv) { return q >= kv + 10; };
  check_backward({.mask = [](Tile, Tile, Tile q, Tile kv) { return q >= kv + 10; }}, c);
}

TEST_P(Backward, EmptyCalls) {
  for (const auto& [q, kv] : {std::pair{0, 5}, {5, 0}, {0, 0}}) {
    SCOPED_TRACE(q);
    BackwardCase c({.heads = 2, .seqlen_q = q, .seqlen_kv = kv}, GetParam());
    c.with_sinks();
    check_backward({}, c);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tegula::test::backward_test
