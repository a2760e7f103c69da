// Channels of stores of an author's Schedule: which stores use TMA, through how many staging
// buffers, by how many columns, and which of them share these. On every device that is here, exact
// on small integers.
#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "support/errors.h"
#include "tegula/error.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::store_channels_test {
namespace {

/// C and D = A B, in bf16 and f32.
auto two_results() {
  return kernel("two_results", [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C, Out<f32, 2> D) {
    for (auto [m, n] : grid(C, 128, 64)) {
      auto acc = zeros<f32>(128, 64);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
      D(m, n) = acc;
    }
  });
}

/// The product is also added to what D has.
auto stored_and_added() {
  return kernel("stored_and_added",
                [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C, InOut<f32, 2> D) {
                  for (auto [m, n] : grid(C, 128, 64)) {
                    auto acc = zeros<f32>(128, 64);
                    for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
                    C(m, n) = acc;
                    atomic_add(D(m, n), acc);
                  }
                });
}

std::string schedule(const std::string& channels, const std::string& tiles = "serpentine",
                     const std::string& consumers = "consumer(warps 8, regs 232)",
                     const std::string& token = "") {
  return "schedule sm_90a { roles producer(warps 4, regs 40) " + consumers +
         " dots dot#0 wgmma tiles " + tiles + " channel ab tma slots 4 load#0 load#1 " + channels +
         token +
         " loop#0 { load#0 producer 0.0 load#1 producer 0.1 dot#0 consumer 0.0 in_flight 1 } }";
}

/// The number after these words; -1: they are not there.
std::int64_t number_behind(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  std::int64_t number = -1;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + words.size(), text.data() + text.size(), number);
  return number;
}

class StoreChannels : public test::OnDevice {
 protected:
  bool is_compiled() const { return GetParam().kind != DeviceKind::cpu; }

  /// Runs it on tiles that are in the tensor and that do not; returns bytes of shared memory.
  template <class Kernel>
  std::int64_t run(const Kernel& kernel, double before = 0) const {
    for (const auto& [m, n, k] : {std::array{392, 328, 136}, {128, 64, 64}, {264, 72, 8}}) {
      const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                   C = empty({m, n}, DType::bf16),
                   D = Tensor::full({m, n}, before, DType::f32, GetParam());
      kernel(stream(), A, B, C, D);
      std::vector<double> want = test::product(A, B);
      test::expect_equal(C, want);
      for (double& w : want) w += before;
      test::expect_equal(D, want);
    }
    return is_compiled() ? number_behind(kernel.explain(), "shared memory ") : -1;
  }

  /// The code of the error that a call of the kernel fails with, and its notes.
  template <class Kernel>
  std::string refused(const Kernel& kernel) const {
    try {
      run(kernel);
    } catch (const CompileError& e) {
      return e.what();
    }
    return "it is not refused";
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, StoreChannels, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Eight blocks of eight columns to one of 64; buffers that they go round evenly, and not; tiles of
/// a persistent kernel, and single ones.
TEST_P(StoreChannels, SlotsAndColumns) {
  struct Case {
    int columns;
    std::vector<int> slots;
  };
  for (const char* tiles : {"serpentine", "each"})
    for (const Case& c : {Case{64, {1}}, {32, {1, 2}}, {16, {1, 3, 4}}, {8, {1, 5, 8}}}) {
      std::int64_t with_one = 0;
      for (const int slots : c.slots) {
        const std::string out = "store slots " + std::to_string(slots) + " store#1" +
                                (c.columns < 64 ? " columns " + std::to_string(c.columns) : "");
        SCOPED_TRACE(std::string(tiles) + " " + out);
        const auto scheduled = two_results().with_plan(schedule("channel d " + out, tiles));
        const std::int64_t bytes = run(scheduled);
        if (!is_compiled()) continue;
        if (slots == 1) with_one = bytes;
        EXPECT_EQ(bytes - with_one, (slots - 1) * 128 * c.columns * 4);
        EXPECT_NE(scheduled.explain().find("channel  c1 " + out + "\n"), std::string::npos);
      }
    }
}

/// Stores that share buffers, that have their own, and that threads make.
TEST_P(StoreChannels, WhichStores) {
  for (const char* channels :
       {"channel c store slots 1 store#0 store#1", "channel c store slots 2 store#0 store#1",
        "channel c store slots 1 store#0 channel d store slots 1 store#1",
        "channel c store slots 3 store#0 store#1 columns 16",
        "channel c store slots 2 store#0 columns 32 channel d store slots 4 store#1 columns 16",
        "channel c store slots 4 store#0 columns 8 channel d store slots 3 store#1 columns 8",
        "channel d store slots 1 store#0", ""}) {
    SCOPED_TRACE(channels);
    const auto scheduled = two_results().with_plan(schedule(channels));
    run(scheduled);
    if (!is_compiled()) continue;
    const std::string said = scheduled.explain();
    std::size_t by_tma = 0, stores = 0;
    for (std::size_t at = 0; (at = said.find("applied: stored by TMA", at)) != std::string::npos;
         ++at)
      ++by_tma;
    for (const char* store : {"store#0", "store#1"})
      stores += std::string(channels).find(store) != std::string::npos ? 1 : 0;
    EXPECT_EQ(by_tma, stores) << said;
  }
}

/// A store that overwrites and one that combines: each has buffers, or they share them.
TEST_P(StoreChannels, StoresThatAdd) {
  for (const char* channels :
       {"channel c store slots 2 store#0 store#1",
        "channel c store slots 2 store#0 columns 16 channel d reduce slots 4 store#1 columns 8",
        "channel d reduce slots 1 store#1", "channel c store slots 1 store#0"}) {
    SCOPED_TRACE(channels);
    run(stored_and_added().with_plan(schedule(channels)), 3);
  }
}

/// Fields of a plan: all stores share buffers. Parts of warpgroups change with the bytes of a row.
TEST_P(StoreChannels, APlan) {
  for (const char* fields : {"tma_store=1", "tma_store=1 epilogue_tile_n=16",
                             "tma_store=1 epilogue_tile_n=8", "tma_store=1 epilogue_tile_n=0"}) {
    SCOPED_TRACE(fields);
    const auto planned = two_results().with_plan(std::string("persistent=1 ") + fields);
    run(planned);
    run(stored_and_added().with_plan(std::string("persistent=1 ") + fields), 2);
    if (!is_compiled()) continue;
    EXPECT_NE(planned.explain().find(" store#0 store#1"), std::string::npos) << planned.explain();
  }
}

/// Two warpgroups that alternate between tiles have separate buffers.
TEST_P(StoreChannels, TilesInTurn) {
  const auto in_turn = [](const std::string& channels) {
    return schedule(channels, "serpentine", "consumer(warps 4 x 2, regs 232)",
                    " token mma consumer { loop#0 }");
  };
  const std::int64_t none = run(two_results().with_plan(in_turn(""))),
                     two = run(two_results().with_plan(
                         in_turn("channel c store slots 2 store#0 columns 32"))),
                     four = run(two_results().with_plan(
                         in_turn("channel c store slots 2 store#0 columns 32 "
                                 "channel d store slots 1 store#1 columns 16")));
  if (!is_compiled()) return;
  EXPECT_EQ(two - none, 2 * 2 * 8192);
  EXPECT_EQ(four - two, 2 * 8192);
}

/// More buffers than stores, and than there is room for.
TEST_P(StoreChannels, Refused) {
  if (!is_compiled()) GTEST_SKIP() << "the interpreter runs the tile form, which has no buffers";
  using testing::AssertionResult;
  const auto expect = [&](const std::string& channels, const char* code, const char* why) {
    const std::string said = refused(two_results().with_plan(schedule(channels)));
    EXPECT_NE(said.find(code), std::string::npos) << said;
    EXPECT_NE(said.find(why), std::string::npos) << said;
  };
  expect("channel c store slots 3 store#0 columns 32", "T1406", "c1 store slots 2 store#0");
  expect("channel c store slots 2 store#0 columns 24", "T1406", "C13: c columns 24");
  expect("channel c store slots 2 store#0 columns 64", "T1406", "leave them out");
  expect("channel c reduce slots 2 store#0 columns 32", "T1406", "C9: store#0 by TMA reduce");
}

}  // namespace
}  // namespace tegula::store_channels_test
