#pragma once
// Random configurations of attention: dtypes, head dims, lengths, groups, masks, scores, options
// and plans. A run throws what the device finds, and compares every row with the reference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "support/env.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tests/differential/attention/attention_reference.h"

namespace tegula::test {
using namespace kernels;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  int between(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(int n) { return between(1, n) == 1; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(between(0, static_cast<int>(list.size()) - 1))];
  }

 private:
  std::mt19937_64 random_;
};

/// One configuration; for varlen, the extents are those of all sequences together.
struct Config {
  Extents extents;
  DType dtype = DType::bf16;
  Order order = Order::bhsd;
  AttentionSpec spec;
  AttentionSchedule schedule;
  AttentionNumerics numerics;
  HostAttention host;
  std::vector<float> sinks;
  bool maxima = false;
  std::vector<i32> q_starts, kv_starts;  ///< starts with varlen, else empty
  std::string plan, text;

  std::string str() const {
    return extents.str() + std::string(name(dtype)) + (order == Order::bhsd ? " bhsd " : " bshd ") +
           text + (schedule.tiles ? tiles_text() : "") + (sinks.empty() ? "" : " sinks") +
           (maxima ? " maxima" : "") +
           (q_starts.empty() ? "" : " varlen " + std::to_string(q_starts.size() - 1)) + " [" +
           plan + "]";
  }
  std::string tiles_text() const {
    return std::to_string(schedule.tiles->block_q) + "x" +
           std::to_string(schedule.tiles->block_kv) + " ";
  }
};

inline void choose_mask(Config& c, Dice& dice, Device device) {
  const int n = dice.between(1, 90), m = dice.between(0, 60);
  auto& seen = c.host.mask;
  switch (dice.between(0, 7)) {
    case 0:
      return;
    case 1:
      c.text += "causal ";
      c.spec.mask = masks::causal();
      seen = [](int, int, int q, int kv) { return q >= kv; };
      return;
    case 2:
      c.text += "window ";
      c.spec.mask = masks::window(Scalar<i32>(n), m);
      seen = [=](int, int, int q, int kv) { return q - kv <= n && kv - q <= m; };
      return;
    case 3:
      c.text += "prefix ";
      c.spec.mask = masks::prefix_lm(n);
      seen = [=](int, int, int q, int kv) { return kv < n || q >= kv; };
      return;
    case 4:
      c.text += "chunked ";
      c.spec.mask = masks::chunked(n);
      seen = [=](int, int, int q, int kv) { return q >= kv && q / n == kv / n; };
      return;
    case 5:
      c.text += "dilated or not block causal ";
      c.spec.mask = masks::or_(masks::dilated_window(m, 3), masks::not_(masks::block_causal(n)));
      seen = [=](int, int, int q, int kv) {
        return (std::abs(q - kv) <= m && (q - kv) % 3 == 0) || q / n < kv / n;
      };
      return;
    case 6: {
      c.text += "document ";
      std::vector<i32> ids;
      for (int i = 0; i < 400; ++i) ids.push_back(i / n);
      c.spec.mask = masks::and_(masks::document(Tensor::from(ids, device)), masks::causal());
      seen = [=](int, int, int q, int kv) { return q / n == kv / n && q >= kv; };
      return;
    }
    default:
      c.text += "of batch and head ";
      c.spec.mask = [=](Tile b, Tile h, Tile q, Tile kv) { return kv <= q + (h * 5 - b * n); };
      seen = [=](int b, int h, int q, int kv) { return kv <= q + h * 5 - b * n; };
  }
}

inline void choose_score(Config& c, Dice& dice, Device device) {
  const auto heads = static_cast<int>(c.extents.heads);
  auto& host = c.host.score;
  switch (dice.between(0, 5)) {
    case 0:
      c.text += "softcap ";
      c.spec.score =
          scores::softcap(1.5f, dice.one_in(2) ? scores::Tanh::exact : scores::Tanh::approximate);
      host = [](double s, int, int, int, int) { return 1.5 * std::tanh(s / 1.5); };
      return;
    case 1:
      c.text += "alibi ";
      c.spec.score = scores::alibi(heads);
      host = [=](double s, int, int h, int q, int kv) {
        return s + (kv - q) * std::exp2(-8.0 * (h + 1) / heads);
      };
      return;
    case 2: {
      c.text += "bias ";
      const Tensor bias = Tensor::normal({1, heads, 1, 400}, c.dtype, 0, 1, 77, device);
      c.spec.score = scores::bias(bias);
      host = [values = bias.to_doubles()](double s, int, int h, int, int kv) {
        return s + values[static_cast<std::size_t>(h * 400 + kv)];
      };
      return;
    }
    case 3: {
      c.text += "temperature then t5 ";
      const Tensor table = Tensor::normal({8, heads}, DType::f32, 0, 1, 78, device);
      const Tensor factors = Tensor::uniform({heads}, DType::f32, 0.5, 2, 79, device);
      c.spec.score =
          scores::compose(scores::head_temperature(factors), scores::t5_bias(table, 5, false));
      host = [t = table.to_doubles(), f = factors.to_doubles(), heads](double s, int, int h, int q,
                                                                       int kv) {
        // The buckets from 4 on, of eight, are one apart up to a distance of 5.
        const int distance = std::max(0, q - kv), bucket = distance < 4    ? distance
                                                           : distance == 4 ? 4
                                                                           : 7;
        return s * f[static_cast<std::size_t>(h)] + t[static_cast<std::size_t>(bucket * heads + h)];
      };
      return;
    }
    default:
      return;
  }
}

inline void align_bottom_right(Config& c) {
  c.text += "at end ";
  c.spec.align_bottom_right = true;
  const auto before = static_cast<int>(c.extents.seqlen_kv - c.extents.seqlen_q);
  c.host.mask = [=, inner = c.host.mask](int b, int h, int q, int kv) {
    return inner(b, h, q + before, kv);
  };
  c.host.score = [=, inner = c.host.score](double s, int b, int h, int q, int kv) {
    return inner(s, b, h, q + before, kv);
  };
}

inline Config random_config(std::uint64_t seed, Device device) {
  Dice dice(seed);
  Config c;
  const int largest = dice.one_in(5) ? 32 : 12;
  c.extents.dim = 8 * dice.between(1, largest);
  c.extents.head_dim_v = dice.one_in(2) ? c.extents.dim : 8 * dice.between(1, largest);
  c.extents.batch = dice.between(1, 2);
  c.extents.kv_heads = dice.between(1, 2);
  c.extents.heads = c.extents.kv_heads * dice.one_of<int>({1, 1, 2, 3, 4, 7});
  c.extents.seqlen_q = dice.one_in(3) ? dice.between(1, 20) : dice.between(1, 200);
  c.extents.seqlen_kv = dice.one_in(12) ? 0 : dice.between(1, 300);
  c.dtype = dice.one_in(2) ? DType::bf16 : DType::f16;
  c.order = dice.one_in(2) ? Order::bhsd : Order::bshd;
  choose_mask(c, dice, device);
  choose_score(c, dice, device);
  c.maxima = dice.one_in(3);
  if (dice.one_in(3))
    for (int h = 0; h < c.extents.heads; ++h) c.sinks.push_back(0.5f * static_cast<float>(h - 1));
  if (dice.one_in(2)) c.schedule.pack_gqa = dice.one_in(2);
  const bool more_keys = c.extents.seqlen_q <= c.extents.seqlen_kv;
  if (dice.one_in(4)) {
    const auto cuts = [&](std::int64_t total, int count) {
      std::vector<i32> at{0, static_cast<i32>(total)};
      for (int i = 1; i < count; ++i) at.push_back(dice.between(0, static_cast<int>(total)));
      std::ranges::sort(at);
      return at;
    };
    const int count = dice.between(1, 4);
    c.extents.batch = 1;
    c.order = Order::bshd;
    c.q_starts = cuts(c.extents.seqlen_q, count);
    c.kv_starts = cuts(c.extents.seqlen_kv, count);
  } else if (more_keys && dice.one_in(3)) {
    align_bottom_right(c);
  }
  c.plan = dice.one_of<std::string>(
      {"", "", "stages=2", "producer_warps=0 consumer_registers=0",
       "producer_warps=1 consumer_registers=0", "persistent=1 stage_stores=0",
       "persistent=1 stage_stores=0 dynamic_scheduler=1", "dynamic_scheduler=0",
       "persistent=1 producer_warps=0 consumer_registers=0 dynamic_scheduler=1", "persistent=0",
       "persistent=0 stage_stores=0", "persistent=1 multicast=1",
       "wgmma=0 producer_warps=0 consumer_registers=0 persistent=0 stages=2"});
  c.numerics.rescaling = dice.one_of<Rescaling>(
      {Rescaling::exact, Rescaling::lazy, Rescaling::never, Rescaling::never});
  if (dice.one_in(3)) c.schedule.tiles = {dice.one_in(4) ? 64 : 192, 16 * dice.between(1, 8)};
  return c;
}

inline void run(const Config& c, Device device) {
  Env planned = env();
  planned.plan = c.plan;
  const EnvOverride scope(planned);
  const Tensors t(c.extents, c.dtype, c.order, device, 5);
  const Attention attention(c.spec, c.schedule, c.numerics);
  AttentionExtras extras{t.Lse, c.maxima ? t.Max : Tensor(), {}};
  if (!c.sinks.empty()) extras.sinks = Tensor::from(c.sinks, device);
  HostAttention host = c.host;
  if (!c.sinks.empty()) host.sink = [&](int h) { return c.sinks[static_cast<std::size_t>(h)]; };
  if (c.q_starts.empty()) {
    attention(Stream(device), t.Q, t.K, t.V, t.O, extras);
    expect_attention(host, t, c.maxima);
    return;
  }
  const auto rows = [](const Tensor& x) { return x.select(0, 0).transpose(0, 1); };
  extras.lse = rows(t.Lse);
  if (c.maxima) extras.row_max = rows(t.Max);
  std::int64_t longest = 0;
  for (std::size_t i = 0; i + 1 < c.q_starts.size(); ++i)
    longest = std::max<std::int64_t>(longest, c.q_starts[i + 1] - c.q_starts[i]);
  attention.varlen(Stream(device), rows(t.Q), rows(t.K), rows(t.V), rows(t.O),
                   {Tensor::from(c.q_starts, device), Tensor::from(c.kv_starts, device), longest},
                   extras);
  const std::int64_t group = c.extents.heads / c.extents.kv_heads;
  for (std::size_t b = 0; b + 1 < c.q_starts.size(); ++b)
    for (int h = 0; h < c.extents.heads; ++h) {
      const auto part = [&](const Tensor& x, std::int64_t head, const std::vector<i32>& at) {
        return x.select(0, 0).select(0, head).slice(0, at[b], at[b + 1]);
      };
      expect_head(
          host,
          Tensors(part(t.Q, h, c.q_starts), part(t.K, h / group, c.kv_starts),
                  part(t.V, h / group, c.kv_starts), part(t.O, h, c.q_starts),
                  part(t.Lse, h, c.q_starts), c.maxima ? part(t.Max, h, c.q_starts) : Tensor()),
          static_cast<int>(b), h);
      if (testing::Test::HasFatalFailure()) return;
    }
}

/// Configurations of the seeds from `first` on; a failure prints its own.
inline void run_random_configs(std::uint64_t first, std::uint64_t count, Device device) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const Config c = random_config(first + i, device);
    SCOPED_TRACE("TEGULA_FUZZ_SEED=" + std::to_string(first + i) +
                 " TEGULA_FUZZ_PROGRAMS=1: " + c.str());
    try {
      run(c, device);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

inline std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace tegula::test
