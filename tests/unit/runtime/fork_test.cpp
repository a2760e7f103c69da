// After fork() a driver that had started is refused in the child, and works on in the parent. The
// driver is tests/fake_cuda's, by LD_LIBRARY_PATH.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/context.h"
#include "runtime/driver_api.h"
#include "tegula/error.h"

namespace tegula::runtime::fork_test {
namespace {

using ::testing::HasSubstr;

/// The exit code of a child that runs `f`.
template <class F>
int in_child(const F& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Returns 1 if the driver is rejected because of a fork, 0 if it can be used.
int refusal() {
  try {
    driver();
    return 0;
  } catch (const DeviceError& e) {
    return std::string_view(e.what()).find("this process was forked after") !=
                   std::string_view::npos
               ? 1
               : 2;
  }
}

TEST(Fork, AChildOfAProcessThatUsedTheDriverIsRefused) {
  std::string why;
  if (in_child([] { return refusal(); }) != 0)
    GTEST_SKIP() << "tests/fake_cuda is not in LD_LIBRARY_PATH";
  ASSERT_NE(try_driver(&why), nullptr) << why;
  EXPECT_EQ(in_child([] { return refusal(); }), 1);
  EXPECT_EQ(in_child([] { return cuda_device_count(); }), 0) << "no GPU, and no exception";
  EXPECT_EQ(refusal(), 0) << "the parent works on";
  EXPECT_EQ(cuda_device_count(), 1);
}

}  // namespace
}  // namespace tegula::runtime::fork_test
