// The same bits in every call, by either back end and by both: every mask and score of the
// catalogue, random compositions, and lists of many blocks next to fp64.
#include <cstdio>
#include <random>

#include "runtime/doctor.h"
#include "tegula/kernels/scores.h"
#include "tests/fuzz/number_from_env.h"
#include "tests/gpu/repeated_calls.h"
#include "tests/property/mask_catalogue.h"

namespace tegula::test::determinism_test {
using namespace kernels;
namespace {

constexpr int kHeads = 2, kDim = 64, kCalls = 100;
using catalogue::kLength;

/// Each score of scores.h, with tensors on `device`.
std::vector<std::pair<const char*, Score>> catalogue_scores(Device device) {
  using namespace scores;
  const auto floats = [&](const Dims& shape, std::uint64_t seed) {
    return Tensor::uniform(shape, DType::f32, 0.25, 1.5, seed, device);
  };
  const auto whole = [&](const Dims& shape, int last, std::uint64_t seed) {
    return Tensor::integers(shape, DType::i32, 0, last, seed, device);
  };
  return {
      {"softcap", softcap(1.5f)},
      {"softcap_approximate", softcap(1.5f, Tanh::approximate)},
      {"softcap_at_launch", softcap(Scalar<f32>(2.5f))},
      {"alibi", alibi(kHeads)},
      {"alibi_of_slopes", alibi(floats({kHeads}, 1))},
      {"relative_bias", relative_bias(0.01f)},
      {"head_bias", head_bias(floats({kHeads}, 2))},
      {"distance_bias", distance_bias(floats({2 * kLength, kHeads}, 3), kLength)},
      {"t5_bias", t5_bias(floats({32, kHeads}, 4), 128, true)},
      {"t5_bias_of_the_past", t5_bias(floats({32, kHeads}, 5), 128, false)},
      {"bias", bias(Tensor::normal({1, kHeads, kLength, kLength}, DType::bf16, 0, 1, 6, device))},
      {"bias_of_keys", bias(floats({1, kHeads, 1, kLength}, 7))},
      {"graph_distance",
       graph_distance(floats({kHeads, 8}, 8), whole({1, kLength, kLength}, 7, 9))},
      {"graph_edges",
       graph_edges(floats({3, kHeads, 4}, 10), whole({1, kLength, kLength, 3}, 3, 11),
                   whole({1, kLength, kLength}, 3, 12))},
      {"query_temperature", query_temperature(floats({kLength}, 13))},
      {"head_temperature", head_temperature(floats({kHeads}, 14))},
      {"log_length", log_length(float{kLength})},
      {"forgetting", forgetting(floats({1, kHeads, kLength}, 15))},
      {"activation", activation([](Tile s) { return 1.f / (1.f + exp(-s)); })}};
}

std::vector<RepeatedCase> catalogue_of(Device device) {
  std::vector<RepeatedCase> all;
  for (const catalogue::Case& c : catalogue::cases(device))
    all.push_back({c.name, {.mask = c.mask}, c.want});
  for (const auto& [name, score] : catalogue_scores(device))
    all.push_back({name, {.score = score}, {}});
  return all;
}

/// Masks of the catalogue joined by and, or, not and exclusive or, at times with scores.
std::vector<RepeatedCase> random_compositions(Device device, std::uint64_t seed, int count) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<catalogue::Case> masks = catalogue::cases(device);
  const auto score_list = catalogue_scores(device);
  std::vector<RepeatedCase> all;
  for (int i = 0; i < count; ++i) {
    const catalogue::Case& first = masks[below(masks.size())];
    RepeatedCase c{
        "composition_" + std::to_string(i) + "_" + first.name, {.mask = first.mask}, first.want};
    for (std::size_t more = 1 + below(2); more > 0; --more) {
      const catalogue::Case& other = masks[below(masks.size())];
      const bool negated = below(4) == 0;
      const Mask a = c.spec.mask, b = negated ? masks::not_(other.mask) : other.mask;
      const auto wants = c.want;
      const std::size_t how = below(3);
      const char* const names[] = {"_and_", "_or_", "_xor_"};
      c.name += names[how] + std::string(other.name);
      c.spec.mask = how == 0   ? masks::and_(a, b)
                    : how == 1 ? masks::or_(a, b)
                               : Mask([=](Tile e, Tile h, Tile q, Tile kv) {
                                   return a(e, h, q, kv) ^ b(e, h, q, kv);
                                 });
      c.want = [=, theirs = other.want](int q, int kv) {
        const bool mine = wants(q, kv), other_one = theirs(q, kv) != negated;
        return how == 0 ? mine && other_one : how == 1 ? mine || other_one : mine != other_one;
      };
    }
    if (below(2) == 0) {
      const auto& [name, score] = score_list[below(score_list.size())];
      c.name += std::string("_with_") + name;
      c.spec.score = score;
      c.want = nullptr;
    }
    all.push_back(std::move(c));
  }
  return all;
}

/// Why nothing can be said here, or nothing.
std::string reason_to_skip() {
  if (Device::cuda_count() == 0) return "no GPU";
  return env().backend == "nvrtc" ? "runs both back ends where LLVM is asked for" : "";
}

/// Fails with the name of each case whose calls differ, whose back ends differ, or whose rows are
/// not those of fp64.
void expect_same_bits(const std::vector<RepeatedCase>& cases) {
  const AttentionInputs in({1, kHeads}, kHeads, kLength, kLength, kDim, Device::cuda());
  const bool has_nvrtc = runtime::diagnose().finding("NVRTC").present;
  const std::vector<RepeatedResult> llvm = call_all_again(cases, in, kCalls, "llvm");
  const std::vector<RepeatedResult> nvrtc =
      has_nvrtc ? call_all_again(cases, in, kCalls, "nvrtc") : llvm;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    EXPECT_EQ(llvm[i].fault, "") << "by llvm";
    EXPECT_EQ(nvrtc[i].fault, "") << "by nvrtc";
    EXPECT_EQ(llvm[i].bits.hex(), nvrtc[i].bits.hex()) << "the back ends differ";
    if (!cases[i].want || !llvm[i].fault.empty()) continue;
    const std::vector<double> want = in.expected([&](auto, auto, auto q, auto kv) {
      return cases[i].want(static_cast<int>(q), static_cast<int>(kv));
    });
    double worst = 0;
    for (std::size_t e = 0; e < want.size(); ++e)
      worst = std::max(worst, std::abs(want[e] - llvm[i].output[e]));
    EXPECT_LT(worst, 0.03) << "beside fp64";
  }
  if (!has_nvrtc) std::printf("no NVRTC here: by LLVM alone\n");
}

TEST(Determinism, TheCatalogue) {
  if (const std::string why = reason_to_skip(); !why.empty()) GTEST_SKIP() << why;
  expect_same_bits(catalogue_of(Device::cuda()));
}

TEST(Determinism, RandomCompositions) {
  if (const std::string why = reason_to_skip(); !why.empty()) GTEST_SKIP() << why;
  const std::uint64_t seed = fuzz::number_from_env("TEGULA_FUZZ_SEED", 1);
  SCOPED_TRACE("TEGULA_FUZZ_SEED=" + std::to_string(seed));
  expect_same_bits(random_compositions(Device::cuda(), seed, 50));
}

// ---- long lists ---------------------------------------------------------------------------------

constexpr int kLong = 65536;  // 512 blocks of 128 keys

struct LongCase {
  const char* name;
  Mask mask;
  std::function<bool(int q, int kv)> want;
};

int document(int i) { return i / 1000 % 5; }
int chapter(int i) { return i / 777 % 3; }

std::vector<LongCase> long_cases(Device device) {
  std::vector<i32> ids, chapters;
  for (int i = 0; i < kLong; ++i) ids.push_back(document(i)), chapters.push_back(chapter(i));
  const Tensor documents = Tensor::from(ids, device), parts = Tensor::from(chapters, device);
  const Mask a = masks::document(documents), b = masks::document(parts);
  return {
      {"exclusive_or",
       [=](Tile e, Tile h, Tile q, Tile kv) { return a(e, h, q, kv) ^ b(e, h, q, kv); },
       [](int q, int kv) { return (document(q) == document(kv)) != (chapter(q) == chapter(kv)); }},
      {"documents", a, [](int q, int kv) { return document(q) == document(kv); }},
      {"causal_documents", masks::and_(masks::causal(), masks::not_(b)),
       [](int q, int kv) { return q >= kv && chapter(q) != chapter(kv); }}};
}

/// Some rows of attention in double, from the first and the last blocks and between.
void expect_rows(const LongCase& c, const AttentionInputs& in, const std::vector<double>& got) {
  const auto k = in.K.to_doubles(), v = in.V.to_doubles(), q = in.Q.to_doubles();
  std::vector<double> row(kDim);
  for (int i = 0; i < kLong; i += 2047) {
    const auto at = [](int r, int d) { return static_cast<std::size_t>(r * kDim + d); };
    std::ranges::fill(row, 0);
    double sum = 0;
    for (int j = 0; j < kLong; ++j) {
      if (!c.want(i, j)) continue;
      double s = 0;
      for (int d = 0; d < kDim; ++d) s += q[at(i, d)] * k[at(j, d)];
      const double weight = std::exp(s / std::sqrt(double{kDim}));
      sum += weight;
      for (int d = 0; d < kDim; ++d) row[static_cast<std::size_t>(d)] += weight * v[at(j, d)];
    }
    for (int d = 0; d < kDim; ++d)
      ASSERT_NEAR(got[at(i, d)], sum > 0 ? row[static_cast<std::size_t>(d)] / sum : 0, 0.01)
          << c.name << " row " << i << " column " << d;
  }
}

TEST(Determinism, LongListsAreThoseOfFp64) {
  if (const std::string why = reason_to_skip(); !why.empty()) GTEST_SKIP() << why;
  const AttentionInputs in({1, 1}, 1, kLong, kLong, kDim, Device::cuda());
  const bool has_nvrtc = runtime::diagnose().finding("NVRTC").present;
  for (const LongCase& c : long_cases(Device::cuda())) {
    const std::vector<RepeatedCase> one{{c.name, {.mask = c.mask}, {}}};
    const RepeatedResult llvm = call_all_again(one, in, 10, "llvm").front();
    ASSERT_EQ(llvm.fault, "") << c.name;
    expect_rows(c, in, llvm.output);
    if (!has_nvrtc) continue;
    const RepeatedResult nvrtc = call_all_again(one, in, 10, "nvrtc").front();
    EXPECT_EQ(nvrtc.fault, "") << c.name;
    EXPECT_EQ(nvrtc.bits.hex(), llvm.bits.hex()) << c.name;
  }
}

}  // namespace
}  // namespace tegula::test::determinism_test
