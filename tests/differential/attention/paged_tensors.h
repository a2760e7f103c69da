#pragma once
// Caches in pages and ragged batches of requests, with NaN wherever nothing may be read.
#include <algorithm>
#include <numeric>
#include <random>

#include "tests/differential/attention/varlen_tensors.h"

namespace tegula::test {

/// The order of a page's rows and heads in memory; `interleaved`: a page's keys, then its values.
enum class PageOrder { nhd, hnd, interleaved };

struct CacheExtents {
  std::int64_t rows = 16, heads = 4, kv_heads = 2, dim = 64, head_dim_v = 64;
  PageOrder order = PageOrder::nhd;
  bool has_table = true, shares_pages = true;
};

/// Requests with keys in pages, in random order; with `shares_pages` every third request begins
/// with the first page of the request before it. Rows that belong to no request are NaN, entries of
/// the table that no key needs name no page, and outputs are NaN.
struct PagedRequests {
  CacheExtents extents;
  Lengths lengths;
  KvCache cache;
  KvBatch batch;
  std::vector<i32> table, q_starts;
  std::int64_t columns;
  Tensor Q, O, Lse, Max;

  PagedRequests(const CacheExtents& e, const Lengths& l, Device device, std::uint64_t seed = 1,
                DType dtype = DType::bf16, std::int64_t least_columns = 1)
      : extents(e), lengths(l), q_starts(starts_of(l.q)), columns(least_columns) {
    for (const i32 n : l.kv) columns = std::max(columns, ceil_div(n, e.rows));
    place(seed);
    const std::int64_t pages = e.has_table ? page_count() : std::ssize(l.kv);
    cache.k = pages_of(pages, e.dim, dtype, seed + 1, device);
    cache.v = pages_of(pages, e.head_dim_v, dtype, seed + 2, device);
    if (e.order == PageOrder::interleaved) interleave();
    if (e.has_table) cache.table = Tensor::from(table, {std::ssize(l.kv), columns}, device);
    batch = {Tensor::from(q_starts, device), Tensor::from(l.kv, device),
             *std::ranges::max_element(l.q)};
    const std::int64_t q = q_starts.back() + 3;  // some rows of no request
    Q = Tensor::normal({q, e.heads, e.dim}, dtype, 0, 1, seed + 3, device);
    Q.slice(0, q_starts.back(), q).fill(NAN);
    O = Tensor::full({q, e.heads, e.head_dim_v}, NAN, dtype, device);
    Lse = Tensor::full({q, e.heads}, NAN, DType::f32, device);
    Max = Tensor::full({q, e.heads}, NAN, DType::f32, device);
  }

  void run(const Attention& attention) const { run(attention, Stream(Q.device())); }
  void run(const Attention& attention, const Stream& stream, const Tensor& sinks = {}) const {
    attention.paged(stream, Q, cache, O, batch, {Lse, Max, sinks});
  }

  /// Returns the rows of a request in a cache: [length, kv heads, dim].
  Tensor gathered(const Tensor& pages, std::size_t b) const {
    const std::int64_t length = lengths.kv[b];
    const Tensor all =
        Tensor::empty({length, pages.size(2), pages.size(3)}, pages.dtype(), pages.device());
    for (std::int64_t r = 0; r < length; ++r) {
      const auto [page, row] = at(b, r);
      all.select(0, r).copy_from(pages.select(0, page).select(0, row));
    }
    return all;
  }

  /// Expects the attention of each request, `maxima`: with row_max. The host's mask receives
  /// positions of the request.
  void expect(const HostAttention& by_position, bool maxima = true) const {
    const std::int64_t group = extents.heads / extents.kv_heads;
    for (std::size_t b = 0; b < lengths.kv.size(); ++b) {
      if (lengths.q[b] == 0) continue;
      HostAttention host = by_position;
      const int shift = lengths.kv[b] - lengths.q[b];
      host.mask = [&](int of, int h, int q, int kv) {
        return by_position.mask(of, h, q + shift, kv);
      };
      host.score = [&](double s, int of, int h, int q, int kv) {
        return by_position.score(s, of, h, q + shift, kv);
      };
      const Tensor k = gathered(cache.k, b), v = gathered(cache.v, b);
      for (int h = 0; h < extents.heads; ++h) {
        const auto rows = [&](const Tensor& t) {
          return t.slice(0, q_starts[b], q_starts[b + 1]).select(1, h);
        };
        expect_head(host,
                    {rows(Q), k.select(1, h / group), v.select(1, h / group), rows(O), rows(Lse),
                     maxima ? rows(Max) : Tensor()},
                    static_cast<int>(b), h);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
    for (const double x : O.slice(0, q_starts.back(), O.size(0)).to_doubles())
      ASSERT_TRUE(std::isnan(x)) << "a row of no request was written";
  }

  /// Returns page and row of position r of request b.
  std::pair<std::int64_t, std::int64_t> at(std::size_t b, std::int64_t r) const {
    if (!extents.has_table) return {static_cast<std::int64_t>(b), r};
    const std::int64_t entry = static_cast<std::int64_t>(b) * columns + r / extents.rows;
    return {table[static_cast<std::size_t>(entry)], r % extents.rows};
  }

 private:
  static std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

  std::int64_t page_count() const { return std::ssize(lengths.kv) * columns + 2; }

  void place(std::uint64_t seed) {
    std::vector<i32> free(static_cast<std::size_t>(page_count()));
    std::iota(free.begin(), free.end(), 0);
    std::ranges::shuffle(free, std::mt19937_64(seed));
    const auto width = static_cast<std::size_t>(columns);
    for (std::size_t b = 0; b < lengths.kv.size(); ++b)
      for (std::int64_t p = 0; p < columns; ++p) {
        const bool is_needed = p * extents.rows < lengths.kv[b], is_shared = extents.shares_pages &&
                                                                             p == 0 && b % 3 == 1 &&
                                                                             lengths.kv[b - 1] > 0;
        table.push_back(!is_needed  ? 1 << 30
                        : is_shared ? table[(b - 1) * width]
                                    : free[table.size()]);
      }
  }

  /// Moves keys and values to one tensor [pages, 2, rows, kv heads, dim].
  void interleave() {
    const Dims s = cache.k.shape();
    const Tensor both =
        Tensor::empty({s[0], 2, s[1], s[2], s[3]}, cache.k.dtype(), cache.k.device());
    int part = 0;
    for (Tensor* t : {&cache.k, &cache.v}) {
      const Tensor own = both.select(1, part++);
      own.copy_from(*t);
      *t = own;
    }
  }

  Tensor pages_of(std::int64_t pages, std::int64_t dim, DType dtype, std::uint64_t seed,
                  Device device) const {
    const std::int64_t rows = extents.rows;
    const bool is_nhd = extents.order != PageOrder::hnd;
    const Dims shape = is_nhd ? Dims{pages, rows, extents.kv_heads, dim}
                              : Dims{pages, extents.kv_heads, rows, dim};
    const auto ordered = [&](const Tensor& t) { return is_nhd ? t : t.permute({0, 2, 1, 3}); };
    const Tensor source = ordered(Tensor::normal(shape, dtype, 0, 1, seed, device)),
                 kept = ordered(Tensor::full(shape, NAN, dtype, device));
    for (std::size_t b = 0; b < lengths.kv.size(); ++b)
      for (std::int64_t r = 0; r < lengths.kv[b]; ++r) {
        const auto [page, row] = at(b, r);
        kept.select(0, page).select(0, row).copy_from(source.select(0, page).select(0, row));
      }
    return kept;
  }
};

/// Returns the code and the line of the finding that `run` ends with; the line is that of the call.
template <class F>
std::string finding_of(const F& run) {
  try {
    run();
  } catch (const ProgramError& e) {
    return e.diagnostic().code + " at " + std::to_string(e.diagnostic().loc.line);
  }
  return "";
}
inline std::string at_line(const char* code, int line) {
  return code + (" at " + std::to_string(line));
}

}  // namespace tegula::test
