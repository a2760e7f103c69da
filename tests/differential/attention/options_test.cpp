// Options of a call of attention beyond its output: sinks, row maxima, a scale; and those that are
// refused.
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/differential/attention/attention_reference.h"
#include "tests/error/expect_error.h"

namespace tegula::test::options_test {
using namespace kernels;
namespace {

class AttentionOptions : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, AttentionOptions, testing::ValuesIn(devices()), device_name);

const std::vector<float> kSinks{0.5f, -3.0f, 40.0f, -INFINITY};

TEST_P(AttentionOptions, SinksAndMaxima) {
  const Tensor sinks = Tensor::from(kSinks, GetParam());
  // Rows below 20 see no key.
  const Mask mask = [](Tile, Tile, Tile q, Tile kv) { return q >= kv + 20 && q - kv < 90; };
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv + 20 && q - kv < 90; };
  host.scale = 0.3;
  for (const bool scored : {false, true}) {
    AttentionSpec spec{.mask = mask, .scale = 0.3f};
    if (scored) {
      spec.score = [](Tile s, Tile, Tile h, Tile, Tile kv) {
        return s * 0.5f + cast<f32>(h * (kv % 3));
      };
      host.score = [](double s, int, int h, int, int kv) { return s * 0.5 + h * (kv % 3); };
    }
    const Attention attention(spec);
    for (const bool with_sinks : {true, false}) {
      SCOPED_TRACE(testing::Message() << scored << with_sinks);
      host.sink = [&](int h) {
        return with_sinks ? kSinks[static_cast<std::size_t>(h)] : -INFINITY;
      };
      const Tensors t({.batch = 2, .heads = 4, .kv_heads = 2, .seqlen_q = 150, .seqlen_kv = 131},
                      DType::bf16, Order::bshd, GetParam());
      attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras(with_sinks ? sinks : Tensor()));
      expect_attention(host, t, /*maxima=*/true);
      if (HasFatalFailure()) return;
    }
  }
}

/// Values of keys that no row attends to have no effect, even in blocks that are visited.
TEST_P(AttentionOptions, MaskedKeysMayBeNaN) {
  for (const auto rescaling : {Rescaling::exact, Rescaling::never}) {
    const Attention attention(
        {.mask = [](Tile, Tile, Tile q, Tile kv) { return q >= kv && kv < 83; }}, {},
        {.rescaling = rescaling});
    HostAttention host;
    host.mask = [](int, int, int q, int kv) { return q >= kv && kv < 83; };
    const Tensors t({.seqlen_q = 90, .seqlen_kv = 90}, DType::bf16, Order::bhsd, GetParam());
    t.K.slice(2, 83, 90).copy_from(Tensor::full({1, 1, 7, 64}, NAN, DType::bf16, GetParam()));
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras());
    expect_attention(host, t, /*maxima=*/rescaling == Rescaling::exact);
    if (HasFatalFailure()) return;
  }
}

/// Positions of mask and score count from the end, the range of keys too.
TEST_P(AttentionOptions, QueriesAtTheEnd) {
  for (const auto& [seqlen_q, seqlen_kv] :
       {std::pair{1, 300}, {5, 131}, {64, 64}, {150, 290}, {200, 203}}) {
    SCOPED_TRACE(testing::Message() << seqlen_q << " of " << seqlen_kv);
    const int before = seqlen_kv - seqlen_q;
    HostAttention host;
    host.mask = [=](int, int, int q, int kv) { return q + before >= kv && q + before - kv <= 99; };
    host.score = [=](double s, int, int h, int q, int kv) {
      return s + (kv - q - before) * std::exp2(-4.0 * (h + 1));
    };
    const Attention attention(
        {.mask = masks::sliding_window(99), .score = scores::alibi(2), .align_bottom_right = true});
    const Tensors t({.heads = 2, .seqlen_q = seqlen_q, .seqlen_kv = seqlen_kv}, DType::bf16,
                    Order::bhsd, GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras());
    expect_attention(host, t, /*maxima=*/true);
    if (HasFatalFailure()) return;
  }
}

/// Maxima that stay, that rise within what lazy rescaling leaves, and far beyond it; and that fall.
TEST_P(AttentionOptions, LazyRescaling) {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q + 40 >= kv; };
  host.score = [](double s, int, int h, int, int kv) { return s + kv * (h * h - 1) * 0.02; };
  AttentionSpec spec{
      .mask = [](Tile, Tile, Tile q, Tile kv) { return q + 40 >= kv; },
      .score = [](Tile s, Tile, Tile h, Tile,
                  Tile kv) { return s + cast<f32>(kv) * (cast<f32>(h * h) - 1.0f) * 0.02f; }};
  for (const bool scored : {true, false}) {
    if (!scored) spec.score = {}, host.score = HostAttention().score;
    const Attention attention(spec, {}, {.rescaling = Rescaling::lazy});
    const Tensors t({.heads = 4, .kv_heads = 2, .seqlen_q = 200, .seqlen_kv = 331}, DType::bf16,
                    Order::bhsd, GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, {.lse = t.Lse});
    expect_attention(host, t);
    attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras());
    expect_attention(host, t, /*maxima=*/true);
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttentionOptions, NoKeysAtAll) {
  const Attention attention(AttentionSpec{});
  HostAttention host;
  host.sink = [](int h) { return h == 0 ? 1.5 : -INFINITY; };
  const Tensors t({.heads = 2, .kv_heads = 2, .seqlen_q = 5, .seqlen_kv = 0}, DType::f16,
                  Order::bhsd, GetParam());
  const Tensor sinks = Tensor::from(std::vector<float>{1.5f, -INFINITY}, GetParam());
  attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras(sinks));
  expect_attention(host, t, /*maxima=*/true);
}

TEST(AttentionErrors, AreReadable) {
  Pinned pinned("attention.txt");
  const auto of = [](const Dims& shape, DType dtype = DType::bf16) {
    return Tensor::zeros(shape, dtype, Device::cpu());
  };
  const Stream cpu(Device::cpu());
  const Attention attention(AttentionSpec{});
  const Tensor q = of({1, 4, 8, 64}), k = of({1, 2, 8, 64}), rows = of({1, 4, 8}, DType::f32);
  const auto call = [&](const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                        const AttentionExtras& extras = {}) { attention(cpu, Q, K, V, O, extras); };
  const auto check = [&](const char* name, const auto& f) {
    try {
      f();
      ADD_FAILURE() << name << " is taken";
    } catch (const CompileError& e) {
      Diagnostic said = e.diagnostic();
      EXPECT_STREQ(said.loc.file, __FILE__) << name;
      said.loc = {};
      pinned.check(name, said.str() + "\n");
    }
  };
  check("rank", [&] { call(of({4, 8, 64}), k, k, q); });
  check("dtype", [&] { call(q, k, of({1, 2, 8, 64}, DType::f16), q); });
  check("batches", [&] { call(q, of({2, 2, 8, 64}), of({2, 2, 8, 64}), q); });
  check("heads of values", [&] { call(q, k, of({1, 4, 8, 64}), q); });
  check("groups", [&] { call(of({1, 3, 8, 64}), k, k, of({1, 3, 8, 64})); });
  check("lengths", [&] { call(q, k, of({1, 2, 9, 64}), q); });
  check("head dims", [&] { call(q, of({1, 2, 8, 72}), k, q); });
  check("value dims", [&] { call(q, k, of({1, 2, 8, 72}), q); });
  check("odd head dim", [&] { call(of({1, 4, 8, 12}), of({1, 2, 8, 12}), k, q); });
  check("large value dim", [&] { call(q, k, of({1, 2, 8, 264}), of({1, 4, 8, 264})); });
  check("lse", [&] { call(q, k, k, q, {.lse = of({1, 4, 9}, DType::f32)}); });
  check("row_max", [&] { call(q, k, k, q, {.row_max = of({1, 4, 8}, DType::f16)}); });
  check("sinks", [&] { call(q, k, k, q, {.sinks = of({2}, DType::f32)}); });
  check("scale", [&] { Attention({.scale = -1.0f})(cpu, q, k, k, q); });
  check("queries at end", [&] {
    Attention({.align_bottom_right = true})(cpu, q, of({1, 2, 7, 64}), of({1, 2, 7, 64}), q);
  });
  check("key splits", [&] { Attention({}, {.split_kv = 3}); });
  const Tensor packed = of({8, 4, 64}), starts = of({3}, DType::i32);
  check("cu_seqlens of q", [&] { attention.varlen(cpu, packed, packed, packed, packed, {}); });
  check("cu_seqlens of kv", [&] {
    attention.varlen(cpu, packed, packed, packed, packed, {starts, of({4}, DType::i32), 8});
  });
  check("max_seqlen_q",
        [&] { attention.varlen(cpu, packed, packed, packed, packed, {starts, starts, -1}); });
  check("sequences", [&] {
    const Tensor many = of({65538}, DType::i32);
    attention.varlen(cpu, packed, packed, packed, packed, {many, many, 8});
  });
  check("tiles of sequences", [&] {
    const Tensor wide = of({1, 1, 64}).broadcast_to({1 << 20, 64, 64});
    const Tensor begins = of({65537}, DType::i32);
    attention.varlen(cpu, wide, wide, wide, wide, {begins, begins, 1 << 20});
  });
  for (const AttentionNormalization w :
       {AttentionNormalization::none, AttentionNormalization::stick_breaking}) {
    const std::string of_weighting =
        w == AttentionNormalization::none ? " of scores" : " of sticks";
    const Attention other({.weighting = w});
    check(("sinks" + of_weighting).c_str(),
          [&] { other(cpu, q, k, k, q, {.sinks = of({4}, DType::f32)}); });
    check(("row_max" + of_weighting).c_str(), [&] { other(cpu, q, k, k, q, {.row_max = rows}); });
  }
  check("lse of scores",
        [&] { Attention({.weighting = AttentionNormalization::none})(cpu, q, k, k, q, rows); });
  check("varlen of a batch", [&] { attention.varlen(cpu, q, k, k, q, {starts, starts, 8}); });
}

}  // namespace
}  // namespace tegula::test::options_test
