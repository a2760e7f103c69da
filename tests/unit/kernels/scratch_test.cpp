// Scratch memory of kernels.
#include "tegula/scratch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

namespace tegula::scratch_test {
namespace {

TEST(Scratch, OneThreadAtATimeHandsOn) {
  const Stream stream(Device::cpu());
  auto mine = Scratch::lock(stream);
  auto other = std::async(std::launch::async, [&] { return Scratch::lock(stream).owns_lock(); });
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  mine.unlock();
  EXPECT_TRUE(other.get());
}

}  // namespace
}  // namespace tegula::scratch_test
