#include "support/entity.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <unordered_set>

namespace tegula::entity_test {
namespace {

using ValueId = EntityId<struct ValueTag>;
using BlockId = EntityId<struct BlockTag>;

// The point of typed ids: these must not compile into each other.
static_assert(!std::is_convertible_v<ValueId, BlockId> &&
              !std::is_constructible_v<BlockId, ValueId>);
static_assert(!std::is_convertible_v<std::uint32_t, ValueId> &&
              !std::is_convertible_v<ValueId, bool>);

TEST(EntityId, IsNoneUntilGiven) {
  EXPECT_FALSE(ValueId());
  EXPECT_TRUE(ValueId(0));
  EXPECT_LT(ValueId(1), ValueId(2));
  EXPECT_EQ((std::unordered_set<ValueId>{ValueId(1), ValueId(1), ValueId()}.size()), 2u);
}

TEST(EntityMap, IdsOutliveGrowth) {
  std::pmr::monotonic_buffer_resource arena;
  EntityMap<ValueId, std::string> map(&arena);
  const ValueId first = map.add("first");
  for (int i = 0; i < 1000; ++i) map.add(std::to_string(i));
  EXPECT_EQ(map[first], "first");
  EXPECT_EQ(map[ValueId(1000)], "999");
  map[first] = "changed";
  EXPECT_EQ(map[first], "changed");
  EXPECT_EQ(map.size(), 1001u);
}

}  // namespace
}  // namespace tegula::entity_test
