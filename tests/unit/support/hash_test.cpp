#include "support/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace tegula::hash_test {
namespace {

// The values of `xxhsum -H2`: keys on disk must never change by accident.
TEST(Hash, IsXxh3With128Bits) {
  EXPECT_EQ(hash128("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash128("tegula").hex(), Hasher().bytes("teg").bytes("ula").digest().hex());
}

TEST(Hash, StreamsLongInputInAnyPieces) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>('a' + i % 26);
  Hasher pieces;
  for (std::size_t i = 0; i < text.size(); i += 37)
    pieces.bytes(std::string_view(text).substr(i, 37));
  EXPECT_EQ(pieces.digest(), hash128(text));
}

TEST(Hash, FieldsCannotTradeCharacters) {
  EXPECT_NE(Hasher().add("ab").add("c").digest(), Hasher().add("a").add("bc").digest());
  EXPECT_NE(Hasher().add("").digest(), Hasher().digest());
}

TEST(Hash, NumbersDoNotDependOnTheirType) {
  EXPECT_EQ(Hasher().add(7).digest(), Hasher().add(std::int64_t{7}).digest());
  EXPECT_EQ(Hasher().add(-1).digest(), Hasher().add(std::int64_t{-1}).digest());
  EXPECT_NE(Hasher().add(7).digest(), Hasher().add(8).digest());
  enum class Color : unsigned char { Red = 7 };
  EXPECT_EQ(Hasher().add(Color::Red).digest(), Hasher().add(7).digest());
}

TEST(Hash, DigestDoesNotEndTheStream) {
  Hasher h;
  h.bytes("a");
  const Hash128 early = h.digest();
  EXPECT_EQ(early, hash128("a"));
  EXPECT_EQ(h.bytes("b").digest(), hash128("ab"));
  Hasher moved = std::move(h);
  EXPECT_EQ(moved.digest(), hash128("ab"));
}

TEST(Hash, HexKeepsLeadingZeros) {
  EXPECT_EQ((Hash128{.high = 1, .low = 0xab}).hex(), "000000000000000100000000000000ab");
}

}  // namespace
}  // namespace tegula::hash_test
