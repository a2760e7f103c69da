// Tensors that a score reads at each pair, loaded as tiles by TMA (plan.tma_aux_loads): equal to
// the bit to loads by threads, and right by double precision.
#include "support/env.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test::tma_loads_test {
using namespace kernels;
namespace {

constexpr const char* kByTma = "applied: gathered box loaded as one";

/// A bias in a tensor with longer rows, whose first `skipped` elements are not its own.
struct BiasCase {
  Dims shape;
  DType dtype;
  std::int64_t row = 0;  ///< elements of a row in memory; 0: as many as there are
  std::int64_t skipped = 0;
  const char* said = kByTma;
};

class TmaLoads : public testing::TestWithParam<Device> {
 protected:
  static Tensor bias_of(const BiasCase& c) {
    Dims in_memory = c.shape;
    if (c.row != 0) in_memory[3] = c.row;
    const Tensor all = Tensor::normal(in_memory, c.dtype, 0, 1, 7, GetParam());
    return all.slice(3, c.skipped, c.skipped + c.shape[3]);
  }

  static std::vector<double> outputs(const Tensors& t) {
    std::vector<double> all = t.O.to_doubles(), lse = t.Lse.to_doubles();
    all.insert(all.end(), lse.begin(), lse.end());
    return all;
  }

  static void expect_said(const std::string& said, const std::string& text) {
    if (GetParam().kind == DeviceKind::cpu) return;  // compiles nothing
    if (GetParam().kind == DeviceKind::cuda && said.find("wgmma=1") == std::string::npos) return;
    EXPECT_NE(said.find(text), std::string::npos) << text << "\n" << said;
  }

  /// With and without, on the same tensors, in steps of as many keys but under lists; gives what
  /// was said of it.
  static std::string compare(const AttentionSpec& spec, const HostAttention& host, const Extents& e,
                             AttentionSchedule schedule = {}) {
    SCOPED_TRACE(e.str());
    std::vector<double> before;
    std::string said;
    if (!schedule.tiles) schedule.tiles = AttentionTileShape{128, 64};
    for (const bool by_tma : {false, true}) {
      schedule.tma_aux_loads = by_tma;
      const Attention attention(spec, schedule);
      const Tensors t(e, DType::bf16, Order::bhsd, GetParam());
      attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
      expect_attention(host, t);
      if (HasFatalFailure()) return said;
      said = attention.explain(DType::bf16);
      const bool uses_block_list = said.find("a block list") != std::string::npos;
      if (by_tma && !uses_block_list) {
        EXPECT_EQ(outputs(t), before);
      }
      before = outputs(t);
    }
    return said;
  }

  static void check(const BiasCase& c, const Extents& e, AttentionSpec spec = {},
                    HostAttention host = {}, int first_query = 0,
                    const AttentionSchedule& schedule = {}) {
    SCOPED_TRACE(testing::Message() << name(c.dtype) << ", row " << c.row << " from " << c.skipped);
    const Tensor bias = bias_of(c);
    const std::vector<double> values = bias.to_doubles();
    host.score = [&](double s, int b, int h, int q, int kv) {
      const std::int64_t at[] = {b, h, q + first_query, kv};
      std::int64_t element = 0;
      for (std::size_t i = 0; i < 4; ++i)
        element = element * c.shape[i] + (c.shape[i] == 1 ? 0 : at[i]);
      return s + values[static_cast<std::size_t>(element)];
    };
    spec.score = scores::bias(bias);
    const std::string said = compare(spec, host, e, schedule);
    expect_said(said, c.said);
    expect_said(said, std::string_view(c.said) == kByTma ? "tma_aux_loads=1" : "tma_aux_loads=0");
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, TmaLoads, testing::ValuesIn(devices()), device_name);

constexpr Extents kOdd{2, 4, 2, 70, 133, 32, 32};

TEST_P(TmaLoads, EachTypeWithGroupedHeads) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
    check({{2, 4, 70, 133}, dtype, 136}, kOdd);
}

TEST_P(TmaLoads, ForAllEntriesOrHeads) {
  for (const Dims& shape : {Dims{1, 4, 70, 133}, Dims{2, 1, 70, 133}, Dims{1, 1, 70, 133}})
    check({shape, DType::bf16, 136}, kOdd);
}

/// A bias of stride 0, as frameworks expand tensors.
TEST_P(TmaLoads, Repeated) {
  const Tensor all = Tensor::normal({1, 1, 70, 136}, DType::f32, 0, 1, 7, GetParam());
  const Tensor bias = all.broadcast_to({2, 4, 70, 136}).slice(3, 0, 133);
  HostAttention host;
  host.score = [values = all.to_doubles()](double s, int, int, int q, int kv) {
    return s + values[static_cast<std::size_t>(q * 136 + kv)];
  };
  expect_said(compare({.score = scores::bias(bias)}, host, kOdd), kByTma);
}

TEST_P(TmaLoads, UnderMasks) {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  check({{2, 4, 70, 133}, DType::bf16, 136}, kOdd, {.mask = masks::causal()}, host);
  // The first query's position is not 0.
  host.mask = [](int, int, int q, int kv) { return q + 63 >= kv; };
  check({{2, 4, 133, 133}, DType::f32, 136}, kOdd,
        {.mask = masks::causal(), .align_bottom_right = true}, host, 63, {.pack_gqa = false});
}

/// Before and after other functions, one of which gives accumulator-init terms.
TEST_P(TmaLoads, AmongOtherScores) {
  const Tensor bias = bias_of({{2, 4, 70, 133}, DType::bf16, 136});
  const std::vector<double> values = bias.to_doubles();
  const auto of = [&](int b, int h, int q, int kv) {
    return values[static_cast<std::size_t>(((b * 4 + h) * 70 + q) * 133 + kv)];
  };
  HostAttention host;
  host.score = [&](double s, int b, int h, int q, int kv) {
    return 2 * std::tanh(s / 2) + of(b, h, q, kv);
  };
  expect_said(
      compare({.score = scores::compose(scores::softcap(2.0f), scores::bias(bias))}, host, kOdd),
      kByTma);
  host.score = [&](double s, int b, int h, int q, int kv) {
    return s + of(b, h, q, kv) + (kv - q) * std::exp2(-2.0 * (h + 1));
  };
  expect_said(compare({.score = scores::compose(scores::bias(bias), scores::alibi(4))}, host, kOdd),
              kByTma);
}

/// Blocks of keys that a list names.
TEST_P(TmaLoads, UnderAList) {
  std::vector<i32> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(i / 70);
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q / 70 == kv / 70; };
  check({{1, 2, 300, 300}, DType::f32}, {1, 2, 1, 300, 300, 64, 64},
        {.mask = masks::document(Tensor::from(ids, GetParam()))}, host);
}

/// Sequences in one tensor: positions are those within each.
TEST_P(TmaLoads, Sequences) {
  const Tensor bias = bias_of({{3, 2, 256, 280}, DType::bf16});
  std::vector<double> before;
  for (const bool by_tma : {false, true}) {
    const Attention attention({.mask = masks::causal(), .score = scores::bias(bias)},
                              {.tma_aux_loads = by_tma});
    const Tensors t({.heads = 2, .kv_heads = 2, .seqlen_q = 450, .seqlen_kv = 460}, DType::bf16,
                    Order::bshd, GetParam());
    const auto rows = [](const Tensor& x) { return x.select(0, 0).transpose(0, 1); };
    const std::vector<i32> q{0, 250, 250, 450}, kv{0, 260, 280, 460};
    attention.varlen(Stream(GetParam()), rows(t.Q), rows(t.K), rows(t.V), rows(t.O),
                     {Tensor::from(q, GetParam()), Tensor::from(kv, GetParam()), 250});
    if (by_tma) {
      EXPECT_EQ(t.O.to_doubles(), before);
      expect_said(attention.explain(DType::bf16), "tma_aux_loads=1");
    }
    before = t.O.to_doubles();
  }
}

/// Keys and values of this many positions leave no room.
TEST_P(TmaLoads, NoRoom) {
  const Tensor bias = bias_of({{1, 1, 200, 330}, DType::f32, 332});
  HostAttention host;
  host.score = [values = bias.to_doubles()](double s, int, int, int q, int kv) {
    return s + values[static_cast<std::size_t>(q * 330 + kv)];
  };
  const std::string said =
      compare({.score = scores::bias(bias)}, host, {.heads = 2, .seqlen_q = 200, .seqlen_kv = 330},
              {.tiles = AttentionTileShape{128, 176}});
  expect_said(said, "no auxiliary loads by TMA: the operands leave no shared memory");
  expect_said(said, "persistent=1");
}

/// Rows in descending order, which TMA does not take.
TEST_P(TmaLoads, Flipped) {
  const Tensor all = Tensor::normal({1, 1, 72, 136}, DType::bf16, 0, 1, 7, GetParam());
  HostAttention host;
  host.score = [values = all.to_doubles()](double s, int, int, int q, int kv) {
    return s + values[static_cast<std::size_t>((71 - q) * 136 + kv)];
  };
  const Extents e{.heads = 2, .seqlen_q = 72, .seqlen_kv = 136};
  const std::string said = compare({.score = scores::bias(all.flip(2))}, host, e);
  expect_said(said, "tma_aux_loads=0");
}

/// Several tiles a program, and several steps: rings go round.
TEST_P(TmaLoads, ManySteps) {
  for (const int dim : {64, 128})
    for (const DType dtype : {DType::bf16, DType::f32}) {
      HostAttention host;
      host.mask = [](int, int, int q, int kv) { return q >= kv; };
      check({{1, 2, 390, 520}, dtype}, {1, 2, 1, 390, 520, dim, dim}, {.mask = masks::causal()},
            host);
      if (HasFatalFailure()) return;
    }
}

/// With other plan fields, requested by the process instead of the call.
TEST_P(TmaLoads, OtherPlans) {
  const Tensor bias = bias_of({{1, 2, 200, 330}, DType::f32, 332});
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  host.score = [values = bias.to_doubles()](double s, int, int h, int q, int kv) {
    return s + values[static_cast<std::size_t>((h * 200 + q) * 330 + kv)];
  };
  const Extents e{.heads = 2, .seqlen_q = 200, .seqlen_kv = 330};
  for (const char* plan : {"", "stages=2", "persistent=0", "producer_warps=0 consumer_registers=0",
                           "warp_scheduler_barrier=0", "overlap_epilogue=0", "dynamic_scheduler=1",
                           "tma_store=1", "wgmma=0"}) {
    SCOPED_TRACE(plan);
    Env changed = env();
    changed.plan = std::string("tma_aux_loads=1 ") + plan;
    const EnvOverride scope(changed);
    const Attention attention({.mask = masks::causal(), .score = scores::bias(bias)});
    const Tensors t(e, DType::bf16, Order::bshd, GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.Lse);
    expect_attention(host, t);
    if (HasFatalFailure()) return;
    const bool has_none = std::string_view(plan) == "wgmma=0";
    expect_said(attention.explain(DType::bf16), has_none ? "tma_aux_loads=0" : "tma_aux_loads=1");
  }
}

/// Tensors that TMA cannot load, and why.
TEST_P(TmaLoads, ElementByElement) {
  const std::string one = "loaded element by element, not by TMA: ";
  const std::string begins = one + "the tensor does not begin at a multiple of 16 bytes",
                    strides = one + "strides are not multiples of 16 bytes",
                    none = one + "its elements are not a box of a tensor";
  check({{2, 4, 70, 133}, DType::bf16, 144, 1, begins.c_str()}, kOdd);
  check({{2, 4, 70, 133}, DType::bf16, 0, 0, strides.c_str()}, kOdd);
  check({{2, 4, 70, 133}, DType::f32, 134, 0, strides.c_str()}, kOdd);
  check({{2, 4, 4, 133}, DType::f32, 136, 0, none.c_str()}, {2, 4, 2, 4, 133, 32, 32}, {}, {}, 0,
        {.pack_gqa = true});
}

}  // namespace
}  // namespace tegula::test::tma_loads_test
