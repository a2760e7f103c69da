// Key ranges that attention derives from its mask, compared with the mask of every pair.
#include "tegula/block_mask.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"
#include "tests/property/mask_lambdas.h"

namespace tegula::mask_bounds_test {
using namespace kernels;
namespace {

using namespace masks;
using test::random_mask;
using test::Seen;

struct HostRange {
  std::int64_t lo, hi;
  friend bool operator==(HostRange, HostRange) = default;
};
struct Ranges {
  std::optional<HostRange> visible, full;
};

/// Stores which ranges there are, and their ends.
auto probe_kernel(const Mask& mask) {
  return kernel("probe", [bounds = BlockMask(mask)](Scalar<i32> first, Scalar<i32> last,
                                                    Scalar<i32> length, Out<i32, 1> out) {
    for (auto i : grid(out, 1)) {
      const KvRanges keys = bounds.record(first, last, length);
      std::array<Tile, 6> v;
      v.fill(Tile(0));
      const auto put = [&](std::size_t at, const std::optional<KvRange>& r) {
        if (!r) return;
        v[at] = Tile(1);
        v[at + 1] = r->lo;
        v[at + 2] = r->hi;
      };
      put(0, keys.visible);
      put(3, keys.full);
      Tile x = v[0];
      for (int n = 1; n < 6; ++n) x = where(i == n, v[static_cast<std::size_t>(n)], x);
      out(i) = x;
    }
  });
}

/// Records the ranges in a separate kernel and runs it.
class Probe {
 public:
  explicit Probe(const Mask& mask) : kernel_(probe_kernel(mask)) {}

  Ranges operator()(int first, int last, int length) const {
    const Tensor out = Tensor::empty({6}, DType::i32, Device::cpu());
    kernel_(first, last, length, out);
    const auto v = out.to_doubles();
    const auto at = [&](int i) {
      return static_cast<std::int64_t>(v[static_cast<std::size_t>(i)]);
    };
    Ranges r;
    if (at(0)) r.visible = HostRange{at(1), at(2)};
    if (at(3)) r.full = HostRange{at(4), at(5)};
    return r;
  }

 private:
  decltype(probe_kernel({})) kernel_;
};

/// Each range contains the visible keys, for tiles before, at and after the ends.
void expect_sound(const Probe& probe, const Seen& seen) {
  for (const int length : {0, 1, 37, 100})
    for (const int first : {0, 16, 48, 90, 160}) {
      const int last = first + 15;
      const Ranges r = probe(first, last, length);
      if (r.visible) {
        ASSERT_LE(0, r.visible->lo);
        ASSERT_LE(r.visible->lo, r.visible->hi);
        ASSERT_LE(r.visible->hi, length);
      }
      for (int q = first; q <= last; ++q)
        for (int kv = 0; kv < length; ++kv) {
          const auto in_bounds = [&](const HostRange& h) { return h.lo <= kv && kv < h.hi; };
          ASSERT_TRUE(!seen(q, kv) || !r.visible || in_bounds(*r.visible)) << q << ' ' << kv;
          ASSERT_TRUE(seen(q, kv) || !r.full || !in_bounds(*r.full)) << q << ' ' << kv;
        }
    }
}

TEST(KvRangeAnalysis, Causal) {
  const Probe probe(causal());
  EXPECT_EQ(probe(32, 47, 100).visible, (HostRange{0, 48}));
  EXPECT_EQ(probe(32, 47, 100).full, (HostRange{0, 33}));
  EXPECT_EQ(probe(32, 47, 20).visible, (HostRange{0, 20}));
  expect_sound(probe, [](auto q, auto kv) { return q >= kv; });
}
TEST(KvRangeAnalysis, Windows) {
  const Probe both(window(9, 4));
  EXPECT_EQ(both(32, 35, 100).visible, (HostRange{23, 40}));
  EXPECT_EQ(both(32, 35, 100).full, (HostRange{26, 37}));
  EXPECT_EQ(both(3, 5, 100).visible, (HostRange{0, 10}));
  expect_sound(both, [](auto q, auto kv) { return q - kv <= 9 && kv - q <= 4; });
  const Probe sliding(sliding_window(20));
  EXPECT_EQ(sliding(32, 35, 100).visible, (HostRange{12, 36}));
  EXPECT_EQ(sliding(32, 35, 100).full, (HostRange{15, 33}));
  EXPECT_EQ(sliding(90, 93, 40).visible, (HostRange{40, 40})) << "the window lies behind the keys";
  expect_sound(sliding, [](auto q, auto kv) { return q >= kv && q - kv <= 20; });
}
TEST(KvRangeAnalysis, PrefixAndSinks) {
  const Probe prefix(prefix_lm(24));
  EXPECT_EQ(prefix(0, 15, 100).visible, (HostRange{0, 24}));
  EXPECT_EQ(prefix(0, 15, 100).full, (HostRange{0, 24}));
  EXPECT_EQ(prefix(32, 47, 100).visible, (HostRange{0, 48}));
  EXPECT_EQ(prefix(32, 47, 100).full, (HostRange{0, 33}));
  expect_sound(prefix, [](auto q, auto kv) { return kv < 24 || q >= kv; });
  const Probe sinks(sink_window(4, 20));
  EXPECT_EQ(sinks(32, 35, 100).visible, (HostRange{0, 36})) << "one interval around both";
  EXPECT_EQ(sinks(32, 35, 100).full, (HostRange{15, 33}));
  expect_sound(sinks, [](auto q, auto kv) { return q >= kv && (kv < 4 || q - kv <= 20); });
}
TEST(KvRangeAnalysis, Chunks) {
  const Probe chunks(chunked(32));
  EXPECT_EQ(chunks(48, 63, 100).visible, (HostRange{32, 64}));
  EXPECT_EQ(chunks(48, 63, 100).full, (HostRange{32, 49}));
  EXPECT_EQ(chunks(24, 39, 100).visible, (HostRange{0, 40}));
  expect_sound(chunks, [](auto q, auto kv) { return q >= kv && q / 32 == kv / 32; });
  expect_sound(Probe(block_causal(12)), [](auto q, auto kv) { return q / 12 >= kv / 12; });
  expect_sound(Probe(batchify(20, causal())),
               [](auto q, auto kv) { return q / 20 == kv / 20 && q >= kv; });
}
TEST(KvRangeAnalysis, Negated) {
  expect_sound(Probe(not_(causal())), [](auto q, auto kv) { return q < kv; });
  expect_sound(Probe(not_(sliding_window(5))),
               [](auto q, auto kv) { return q < kv || q - kv > 5; });
  EXPECT_EQ(Probe(not_(causal()))(16, 31, 100).visible, (HostRange{17, 100}));
  EXPECT_EQ(Probe(not_(full()))(16, 31, 100).visible, (HostRange{0, 0}));
}

TEST(KvRangeAnalysis, RandomCompositions) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const auto [mask, seen] = random_mask(random, 3);
    expect_sound(Probe(mask), seen);
    if (HasFatalFailure()) FAIL() << "mask " << i;
  }
}

TEST(KvRangeAnalysis, ANumberOfTheLaunchIsReadThere) {
  Scalar<i32> w = 20;
  const Probe probe(sliding_window(w));
  for (const int n :
       {20, 3, 0, -7, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    w = n;
    expect_sound(probe, [n](auto q, auto kv) { return q >= kv && q - kv <= n; });
  }
  w = 3;
  EXPECT_EQ(probe(32, 35, 100).visible, (HostRange{29, 36}));
  Scalar<i32> prefix = std::numeric_limits<int>::min();
  const Probe with_prefix(prefix_lm(prefix));
  expect_sound(with_prefix, [](auto q, auto kv) { return q >= kv; });
  prefix = 24;
  EXPECT_EQ(with_prefix(0, 15, 100).visible, (HostRange{0, 24}));
}

/// In 32 bits, as the mask computes it.
std::int64_t wrapped(std::int64_t x) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(x));
}

TEST(KvRangeAnalysis, WhereAnythingWrapsAroundAllKeysAreVisible) {
  // In 32 bits 2^31 - 8 + q is negative from row 8 on.
  constexpr int kLarge = std::numeric_limits<int>::max() - 7;
  const auto seen = [](auto q, auto kv) { return wrapped(q + kLarge) >= kv; };
  const Probe probe([](Tile, Tile, Tile q, Tile kv) { return q + kLarge >= kv; });
  expect_sound(probe, seen);
  EXPECT_EQ(probe(0, 7, 100).full, (HostRange{0, 100}));
  EXPECT_EQ(probe(0, 15, 100).visible, (HostRange{0, 100}));
  EXPECT_EQ(probe(0, 15, 100).full, (HostRange{0, 0}));
  // The same by a number of the launch.
  Scalar<i32> by = kLarge;
  const Probe offset(shifted(by, 0, causal()));
  expect_sound(offset, seen);
  by = 30;
  expect_sound(offset, [](auto q, auto kv) { return q + 30 >= kv; });
  EXPECT_EQ(offset(0, 15, 100).visible, (HostRange{0, 46}));
  EXPECT_EQ(offset(0, 15, 100).full, (HostRange{0, 31}));
  Scalar<i32> lowest = std::numeric_limits<int>::min();
  const Probe bottom_right(causal_bottom_right(lowest, by));
  expect_sound(bottom_right, [](auto q, auto kv) {
    return wrapped(q + wrapped(30 - std::int64_t{std::numeric_limits<int>::min()})) >= kv;
  });
  lowest = 130;
  expect_sound(bottom_right, [](auto q, auto kv) { return q - 100 >= kv; });
  EXPECT_EQ(bottom_right(96, 111, 100).visible, (HostRange{0, 12}));
  const Probe scaled([](Tile, Tile, Tile q, Tile kv) { return q * 40000000 >= kv; });
  expect_sound(scaled, [](auto q, auto kv) { return wrapped(q * 40000000) >= kv; });
  EXPECT_EQ(scaled(0, 15, 100).full, (HostRange{0, 1}));
}

/// A sum that may wrap is followed over q, kv and numbers of the launch, over nothing else.
TEST(KvRangeAnalysis, HeadsAndTablesThatCancelAreNotFollowed) {
  const Tensor ids = Tensor::from(std::vector<i32>(200, 7), Device::cpu());
  const auto causal_too = [](auto q, auto kv) { return kv <= q; };
  expect_sound(Probe([](Tile, Tile h, Tile q, Tile kv) { return kv + h - h <= q; }), causal_too);
  expect_sound(Probe([](Tile b, Tile, Tile q, Tile kv) { return kv - (q + b) + b <= 0; }),
               causal_too);
  expect_sound(Probe([=](Tile, Tile, Tile q, Tile kv) {
                 const auto id = view<i32, 1>(ids);
                 return kv + id(q) - id(q) <= q;
               }),
               causal_too);
}

/// The mask of the kernel has the values that the lambda has when the kernel is traced.
TEST(KvRangeAnalysis, CapturesByReferenceMayChangeBeforeTheTrace) {
  int width = 3;
  const Probe probe([&](Tile, Tile, Tile q, Tile kv) { return q >= kv && q - kv <= width; });
  width = 20;
  expect_sound(probe, [](auto q, auto kv) { return q >= kv && q - kv <= 20; });
}

TEST(KvRangeAnalysis, QuotientsByANumberOfTheLaunch) {
  Scalar<i32> n = 20;
  const Probe chunks(chunked(n)), blocks(block_causal(n));
  for (const int size :
       {20, 1, 33, 7, -1, -6, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    n = size;
    expect_sound(chunks, [=](auto q, auto kv) { return q >= kv && q / size == kv / size; });
    expect_sound(blocks, [=](auto q, auto kv) { return q / size >= kv / size; });
  }
  n = 32;
  EXPECT_EQ(chunks(48, 63, 100).visible, (HostRange{32, 64}));
  EXPECT_EQ(chunks(48, 63, 100).full, (HostRange{32, 49}));
  EXPECT_EQ(blocks(48, 63, 100).full, (HostRange{0, 64}));
  n = 0;
  EXPECT_EQ(blocks(48, 63, 100).visible, (HostRange{0, 100})) << "the mask has no value";
}

TEST(KvRangeAnalysis, HalvesAndOffsetsKnownAtLaunch) {
  Scalar<i32> length = 60, n = 16;
  const Probe diffusion(block_diffusion(length, n)), speculative(speculative_blocks(length, n));
  const auto in_diffusion = [](auto s, auto m, auto q, auto kv) {
    const bool q_noised = q < s, kv_noised = kv < s;
    if (kv_noised) return q_noised && q / m == kv / m;
    return q_noised ? q / m > (kv - s) / m : (q - s) / m >= (kv - s) / m;
  };
  const auto in_speculative = [](auto p, auto m, auto q, auto kv) {
    return kv < p || (q / m == (kv - p) / m && (kv - p) % m <= q % m);
  };
  for (const auto& [s, m] : {std::pair{60, 16}, {48, 1}, {0, 7}, {-13, 9}, {200, 30}, {50, -4}}) {
    length = s;
    n = m;
    expect_sound(diffusion,
                 [&, s = s, m = m](auto q, auto kv) { return in_diffusion(s, m, q, kv); });
    expect_sound(speculative,
                 [&, s = s, m = m](auto q, auto kv) { return in_speculative(s, m, q, kv); });
  }
}

/// Quotients are rounded towards 0, bits and shifts are not: together they are no digits of what is
/// below 0.
TEST(KvRangeAnalysis, DigitsOfNegativeNumbers) {
  const auto by_bits = [](auto x) { return x / 64 * 8 + ((x / 8) & 7) <= 3; };
  const auto by_shifts = [](auto x) { return (x >> 6) * 8 + (x >> 3) % 8 <= 3; };
  const auto alike = [](auto x) { return x / 64 * 8 + x / 8 % 8 <= 3; };
  for (const int before : {0, 50, 100}) {
    const auto check = [&](auto of) {
      expect_sound(Probe([=](Tile, Tile, Tile, Tile kv) { return of(kv - before); }),
                   [=](auto, auto kv) { return of(kv - before); });
    };
    check(by_bits), check(by_shifts), check(alike);
  }
}

TEST(KvRangeAnalysis, NonAffineConditionsAreNotSolved) {
  const Probe remainder([](Tile, Tile, Tile q, Tile kv) { return (q + kv) % 3 == 0; });
  EXPECT_FALSE(remainder(0, 15, 100).visible);
  EXPECT_FALSE(remainder(0, 15, 100).full);
  const Probe doubled([](Tile, Tile, Tile q, Tile kv) { return 2 * kv <= q; });
  EXPECT_FALSE(doubled(0, 15, 100).visible);
  const Probe tiles([](Tile, Tile, Tile q, Tile kv) { return q.reshape({16, 1}) >= kv; });
  EXPECT_FALSE(tiles(0, 15, 100).visible) << "cannot be traced over scalars";
  const Probe parity(and_(causal(), [](Tile, Tile, Tile q, Tile kv) { return (q + kv) % 2 == 0; }));
  EXPECT_EQ(parity(16, 31, 100).visible, (HostRange{0, 32})) << "by the condition that is solved";
  EXPECT_FALSE(parity(16, 31, 100).full);
  const Tensor ids = Tensor::from(std::vector<i32>(200, 1), Device::cpu());
  EXPECT_FALSE(Probe(document(ids))(0, 15, 100).visible);
}

// ---- attention ----------------------------------------------------------------------------------
constexpr std::int64_t kQueries = 200, kKeys = 420, kDim = 16;

struct Inputs {
  Tensor Q = Tensor::normal({1, 1, kQueries, kDim}, DType::bf16, 0, 1, 1, Device::cpu());
  Tensor K = Tensor::normal({1, 1, kKeys, kDim}, DType::bf16, 0, 1, 2, Device::cpu());
  Tensor V = Tensor::normal({1, 1, kKeys, kDim}, DType::bf16, 0, 1, 3, Device::cpu());

  std::vector<double> run(const Attention& a) const {
    const Tensor O = Tensor::empty({1, 1, kQueries, kDim}, DType::bf16, Device::cpu());
    a(Q, K, V, O);
    return O.to_doubles();
  }
  /// Softmax over the keys that `seen` lets through, in double.
  std::vector<double> expected(const Seen& seen) const;
};

std::vector<double> Inputs::expected(const Seen& seen) const {
  const auto q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles();
  std::vector<double> out(kQueries * kDim);
  for (std::int64_t i = 0; i < kQueries; ++i) {
    std::vector<double> row(kDim);
    double sum = 0;
    for (std::int64_t j = 0; j < kKeys; ++j) {
      if (!seen(i, j)) continue;
      double s = 0;
      for (std::int64_t d = 0; d < kDim; ++d) s += q[i * kDim + d] * k[j * kDim + d];
      const double weight = std::exp(s / std::sqrt(double{kDim}));
      sum += weight;
      for (std::int64_t d = 0; d < kDim; ++d) row[d] += weight * v[j * kDim + d];
    }
    for (std::int64_t d = 0; d < kDim && sum > 0; ++d) out[i * kDim + d] = row[d] / sum;
  }
  return out;
}

/// Attention's results are right, and equal those with all keys visited.
void expect_same(const Mask& mask, const Seen& seen) {
  const Inputs in;
  const auto all_keys = [](const Tile&, const Tile&, const Tile& length) {
    return KvRange{full<i32>(0), length};
  };
  const auto got = in.run(attention({.mask = mask}));
  const auto everywhere = in.run(attention({.mask = mask, .kv_range = all_keys}));
  const auto want = in.expected(seen);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 0.03) << i;
    ASSERT_NEAR(got[i], everywhere[i], 0.03) << i;
  }
}

TEST(DerivedRange, AgreesWithAllKeys) {
  expect_same(causal(), [](auto q, auto kv) { return q >= kv; });
  expect_same(window(30, 7), [](auto q, auto kv) { return q - kv <= 30 && kv - q <= 7; });
  expect_same(sliding_window(30), [](auto q, auto kv) { return q >= kv && q - kv <= 30; });
  expect_same(sliding_window(Scalar<i32>(30)),
              [](auto q, auto kv) { return q >= kv && q - kv <= 30; });
  expect_same(prefix_lm(140), [](auto q, auto kv) { return kv < 140 || q >= kv; });
  expect_same(chunked(50), [](auto q, auto kv) { return q >= kv && q / 50 == kv / 50; });
  expect_same([](Tile, Tile, Tile q, Tile kv) { return (q * kv) % 3 == 0; },
              [](auto q, auto kv) { return q * kv % 3 == 0; });
}

/// Whether a row's output depends on keys that are NaN: weights of 0 do not hide them, only the end
/// of the keys that the tile visits does.
bool reads_nan(const Mask& mask, std::int64_t row, std::int64_t lo, std::int64_t hi) {
  Inputs in;
  std::vector<f32> v(kKeys * kDim, 1.0f);
  for (std::int64_t i = lo * kDim; i < hi * kDim; ++i) v[static_cast<std::size_t>(i)] = nan;
  in.V = Tensor::from(v, {1, 1, kKeys, kDim}, Device::cpu()).cast(DType::bf16);
  return std::isnan(in.run(attention({.mask = mask}))[static_cast<std::size_t>(row * kDim)]);
}

TEST(DerivedRange, TheSpecTakesPrecedence) {
  const Inputs in;
  const auto none = [](const Tile&, const Tile&, const Tile&) {
    return KvRange{full<i32>(0), full<i32>(0)};
  };
  for (const double x : in.run(attention({.mask = causal(), .kv_range = none}))) ASSERT_EQ(x, 0);
  const auto every = [](const Tile&, const Tile&, const Tile& length) {
    return KvRange{full<i32>(0), length};
  };
  const auto got = in.run(attention({.mask = causal(), .full_kv_range = every}));
  const auto want = in.expected([](auto, auto kv) { return kv < 384; });
  // The first row's blocks that are in `full` are not masked, the ragged last one is.
  for (std::size_t i = 0; i < kDim; ++i) ASSERT_NEAR(got[i], want[i], 0.03);
}

TEST(DerivedRange, KeysThatNoRowSeesAreNotComputed) {
  // Tiles of 128 rows and 128 keys.
  EXPECT_FALSE(reads_nan(causal(), 0, 128, kKeys));
  EXPECT_FALSE(reads_nan(causal(), 128, 256, kKeys));
  EXPECT_FALSE(reads_nan(causal(), 128, kQueries, kKeys)) << "the tile ends at the last query";
  EXPECT_TRUE(reads_nan(causal(), 128, kQueries - 1, kKeys)) << "which attends to its own key";
  EXPECT_FALSE(reads_nan(sliding_window(20), 130, 0, 108));
  EXPECT_FALSE(reads_nan(prefix_lm(40), 0, 128, kKeys));
  EXPECT_FALSE(reads_nan(prefix_lm(200), 130, 256, kKeys));
  EXPECT_FALSE(
      reads_nan([](Tile, Tile, Tile q, Tile kv) { return q * q >= kv * kv; }, 0, 128, kKeys))
      << "what depends on kv alone has bounds over each block";
  EXPECT_TRUE(reads_nan([](Tile, Tile, Tile q, Tile kv) { return (q ^ kv) < 64; }, 0, 128, kKeys))
      << "nothing is known of it: all keys are computed";
}

}  // namespace
}  // namespace tegula::mask_bounds_test
