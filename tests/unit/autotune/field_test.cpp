// One visitor of a struct's fields: hash, text and parser agree with it.
#include "autotune/field.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

namespace tegula::autotune::field_test {

enum class Order : std::uint8_t { row, column, serpentine };
constexpr auto enumerator_names(Order) {
  return std::array<std::string_view, 3>{"row", "column", "serpentine"};
}

namespace {

struct Pitch {
  std::int64_t bytes = 0;
  bool is_aligned = false;
  template <class Self, class Visit>
  static void each_field(Self& p, const Visit& visit) {
    visit("bytes", p.bytes);
    visit("is_aligned", p.is_aligned);
  }
};

struct Tile {
  int rows = 128;
  Order order = Order::row;
  DType dtype = DType::bf16;
  Pitch pitch;
  double share = 0.5;
  std::string device = "H100";
  template <class Self, class Visit>
  static void each_field(Self& t, const Visit& visit) {
    visit("rows", t.rows);
    visit("order", t.order);
    visit("dtype", t.dtype);
    visit("pitch", t.pitch);
    visit("share", t.share);
    visit("device", t.device);
  }
};

Tile odd_tile() {
  return {.rows = -7,
          .order = Order::serpentine,
          .dtype = DType::f8e4m3,
          .pitch = {1LL << 40, true},
          .share = 0.1,
          .device = "NVIDIA \"H100\" =80GB\\"};
}

TEST(Fields, Text) {
  EXPECT_EQ(text_of(Tile{}),
            "rows=128 order=row dtype=bf16 pitch.bytes=0 pitch.is_aligned=0 share=0.5 device=H100");
  EXPECT_EQ(text_of(odd_tile()),
            "rows=-7 order=serpentine dtype=f8e4m3 pitch.bytes=1099511627776 pitch.is_aligned=1 "
            "share=0.1 device=\"NVIDIA \\\"H100\\\" =80GB\\\\\"");
}

TEST(Fields, TextComesBack) {
  Tile third = odd_tile(), least;
  third.share = 1.0 / 3, third.device = "";
  least.share = std::numeric_limits<double>::denorm_min();
  for (const Tile& t : {Tile{}, odd_tile(), third, least}) {
    const std::optional<Tile> again = parse<Tile>(text_of(t));
    ASSERT_TRUE(again) << text_of(t);
    EXPECT_EQ(text_of(*again), text_of(t));
    EXPECT_EQ(hash_of(*again), hash_of(t));
    EXPECT_EQ(again->device, t.device);
    EXPECT_EQ(again->share, t.share);
  }
}

/// A text that was cut, has a field more or fewer, or a value that is none, is not a struct.
TEST(Fields, OtherTextsAreRefused) {
  const std::string text = text_of(odd_tile());
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(parse<Tile>(text.substr(0, length))) << length;
  const std::string usual = text_of(Tile{});
  for (const char* more : {" ", " more=1", "x=1"}) EXPECT_FALSE(parse<Tile>(usual + more)) << more;
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string other = usual;
    return other.replace(other.find(from), from.size(), to);
  };
  EXPECT_TRUE(parse<Tile>(with("rows=128", "rows=64")));
  for (const char* rows :
       {"rows=", "rows=12x", "rows= 1", "rows=0128", "rows=99999999999", "row=128"})
    EXPECT_FALSE(parse<Tile>(with("rows=128", rows))) << rows;
  EXPECT_FALSE(parse<Tile>(with("order=row", "order=diagonal")));
  EXPECT_FALSE(parse<Tile>(with("is_aligned=0", "is_aligned=2")));
  EXPECT_FALSE(parse<Tile>(with("dtype=bf16 ", "dtype=bf16  ")));
}

/// Each field has a say in the hashes.
TEST(Fields, EveryFieldCounts) {
  std::vector<Tile> tiles(8);
  tiles[1].rows = 64;
  tiles[2].order = Order::column;
  tiles[3].dtype = DType::f16;
  tiles[4].pitch.bytes = 1;
  tiles[5].pitch.is_aligned = true;
  tiles[6].share = -0.5;
  tiles[7].device = "H200";
  std::set<std::uint64_t> hashes;
  for (const Tile& t : tiles) hashes.insert(hash_of(t));
  EXPECT_EQ(hashes.size(), tiles.size());
}

/// A store keeps these between releases.
TEST(Fields, HashesAreOfTheValuesAlone) {
  EXPECT_EQ(fmt::format("{:016x}", hash_of(Pitch{128, true})), "7f7d16eacf108dfc");
}

}  // namespace
}  // namespace tegula::autotune::field_test
