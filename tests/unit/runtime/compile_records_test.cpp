// The kernels that a process compiled: the last kernels by name, the others by their number.
#include "runtime/compile_records.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tegula/report.h"

namespace tegula::runtime::compile_records_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(CompileRecords, TheLastAreListedAllAreCounted) {
  const auto record = [](const char* kernel) {
    record_compile({kernel, "sim", "", CodeSource::compiled, 0.5});
  };
  record("first"), record("second");
  EXPECT_THAT(compile_report(), HasSubstr("first"));
  EXPECT_THAT(compile_report(), Not(HasSubstr("before")));
  for (std::size_t i = 1; i < kMaxCompileRecords; ++i) record("other");
  const std::string report = compile_report();
  EXPECT_THAT(report, HasSubstr("1 kernels before these\nsecond"));
  EXPECT_EQ(std::ranges::count(report, '\n'), kMaxCompileRecords + 2);
  EXPECT_THAT(report, HasSubstr("4097 kernels: 0 from bundles, 0 from the disk cache, 4097 "
                                "compiled; 2048.50 ms"));
}

}  // namespace
}  // namespace tegula::runtime::compile_records_test
