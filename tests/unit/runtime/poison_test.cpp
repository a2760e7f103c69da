// Marks of released memory: which elements they cover, and how long they last.
#include "tegula/poison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/released_memory.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::runtime::poison_test {
namespace {

constexpr Device kCpu = Device::cpu();

/// Returns true if the element is released and was not written since.
bool is_released(const Tensor& element) {
  return ir::find_released(released_memory(), element.byte_range().begin,
                           static_cast<std::size_t>(size_bytes(element.dtype())))
      .has_value();
}

/// Returns the released elements of a tensor of rank 2, in row-major order.
std::vector<bool> released_of(const Tensor& t) {
  std::vector<bool> all;
  for (std::int64_t i = 0; i < t.size(0); ++i)
    for (std::int64_t j = 0; j < t.size(1); ++j)
      all.push_back(is_released(t.select(0, i).select(0, j)));
  return all;
}

TEST(Poison, MarksTheElementsOfViews) {
  const Tensor t = Tensor::zeros({3, 4}, DType::bf16, kCpu);
  for (const Tensor& part : {t.slice(1, 1, 3), t.slice(0, 2, 0, -1), t.slice(1, 0, 4, 2),
                             t.transpose(0, 1).slice(0, 3, 4), t.flip(1).slice(1, 0, 1)}) {
    t.fill(1);
    poison(part);
    const Tensor twin = t.clone();
    for (const double x : part.to_doubles()) EXPECT_TRUE(std::isnan(x));
    const std::vector<double> values = twin.to_doubles();
    const std::vector<bool> marks = released_of(t);
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(marks[i], std::isnan(values[i])) << i;
    EXPECT_EQ(std::ranges::count(marks, true), part.numel());
  }
}

TEST(Poison, EndsWithAWrite) {
  const Tensor t = Tensor::zeros({2, 2}, DType::f32, kCpu);
  poison(t);
  t.select(0, 1).select(0, 0).fill(3);
  EXPECT_EQ(released_of(t), (std::vector<bool>{true, true, false, true}));
  poison(t);
  EXPECT_EQ(released_of(t), std::vector<bool>(4, true));
}

TEST(Poison, EndsWithTheMemory) {
  const std::size_t before = released_memory().size();
  Tensor t = Tensor::empty({64}, DType::f16, kCpu);
  poison(t.slice(0, 0, 8)), poison(t.slice(0, 16, 24)), poison(t.slice(0, 8, 12));
  EXPECT_EQ(released_memory().size(), before + 2) << "adjacent parts are joined";
  t = Tensor();
  EXPECT_EQ(released_memory().size(), before);
  std::vector<float> values(16, 1.0f);
  Tensor borrowed = Tensor::borrow(values.data(), {16}, DType::f32, kCpu);
  poison(borrowed);
  Tensor part = Tensor::borrow(values.data() + 4, {8}, DType::f32, kCpu);
  part = Tensor();
  EXPECT_EQ(released_memory().size(), before + 1) << "another tensor borrows the memory";
  borrowed = Tensor();
  EXPECT_EQ(released_memory().size(), before);
}

/// A mark within another one divides it.
TEST(Poison, ReplacesOlderMarks) {
  const Tensor t = Tensor::zeros({8}, DType::f32, kCpu);
  poison(t);
  poison(Tensor::borrow(static_cast<float*>(t.data()) + 2, {4}, DType::bf16, kCpu));
  const auto first = reinterpret_cast<std::uintptr_t>(t.data());
  std::vector<ir::ReleasedMemory> marks;
  for (const ir::ReleasedMemory& r : released_memory())
    if (r.begin >= first && r.begin < first + 32) marks.push_back(r);
  EXPECT_EQ(marks,
            (std::vector<ir::ReleasedMemory>{
                {first, first + 8, 4}, {first + 8, first + 16, 2}, {first + 16, first + 32, 4}}));
}

TEST(Poison, FromTwoThreads) {
  const Tensor t = Tensor::zeros({64, 16}, DType::bf16, kCpu);
  const auto release = [&](std::int64_t first) {
    for (std::int64_t row = first; row < 64; row += 2) {
      poison(t.select(0, row));
      if (row % 4 < 2) t.select(0, row).fill(1);
    }
  };
  std::thread other(release, 1);
  release(0);
  other.join();
  const std::vector<bool> marks = released_of(t);
  for (std::size_t i = 0; i < marks.size(); ++i) EXPECT_EQ(marks[i], i / 16 % 4 >= 2) << i;
}

/// On a GPU the rows become NaN by one memset per contiguous part, and there are no marks.
TEST(Poison, FillsRowsOnAGpu) {
  const testing::MockDriver driver;
  static int memsets;
  memsets = 0;
  driver.table.set_bytes = [](cu::DevicePtr p, unsigned char byte, std::size_t bytes, cu::Stream) {
    ++memsets;
    std::fill_n(reinterpret_cast<unsigned char*>(p), bytes, byte);
    return cu::kSuccess;
  };
  const std::size_t marks = released_memory().size();
  std::vector<std::uint16_t> memory(4 * 2 * 8, 0);
  const Tensor cache = Tensor::borrow(memory.data(), {4, 2, 8}, DType::bf16, Device::cuda(0));
  poison(cache.slice(0, 1, 2));
  EXPECT_EQ(memsets, 1);
  poison(cache.select(1, 1).slice(0, 2, 4));
  EXPECT_EQ(memsets, 3);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const std::size_t page = i / 16, row = i / 8 % 2;
    EXPECT_EQ(memory[i] == 0xffff, page == 1 || (page >= 2 && row == 1)) << i;
  }
  EXPECT_EQ(released_memory().size(), marks);
}

TEST(Poison, RefusesOtherTensors) {
  const auto code_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const CompileError& e) {
      return e.diagnostic().code;
    }
    return "";
  };
  EXPECT_EQ(code_of([] { poison(Tensor()); }), "T0703");
  EXPECT_EQ(code_of([] { poison(Tensor::zeros({2}, DType::i32, kCpu)); }), "T0702");
  EXPECT_EQ(code_of([] { poison(Tensor::zeros({2}, DType::f32, kCpu), Stream(Device::sim())); }),
            "T0707");
  EXPECT_EQ(code_of([] { poison(Tensor::zeros({0, 3}, DType::f32, kCpu)); }), "");
}

}  // namespace
}  // namespace tegula::runtime::poison_test
