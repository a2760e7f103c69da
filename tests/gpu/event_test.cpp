// Events of a GPU's streams.
#include "tegula/event.h"

#include <gtest/gtest.h>

#include "tegula/tegula.h"

namespace tegula::event_test {
namespace {

TEST(GpuEvent, MeasuresTheTimeOfAKernel) {
  if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
  const Device d = Device::cuda();
  const Stream stream = Stream::create(d);
  const auto spin = kernel("spin", [](Out<u64, 1> y) {
    for (auto i : grid(y, 1)) {
      const Tile start = global_timer();
      Tile now = start;
      while_([&] { return now - start < 2'000'000; }, [&] { now = global_timer(); });
      y(i) = now - start;
    }
  });
  const Tensor y = Tensor::empty({1}, DType::u64, d);
  spin(stream, y);
  Event first(d), second(d);
  EXPECT_TRUE(first.is_done()) << "it has no place yet";
  first.record(stream);
  spin(stream, y);
  second.record(stream);
  const double ms = second.ms_since(first);
  EXPECT_GE(ms, 1.9);
  EXPECT_LT(ms, 100);
  EXPECT_TRUE(second.is_done());
  EXPECT_GE(y.to_doubles()[0], 2e6);
}

}  // namespace
}  // namespace tegula::event_test
