// Pages that an engine has released: reads of them are reported, unless another request has stored
// its rows there.
#include <memory>
#include <thread>

#include "tegula/kernels/masks.h"
#include "tegula/poison.h"
#include "tests/differential/attention/paged_tensors.h"

namespace tegula::test::released_pages_test {
using namespace kernels;
namespace {

class ReleasedPages : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "nothing is reported";
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ReleasedPages, testing::ValuesIn(devices()), device_name);

/// Returns the page of a request's position.
std::int64_t page_of(const PagedRequests& p, std::size_t b, std::int64_t position) {
  return p.at(b, position).first;
}
void release(const PagedRequests& p, std::int64_t page) {
  for (const Tensor& t : {p.cache.k, p.cache.v}) poison(t.slice(0, page, page + 1));
}

/// Returns the code, the line and the text of the finding that a call ends with.
struct Found {
  std::string code, text;
  int line = 0;

  Found(const Attention& attention, const PagedRequests& p) {
    try {
      attention.paged(Stream(p.Q.device()), p.Q, p.cache, p.O, p.batch, {p.Lse, p.Max});
    } catch (const ProgramError& e) {
      code = e.diagnostic().code, text = e.diagnostic().message;
      line = static_cast<int>(e.diagnostic().loc.line);
    }
  }
  static constexpr int kLine = __LINE__ - 6;
  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};

std::string row_of(std::int64_t page, const char* keys) {
  return "row 0 of page " + std::to_string(page) + " is " + keys;
}

/// Threads copy pages of 4 rows, TMA loads those of 16; heads are rows of a tile, or not.
TEST_P(ReleasedPages, AreReportedAtTheCall) {
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t rows : {4, 16})
    for (const i32 queries : {1, 20}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << queries << " queries");
      const PagedRequests p({.rows = rows, .shares_pages = false}, {{queries, 1}, {50, 40}},
                            GetParam());
      EXPECT_EQ(Found(attention, p).code, "");
      const std::int64_t page = page_of(p, 1, 16);
      release(p, page);
      const Found found(attention, p);
      EXPECT_EQ(found.code, "T1693");
      EXPECT_EQ(found.line, Found::kLine);
      EXPECT_TRUE(found.has(row_of(page, "key 16 of request 1"))) << found.text;
    }
}

TEST_P(ReleasedPages, OfSharedPagesNameAllRequests) {
  const PagedRequests p({.rows = 16}, {{1, 1, 1}, {50, 40, 20}}, GetParam());
  ASSERT_EQ(page_of(p, 0, 0), page_of(p, 1, 0));
  release(p, page_of(p, 0, 0));
  const Found found(Attention({.mask = masks::causal()}), p);
  EXPECT_EQ(found.code, "T1693");
  EXPECT_TRUE(found.has(row_of(page_of(p, 0, 0), "key 0 of request 0, key 0 of request 1")))
      << found.text;
}

/// Without a table, a request has one page.
TEST_P(ReleasedPages, WithoutTable) {
  const PagedRequests p({.rows = 64, .has_table = false}, {{1, 1}, {50, 40}}, GetParam());
  poison(p.cache.v.slice(0, 1, 2).slice(1, 39, 64));
  const Found found(Attention({}), p);
  EXPECT_EQ(found.code, "T1693");
  EXPECT_TRUE(found.has("row 39 of page 1 is key 39 of request 1")) << found.text;
}

/// Pages that no request has, or one without queries, and rows at or beyond the length in pages of
/// 4 and 16 rows.
TEST_P(ReleasedPages, BeyondTheLengthsAreNotRead) {
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t rows : {4, 16})
    for (const i32 queries : {1, 20}) {
      const PagedRequests p({.rows = rows, .shares_pages = false}, {{queries, 1, 0}, {50, 33, 20}},
                            GetParam());
      const auto [page, row] = p.at(1, 32);
      for (const Tensor& t : {p.cache.k, p.cache.v})
        poison(t.slice(0, page, page + 1).slice(1, row + 1, rows));
      std::vector<bool> is_used(static_cast<std::size_t>(p.cache.k.size(0)));
      for (std::size_t b = 0; b < 2; ++b)
        for (std::int64_t r = 0; r < p.lengths.kv[b]; ++r)
          is_used[static_cast<std::size_t>(page_of(p, b, r))] = true;
      for (std::size_t i = 0; i < is_used.size(); ++i)
        if (!is_used[i]) release(p, static_cast<std::int64_t>(i));
      EXPECT_EQ(Found(attention, p).text, "");
      HostAttention host;
      host.mask = [](int, int, int q, int kv) { return q >= kv; };
      p.expect(host);
      if (HasFatalFailure()) return;
    }
}

/// A released page, of which another request stores rows; those after its length stay released.
TEST_P(ReleasedPages, AreReadAfterAppend) {
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t rows : {4, 16}) {
    const PagedRequests p({.rows = rows, .shares_pages = false}, {{7, 1}, {7, 33}}, GetParam());
    const std::int64_t tokens = p.q_starts.back();
    const Tensor K = Tensor::normal({tokens, 2, 64}, DType::bf16, 0, 1, 1, GetParam());
    for (std::int64_t r = 0; r < 7; r += rows) release(p, page_of(p, 0, r));
    EXPECT_EQ(Found(attention, p).code, "T1693");
    append(Stream(GetParam()), K, K, p.cache, p.batch);
    EXPECT_EQ(Found(attention, p).text, "");
    HostAttention host;
    host.mask = [](int, int, int q, int kv) { return q >= kv; };
    p.expect(host);
    if (HasFatalFailure()) return;
    release(p, page_of(p, 0, 0));
    EXPECT_EQ(Found(attention, p).code, "T1693") << "released again";
  }
}

/// A window that has passed a page does not look at it; the page that it begins in is read.
TEST_P(ReleasedPages, BeforeAWindowAreNotRead) {
  const Mask near = [](Tile, Tile, Tile q, Tile kv) { return q - kv < 40; };
  const Attention attention({.mask = masks::and_(masks::causal(), near)});
  for (const std::int64_t rows : {4, 16})
    for (const i32 queries : {1, 5}) {
      const PagedRequests p({.rows = rows, .shares_pages = false}, {{queries}, {200}}, GetParam());
      for (std::int64_t r = 0; r < 144; r += rows) release(p, page_of(p, 0, r));
      EXPECT_EQ(Found(attention, p).text, "");
      release(p, page_of(p, 0, 160));
      EXPECT_EQ(Found(attention, p).code, "T1693");
    }
}

/// One thread serves a request while another thread releases the pages of a different request.
TEST_P(ReleasedPages, OfTwoThreads) {
  const Attention attention({.mask = masks::causal()});
  const PagedRequests p({.rows = 16, .shares_pages = false}, {{1, 1}, {50, 60}}, GetParam());
  const auto request = [&](std::size_t b) {
    PagedRequests one = p;  // one row of the table, and the request's rows of Q and O
    const auto row = static_cast<std::int64_t>(b);
    one.cache.table = p.cache.table.slice(0, row, row + 1);
    one.batch = {Tensor::from(std::vector<i32>{0, 1}, GetParam()),
                 p.batch.kv_lengths.slice(0, row, row + 1), 1};
    for (Tensor* t : {&one.Q, &one.O, &one.Lse, &one.Max}) *t = t->slice(0, row, row + 1);
    return one;
  };
  const PagedRequests kept = request(0), finished = request(1);
  int found = 0, missed = 0;
  std::thread other([&] {
    for (int i = 0; i < 4; ++i) missed += Found(attention, kept).code.empty() ? 0 : 1;
  });
  for (int i = 0; i < 4; ++i) {
    release(p, page_of(p, 1, 16 * i));
    found += Found(attention, finished).code == "T1693" ? 1 : 0;
  }
  other.join();
  EXPECT_EQ(found, 4);
  EXPECT_EQ(missed, 0) << "the other request's pages";
}

}  // namespace
}  // namespace tegula::test::released_pages_test
