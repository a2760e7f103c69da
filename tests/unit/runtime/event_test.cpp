// Events of streams on the host; tests/gpu/ has the same on a GPU.
#include "tegula/event.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tegula/error.h"

namespace tegula::event_test {
namespace {

TEST(Event, MeasuresTheTimeBetweenTwoEvents) {
  for (const Device d : {Device::cpu(), Device::sim()}) {
    const Stream stream(d);
    Event first(d), second(d);
    first.record(stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    second.record(stream);
    EXPECT_TRUE(second.is_done());
    second.synchronize();
    EXPECT_GE(second.ms_since(first), 5);
    EXPECT_LT(second.ms_since(first), 5000);
    const Event copy = first;
    first.record(stream);
    EXPECT_LE(second.ms_since(copy), 0) << "a copy is the same event";
  }
}

TEST(Event, RefusesOtherDevicesAndEventsWithoutAPlace) {
  Event cpu(Device::cpu()), sim(Device::sim());
  const auto code_of = [](auto&& call) {
    try {
      call();
    } catch (const DeviceError& e) {
      return std::string(e.diagnostic().code);
    }
    return std::string();
  };
  EXPECT_EQ(code_of([&] { cpu.record(Stream(Device::sim())); }), "T2007");
  cpu.record(Stream(Device::cpu()));
  sim.record(Stream(Device::sim()));
  EXPECT_EQ(code_of([&] { (void)cpu.ms_since(sim); }), "T2007");
  int line = 0;
  try {
    line = __LINE__ + 1;
    (void)cpu.ms_since(Event(Device::cpu()));
    ADD_FAILURE();
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.diagnostic().code, "T2003");
    EXPECT_EQ(e.diagnostic().loc.line, static_cast<unsigned>(line)) << e.what();
  }
}

}  // namespace
}  // namespace tegula::event_test
