// Tensor maps of every rank, one to five: boxes that hang over an edge of each dimension, loaded by
// TMA and stored or combined by it, against plain loops. MMAs have operands of two to five
// dimensions only.
#include <fmt/format.h>

#include <array>

#include "tests/unit/codegen/sim_test.h"

namespace tegula::sim::sim_tensor_ranks_test {
namespace {

constexpr std::array<int, 5> kDims{13, 5, 4, 3, 3}, kBox{8, 4, 2, 2, 2};
/// A row begins at a multiple of 16 bytes.
constexpr std::array<int, 5> kSteps{1, 16, 80, 320, 960};
constexpr int kElements = 3 * 960;
using Corner = std::array<int, 5>;

codegen::TensorMap map_of(Buffer<float>& x, int rank) {
  codegen::TensorMap m;
  m.base = x.data();
  m.dtype = DType::f32;
  m.rank = rank;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    m.dims[d] = kDims[d];
    m.strides[d] = 4 * kSteps[d];
    m.box[d] = kBox[d];
  }
  return m;
}

/// The position in the tensor of element `i` of the box; -1 outside.
int place(int rank, const Corner& corner, int i) {
  int at = 0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    const int x = corner[d] + i % kBox[d];
    i /= kBox[d];
    if (x < 0 || x >= kDims[d]) return -1;
    at += x * kSteps[d];
  }
  return at;
}

/// Loads the box, stores it by threads, and the box into another tensor.
std::string round_trip(int rank, int elements, const Corner& corner,
                       std::string_view store = "tma_store", std::string_view attrs = "") {
  std::string constants, coordinates;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    constants += fmt::format("  %c{} = const [value = {}] : i32\n", d, corner[d]);
    coordinates += fmt::format(", %c{}", d);
  }
  return fmt::format(R"(
kernel @ranks simt target(sm_90a) threads(256) smem(1040) (%a: tmap, %b: tmap, %c: ptr<f32>) {{
{0}{2}    tma_load %a, %base, %bar{1}
  }} {{
  }}
  mbar_wait %bar, %zero
  %count = const [value = {3}] : i32
  %in = cmp %tid, %count [pred = "lt"]
  if %in {{
    %four = const [value = 4] : i32
    %byte = mul %tid, %four
    %at = add %base, %byte
    %v = ld_shared %at [width = 1] : f32
    %p = addptr %c, %tid
    st_global %p, %v [width = 1]
  }} {{
  }}
  if %first {{
    {4} %b, %base{1} {5}
    tma_commit
    tma_wait [count = 0]
  }} {{
  }}
}})",
                     constants, coordinates, barrier_prologue(1024, 4 * elements), elements, store,
                     attrs);
}

void check(int rank, const Corner& corner) {
  SCOPED_TRACE(fmt::format("rank {} from {} on", rank, corner[0]));
  constexpr float kUnset = -1;
  int elements = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) elements *= kBox[d];
  Buffer<float> x(kElements), y(kElements, kUnset), out(256, kUnset);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const auto from = map_of(x, rank), to = map_of(y, rank);
  Launch1 l;
  l.options.ranges = {{x.data(), x.data() + x.size()}, {y.data(), y.data() + y.size()}};
  l.map(from).map(to).pointer(out);
  const Report r = l.run(parse_located(round_trip(rank, elements, corner)));
  ASSERT_TRUE(r.clean()) << r.str();
  Buffer<float> want(kElements, kUnset);
  int inside = 0;
  for (int i = 0; i < elements; ++i) {
    const int at = place(rank, corner, i);
    EXPECT_EQ(out[static_cast<std::size_t>(i)], at < 0 ? 0 : static_cast<float>(at))
        << "element " << i;
    if (at >= 0) want[static_cast<std::size_t>(at)] = static_cast<float>(at), ++inside;
  }
  EXPECT_EQ(y, want);  // nothing outside of the box or of the tensor, padding of rows among it
  EXPECT_GT(inside, 0);
}

TEST(SimTma, TensorsOfEveryRank) {
  for (int rank = 1; rank <= codegen::kMaxTensorRank; ++rank) {
    check(rank, {4, 1, 1, 1, 1});       // all inside
    check(rank, {8, 3, 3, 2, 2});       // over the far edge of each dimension
    check(rank, {-3, -1, -1, -1, -1});  // over the near one
  }
}

/// Programs that add the same box, or keep the larger elements: none is lost, and it is not a race.
TEST(SimTma, BoxesOfManyProgramsAreCombined) {
  constexpr int kPrograms = 5;
  const Corner corner{8, 3, 3, 2, 2};
  for (const std::string kind : {"add", "max", "min"}) {
    SCOPED_TRACE(kind);
    constexpr float kBefore = 7;
    Buffer<float> x(kElements), y(kElements, kBefore), out(256);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
    const auto from = map_of(x, 5), to = map_of(y, 5);
    Launch1 l;
    l.options.ranges = {{x.data(), x.data() + x.size()}, {y.data(), y.data() + y.size()}};
    l.map(from).map(to).pointer(out);
    std::string text = round_trip(5, 256, corner, "tma_reduce", "[kind = \"" + kind + "\"]");
    const std::string count = "%count = const [value = 256]";
    text.replace(text.find(count), count.size(), "%count = const [value = 0]");
    const Report r = l.run(parse_located(text), {kPrograms, 1, 1});
    EXPECT_TRUE(r.clean()) << r.str();
    Buffer<float> want(kElements, kBefore);
    for (int i = 0; i < 256; ++i) {
      const int at = place(5, corner, i);
      if (at < 0) continue;
      const auto p = static_cast<std::size_t>(at);
      want[p] = kind == "add"   ? kBefore + kPrograms * x[p]
                : kind == "max" ? std::max(kBefore, x[p])
                                : std::min(kBefore, x[p]);
    }
    EXPECT_EQ(y, want);
  }
}

/// More than a map has, and fewer.
TEST(SimTma, OtherRanksAreFound) {
  Buffer<float> x(kElements), out(256);
  for (const int rank : {0, 6}) {
    auto m = map_of(x, 1);
    m.rank = rank;
    Launch1 l;
    l.options.ranges = {{x.data(), x.data() + x.size()}};
    l.map(m).map(m).pointer(out);
    const Report r = l.run(parse_located(round_trip(1, 8, {0, 0, 0, 0, 0})));
    EXPECT_FALSE(r.clean()) << rank;
  }
}

}  // namespace
}  // namespace tegula::sim::sim_tensor_ranks_test
