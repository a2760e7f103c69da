// Mixed steps: prompts and decoding requests in one paged call by a work list, which makes a launch
// for either kind, against attention in f64.
#include <functional>

#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"
#include "tegula/kernels/token_trees.h"
#include "tests/differential/attention/paged_tensors.h"

namespace tegula::test::mixed_steps_test {
using namespace kernels;
namespace {

class MixedSteps : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, MixedSteps, testing::ValuesIn(devices()), device_name);

/// Keys of which a request is divided.
constexpr i32 kMany = 700;

HostAttention host_causal() {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  return host;
}

/// Returns a step of decoding requests, prompts of more than 64 rows per kv head, and requests of
/// `few` and of `few` + 1 queries.
Lengths mixed(i32 few = 16, i32 group = 2) {
  const i32 prompt = 64 / group + 3;
  return {{1, prompt, 0, few, few + 1, 0, 1, 2 * prompt},
          {kMany, 90, 0, 200, 133, 50, 1, 2 * prompt}};
}

PagedRequests step_of(const Lengths& l, Device device, const CacheExtents& extents = {},
                      DType dtype = DType::bf16) {
  PagedRequests p(extents, l, device, 5, dtype);
  p.batch.schedule =
      Tensor::full({schedule_words(std::ssize(l.kv), device)}, -1, DType::i32, device);
  return p;
}

void write_list(const Attention& attention, const PagedRequests& p) {
  attention.schedule(Stream(p.Q.device()), p.Q, p.cache, p.batch, p.batch.schedule);
}

void run_by_list(const Attention& attention, const PagedRequests& p, const Tensor& sinks = {}) {
  write_list(attention, p);
  p.run(attention, Stream(p.Q.device()), sinks);
}

/// Returns the number of parts of each request in the list.
std::vector<int> parts_in_list(const PagedRequests& p) {
  const auto words = p.batch.schedule.to_doubles();
  std::vector<int> parts(p.lengths.kv.size());
  for (std::size_t i = 0; i + 3 < words.size() && words[i] >= 0; i += 4)
    if (words[i + 1] < words[i + 2]) ++parts[static_cast<std::size_t>(words[i])];
  return parts;
}

/// Rows of up to 32 heads and queries are listed, one query if a group has more heads or if heads
/// are wide.
TEST_P(MixedSteps, GroupsAndHeadDims) {
  const Attention attention({.mask = masks::causal()});
  struct Case {
    i32 group;
    std::int64_t dim, rows;
    i32 few;
  };
  for (const auto& [group, dim, rows, few] :
       {Case{1, 64, 16, 32}, {4, 128, 64, 8}, {5, 80, 1, 6}, {71, 64, 16, 1}, {2, 256, 16, 1}}) {
    SCOPED_TRACE(testing::Message() << group << " heads per kv head, head dim " << dim);
    const std::int64_t kv_heads = group > 8 ? 1 : 2;
    const PagedRequests p = step_of(mixed(few, group), GetParam(),
                                    {.rows = rows,
                                     .heads = kv_heads * group,
                                     .kv_heads = kv_heads,
                                     .dim = dim,
                                     .head_dim_v = dim == 80 ? 48 : dim},
                                    group == 5 ? DType::f16 : DType::bf16);
    run_by_list(attention, p);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
    std::vector<int> parts = parts_in_list(p);
    EXPECT_GT(parts[0], 1);
    parts[0] = 1;
    EXPECT_EQ(parts, (std::vector<int>{1, 0, 1, 1, 0, 1, 1, 0}));
  }
}

/// One of the two launches has no rows.
TEST_P(MixedSteps, OnlyOneKindOfRequests) {
  const Attention attention({.mask = masks::causal()});
  for (const Lengths& l : {Lengths{{1, 4, 0, 1}, {kMany, 40, 0, 33}}, Lengths{{40, 34}, {80, 100}},
                           Lengths{{0, 0}, {80, 0}}}) {
    PagedRequests p = step_of(l, GetParam());
    p.batch.max_seqlen_q = 500;
    run_by_list(attention, p);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Without a table, and if rows of the products are in M.
TEST_P(MixedSteps, ContiguousCachesAndRowsInM) {
  for (const bool keys_in_m : {true, false}) {
    const Attention attention({.mask = masks::causal()}, {.keys_in_m = keys_in_m});
    const PagedRequests p =
        step_of(mixed(), GetParam(), {.rows = 700, .has_table = false, .shares_pages = false});
    run_by_list(attention, p);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Both launches give masks and scores the same requests, heads and positions.
TEST_P(MixedSteps, MasksScoresAndSinks) {
  const Tensor sinks = Tensor::from(std::vector<float>{0, 0.5, 1, 1.5}, GetParam()),
               bias = Tensor::normal({1, 4, 1, 1024}, DType::bf16, 0, 1, 77, GetParam());
  const Score slope = [](Tile s, Tile b, Tile h, Tile q, Tile kv) {
    return s + cast<f32>(kv - q) * 0.001f * cast<f32>(b + h);
  };
  const auto host_slope = [](double s, int b, int h, int q, int kv) {
    return s + (kv - q) * 0.001 * (b + h);
  };
  const auto host_bias = [values = bias.to_doubles()](double s, int, int h, int, int kv) {
    return s + values[static_cast<std::size_t>(h * 1024 + kv)];
  };
  struct Case {
    AttentionSpec spec;
    std::function<bool(int q, int kv)> mask;
    std::function<double(double, int, int, int, int)> score;
  };
  const auto causal = [](int q, int kv) { return q >= kv; };
  const Case cases[] = {{{.mask = masks::causal(), .score = slope}, causal, host_slope},
                        {{.mask = masks::causal(), .score = scores::bias(bias)}, causal, host_bias},
                        {{.mask = masks::sliding_window(600)},
                         [](int q, int kv) { return q >= kv && q - kv <= 600; },
                         {}},
                        {{.mask = masks::sink_window(70, 300)},
                         [](int q, int kv) { return q >= kv && (kv < 70 || q - kv <= 300); },
                         {}},
                        {{}, [](int, int) { return true; }, {}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(&c - cases);
    HostAttention host;
    host.mask = [&](int, int, int q, int kv) { return c.mask(q, kv); };
    if (c.score) host.score = c.score;
    host.sink = [](int h) { return 0.5 * h; };
    const PagedRequests p = step_of(mixed(), GetParam());
    run_by_list(Attention(c.spec), p, sinks);
    p.expect(host);
    if (HasFatalFailure()) return;
  }
}

/// A step with small trees of draft tokens and a prompt, which is a chain.
TEST_P(MixedSteps, TreesOfDraftTokens) {
  constexpr int kNodes = 40;
  const Lengths l{{4, 35, 1, 7}, {kMany, 90, 40, 300}};
  const PagedRequests p = step_of(l, GetParam());
  std::vector<std::vector<int>> trees;
  std::vector<i32> parents;
  for (const i32 n : l.q) {
    auto& tree = trees.emplace_back();
    for (int i = 0; i < n; ++i)
      parents.push_back(tree.emplace_back(i == 0 ? -1 : n == 35 ? i - 1 : (i - 1) / 2));
  }
  parents.resize(static_cast<std::size_t>(p.Q.size(0)), -1);
  const Tensor bits = Tensor::full({p.Q.size(0) * 2}, -1, DType::i32, GetParam());
  ancestor_bits(Stream(GetParam()), Tensor::from(parents, GetParam()), p.batch, bits, kNodes);
  run_by_list(Attention({.mask = masks::tree(p.batch, bits, kNodes)}), p);
  HostAttention host;
  host.mask = [&](int b, int, int q, int kv) {
    const auto r = static_cast<std::size_t>(b);
    const int prefix = l.kv[r] - l.q[r];
    if (kv < prefix) return true;
    int at = q - prefix;
    while (at > kv - prefix) at = trees[r][static_cast<std::size_t>(at)];
    return at == kv - prefix;
  };
  p.expect(host);
}

/// Returns a step with the same rows of Q as `p`, with other numbers of queries.
PagedRequests other_step(const PagedRequests& p, const std::vector<i32>& queries) {
  Lengths l{queries, p.lengths.kv};
  const i32 all = p.q_starts.back();
  l.q[7] = all - (starts_of(l.q).back() - l.q[7]);
  l.kv[7] = std::max(l.kv[7], l.q[7]);
  PagedRequests other = step_of(l, p.Q.device());
  other.batch.max_seqlen_q = p.batch.max_seqlen_q;
  return other;
}

/// A list that has a request with few queries as a prompt, whose rows no program would store, is
/// reported; its parts in the opposite case have no rows.
TEST_P(MixedSteps, ReportsListsOfOtherQueries) {
  const Attention attention({.mask = masks::causal()});
  PagedRequests before = step_of(mixed(), GetParam());
  before.batch.max_seqlen_q = 200;
  write_list(attention, before);
  const auto call = [&](PagedRequests& p) {
    p.batch.schedule = before.batch.schedule;
    return finding_of([&] { p.run(attention); });
  };
  PagedRequests prompts = other_step(before, {40, 18, 0, 30, 17, 0, 0, 0}),
                decoding = other_step(before, {1, 1, 0, 16, 60, 0, 1, 0});
  EXPECT_EQ(call(before), "");
  EXPECT_EQ(call(prompts), "") << "fewer decoding requests";
  prompts.expect(host_causal());
  if (HasFatalFailure()) return;
  const std::string finding = call(decoding);
  if (GetParam().kind != DeviceKind::cuda) {
    EXPECT_EQ(finding.substr(0, 5), "T1687");
    return;
  }
  const auto rows = decoding.O.to_doubles();
  const std::size_t row = 4 * 64, stale = static_cast<std::size_t>(decoding.q_starts[1]) * row;
  EXPECT_TRUE(std::isnan(rows[stale])) << "no program stores the rows of request 1";
  EXPECT_FALSE(std::isnan(rows[0]));
  // The call of a new list finds the counters of the last one at 0.
  write_list(attention, decoding);
  decoding.run(attention);
  decoding.expect(host_causal());
}

/// Both kernels are explained; a step of one kind afterwards compiles one kernel.
TEST_P(MixedSteps, ExplainsBothKernels) {
  const Attention attention({.mask = masks::causal()});
  const PagedRequests p = step_of(mixed(), GetParam());
  const auto explains = [&](const char* name) {
    return attention.explain().find("kernel " + std::string(name) + " for") != std::string::npos;
  };
  run_by_list(attention, p);
  EXPECT_TRUE(explains("attention") && explains("attention_few")) << attention.explain();
  PagedRequests alone = p;
  alone.batch.schedule = Tensor();
  alone.run(attention);
  EXPECT_TRUE(explains("attention") && !explains("attention_few")) << attention.explain();
}

/// Requests whose heads are not packed are attended to in one launch.
TEST_P(MixedSteps, ListsAreOptional) {
  const PagedRequests p = step_of(mixed(), GetParam());
  for (const AttentionSchedule& how : {AttentionSchedule{.pack_gqa = false},
                                       {.split_kv = 1},
                                       {.tiles = AttentionTileShape{64, 64}}}) {
    const Attention attention({.mask = masks::causal()}, how);
    run_by_list(attention, p);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
    for (const double word : p.batch.schedule.to_doubles()) ASSERT_EQ(word, -1);
  }
}

}  // namespace
}  // namespace tegula::test::mixed_steps_test
