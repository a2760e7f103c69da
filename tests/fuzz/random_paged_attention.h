#pragma once
// Random batches of requests with caches in pages, on any device: values as the reference has them,
// and on `cpu` and `sim` no finding of any detector. TEGULA_FUZZ_PROGRAMS and TEGULA_FUZZ_SEED
// choose how many and which.
#include "tests/differential/attention/paged_tensors.h"
#include "tests/fuzz/random_attention.h"

namespace tegula::test {

/// One batch: a configuration of the call, whose extents are those of one request, and its cache.
struct RandomBatch {
  Config config;
  CacheExtents cache;
  Lengths lengths;
  bool has_list = false;  ///< the call has a work list

  std::string str() const {
    std::string text =
        config.str() + " pages of " + std::to_string(cache.rows) +
        (cache.order == PageOrder::nhd   ? " nhd"
         : cache.order == PageOrder::hnd ? " hnd"
                                         : " interleaved") +
        (config.schedule.pack_gqa ? *config.schedule.pack_gqa ? " packed" : " apart" : "") +
        (config.schedule.keys_in_m ? " rows in M" : "") + (has_list ? " list" : "") + ", requests";
    for (std::size_t b = 0; b < lengths.q.size(); ++b)
      text += " " + std::to_string(lengths.q[b]) + "/" + std::to_string(lengths.kv[b]);
    return text;
  }
};

/// Tables that masks and scores capture have this many positions.
inline constexpr int kLongestRequest = 399;

/// Lengths next to those of whole pages and of blocks of keys, none, and any.
inline Lengths random_lengths(Dice& dice, int rows) {
  const int requests = dice.between(1, 7),
            queries = dice.one_of<int>({1, 1, dice.between(2, 8), dice.between(2, 8), 20, 100});
  Lengths l;
  for (int b = 0; b < requests; ++b) {
    const int near = dice.one_of<int>({rows, rows, 2 * rows, 64, 128}) + dice.between(-1, 1),
              kv = dice.one_of<int>({0, 1, near, near, dice.between(1, 300), kLongestRequest});
    l.kv.push_back(std::min(kv, kLongestRequest));
    l.q.push_back(std::min(l.kv.back(), dice.one_in(4) ? 0 : dice.between(1, queries)));
  }
  return l;
}

/// Lengths of a mixed step: prompts with more than 64 rows per kv head, and requests with at most
/// `few` queries. The first request is a prompt.
inline Lengths mixed_lengths(Dice& dice, int few, int group) {
  const int prompt = 64 / group + 2;
  Lengths l;
  for (int b = 0, requests = dice.between(1, 5); b < requests; ++b) {
    const int near = few + dice.between(0, 1),
              queries = b == 0 ? prompt + dice.between(0, 20)
                               : dice.one_of<int>({0, 1, 1, near, dice.between(1, few), prompt}),
              kv = queries + dice.one_of<int>({0, 1, dice.between(0, 64), dice.between(0, 300)});
    l.q.push_back(queries);
    l.kv.push_back(dice.one_in(6) && b > 0 ? queries
                                           : std::max(queries, std::min(kv, kLongestRequest)));
  }
  return l;
}

/// Extents of a cache and its layout.
struct CacheAxes {
  int rows, group, kv_heads, dim;
  PageOrder order;

  static CacheAxes random(Dice& dice) {
    CacheAxes a{};
    a.rows = dice.one_of<int>(kRows), a.group = dice.one_of<int>({1, 1, 3, 4, 5, 7, 8, 8, 16, 71});
    a.kv_heads = a.group > 8 ? 1 : dice.between(1, 2);
    a.dim = dice.one_of<int>({64, 64, 80, 128, 192, 256}), a.order = dice.one_of(kOrders);
    return a;
  }
  /// Returns a point of the grid of rows, groups and head dims. Consecutive numbers, as many as the
  /// grid has points, are all of them, since the sizes of the axes have no common divisors.
  static CacheAxes of_grid(std::uint64_t number) {
    static const std::vector<int> kGroups{1, 3, 5, 7, 8, 16, 71}, kDims{64, 80, 128, 192, 256};
    const int group = kGroups[number % kGroups.size()];
    return {kRows[number % kRows.size()], group, group > 8 ? 1 : 2, kDims[number % kDims.size()],
            kOrders[number / kRows.size() % kOrders.size()]};
  }

  static inline const std::vector<int> kRows{1, 2, 8, 16, 24, 32, 64, 128, 256};
  static inline const std::vector<PageOrder> kOrders{PageOrder::nhd, PageOrder::hnd,
                                                     PageOrder::interleaved};
};

/// Returns a batch with these extents and a mask, a score, lengths and a plan by the dice.
inline RandomBatch random_batch(const CacheAxes& axes, Dice& dice, Device device) {
  RandomBatch b;
  Config& c = b.config;
  Extents& e = c.extents;
  e.kv_heads = axes.kv_heads, e.heads = e.kv_heads * axes.group, e.dim = axes.dim;
  e.head_dim_v = axes.order != PageOrder::interleaved && dice.one_in(4) ? 64 : e.dim;
  b.cache = {axes.rows, e.heads, e.kv_heads, e.dim, e.head_dim_v, axes.order};
  b.lengths = random_lengths(dice, axes.rows);
  e.batch = std::ssize(b.lengths.q);
  c.dtype = dice.one_in(2) ? DType::bf16 : DType::f16;
  choose_mask(c, dice, device);
  choose_score(c, dice, device);
  c.maxima = true;
  if (dice.one_in(3))
    for (int h = 0; h < e.heads; ++h) c.sinks.push_back(0.25f * static_cast<float>(h % 8 - 1));
  if (dice.one_in(3)) c.schedule.pack_gqa = dice.one_in(2);
  c.plan =
      dice.one_of<std::string>({"", "", "", "stages=2", "producer_warps=1 consumer_registers=0",
                                "producer_warps=0 consumer_registers=0",
                                "wgmma=0 producer_warps=0 consumer_registers=0 persistent=0"});
  if (e.dim <= 128 && dice.one_in(4))
    c.schedule.tiles = {dice.one_in(2) ? 64 : 128, 16 * dice.between(1, 8)};
  b.has_list = dice.one_in(2);
  if (dice.one_in(5)) c.schedule.keys_in_m = false;
  return b;
}

/// Pages change hands: some entries name a page that another entry names too, some name none, and
/// entries after the last key are negative. Pages that no entry needs any more become NaN.
struct MovedPages {
  std::vector<i32> missing;  ///< pages that the reference reads as 0

  MovedPages(PagedRequests& p, Dice& dice) {
    const auto needed = [&](std::size_t entry) {
      const auto width = static_cast<std::size_t>(p.columns);
      const auto first = static_cast<std::int64_t>(entry % width) * p.extents.rows;
      return std::clamp<std::int64_t>(p.lengths.kv[entry / width] - first, 0, p.extents.rows);
    };
    std::vector<std::int64_t> written(static_cast<std::size_t>(p.cache.k.size(0)), 0);
    for (std::size_t i = 0; i < p.table.size(); ++i)
      if (const std::int64_t n = needed(i)) written[p.table[i]] = std::max(written[p.table[i]], n);
    const int last = static_cast<int>(p.table.size()) - 1;
    for (std::size_t i = 0; i < p.table.size(); ++i) {
      const auto other = static_cast<std::size_t>(dice.between(0, last));
      if (needed(i) > 0 && needed(other) > 0 && dice.one_in(4) &&
          written[p.table[other]] >= needed(i))
        p.table[i] = p.table[other];
    }
    std::vector<int> uses(written.size(), 0);
    for (std::size_t i = 0; i < p.table.size(); ++i)
      if (needed(i) > 0) ++uses[p.table[i]];
    std::vector<i32> entries = p.table;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const bool is_missing = needed(i) > 0 && uses[p.table[i]] == 1 && dice.one_in(12);
      if (is_missing) missing.push_back(p.table[i]), uses[p.table[i]] = 0;
      if (is_missing || (needed(i) == 0 && dice.one_in(2))) entries[i] = -1;
    }
    p.cache.table.copy_from(Tensor::from(entries, p.cache.table.shape(), p.Q.device()));
    for (std::size_t page = 0; page < uses.size(); ++page)
      if (uses[page] == 0) fill(p, static_cast<i32>(page), NAN);
  }

  static void fill(const PagedRequests& p, i32 page, double value) {
    for (const Tensor& t : {p.cache.k, p.cache.v}) t.select(0, page).fill(value);
  }
};

inline void run_batch(const RandomBatch& b, std::uint64_t seed, Device device) {
  Env planned = env();
  planned.plan = b.config.plan;
  const EnvOverride scope(planned);
  PagedRequests p(b.cache, b.lengths, device, seed, b.config.dtype);
  Dice dice(seed ^ 0x9a6e);
  const MovedPages moved(p, dice);
  const std::vector<float>& sinks = b.config.sinks;
  HostAttention host = b.config.host;
  if (!sinks.empty()) host.sink = [&](int h) { return sinks[static_cast<std::size_t>(h)]; };
  const Attention attention(b.config.spec, b.config.schedule, b.config.numerics);
  if (b.has_list) {
    const std::int64_t words = schedule_words(std::ssize(b.lengths.kv), device);
    p.batch.schedule = Tensor::full({words}, -1, DType::i32, device);
    attention.schedule(Stream(device), p.Q, p.cache, p.batch, p.batch.schedule);
  }
  p.run(attention, Stream(device), sinks.empty() ? Tensor() : Tensor::from(sinks, device));
  for (const i32 page : moved.missing) MovedPages::fill(p, page, 0);
  p.expect(host);
}

/// Runs the batches of consecutive seeds.
template <class BatchOf>
void run_batches(std::uint64_t default_count, Device device, const BatchOf& batch_of) {
  const std::uint64_t first = number_from_env("TEGULA_FUZZ_SEED", 48),
                      count = number_from_env("TEGULA_FUZZ_PROGRAMS", default_count);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Dice dice(seed);
    const RandomBatch b = batch_of(seed, dice);
    SCOPED_TRACE("TEGULA_FUZZ_SEED=" + std::to_string(seed) +
                 " TEGULA_FUZZ_PROGRAMS=1: " + b.str());
    try {
      run_batch(b, seed, device);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tegula::test
