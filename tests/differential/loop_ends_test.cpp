// Loops that end near the largest index, and bounds beyond indices: on every available device,
// against host arithmetic of 64 bits.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::loop_ends_test {
namespace {

class LoopEnds : public testing::TestWithParam<Device> {
 protected:
  Stream stream() const { return Stream(GetParam()); }
  Tensor numbers(std::int64_t count) const {
    return Tensor::full({count}, -77, DType::i32, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, LoopEnds, testing::ValuesIn(test::devices()), test::device_name);

/// How many iterations there are, and the last one's index.
struct Trips {
  i32 count = 0, last = -1;
  friend bool operator==(const Trips&, const Trips&) = default;
};

Trips trips(i64 first, i64 end, i64 step) {
  Trips t;
  for (i64 i = first; i < end; i += step) {
    ++t.count;
    t.last = static_cast<i32>(i);
  }
  return t;
}

struct Bounds {
  i64 first, end, step;
};
constexpr i64 kMost = INT32_MAX, kLeast = INT32_MIN;
constexpr Bounds kBounds[] = {{0, 5, 64},
                              {7, 7, 64},
                              {9, -3, 64},
                              {kMost - 200, kMost, 64},
                              {kMost - 64, kMost, 64},
                              {kMost - 63, kMost, 64},
                              {kMost - 1, kMost, 64},
                              {kMost, kMost, 64},
                              {kLeast, kMost, 1 << 30},
                              {kLeast, kLeast + 1, 64},
                              {0, kMost, 1 << 30},
                              {5, kMost - 7, kMost}};

template <class Loop>
auto counting(Loop loop) {
  return kernel("counted",
                [loop](Scalar<i32> first, Scalar<i32> end, In<i32, 1> loaded, Out<i32, 1> y) {
                  for (auto p : grid(y, 2)) {
                    Tile count = full<i32>(0), last = full<i32>(-1);
                    loop(first, end, loaded, count, last);
                    y(p) = where(p.indices() == 0, count, last);
                  }
                });
}

/// Takes the iteration; leaves before the one after `break_at`, if that counts one.
struct Counted {
  void operator()(Tile& count, Tile& last, const Index& i) const {
    count += 1;
    last = cast<i32>(i.first());
  }
};

TEST_P(LoopEnds, ScalarEnds) {
  for (const Bounds& b : kBounds) {
    SCOPED_TRACE(testing::Message() << b.first << " " << b.end << " " << b.step);
    const auto run = [&](const auto& loop) {
      const Tensor y = numbers(2), loaded = Tensor::from(std::vector<i32>{static_cast<i32>(b.first),
                                                                          static_cast<i32>(b.end),
                                                                          static_cast<i32>(b.step)},
                                                         GetParam());
      counting(loop)(stream(), static_cast<i32>(b.first), static_cast<i32>(b.end), loaded, y);
      const auto got = y.to_vector<i32>();
      return Trips{got[0], got[1]};
    };
    const Trips want = trips(b.first, b.end, b.step);
    using Number = const Scalar<i32>&;
    using Loaded = const In<i32, 1>&;
    if (b.step <= 1 << 20) {
      EXPECT_EQ(run([block = b.step](Number first, Number end, Loaded, Tile& count, Tile& last) {
                  for (auto i : steps(first, end, block)) Counted()(count, last, i);
                }),
                want);
      EXPECT_EQ(run([block = b.step](Number, Number, Loaded x, Tile& count, Tile& last) {
                  for (auto i : steps(x(0), x(1), block)) Counted()(count, last, i);
                }),
                want);
      EXPECT_EQ(run([block = b.step](Number first, Number end, Loaded, Tile& count, Tile& last) {
                  for (auto i : steps(first, end, block)) {
                    Counted()(count, last, i);
                    break_if(count < 0);
                  }
                }),
                want);
    }
    EXPECT_EQ(run([](Number first, Number end, Loaded x, Tile& count, Tile& last) {
                for (auto i : steps(first, end, 1, x(2))) Counted()(count, last, i);
              }),
              want);
    EXPECT_EQ(run([](Number first, Number end, Loaded x, Tile& count, Tile& last) {
                for (auto i : steps(first, end, 1, x(2))) {
                  Counted()(count, last, i);
                  break_if(count < 0);
                }
              }),
              want);
  }
}

/// Operands are loaded before the products need them, but not beyond the last index.
TEST_P(LoopEnds, ProductsNearTheEnd) {
  const auto sums = [](int rows) {
    return kernel("sums", [rows](In<f16, 2> A, In<f16, 2> B, Scalar<i32> first, Scalar<i32> end,
                                 Out<f32, 2> C) {
      for (auto [m, n] : grid(C, rows, 64)) {
        Tile sum = zeros<f32>(rows, 64);
        for (auto k : steps(first, end, 32)) sum = dot(A(m, k), B(k, n), sum);
        C(m, n) = sum + 1.0f;
      }
    });
  };
  const Tensor A = Tensor::full({64, 256}, 1, DType::f16, GetParam()),
               B = Tensor::full({256, 64}, 1, DType::f16, GetParam());
  for (const int rows : {16, 64}) {
    for (const auto& [first, end] : {std::pair<i32, i32>{0, 256},
                                     {INT32_MAX - 300, INT32_MAX},
                                     {INT32_MAX - 31, INT32_MAX},
                                     {INT32_MAX - 32, INT32_MAX - 1}}) {
      SCOPED_TRACE(testing::Message() << rows << " rows from " << first);
      const Tensor C = Tensor::zeros({64, 64}, DType::f32, GetParam());
      sums(rows)(stream(), A, B, first, end, C);
      EXPECT_EQ(C.to_doubles(), std::vector<double>(64 * 64, first == 0 ? 257 : 1));
    }
  }
}

// ---- bounds beyond indices ----------------------------------------------------------------------

/// The launch refuses what the host computes of 64 bits.
TEST_P(LoopEnds, LaunchesRefuseBoundsBeyondIndices) {
  const auto stepped = kernel("stepped", [](Scalar<i64> first, Scalar<i64> end, Out<i32, 1> y) {
    for (auto p : grid(y, 1)) {
      Tile made = full<i32>(0);
      for ([[maybe_unused]] auto i : steps(first, end + 1, 1 << 20)) made += 1;
      y(p) = made;
    }
  });
  const auto gridded = kernel("gridded", [](Scalar<i64> extent, InOut<i32, 1> y) {
    for ([[maybe_unused]] auto p : grid(extent, 1 << 16)) y(0) = full<i32>(1);
  });
  const auto ragged = kernel(
      "ragged", [](Scalar<i64> rows, Scalar<i64> columns, In<i32, 1> offsets, Out<i32, 2> y) {
        y.partial();
        for (auto [s, m, n] : grid(segments(offsets, rows).by(columns), 4, 1 << 16))
          y(m, n) = full<i32>(3, 4, 1 << 16);
      });
  constexpr i64 kBeyond = i64{1} << 31, kFar = i64{1} << 32;
  const Tensor y = numbers(1), offsets = Tensor::from(std::vector<i32>{0, 1, 4}, GetParam());
  stepped(stream(), i64{-5}, (i64{3} << 20) - 1, y);
  EXPECT_EQ(y.to_vector<i32>()[0], 4);
  gridded(stream(), i64{1}, y);
  EXPECT_EQ(y.to_vector<i32>()[0], 1);
  const Tensor rows = Tensor::zeros({4, 5}, DType::i32, GetParam());
  ragged(stream(), i64{4}, i64{5}, offsets, rows);
  EXPECT_EQ(rows.to_vector<i32>(), std::vector<i32>(20, 3));
  const auto is_refused = [](const auto& call) {
    try {
      call();
    } catch (const CompileError& e) {
      return std::string(e.diagnostic().code);
    }
    return std::string();
  };
  for (const i64 extent : {kBeyond, kFar + 4, i64{INT64_MAX}}) {
    SCOPED_TRACE(extent);
    EXPECT_EQ(is_refused([&] { stepped(stream(), i64{0}, extent - 1, y); }), "T1227");
    EXPECT_EQ(is_refused([&] { gridded(stream(), extent, y); }), "T1227");
    EXPECT_EQ(is_refused([&] { ragged(stream(), extent, i64{5}, offsets, rows); }), "T1227");
    EXPECT_EQ(is_refused([&] { ragged(stream(), i64{4}, extent, offsets, rows); }), "T1227");
  }
}

/// Devices report bounds that the host cannot compute.
TEST(LoopEndsFound, BoundsBeyondIndices) {
  const auto of_i64 = kernel("loaded", [](In<i64, 1> bounds, Out<i32, 1> y) {
    for (auto p : grid(y, 1)) {
      Tile made = full<i32>(0);
      for ([[maybe_unused]] auto i : steps(bounds(0), bounds(1), 1 << 20)) made += 1;
      y(p) = made;
    }
  });
  const auto of_u32 = kernel("unsigned", [](Scalar<u32> end, Out<i32, 1> y) {
    for (auto p : grid(y, 1)) {
      Tile made = full<i32>(0);
      for ([[maybe_unused]] auto i : steps(end, 1 << 20)) made += 1;
      y(p) = made;
    }
  });
  constexpr i64 kFar = i64{1} << 32;
  for (const Device device : {Device::cpu(), Device::sim()}) {
    SCOPED_TRACE(device.str());
    const Tensor y = Tensor::zeros({1}, DType::i32, device);
    const auto run = [&](i64 first, i64 end) {
      of_i64(Stream(device), Tensor::from(std::vector<i64>{first, end}, device), y);
    };
    run(-5, i64{3} << 20);
    EXPECT_EQ(y.to_vector<i32>()[0], 4);
    EXPECT_THROW(run(0, kFar + 5), ProgramError);
    EXPECT_THROW(run(-kFar, 5), ProgramError);
    of_u32(Stream(device), 5, y);
    EXPECT_EQ(y.to_vector<i32>()[0], 1);
    EXPECT_THROW(of_u32(Stream(device), 0x80000000u, y), ProgramError);
  }
}

}  // namespace
}  // namespace tegula::loop_ends_test
