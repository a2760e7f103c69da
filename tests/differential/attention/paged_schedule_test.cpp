// Decoding from pages by work lists: programs process parts of a request's keys, which are
// combined in a fixed order, against attention in f64.
#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>

#include "tegula/device_profile.h"
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/paged_tensors.h"

namespace tegula::test::paged_schedule_test {
using namespace kernels;
namespace {

class PagedSchedule : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, PagedSchedule, testing::ValuesIn(devices()), device_name);

/// Table columns of 16 rows with room for so many keys that calls use a list.
constexpr std::int64_t kColumns = 128;

HostAttention host_causal() {
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  return host;
}

PagedRequests requests(const std::vector<i32>& kv, Device device, CacheExtents extents = {},
                       DType dtype = DType::bf16) {
  Lengths l{{}, kv};
  for (const i32 n : kv) l.q.push_back(std::min(n, 1));
  return PagedRequests(extents, l, device, 5, dtype, kColumns);
}

Tensor list_for(const PagedRequests& p) {
  const std::int64_t words = schedule_words(std::ssize(p.lengths.kv), p.Q.device());
  return Tensor::full({words}, -1, DType::i32, p.Q.device());
}

/// Returns the number of parts of each request.
std::vector<int> parts_of(const Attention& attention, const PagedRequests& p) {
  const Tensor list = list_for(p);
  attention.schedule(Stream(p.Q.device()), p.Q, p.cache, p.batch, list);
  const auto words = list.to_doubles();
  std::vector<int> parts(p.lengths.kv.size());
  for (std::size_t i = 0; i + 3 < words.size() && words[i] >= 0; i += 4)
    if (words[i + 1] < words[i + 2]) {
      EXPECT_EQ(words[i + 1], parts[static_cast<std::size_t>(words[i])]++) << "parts in order";
    }
  return parts;
}

/// Writes a list, and attends by it.
void run_by_list(const Attention& attention, PagedRequests p, const Tensor& sinks = {}) {
  p.batch.schedule = list_for(p);
  attention.schedule(Stream(p.Q.device()), p.Q, p.cache, p.batch, p.batch.schedule);
  p.run(attention, Stream(p.Q.device()), sinks);
}

TEST_P(PagedSchedule, LongRequestsAreDivided) {
  const Attention attention({.mask = masks::causal()});
  std::vector<i32> kv(20, 3);
  kv[7] = 2000, kv[12] = 0;
  const PagedRequests p = requests(kv, GetParam());
  const std::vector<int> parts = parts_of(attention, p);
  EXPECT_GE(parts[7], 4);
  EXPECT_EQ(parts[0], 1);
  run_by_list(attention, p);
  p.expect(host_causal());
}

/// Returns the words of the list of a step of one query per request, whose caches have no contents.
std::vector<double> words_of_list(const std::vector<i32>& kv, std::int64_t kv_heads,
                                  Device device) {
  constexpr i32 kRowsOfPage = 64;
  const std::int64_t n = std::ssize(kv);
  std::vector<i32> offsets(kv.size() + 1);
  std::iota(offsets.begin(), offsets.end(), 0);
  const auto zeros = [&](const Dims& shape, DType type) {
    return Tensor::zeros(shape, type, device);
  };
  const Tensor pages = zeros({1, kRowsOfPage, kv_heads, 64}, DType::bf16),
               list = zeros({schedule_words(n, device)}, DType::i32);
  Attention({.mask = masks::causal()})
      .schedule(Stream(device), zeros({n, 2 * kv_heads, 64}, DType::bf16),
                {pages, pages, zeros({n, *std::ranges::max_element(kv) / kRowsOfPage}, DType::i32)},
                {Tensor::from(offsets, device), Tensor::from(kv, device), 1}, list);
  return list.to_doubles();
}

/// At 7 / 8 of two waves, the parts would be a little smaller than the requests.
TEST_P(PagedSchedule, EqualRequestsStayWholeInTwoWaves) {
  for (const int eighths : {7, 5}) {
    const auto n = static_cast<std::size_t>(eighths * num_sms(GetParam()) / 4);
    EXPECT_EQ(words_of_list(std::vector<i32>(n, 704), 2, GetParam())[2], eighths == 7 ? 1 : 2)
        << "parts of the first entry's request, of " << n;
  }
}

/// Half as many requests as programs at once, which are in one wave however they are divided.
TEST_P(PagedSchedule, UnevenRequestsOfOneWaveAreDivided) {
  std::vector<i32> kv(static_cast<std::size_t>(num_sms(GetParam()) / 8));
  for (std::size_t b = 0; b < kv.size(); ++b) kv[b] = 7168 + 128 * static_cast<i32>(b);
  const std::vector<double> words = words_of_list(kv, 8, GetParam());
  int divided = 0;
  for (std::size_t i = 0; i < 4 * kv.size(); i += 4) divided += words[i + 2] > 1 ? 1 : 0;
  EXPECT_GE(divided, std::ssize(kv) / 2);
}

/// Requests that share pages, and requests without keys or queries.
TEST_P(PagedSchedule, RaggedBatches) {
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t rows : {1, 64}) {
    SCOPED_TRACE(rows);
    Lengths l{{1, 1, 0, 1, 0, 1, 1}, {600, 500, 0, 64, 400, 1, 700}};
    const PagedRequests p({.rows = rows, .shares_pages = true}, l, GetParam(), 3, DType::bf16,
                          2048 / rows);
    run_by_list(attention, p);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

TEST_P(PagedSchedule, GroupsAndHeadDims) {
  const Attention attention({.mask = masks::causal()});
  for (const auto& [group, dim] : {std::pair{1, 64}, {5, 80}, {8, 128}, {2, 256}}) {
    SCOPED_TRACE(group);
    const PagedRequests p = requests(
        {700, 0, 17}, GetParam(),
        {.heads = 2 * group, .kv_heads = 2, .dim = dim, .head_dim_v = dim == 80 ? 48 : dim},
        group == 5 ? DType::f16 : DType::bf16);
    run_by_list(attention, p);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Rows are pairs of a query and a head: speculative steps of several queries per request, with
/// fewer queries in some requests, and with more rows than a tile has.
TEST_P(PagedSchedule, SeveralQueriesPerRequest) {
  const Attention attention({.mask = masks::causal()}, {.pack_gqa = true});
  for (const auto& [group, queries] :
       {std::pair{4, 16}, {8, 4}, {5, 3}, {7, 2}, {1, 8}, {71, 2}, {16, 5}}) {
    SCOPED_TRACE(std::to_string(group) + " heads, queries " + std::to_string(queries));
    const Lengths l{{queries, 1, 0, std::min(queries, 2), queries, 0}, {700, 66, 0, 2, 64, 50}};
    const PagedRequests p({.heads = 2 * group, .kv_heads = 2}, l, GetParam(), 5,
                          group == 5 ? DType::f16 : DType::bf16, kColumns);
    EXPECT_GT(parts_of(attention, p)[0], 1);
    run_by_list(attention, p);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
    p.run(attention);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Only keys that the mask may keep count as work. Sinks enter once, whatever the number of parts.
TEST_P(PagedSchedule, WindowsAndSinks) {
  const PagedRequests p = requests({1500, 40, 1300}, GetParam());
  const Tensor sinks = Tensor::from(std::vector<float>{0, 0.5, 1, 1.5}, GetParam());
  for (const int window : {60, 1100}) {
    SCOPED_TRACE(window);
    const Attention attention({.mask = masks::sliding_window(window)});
    const std::vector<int> parts = parts_of(attention, p);
    EXPECT_EQ(parts[0] > 1, window == 1100);
    HostAttention host;
    host.mask = [window](int, int, int q, int kv) { return q >= kv && q - kv <= window; };
    host.sink = [](int h) { return 0.5 * h; };
    run_by_list(attention, p, sinks);
    p.expect(host);
    if (HasFatalFailure()) return;
  }
}

/// Neither the order in which programs finish nor the call that writes the list changes results.
TEST_P(PagedSchedule, SameBitsInEveryRun) {
  const Attention attention({.mask = masks::causal()});
  PagedRequests p = requests({1500, 3, 1999, 640}, GetParam());
  run_by_list(attention, p);
  const auto first = p.O.to_doubles();
  p.batch.schedule = list_for(p);
  attention.schedule(Stream(GetParam()), p.Q, p.cache, p.batch, p.batch.schedule);
  const int runs = GetParam().kind == DeviceKind::cuda ? 100 : 2;
  for (int i = 0; i < runs; ++i) {
    p.O.fill(NAN);
    p.run(attention);
    const auto again = p.O.to_doubles();
    for (std::size_t e = 0; e < first.size(); ++e)
      ASSERT_TRUE(first[e] == again[e] || (std::isnan(first[e]) && std::isnan(again[e]))) << e;
  }
}

/// Two threads attend by one list with one object; their partial results are apart.
TEST_P(PagedSchedule, TwoStreamsShareOneList) {
  const Attention attention({.mask = masks::causal()});
  PagedRequests p = requests({1500, 3, 640}, GetParam());
  p.batch.schedule = list_for(p);
  attention.schedule(Stream(GetParam()), p.Q, p.cache, p.batch, p.batch.schedule);
  const std::vector<Tensor> outputs{p.O.clone(), p.O.clone()};
  const auto run = [&](const Tensor& O) {
    const Stream stream = Stream::create(GetParam());
    for (int i = 0; i < 2; ++i) attention.paged(stream, p.Q, p.cache, O, p.batch);
    stream.synchronize();
  };
  std::thread other(run, outputs[1]);
  run(outputs[0]);
  other.join();
  p.run(attention);
  p.expect(host_causal());
  const auto want = p.O.to_doubles();
  for (const Tensor& O : outputs) {
    const auto got = O.to_doubles();
    for (std::size_t e = 0; e < want.size(); ++e)
      ASSERT_TRUE(got[e] == want[e] || (std::isnan(got[e]) && std::isnan(want[e]))) << e;
  }
}

/// Maxima of parts are far below 0, which parts that do not exist must not replace.
TEST_P(PagedSchedule, ScoresFarBelowZero) {
  const PagedRequests p = requests({1500, 3}, GetParam());
  const Attention attention({.mask = masks::causal(),
                             .score = [](Tile s, Tile, Tile, Tile, Tile) { return s - 150.0f; }});
  EXPECT_GT(parts_of(attention, p)[0], 1);
  HostAttention host = host_causal();
  host.score = [](double s, int, int, int, int) { return s - 150; };
  run_by_list(attention, p);
  p.expect(host);
}

/// The last program reads the results of some parts at a time, and rescales what it has.
TEST_P(PagedSchedule, ManyParts) {
  const Attention attention({.mask = masks::causal()});
  const PagedRequests p = requests(
      {6000}, GetParam(), {.rows = 64, .heads = 8, .kv_heads = 1, .dim = 32, .head_dim_v = 32});
  EXPECT_GT(parts_of(attention, p)[0], 20);
  run_by_list(attention, p);
  p.expect(host_causal());
}

/// Only requests with queries have work.
TEST_P(PagedSchedule, RequestsWithoutQueriesAreOnePart) {
  const PagedRequests p({}, {{1, 0}, {1500, 2000}}, GetParam(), 5, DType::bf16, kColumns);
  const std::vector<int> parts = parts_of(Attention({.mask = masks::causal()}), p);
  EXPECT_GT(parts[0], 1);
  EXPECT_EQ(parts[1], 1);
}

/// The kernel that writes a list processes 512 requests at a time: entries and slots continue.
TEST_P(PagedSchedule, ListsOfManyRequests) {
  const Attention attention({.mask = masks::causal()});
  std::vector<i32> kv(1200, 1);
  const std::size_t divided[] = {3, 700, 1100};
  for (const std::size_t b : divided) kv[b] = 1500;
  const Device device = GetParam();
  const std::int64_t count = std::ssize(kv);
  const Tensor pages = Tensor::zeros({1, 16, 1, 16}, DType::bf16, device),
               Q = Tensor::zeros({count, 2, 16}, DType::bf16, device),
               list = Tensor::full({schedule_words(count, device)}, -1, DType::i32, device);
  const KvCache cache{pages, pages, Tensor::zeros({count, kColumns}, DType::i32, device)};
  const KvBatch batch{Tensor::iota({count + 1}, DType::i32, device), Tensor::from(kv, device), 1};
  attention.schedule(Stream(device), Q, cache, batch, list);
  const auto words = list.to_doubles();
  std::vector<int> parts(kv.size());
  std::vector<std::pair<int, int>> slots;  // first and end of divided requests
  for (std::size_t i = 0; i + 3 < words.size() && words[i] >= 0; i += 4) {
    if (words[i + 1] >= words[i + 2]) continue;
    ++parts[static_cast<std::size_t>(words[i])];
    if (words[i + 2] > 1 && words[i + 1] == 0)
      slots.emplace_back(static_cast<int>(words[i + 3]),
                         static_cast<int>(words[i + 3] + words[i + 2]));
  }
  for (std::size_t b = 0; b < kv.size(); ++b) EXPECT_EQ(parts[b] > 1, kv[b] > 1) << b;
  EXPECT_EQ(std::ranges::count(parts, 0), 0);
  ASSERT_EQ(slots.size(), 3);
  std::ranges::sort(slots);
  EXPECT_TRUE(slots[0].second <= slots[1].first && slots[1].second <= slots[2].first);
}

/// If the tiles are half as many as the SMs, the parts of a request use all slots.
TEST_P(PagedSchedule, PartsInAllSlots) {
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "for the number of SMs of the host";
  const Attention attention({.mask = masks::causal()});
  const PagedRequests p =
      requests({1300}, GetParam(), {.heads = 66, .kv_heads = 66, .dim = 32, .head_dim_v = 32});
  EXPECT_EQ(parts_of(attention, p)[0], 4);
  run_by_list(attention, p);
  p.expect(host_causal());
}

/// A list fits other lengths than those that it was written for.
TEST_P(PagedSchedule, ListsOfOtherLengths) {
  const Attention attention({.mask = masks::causal()});
  for (const i32 queries : {1, 6}) {
    const auto of = [&](const std::vector<i32>& kv) {
      Lengths l{{}, kv};
      for (const i32 n : kv) l.q.push_back(std::min({n, queries, n == 1900 ? 2 : 6}));
      return PagedRequests({}, l, GetParam(), 5, DType::bf16, kColumns);
    };
    PagedRequests before = of({2000, 0, 17}), p = of({100, 1900, 0});
    p.batch.max_seqlen_q = before.batch.max_seqlen_q = queries;
    p.batch.schedule = list_for(p);
    attention.schedule(Stream(GetParam()), before.Q, before.cache, before.batch, p.batch.schedule);
    p.run(attention);
    p.expect(host_causal());
    if (HasFatalFailure()) return;
  }
}

/// Keys in several ranges: parts divide the blocks of all of them.
TEST_P(PagedSchedule, SeveralRanges) {
  const PagedRequests p = requests({1500, 3, 800}, GetParam());
  const Attention attention({.mask = masks::sink_window(70, 600)});
  EXPECT_GT(parts_of(attention, p)[0], 1);
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv && (kv < 70 || q - kv <= 600); };
  run_by_list(attention, p);
  p.expect(host);
}

/// The same kernel serves batches with and without divided requests.
TEST_P(PagedSchedule, CompilesOnceForAllLengths) {
  const Attention attention({.mask = masks::causal()});
  for (const std::vector<i32>& kv : {std::vector<i32>{1500, 1}, {3, 4, 5}, {0, 2000, 7, 1}}) {
    const PagedRequests p = requests(kv, GetParam(), {.dim = 72, .head_dim_v = 40});
    run_by_list(attention, p);
    p.expect(host_causal());
    EXPECT_EQ(times_compiled(attention), 1);
  }
}

template <class Call>
std::string code_of(const Call& call) {
  try {
    call();
  } catch (const CompileError& e) {
    return e.diagnostic().code;
  }
  return "";
}

TEST_P(PagedSchedule, RejectsOtherTensors) {
  const Attention attention({.mask = masks::causal()});
  PagedRequests p = requests({1500, 1}, GetParam());
  const std::int64_t words = schedule_words(2, GetParam());
  for (const Tensor& list : {Tensor::zeros({words - 1}, DType::i32, GetParam()),
                             Tensor::zeros({words}, DType::f32, GetParam())}) {
    p.batch.schedule = list;
    const auto write = [&] { attention.schedule(Stream(GetParam()), p.Q, p.cache, p.batch, list); };
    EXPECT_EQ(code_of([&] { p.run(attention); }), "T1662");
    EXPECT_EQ(code_of(write), "T1662");
  }
}

/// A list as numbers; the entries of requests 0 and 2 of three, which are divided.
struct ListWords {
  std::vector<i32> words;
  std::size_t first[2]{};  ///< words before the first entries of these requests

  explicit ListWords(const Tensor& list) {
    for (const double w : list.to_doubles()) words.push_back(static_cast<i32>(w));
    for (const std::size_t r : {0, 1})
      while (words[first[r]] != static_cast<i32>(2 * r) || words[first[r] + 2] < 2) first[r] += 4;
  }
  i32& word(std::size_t request, std::size_t entry, std::size_t number) {
    return words[first[request / 2] + 4 * entry + number];
  }
  Tensor on(Device device) const { return Tensor::from(words, device); }
};

/// `cpu` and `sim` report lists that `schedule` did not write, or wrote for other calls; they do
/// not report lists that have all parts, for whatever lengths.
TEST_P(PagedSchedule, ReportsListsOfOtherCalls) {
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "lists are not checked";
  const Stream stream(GetParam());
  const Attention attention({.mask = masks::causal()});
  PagedRequests p = requests({1500, 3, 1640}, GetParam());
  const auto list_of = [&](const PagedRequests& of) {
    const Tensor list = list_for(of);
    attention.schedule(stream, of.Q, of.cache, of.batch, list);
    return list;
  };
  const auto found = [&](const Tensor& list) {
    p.batch.schedule = list;
    return finding_of([&] { attention.paged(stream, p.Q, p.cache, p.O, p.batch); });
  };
  const std::string finding = at_line("T1687", __LINE__ - 2);
  const Tensor own = list_of(p);
  const auto with = [&](const std::function<void(ListWords&)>& change) {
    ListWords list(own);
    change(list);
    return found(list.on(GetParam()));
  };

  EXPECT_EQ(found(own), "");
  EXPECT_EQ(found(list_of(requests({7, 1999, 0}, GetParam()))), "") << "other lengths";
  EXPECT_EQ(with([](auto& l) { l.words.back() = l.words[l.words.size() - 4] = -9; }), "")
      << "words after the entries";
  EXPECT_EQ(with([](auto& l) {
              const std::size_t last = std::max(l.first[0], l.first[1]);
              const auto at = l.words.begin() + static_cast<std::ptrdiff_t>(last);
              std::rotate(l.words.begin(), at, at + 4 * at[2]);
            }),
            "")
      << "another order of requests";

  const Tensor words = list_for(p);
  EXPECT_EQ(found(words), finding) << "-1";
  words.fill(0);
  EXPECT_EQ(found(words), finding) << "0";
  for (const std::vector<i32>& kv : {std::vector<i32>{1500, 3}, {1500, 3, 640, 700}}) {
    const Tensor of_others = list_of(requests(kv, GetParam())).slice(0, 0, own.size(0) - 4);
    words.slice(0, 0, own.size(0) - 4).copy_from(of_others);
    EXPECT_EQ(found(words), finding) << kv.size() << " requests";
  }
  const PagedRequests many = requests({1500, 3, 1640}, GetParam(), {.heads = 64, .kv_heads = 64});
  KvBatch batch = many.batch;
  batch.schedule = own;
  const auto of_many = [&] { attention.paged(stream, many.Q, many.cache, many.O, batch); };
  EXPECT_EQ(finding_of(of_many), at_line("T1687", __LINE__ - 1)) << "fewer programs for each head";

  EXPECT_EQ(with([](auto& l) { l.word(0, 1, 0) = 1; }), finding) << "a part of another request";
  EXPECT_EQ(with([](auto& l) { l.word(0, 1, 0) = 3; }), finding) << "no request";
  EXPECT_EQ(with([](auto& l) { l.word(0, 1, 1) = 0; }), finding) << "a part twice";
  EXPECT_EQ(with([](auto& l) { l.word(2, 1, 1) = 1, l.word(2, 1, 2) = 1; }), finding)
      << "a part is missing";
  EXPECT_EQ(with([](auto& l) { l.word(2, 0, 2) -= 1; }), finding) << "another number of parts";
  EXPECT_EQ(with([](auto& l) { l.word(0, 0, 3) += 1; }), finding) << "another slot";
  EXPECT_EQ(with([](auto& l) {
              for (i32 n = l.word(2, 0, 2), i = 0; i < n; ++i)
                l.word(2, i, 3) = l.word(0, 0, 3) + 1;
            }),
            finding)
      << "slots of another request";
  EXPECT_EQ(with([](auto& l) {
              for (i32 n = l.word(2, 0, 2), i = 0; i < n; ++i) l.word(2, i, 3) = 1 << 20;
            }),
            finding)
      << "slots after the last one";
}

}  // namespace
}  // namespace tegula::test::paged_schedule_test
