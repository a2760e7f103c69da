// Steps of a few queries per request over a paged cache, and over contiguous keys if all requests
// have the same number of keys, on GPU 0: time per call with and without a work list, compared with
// reading the same bytes, and the time of writing the list. With the argument `both`, steps of one
// query per request are also timed with rows in M. With the argument `varlen`, keys are packed
// sequences instead: time per call with tiles of one head, and with packed heads whose keys are
// divided, are not divided, or as the call decides. With the argument `mixed`, only steps of
// prompts and decoding requests are timed, in one call and in separate calls.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/token_trees.h"
#include "tegula/tegula.h"

namespace tegula::bench {
namespace {

using namespace kernels;

constexpr std::int64_t kHeads = 32, kKvHeads = 8, kDim = 128;
constexpr std::int64_t kKeys = 4 << 20;  ///< keys of the cache, of which a step uses a part

template <class Call>
double us_of(const Stream& stream, const Call& call) {
  constexpr int kCalls = 20;
  for (int i = 0; i < 3; ++i) call();
  Event begin, end;
  begin.record(stream);
  for (int i = 0; i < kCalls; ++i) call();
  end.record(stream);
  stream.synchronize();
  return end.ms_since(begin) * 1000 / kCalls;
}

struct Rows {
  Tensor k, v;  ///< [kKeys, kv heads, dim]
};

Rows random_rows(Device gpu) {
  constexpr std::int64_t kSome = 1 << 14;
  const Tensor some = Tensor::normal({kSome, kKvHeads, kDim}, DType::bf16, 0, 1, 1, gpu);
  Rows all;
  for (Tensor* t : {&all.k, &all.v}) {
    *t = Tensor::empty({kKeys, kKvHeads, kDim}, DType::bf16, gpu);
    for (std::int64_t i = 0; i < kKeys; i += kSome) t->slice(0, i, i + kSome).copy_from(some);
  }
  return all;
}

/// Reads this many keys and values, rounded down to 128 keys.
double us_of_reading(const Stream& stream, const Rows& all, std::int64_t keys) {
  constexpr int kWords = 1 << 16, kAtOnce = 4096;
  static const auto read = kernel("read", [](In<i32, 2> k, In<i32, 2> v, Out<i32, 1> out) {
    for (auto r : grid(GridSpace(k.dim(0)), 1)) {
      Tile words = zeros<i32>(kAtOnce);
      for (auto c : steps(k.dim(1), kAtOnce))
        words = words ^ fill_absent(k(r.first(), c), 0) ^ fill_absent(v(r.first(), c), 0);
      out(r.first()) = max(words, axis(0));
    }
  });
  const std::int64_t programs = std::max<std::int64_t>(keys * kKvHeads * kDim / 2 / kWords, 1);
  const auto as_words = [&](const Tensor& t) {
    return Tensor::borrow(t.data(), {programs, kWords}, DType::i32, t.device());
  };
  const Tensor k = as_words(all.k), v = as_words(all.v),
               out = Tensor::zeros({programs}, DType::i32, k.device());
  return us_of(stream, [&] { read(stream, k, v, out); });
}

struct Step {
  const char* name;
  std::vector<i32> lengths;
  i32 queries = 1;
  bool has_trees = false;
};

/// Returns a table of pages in random order.
Tensor shuffled_table(const std::vector<i32>& lengths, std::int64_t rows, Device gpu) {
  const std::int64_t columns = (*std::ranges::max_element(lengths) + rows - 1) / rows;
  std::vector<i32> free(static_cast<std::size_t>(kKeys / rows)), table;
  std::iota(free.begin(), free.end(), 0);
  std::ranges::shuffle(free, std::mt19937(1));
  for (const i32 n : lengths)
    for (std::int64_t p = 0; p < columns; ++p) {
      table.push_back(p * rows < n ? free.back() : -1);
      if (p * rows < n) free.pop_back();
    }
  return Tensor::from(table, {std::ssize(lengths), columns}, gpu);
}

/// If `rows` is 0, the keys of a request are contiguous: one page without a table. `both`: also
/// with rows in M.
void report(const Stream& stream, const Rows& all, const Step& step, std::int64_t rows, bool both) {
  const Device gpu = stream.device();
  const std::int64_t requests = std::ssize(step.lengths), tokens = requests * step.queries;
  std::vector<i32> offsets, parents;
  for (i32 b = 0; b <= requests; ++b) offsets.push_back(b * step.queries);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto node = static_cast<i32>(t % step.queries);
    parents.push_back(node == 0 ? -1 : (node - 1) / 2);
  }
  const auto pages = [&](const Tensor& t) {
    return t.reshape({kKeys / rows, rows, kKvHeads, kDim});
  };
  const bool is_contiguous = rows == 0;
  if (is_contiguous) rows = step.lengths.front();
  const KvCache cache{pages(all.k), pages(all.v),
                      is_contiguous ? Tensor() : shuffled_table(step.lengths, rows, gpu)};
  KvBatch batch{Tensor::from(offsets, gpu), Tensor::from(step.lengths, gpu), step.queries};
  const Tensor Q = Tensor::normal({tokens, kHeads, kDim}, DType::bf16, 0, 1, 2, gpu), O = Q.clone(),
               bits = Tensor::zeros({tokens}, DType::i32, gpu);
  if (step.has_trees) ancestor_bits(stream, Tensor::from(parents, gpu), batch, bits, step.queries);
  const AttentionSpec spec{.mask = step.has_trees ? masks::tree(batch, bits, step.queries)
                                                  : masks::causal()};
  const std::int64_t keys =
      std::accumulate(step.lengths.begin(), step.lengths.end(), std::int64_t{0});
  const double floor = us_of_reading(stream, all, keys);
  const Tensor work = Tensor::zeros({schedule_words(requests, gpu)}, DType::i32, gpu);
  for (const bool keys_in_m : both ? std::vector<bool>{false, true} : std::vector<bool>{true}) {
    const Attention attention(spec, {.keys_in_m = keys_in_m});
    const auto call = [&] { attention.paged(stream, Q, cache, O, batch); };
    batch.schedule = Tensor();
    const double undivided = us_of(stream, call);
    const double list = us_of(stream, [&] { attention.schedule(stream, Q, cache, batch, work); });
    batch.schedule = work;
    const double us = us_of(stream, call);
    std::fputs(
        fmt::format("{:<24} {:<13} {}read {:7.1f} us, by list {:7.1f} us ({:.2f}), "
                    "undivided {:7.1f} us ({:.2f}), writing the list {:.1f} us\n",
                    step.name, is_contiguous ? "contiguous" : fmt::format("pages of {}", rows),
                    keys_in_m ? "" : "rows in M, ", floor, us, us / floor, undivided,
                    undivided / floor, list)
            .c_str(),
        stdout);
    std::fflush(stdout);
  }
}

/// Reports a step by `varlen`.
void report_packed(const Stream& stream, const Rows& all, const Step& step) {
  const Device gpu = stream.device();
  std::vector<i32> q_starts{0}, kv_starts{0};
  for (const i32 n : step.lengths) {
    q_starts.push_back(q_starts.back() + step.queries);
    kv_starts.push_back(kv_starts.back() + n);
  }
  const std::int64_t keys = kv_starts.back();
  const Tensor Q = Tensor::normal({q_starts.back(), kHeads, kDim}, DType::bf16, 0, 1, 2, gpu),
               O = Q.clone(), K = all.k.slice(0, 0, keys), V = all.v.slice(0, 0, keys);
  const CuSeqlens lengths{Tensor::from(q_starts, gpu), Tensor::from(kv_starts, gpu), step.queries};
  const AttentionSpec spec{.mask = masks::causal(), .align_bottom_right = true};
  const double floor = us_of_reading(stream, all, keys);
  std::string text = fmt::format("{:<24} read {:7.1f} us", step.name, floor);
  for (const auto& [name, schedule] :
       std::initializer_list<std::pair<const char*, AttentionSchedule>>{
           {"heads apart", {.pack_gqa = false}},
           {"divided", {.split_kv = 2}},
           {"undivided", {.split_kv = 1}},
           {"chosen", {}}}) {
    const Attention attention(spec, schedule);
    const double us = us_of(stream, [&] { attention.varlen(stream, Q, K, V, O, lengths); });
    text += fmt::format(", {} {:7.1f} us ({:.2f})", name, us, us / floor);
  }
  std::puts(text.c_str());
  std::fflush(stdout);
}

/// A step of prompts, with `new_tokens` queries each, and of requests of one query each.
struct MixedStep {
  const char* name;
  std::vector<i32> prompts, decoding;  ///< keys of the requests
  i32 new_tokens;
};

/// A part of the requests of a step, with their rows of Q and O.
struct Requests {
  Tensor Q, O;
  KvCache cache;
  KvBatch batch;

  /// Returns requests [first, end) as a step, whose offsets begin at 0.
  Requests slice(const std::vector<i32>& offsets, std::int64_t first, std::int64_t end,
                 std::int64_t max_seqlen_q) const {
    const auto at = [&](std::int64_t b) { return offsets[static_cast<std::size_t>(b)]; };
    std::vector<i32> own;
    for (std::int64_t b = first; b <= end; ++b) own.push_back(at(b) - at(first));
    return {Q.slice(0, at(first), at(end)),
            O.slice(0, at(first), at(end)),
            {cache.k, cache.v, cache.table.slice(0, first, end)},
            {Tensor::from(own, Q.device()), batch.kv_lengths.slice(0, first, end), max_seqlen_q}};
  }
};

double us_of_call(const Stream& stream, const Attention& attention, const Requests& r) {
  return us_of(stream, [&] { attention.paged(stream, r.Q, r.cache, r.O, r.batch); });
}

double us_of_list(const Stream& stream, const Attention& attention, Requests& r) {
  const std::int64_t words = schedule_words(r.batch.kv_lengths.size(0), stream.device());
  r.batch.schedule = Tensor::zeros({words}, DType::i32, stream.device());
  return us_of(stream,
               [&] { attention.schedule(stream, r.Q, r.cache, r.batch, r.batch.schedule); });
}

void report(const Stream& stream, const Rows& all, const MixedStep& step, std::int64_t rows) {
  const Device gpu = stream.device();
  std::vector<i32> lengths = step.prompts, offsets{0};
  lengths.insert(lengths.end(), step.decoding.begin(), step.decoding.end());
  const std::int64_t prompts = std::ssize(step.prompts), requests = std::ssize(lengths);
  for (std::int64_t b = 0; b < requests; ++b)
    offsets.push_back(offsets.back() + (b < prompts ? step.new_tokens : 1));
  const auto pages = [&](const Tensor& t) {
    return t.reshape({kKeys / rows, rows, kKvHeads, kDim});
  };
  const Tensor Q = Tensor::normal({offsets.back(), kHeads, kDim}, DType::bf16, 0, 1, 2, gpu);
  Requests both{Q,
                Q.clone(),
                {pages(all.k), pages(all.v), shuffled_table(lengths, rows, gpu)},
                {Tensor::from(offsets, gpu), Tensor::from(lengths, gpu), step.new_tokens}};
  const Requests of_prompts = both.slice(offsets, 0, prompts, step.new_tokens);
  Requests decoding = both.slice(offsets, prompts, requests, 1);
  const Attention attention({.mask = masks::causal()});
  const double floor =
      us_of_reading(stream, all, std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  const double without = us_of_call(stream, attention, both),
               list = us_of_list(stream, attention, both),
               by_list = us_of_call(stream, attention, both),
               prompts_alone = us_of_call(stream, attention, of_prompts);
  us_of_list(stream, attention, decoding);
  const double decoding_alone = us_of_call(stream, attention, decoding),
               separate = us_of(stream, [&] {
                 for (const Requests* r : {&of_prompts, &std::as_const(decoding)})
                   attention.paged(stream, r->Q, r->cache, r->O, r->batch);
               });
  // Tiles of the list in a mixed step have up to 32 rows.
  decoding.batch.max_seqlen_q = 32 / (kHeads / kKvHeads);
  us_of_list(stream, attention, decoding);
  const double of_32_rows = us_of_call(stream, attention, decoding);
  std::fputs(fmt::format("{:<34} pages of {:<4} read {:7.1f} us, without list {:7.1f} us, by list "
                         "{:7.1f} us, separate calls {:7.1f} us (prompts {:.1f}, decoding {:.1f}, "
                         "in tiles of 32 rows {:.1f}), "
                         "writing the list {:.1f} us\n",
                         step.name, rows, floor, without, by_list, separate, prompts_alone,
                         decoding_alone, of_32_rows, list)
                 .c_str(),
             stdout);
  std::fflush(stdout);
}

void report_mixed(const Stream& stream, const Rows& all) {
  using Lengths = std::vector<i32>;
  std::mt19937 random(5);
  Lengths decoding(128);
  for (i32& n : decoding) n = 2048 + static_cast<i32>(random() % 14337);
  const MixedStep steps[] = {{"1 prompt of 2k of 8k, 64 of 8k", {8192}, Lengths(64, 8192), 2048},
                             {"4 prompts of 512, 128 of 2k .. 16k", Lengths(4, 512), decoding, 512},
                             {"1 prompt of 8k, 32 of 16k", {8192}, Lengths(32, 16384), 8192}};
  for (const MixedStep& step : steps)
    for (const int rows : {16, 64}) report(stream, all, step, rows);
}

std::vector<i32> ragged(bool is_uniform) {
  std::mt19937 random(3);
  std::vector<i32> lengths;
  for (int b = 0; b < 256; ++b) {
    const double share = static_cast<double>(random() % 10000) / 1e4;
    lengths.push_back(1 + static_cast<i32>(is_uniform ? share * 30000 : std::pow(32767.0, share)));
  }
  return lengths;
}

}  // namespace
}  // namespace tegula::bench

int main(int argc, char** argv) {
  using tegula::i32;
  using Lengths = std::vector<i32>;
  const auto stream = tegula::Stream::create(tegula::Device::cuda());
  const auto all = tegula::bench::random_rows(stream.device());
  const std::string_view option = argc > 1 ? argv[1] : "";
  const bool both = option == "both";
  if (option == "mixed") {
    tegula::bench::report_mixed(stream, all);
    return 0;
  }
  const Lengths long_ones(16, 32768);
  Lengths one_long(256, 100);
  one_long.front() = 1 << 20;
  const tegula::bench::Step steps[] = {{"1 request of 4k", Lengths(1, 4096)},
                                       {"1 of 128k", Lengths(1, 131072)},
                                       {"4 of 16k", Lengths(4, 16384)},
                                       {"16 of 8k", Lengths(16, 8192)},
                                       {"64 of 1k", Lengths(64, 1024)},
                                       {"64 of 8k", Lengths(64, 8192)},
                                       {"256 of 1 .. 30k", tegula::bench::ragged(true)},
                                       {"256 of 1 .. 32k, log", tegula::bench::ragged(false)},
                                       {"1M and 255 of 100", one_long},
                                       {"16 of 32k", long_ones},
                                       {"16 of 32k, 4 queries", long_ones, 4},
                                       {"16 of 32k, 16 queries", long_ones, 16},
                                       {"16 of 32k, trees of 16", long_ones, 16, true}};
  for (const auto& step : steps) {
    if (option == "varlen") {
      if (!step.has_trees) tegula::bench::report_packed(stream, all, step);
      continue;
    }
    if (both && step.queries > 1) continue;
    const bool is_even =
        std::ranges::all_of(step.lengths, [&](i32 n) { return n == step.lengths.front(); });
    const bool fits = std::ranges::max(step.lengths) <= 1 << 18;  // the table of pages of one row
    for (const int rows : {0, 1, 16, 64, 256})
      if (rows == 0 ? is_even : rows > 1 || fits)
        tegula::bench::report(stream, all, step, rows, both);
  }
}
