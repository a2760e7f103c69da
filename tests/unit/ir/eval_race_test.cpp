// The race detector on its own, with accesses of two programs interleaved as two threads may have
// them.
#include "ir/eval/race.h"

#include <gtest/gtest.h>

namespace tegula::ir::interp::eval_race_test {
namespace {

class RaceTest : public ::testing::Test {
 protected:
  RaceTest() {
    block_.begin = reinterpret_cast<std::uintptr_t>(memory_);
    block_.end = block_.begin + sizeof memory_;
    block_.granule = 2;
    block_.allocate();
    first_.start(0);
    second_.start(1);
  }
  bool read(const ProgramClock& who, int at, std::size_t size = 2) {
    return races_.read(block_, memory_ + at, size, who, 7).has_value();
  }
  bool write(const ProgramClock& who, int at, std::size_t size = 2) {
    return races_.write(block_, memory_ + at, size, who, 8).has_value();
  }
  bool atomic(const ProgramClock& who, int at) {
    return races_.atomic(block_, memory_ + at, 2, who, 9).has_value();
  }

  std::byte memory_[16] = {};
  ShadowBlock block_;
  RaceDetector races_;
  ProgramClock first_, second_;
};

TEST_F(RaceTest, AnInterleavedReaderIsNotForgotten) {
  EXPECT_FALSE(read(first_, 0));
  EXPECT_FALSE(read(second_, 0));
  EXPECT_TRUE(write(first_, 0));
}

TEST_F(RaceTest, ManyReadersAreFine) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(read(first_, 0));
    EXPECT_FALSE(read(second_, 0));
  }
}

TEST_F(RaceTest, WideAccessesTouchEveryElementTheyCover) {
  EXPECT_FALSE(write(first_, 4, 4));
  EXPECT_FALSE(write(second_, 2));
  EXPECT_FALSE(write(second_, 8));
  EXPECT_TRUE(write(second_, 6));
}

TEST_F(RaceTest, TheConflictNamesTheOtherAccess) {
  EXPECT_FALSE(write(first_, 0));
  const auto other = races_.read(block_, memory_, 2, second_, 7);
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->program(), 0u);
  EXPECT_EQ(other->op(), 8u);
}

TEST_F(RaceTest, OrderIsTransitive) {
  ProgramClock third;
  third.start(2);
  EXPECT_FALSE(write(first_, 0));
  races_.release(memory_ + 8, first_);
  races_.acquire(memory_ + 8, second_);
  races_.release(memory_ + 10, second_);
  races_.acquire(memory_ + 10, third);
  EXPECT_FALSE(read(third, 0));
  EXPECT_FALSE(write(first_, 2));  // after its release
  EXPECT_TRUE(read(third, 2));
}

TEST_F(RaceTest, AtomicsConflictOnlyWithPlainAccesses) {
  EXPECT_FALSE(atomic(first_, 0));
  EXPECT_FALSE(atomic(second_, 0));
  EXPECT_TRUE(read(second_, 0));
  EXPECT_FALSE(read(first_, 2));
  EXPECT_TRUE(atomic(second_, 2));
}

}  // namespace
}  // namespace tegula::ir::interp::eval_race_test
