#include "runtime/tensor_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "mock_driver.h"
#include "tegula/error.h"
#include "tests/unit/runtime/counted_allocations.h"

namespace tegula::runtime::tensor_map_test {
namespace {

using ::testing::HasSubstr;
using testing::mock;
using testing::MockDriver;

template <class E>
std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const E& e) {
    return e.what();
  }
  return "no such error";
}

codegen::TensorMap box_64x128() {
  codegen::TensorMap m;
  m.base = reinterpret_cast<void*>(0x10000);
  m.rank = 2;
  m.dims[0] = 4096;
  m.dims[1] = 1000;
  m.strides[0] = 2;
  m.strides[1] = 8192;
  m.box[0] = 64;
  m.box[1] = 128;
  m.swizzle = 128;
  return m;
}

TEST(TensorMap, FaultsNameTheRule) {
  EXPECT_EQ(tensor_map_fault(box_64x128()), "");
  const auto with = [](auto change) {
    codegen::TensorMap m = box_64x128();
    change(m);
    return tensor_map_fault(m);
  };
  EXPECT_EQ(with([](auto& m) { m.rank = 6; }), "6 dimensions, not 1 to 5");
  EXPECT_EQ(with([](auto& m) { m.base = reinterpret_cast<void*>(0x10008); }),
            "the address 0x10008 is not a multiple of 16");
  EXPECT_EQ(with([](auto& m) { m.strides[1] = 8200; }),
            "the stride of dimension 1 is 8200 bytes, not a multiple of 16");
  EXPECT_EQ(with([](auto& m) { m.strides[1] = std::int64_t{1} << 40; }),
            "the stride of dimension 1 is 1099511627776 bytes, not below 2^40");
  EXPECT_EQ(with([](auto& m) { m.strides[1] = -8192; }),
            "the stride of dimension 1 is -8192 bytes, not below 2^40");
  EXPECT_EQ(with([](auto& m) { m.dims[1] = 0; }), "dimension 1 has 0 elements, not 1 to 2^32");
  EXPECT_EQ(with([](auto& m) { m.box[1] = 257; }),
            "the box has 257 elements along dimension 1, not 1 to 256");
  EXPECT_EQ(with([](auto& m) { m.box[0] = 72; }),
            "a row of the box is 144 bytes, more than the swizzle of 128");
  EXPECT_EQ(with([](auto& m) { m.box[0] = 4; }),
            "a row of the box is 8 bytes, not a multiple of 16");
}

std::uint64_t first_word(TensorMapCache& cache, const codegen::TensorMap& map) {
  cu::TensorMap encoded;
  cache.get(map, reinterpret_cast<std::byte*>(&encoded));
  return encoded.opaque[0];
}

codegen::TensorMap box_at(std::uintptr_t address) {
  codegen::TensorMap m = box_64x128();
  m.base = reinterpret_cast<void*>(address);
  return m;
}

TEST(TensorMap, CacheEncodesOnceATensor) {
  const MockDriver driver;
  TensorMapCache cache("argument A of kernel k");
  const codegen::TensorMap a = box_at(0x10000), b = box_at(0x20000);
  codegen::TensorMap c = a;
  c.dims[4] = 7;  // differs in nothing that the set depends on
  for (int i = 0; i < 5; ++i) EXPECT_EQ(first_word(cache, a), 0x10000u);
  EXPECT_EQ(mock().encodes, 1);
  EXPECT_EQ(first_word(cache, b), 0x20000u);
  EXPECT_EQ(first_word(cache, c), 0x10000u);
  EXPECT_EQ(mock().encodes, 3);
  first_word(cache, a);
  EXPECT_EQ(mock().encodes, 3);
  codegen::TensorMap bad = a;
  bad.strides[1] = 8200;
  for (int i = 0; i < 2; ++i)  // a failed entry is no entry
    EXPECT_THAT(
        error_of<CompileError>([&] { first_word(cache, bad); }),
        HasSubstr(
            "error T1226: TMA cannot address argument A of kernel k: the stride of dimension 1 is "
            "8200 bytes"));
  EXPECT_EQ(first_word(cache, a), 0x10000u);
}

TEST(TensorMap, CacheKeepsTheTensorsOfManyLayers) {
  const MockDriver driver;
  TensorMapCache cache;
  constexpr std::uintptr_t kLayers = 100;
  for (int turn = 0; turn < 3; ++turn)
    for (std::uintptr_t layer = 1; layer <= kLayers; ++layer)
      ASSERT_EQ(first_word(cache, box_at(layer << 24)), layer << 24);
  EXPECT_EQ(mock().encodes, static_cast<int>(kLayers));
  for (std::uintptr_t tensor = 1; tensor <= 10000; ++tensor)  // more than it holds
    ASSERT_EQ(first_word(cache, box_at(tensor << 16)), tensor << 16);
}

TEST(TensorMap, CacheHitTakesNoMemory) {
  const MockDriver driver;
  TensorMapCache cache;
  first_word(cache, box_at(0x10000));
  testing::take_calls();
  const int before = test::allocations();
  for (int i = 0; i < 100; ++i) first_word(cache, box_at(0x10000));
  EXPECT_EQ(test::allocations(), before);
  EXPECT_TRUE(testing::take_calls().empty());
}

TEST(TensorMap, ManyThreadsShareACache) {
  const MockDriver driver;
  TensorMapCache cache;
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        std::uint64_t random = t;
        for (int i = 0; i < 20000; ++i) {
          random = random * 6364136223846793005u + 1442695040888963407u;
          // More than it holds: entries are replaced while others read them.
          const std::uintptr_t address = (1 + (random >> 33) % 700) << 16;
          wrong += first_word(cache, box_at(address)) != address;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(TensorMap, ThreadWithoutContextIsServed) {
  const MockDriver driver;
  mock().needs_context = true;
  TensorMapCache cache;
  EXPECT_EQ(first_word(cache, box_at(0x10000)), 0x10000u);
  EXPECT_EQ(mock().context_pushes, 1);
  EXPECT_EQ(mock().current, nullptr) << "as it was";
}

}  // namespace
}  // namespace tegula::runtime::tensor_map_test
