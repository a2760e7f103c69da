// Results of atomic operations, in the interpreter and the simulator alike.
#include "ir/eval/atomic_kind.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tegula/error.h"

namespace tegula::ir::atomic_kind_test {
namespace {

std::int64_t whole(const char* kind, std::int64_t old, std::int64_t value, DType dtype) {
  return interp::combine_of(kind)(int_cell(old), int_cell(value), dtype).i;
}
double real(const char* kind, double old, double value, DType dtype) {
  return interp::combine_of(kind)(float_cell(old), float_cell(value), dtype).f;
}

TEST(AtomicKind, Integers) {
  EXPECT_EQ(whole("add", 2147483647, 2, DType::i32), -2147483647);
  EXPECT_EQ(whole("max", -3, 2, DType::i32), 2);
  EXPECT_EQ(whole("min", -3, 2, DType::i32), -3);
  EXPECT_EQ(whole("and", 12, 10, DType::i64), 8);
  EXPECT_EQ(whole("or", 12, 10, DType::i64), 14);
  EXPECT_EQ(whole("xor", 12, 10, DType::i64), 6);
  EXPECT_EQ(whole("xchg", 12, 10, DType::i64), 10);
}

TEST(AtomicKind, IncCountsUpToTheValue) {
  EXPECT_EQ(whole("inc", 0, 2, DType::u32), 1);
  EXPECT_EQ(whole("inc", 1, 2, DType::u32), 2);
  EXPECT_EQ(whole("inc", 2, 2, DType::u32), 0);
  EXPECT_EQ(whole("inc", 7, 2, DType::u32), 0);
}

TEST(AtomicKind, Floats) {
  EXPECT_EQ(real("add", 2048, 1, DType::f16), 2048);  // between two floats of 16 bits: to even
  EXPECT_EQ(real("max", NAN, 1, DType::f32), 1);
  EXPECT_EQ(real("min", 2, NAN, DType::f32), 2);
}

TEST(AtomicKind, AnotherNameIsRefused) { EXPECT_THROW(interp::combine_of("mul"), InternalError); }

}  // namespace
}  // namespace tegula::ir::atomic_kind_test
