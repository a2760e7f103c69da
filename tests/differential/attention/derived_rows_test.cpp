// Derived block lists for tiles whose rows are not consecutive positions of one head: queries at
// the end of their keys, heads packed into tiles, sequences in one tensor.
#include "tegula/kernels/masks.h"
#include "tests/differential/attention/attention_reference.h"
#include "tests/differential/attention/varlen_tensors.h"
#include "tools/workload/visited_blocks.h"

namespace tegula::test::derived_rows_test {
using namespace kernels;
namespace {

class DerivedRows : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, DerivedRows, testing::ValuesIn(devices()), device_name);

/// A mask that needs a list, and the same function of numbers.
struct Case {
  const char* name;
  Mask mask;
  std::function<bool(int b, int h, int q, int kv)> want;
};

constexpr int kPositions = 512;

/// Documents of uneven lengths; each batch entry, or sequence, has its own.
int document_of(int b, int i) { return (i + 37 * b) / 70; }

std::vector<Case> cases(Device device) {
  std::vector<i32> ids;
  for (int b = 0; b < 8; ++b)
    for (int i = 0; i < kPositions; ++i) ids.push_back(document_of(b, i));
  const Tensor documents = Tensor::from(ids, device);
  return {{"dilated", masks::dilated_window(180, 3),
           [](int, int, int q, int kv) { return std::abs(q - kv) <= 180 && (q - kv) % 3 == 0; }},
          {"documents",
           [documents](Tile b, Tile, Tile q, Tile kv) {
             const auto id = [&](const Tile& i) {
               return view<i32, 1>(documents)(b * kPositions + i);
             };
             return q >= kv && id(q) == id(kv);
           },
           [](int b, int, int q, int kv) {
             return q >= kv && document_of(b, q) == document_of(b, kv);
           }},
          // Each head sees another third of the stripes.
          {"stripes of heads",
           [](Tile, Tile h, Tile q, Tile kv) { return q >= kv && (kv / 48 + h) % 3 == 0; },
           [](int, int h, int q, int kv) { return q >= kv && (kv / 48 + h) % 3 == 0; }},
          {"grid",
           [](Tile, Tile, Tile q, Tile kv) {
             return kv / 24 * 32 + kv % 24 <= q / 24 * 32 + q % 24 - 9 && abs(q % 24 - kv % 24) < 9;
           },
           [](int, int, int q, int kv) {
             return kv / 24 * 32 + kv % 24 <= q / 24 * 32 + q % 24 - 9 &&
                    std::abs(q % 24 - kv % 24) < 9;
           }}};
}

void expect_list(const Attention& attention) {
  const std::string text = attention.explain();
  EXPECT_NE(text.find("keys visited: a block list derived from the mask (class"), std::string::npos)
      << text;
  EXPECT_NE(text.find("attention_block_list"), std::string::npos) << text;
}

struct Shape {
  int heads, kv_heads, seqlen_q, seqlen_kv;
  bool at_end;
};

/// A decode's few queries: heads of a group are rows of one tile, or of one of 64 rows or more.
constexpr Shape kShapes[]{{1, 1, 1, 333, true},  {2, 1, 150, 331, true}, {4, 1, 1, 333, true},
                          {8, 2, 5, 131, true},  {7, 1, 1, 77, true},    {7, 1, 16, 299, true},
                          {14, 2, 3, 130, true}, {4, 1, 16, 301, false}, {7, 1, 13, 203, false},
                          {3, 3, 200, 203, true}};

TEST_P(DerivedRows, AgreeWithAllPairs) {
  for (const Case& c : cases(GetParam())) {
    const Attention at_end({.mask = c.mask, .align_bottom_right = true}), first({.mask = c.mask});
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << c.name << ": " << s.heads << "/" << s.kv_heads << " "
                                      << s.seqlen_q << " of " << s.seqlen_kv << " " << s.at_end);
      const Attention& attention = s.at_end ? at_end : first;
      HostAttention host;
      const int shift = s.at_end ? s.seqlen_kv - s.seqlen_q : 0;
      host.mask = [&](int b, int h, int q, int kv) { return c.want(b, h, q + shift, kv); };
      const Tensors t({.batch = 2,
                       .heads = s.heads,
                       .kv_heads = s.kv_heads,
                       .seqlen_q = s.seqlen_q,
                       .seqlen_kv = s.seqlen_kv},
                      DType::bf16, Order::bhsd, GetParam());
      attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras());
      expect_attention(host, t, /*maxima=*/true);
      expect_list(attention);
      if (HasFatalFailure()) return;
    }
  }
}

/// The order of tiles changes no bit of the results.
TEST_P(DerivedRows, LongestFirstGivesTheSame) {
  for (const Case& c : cases(GetParam()))
    for (const Shape& s : {Shape{4, 2, 300, 411, true},
                           {7, 1, 16, 299, true},
                           {2, 1, 1, 77, true},
                           {2, 2, 450, 450, false}}) {
      SCOPED_TRACE(testing::Message() << c.name << " " << s.seqlen_q << " of " << s.seqlen_kv);
      const Tensors t({.batch = 2,
                       .heads = s.heads,
                       .kv_heads = s.kv_heads,
                       .seqlen_q = s.seqlen_q,
                       .seqlen_kv = s.seqlen_kv},
                      DType::bf16, Order::bhsd, GetParam());
      std::vector<std::vector<double>> outputs;
      for (const bool longest_first : {false, true}) {
        t.O.fill(NAN);
        const Attention attention({.mask = c.mask, .align_bottom_right = s.at_end},
                                  {.longest_first = longest_first});
        attention(Stream(GetParam()), t.Q, t.K, t.V, t.O, t.extras());
        outputs.push_back(t.O.to_doubles());
        EXPECT_EQ(attention.explain().find("attention_tile_order") != std::string::npos,
                  longest_first);
      }
      EXPECT_EQ(outputs[0], outputs[1]);
    }
}

/// KV blocks with a key to which a row of the tile attends; no other block is computed.
std::vector<std::int64_t> cover(const Case& c, const Shape& s, int r0, int r1, int block) {
  std::vector<std::int64_t> blocks;
  const int shift = s.at_end ? s.seqlen_kv - s.seqlen_q : 0;
  for (int kv0 = 0; kv0 < s.seqlen_kv; kv0 += block) {
    bool any = false;
    for (int r = r0; r < r1; ++r)
      for (int kv = kv0; kv < std::min(kv0 + block, s.seqlen_kv); ++kv)
        any = any || c.want(0, r / s.seqlen_q, r % s.seqlen_q + shift, kv);
    if (any) blocks.push_back(kv0);
  }
  return blocks;
}

TEST_P(DerivedRows, ComputeTheBlocksOfTheList) {
  const auto cases_of = cases(GetParam());
  for (const Case& c : {cases_of[0], cases_of[1]})  // lists of these are the best cover
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << c.name << ": " << s.heads << "/" << s.kv_heads << " "
                                      << s.seqlen_q << " of " << s.seqlen_kv << " " << s.at_end);
      const int group = s.heads / s.kv_heads;
      AttentionCall call;
      call.pack_gqa = group > 1 && s.seqlen_q <= 16;
      const int rows = call.pack_gqa ? group * s.seqlen_q : s.seqlen_q;
      call.seqlen_q = s.seqlen_q;
      call.Q = call.O = Tensor::zeros({1, s.kv_heads, rows, 64}, DType::bf16, GetParam());
      call.K = call.V = Tensor::zeros({1, s.kv_heads, s.seqlen_kv, 64}, DType::bf16, GetParam());
      const AttentionHeuristics facts({.mask = c.mask, .align_bottom_right = s.at_end});
      for (const AttentionTileShape tiles : {facts.config(call).tiles(), {16, 32}}) {
        const auto visited = visited_blocks(facts, call, tiles);
        ASSERT_EQ(visited.size(),
                  static_cast<std::size_t>((rows + tiles.block_q - 1) / tiles.block_q));
        for (std::size_t m = 0; m < visited.size(); ++m) {
          std::vector<std::int64_t> blocks;
          for (const VisitedBlock& b : visited[m]) blocks.push_back(b.first);
          std::ranges::sort(blocks);
          const int r0 = static_cast<int>(m) * tiles.block_q;
          EXPECT_EQ(blocks, cover(c, s, r0, std::min(r0 + tiles.block_q, rows), tiles.block_kv))
              << "tile " << m << " of " << tiles.block_q << " x " << tiles.block_kv;
        }
      }
    }
}

TEST_P(DerivedRows, SequencesInOneTensor) {
  const Lengths lengths{{1, 113, 0, 128, 17, 200, 5}, {7, 203, 9, 128, 33, 350, 260}};
  for (const Case& c : cases(GetParam()))
    for (const auto& [at_end, longest_first] :
         {std::pair{false, true}, {true, false}, {true, true}}) {
      SCOPED_TRACE(testing::Message()
                   << c.name << longest_first << (at_end ? ", queries at the end" : ""));
      HostAttention host;
      host.mask = [&](int b, int h, int q, int kv) {
        const auto i = static_cast<std::size_t>(b);
        return c.want(b, h, q + (at_end ? lengths.kv[i] - lengths.q[i] : 0), kv);
      };
      const Attention attention({.mask = c.mask, .align_bottom_right = at_end},
                                {.longest_first = longest_first});
      const Packed p(lengths, 4, 2, 64, 64, DType::bf16, GetParam());
      attention.varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                       p.all.extras());
      p.expect(host);
      expect_list(attention);
      if (HasFatalFailure()) return;
    }
}

/// Lengths, their number and the number of queries are not part of a kernel's key.
class DerivedRowsOfLengths : public DerivedRows {
 protected:
  void check(bool longest_first);
};
INSTANTIATE_TEST_SUITE_P(Devices, DerivedRowsOfLengths, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Bounds, list and attention, and the order if requested, are compiled once.
void DerivedRowsOfLengths::check(bool longest_first) {
  const Case c = cases(GetParam())[1];
  const Attention attention({.mask = c.mask, .align_bottom_right = true},
                            {.longest_first = longest_first});
  HostAttention host;
  for (const Lengths& l : {Lengths{{64, 128}, {64, 128}},
                           {{129, 3, 65}, {129, 30, 165}},
                           {{1}, {1}},
                           {{0, 0, 33, 2}, {4, 0, 33, 20}}}) {
    host.mask = [&](int b, int h, int q, int kv) {
      const auto i = static_cast<std::size_t>(b);
      return c.want(b, h, q + l.kv[i] - l.q[i], kv);
    };
    const Packed p(l, 3, 1, 128, 128, DType::bf16, GetParam());
    attention.varlen(Stream(GetParam()), p.all.Q, p.all.K, p.all.V, p.all.O, p.lengths,
                     p.all.extras());
    p.expect(host);
    if (HasFatalFailure()) return;
    const std::string text = attention.explain();
    int made = 0;
    for (const char* how : {"compiled:", "reused:"})
      for (std::size_t at = text.find(how); at != std::string::npos; at = text.find(how, at + 1))
        ++made;
    EXPECT_EQ(made, longest_first ? 4 : 3) << text;
  }
}

TEST_P(DerivedRowsOfLengths, ChangeWithoutCompiling) { check(false); }
TEST_P(DerivedRowsOfLengths, ChangeWithoutCompilingTheOrder) { check(true); }

}  // namespace
}  // namespace tegula::test::derived_rows_test
