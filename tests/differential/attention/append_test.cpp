// Appending with rotated keys and queries, and to rows that are named by their numbers.
#include "tegula/kernels/rope.h"
#include "tests/differential/attention/paged_tensors.h"

namespace tegula::test::append_test {
using namespace kernels;
namespace {

class Append : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Append, testing::ValuesIn(devices()), device_name);

constexpr DType kType = DType::bf16;
constexpr i32 kTablePositions = 60;

/// A step of six requests, and its keys, values and queries; the last rows belong to no request.
struct Step {
  PagedRequests p;
  std::int64_t tokens;
  Tensor K, V, Q;

  explicit Step(Device device, std::int64_t rows = 16, std::int64_t dim = 64,
                const Lengths& lengths = {{1, 0, 17, 1, 40, 1}, {33, 0, 49, 1, 40, 48}})
      : p({.rows = rows, .heads = 6, .dim = dim, .head_dim_v = 40, .shares_pages = false}, lengths,
          device),
        tokens(p.q_starts.back() + 2),
        K(fresh(p.cache.k.size(2), dim, 11)),
        V(fresh(p.cache.v.size(2), 40, 12)),
        Q(fresh(6, dim, 13)) {}

  Device device() const { return p.Q.device(); }
  Tensor fresh(std::int64_t heads, std::int64_t dim, std::uint64_t seed) const {
    return Tensor::normal({tokens, heads, dim}, kType, 0, 1, seed, device());
  }
  /// Returns a copy of the cache in separate memory.
  KvCache copy() const { return {p.cache.k.clone(), p.cache.v.clone(), p.cache.table}; }

  /// Returns the position of each token in its request; 0 where there is none.
  std::vector<i32> positions() const {
    std::vector<i32> all;
    for (std::size_t b = 0; b < p.lengths.q.size(); ++b)
      for (i32 i = 0; i < p.lengths.q[b]; ++i) all.push_back(p.lengths.kv[b] - p.lengths.q[b] + i);
    all.resize(static_cast<std::size_t>(tokens), 0);
    return all;
  }
  /// Returns the number of each token's row in the cache, -1 where there is none.
  std::vector<std::int64_t> slots() const {
    std::vector<std::int64_t> all;
    for (std::size_t b = 0; b < p.lengths.q.size(); ++b)
      for (i32 i = 0; i < p.lengths.q[b]; ++i) {
        const auto [page, row] = p.at(b, p.lengths.kv[b] - p.lengths.q[b] + i);
        all.push_back(page * p.extents.rows + row);
      }
    all.resize(static_cast<std::size_t>(tokens), -1);
    return all;
  }
  Tensor on_device(const auto& numbers) const { return Tensor::from(numbers, device()); }
};

/// Both have the same elements, some of which are NaN.
void expect_same(const Tensor& got, const Tensor& want, const char* what) {
  const auto a = got.to_doubles(), b = want.to_doubles();
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
        << what << " " << i << ": " << a[i] << " != " << b[i];
}

RopeTables tables_of(std::int64_t rotated, Device device) {
  return {.cos = Tensor::uniform({kTablePositions, rotated / 2}, DType::f32, -1, 1, 7, device),
          .sin = Tensor::uniform({kTablePositions, rotated / 2}, DType::f32, -1, 1, 8, device)};
}

/// Appends with a rotation as `rope` has it: into Q_out, and in place.
void check_rotation(const Step& s, RopePairs pairs, RopeTables tables,
                    const std::vector<i32>& positions) {
  const Stream stream(s.device());
  RopeTables by_position = tables;
  by_position.positions = s.on_device(positions);
  const Tensor K = s.K.clone(), Q = s.Q.clone(), Q_out = s.Q.clone();
  rope(stream, pairs, s.K, by_position, K);
  rope(stream, pairs, s.Q, by_position, Q);
  const std::int64_t used = s.p.q_starts.back();
  Q.slice(0, used, s.tokens).copy_from(s.Q.slice(0, used, s.tokens));
  const KvCache want = s.copy(), got = s.copy();
  append(stream, K, s.V, want, s.p.batch);
  append(stream, s.K, s.V, got, s.p.batch,
         {.pairs = pairs, .rope = tables, .Q = s.Q, .Q_out = Q_out});
  expect_same(got.k, want.k, "k");
  expect_same(got.v, want.v, "v");
  expect_same(Q_out, Q, "Q");
  const Tensor in_place = s.Q.clone();
  append(stream, s.K, s.V, got, s.p.batch, {.pairs = pairs, .rope = tables, .Q = in_place});
  expect_same(in_place, Q, "Q in place");
}

/// With at most one query per request, programs have rows of several heads.
const Lengths kDecoding{{1, 0, 1, 0, 1, 1}, {33, 5, 49, 0, 1, 48}};

TEST_P(Append, RotatesAsRopeDoes) {
  for (const RopePairs pairs : {RopePairs::half_split, RopePairs::interleaved})
    for (const std::int64_t rotated : {64, 80, 40, 32}) {
      SCOPED_TRACE(rotated);
      const Step s = rotated == 32
                         ? Step(GetParam(), 8, 64, kDecoding)
                         : Step(GetParam(), rotated == 40 ? 24 : 16, rotated == 40 ? 80 : rotated);
      const RopeTables tables = tables_of(rotated, GetParam());
      check_rotation(s, pairs, tables, s.positions());
      if (HasFatalFailure()) return;
      std::vector<i32> given = s.positions();
      for (std::size_t i = 0; i < given.size(); ++i)  // some of them outside the tables
        given[i] = static_cast<i32>(i * 7 % 64) - 2;
      RopeTables with = tables;
      with.positions = s.on_device(given);
      check_rotation(s, pairs, with, given);
      if (HasFatalFailure()) return;
    }
}

/// A rotation of the keys alone, for as many heads of queries as of keys.
TEST_P(Append, RotatesKeysAlone) {
  const Step s(GetParam(), 1);
  const Stream stream(GetParam());
  RopeTables tables = tables_of(64, GetParam());
  const KvCache got = s.copy(), want = s.copy();
  append(stream, s.K, s.V, got, s.p.batch, {.rope = tables});
  tables.positions = s.on_device(s.positions());
  const Tensor K = s.K.clone();
  rope(stream, RopePairs::half_split, s.K, tables, K);
  append(stream, K, s.V, want, s.p.batch);
  expect_same(got.k, want.k, "k");
  expect_same(got.v, want.v, "v");
}

TEST_P(Append, StoresToSlots) {
  const Stream stream(GetParam());
  for (const std::int64_t rows : {1, 16, 24, 8}) {
    SCOPED_TRACE(rows);
    const Step s = rows == 8 ? Step(GetParam(), 8, 64, kDecoding) : Step(GetParam(), rows);
    const KvCache want = s.copy();
    KvBatch any = s.p.batch;
    any.max_seqlen_q = 100;
    append(stream, s.K, s.V, want, any);
    KvCache got = s.copy();
    got.table = {};
    append(stream, s.K, s.V, got, s.p.batch, {.slots = s.on_device(s.slots())});
    expect_same(got.k, want.k, "k");
    expect_same(got.v, want.v, "v");
  }
}

/// Rows with a negative slot go nowhere; all others stay as they are.
TEST_P(Append, DropsNegativeSlots) {
  const Step s(GetParam());
  const KvCache none = s.copy(), one = s.copy();
  std::vector<std::int64_t> slots(static_cast<std::size_t>(s.tokens), -1);
  append(Stream(GetParam()), s.K, s.V, none, s.p.batch, {.slots = s.on_device(slots)});
  expect_same(none.k, s.p.cache.k, "k");
  slots[3] = 5 * 16 + 7;
  append(Stream(GetParam()), s.K, s.V, one, s.p.batch, {.slots = s.on_device(slots)});
  s.p.cache.k.select(0, 5).select(0, 7).copy_from(s.K.select(0, 3));
  s.p.cache.v.select(0, 5).select(0, 7).copy_from(s.V.select(0, 3));
  expect_same(one.k, s.p.cache.k, "k");
  expect_same(one.v, s.p.cache.v, "v");
}

/// Keys and values may be parts of one tensor, as those of a step may, from which Q is rotated.
TEST_P(Append, TakesInterleavedTensors) {
  const Step s(GetParam(), 16, 40);
  const Tensor caches = Tensor::full({s.p.cache.k.size(0), 2, 16, 2, 40}, NAN, kType, GetParam()),
               rows = Tensor::normal({s.tokens, 10, 40}, kType, 0, 1, 5, GetParam()),
               before = rows.clone();
  const KvCache got{caches.select(1, 0), caches.select(1, 1), s.p.cache.table}, want = s.copy();
  const auto part = [](const Tensor& t, std::int64_t first, std::int64_t heads) {
    return t.slice(1, first, first + heads);
  };
  for (const KvCache& into : {want, got})
    for (const Tensor& t : {into.k, into.v}) t.fill(0);
  const RopeTables tables = tables_of(40, GetParam());
  const Stream stream(GetParam());
  append(stream, part(before, 6, 2).contiguous(), part(before, 8, 2).contiguous(), want, s.p.batch,
         {.rope = tables, .Q = part(before, 0, 6)});
  append(stream, part(rows, 6, 2), part(rows, 8, 2), got, s.p.batch,
         {.rope = tables, .Q = part(rows, 0, 6)});
  expect_same(got.k, want.k, "k");
  expect_same(got.v, want.v, "v");
  expect_same(rows, before, "rows");
}

/// Two tokens with one row, of two requests or of one. Other rows of the page are not reported.
TEST_P(Append, ReportsTwoTokensOfOneRow) {
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "one of the rows remains";
  const Step s(GetParam());
  const auto found = [&](std::size_t token, std::int64_t slot, const RopeTables& rope) {
    std::vector<std::int64_t> slots = s.slots();
    slots[token] = slot;
    return finding_of([&] {
      append(Stream(GetParam()), s.K, s.V, s.copy(), s.p.batch,
             {.rope = rope, .slots = s.on_device(slots)});
    });
  };
  const int line = __LINE__ - 4;
  for (const RopeTables& rope : {RopeTables(), tables_of(64, GetParam())}) {
    EXPECT_EQ(found(0, s.slots()[0], rope), "");
    EXPECT_EQ(found(0, -1, rope), "");
    EXPECT_EQ(found(0, s.slots()[20], rope), at_line("T1301", line));
    EXPECT_EQ(found(2, s.slots()[1], rope), at_line("T1319", line));
    EXPECT_EQ(found(0, s.p.cache.k.size(0) * 16, rope), at_line("T1689", line));
  }
}

TEST_P(Append, ReportsMoreQueriesThanPromised) {
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "stores the first one";
  const Step s(GetParam());
  const auto found = [&](std::int64_t longest) {
    const KvBatch batch{s.p.batch.q_offsets, s.p.batch.kv_lengths, longest};
    return finding_of([&] { append(Stream(GetParam()), s.K, s.V, s.copy(), batch); });
  };
  const int line = __LINE__ - 2;
  EXPECT_EQ(found(40), "");
  EXPECT_EQ(found(1), at_line("T1691", line));
}

}  // namespace
}  // namespace tegula::test::append_test
