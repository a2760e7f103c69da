// Pages of a cache, loops by a traced stride, captured tensors that are written: on every available
// device, against host arithmetic.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::accesses_test {
namespace {

class Accesses : public testing::TestWithParam<Device> {
 protected:
  Stream stream() const { return Stream(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Accesses, testing::ValuesIn(test::devices()), test::device_name);

/// Pages of 1, 8 and 16 rows in any order, twice, beyond the cache, and fewer than the tile has.
TEST_P(Accesses, Pages) {
  const auto gather = kernel("paged", [](In<f32, 4> cache, In<i32, 2> tables, Out<f32, 4> out) {
    for (auto [s, h] : grid({out.dim(0), out.dim(1)}, 1, 1))
      out(s, h, all, all) = pages(cache, tables(s, slice(0, 4)), h);
  });
  for (const std::int64_t rows : {1, 8, 16}) {
    SCOPED_TRACE(rows);
    const std::vector<i32> tables{3, 0, 9, 3, -1, 5, 1, 2};
    const Tensor cache = Tensor::iota({6, rows, 2, 32}, DType::f32, GetParam()),
                 out = Tensor::full({2, 2, 4 * rows, 32}, -77, DType::f32, GetParam());
    gather(stream(), cache, Tensor::from(tables, {2, 4}, GetParam()), out);
    const auto got = out.to_doubles();
    std::size_t at = 0;
    for (std::int64_t s = 0; s < 2; ++s)
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t p = 0; p < 4; ++p)
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < 32; ++c) {
              const std::int64_t page = tables[static_cast<std::size_t>(s * 4 + p)];
              const std::int64_t element = ((page * rows + r) * 2 + h) * 32 + c;
              ASSERT_EQ(got[at++], page < 0 || page >= 6 ? 0 : static_cast<double>(element));
            }
  }
}

/// Programs that share rows: each takes every third block.
TEST_P(Accesses, StepsByATracedStride) {
  const auto share =
      kernel("share", [](In<f32, 1> x, Scalar<i32> programs, Out<f32, 1> y, Out<f32, 1> sums) {
        for (auto p : grid(GridSpace(programs), 1)) {
          Tile sum = zeros<f32>(16);
          for (auto i : steps(p.first() * 16, x.dim(0), 16, programs.value() * 16)) {
            y(i) = x(i) * 2.0f;
            sum += x(i);
          }
          sums(p) = tegula::sum(sum);
        }
      });
  for (const i32 programs : {1, 3, 9}) {
    SCOPED_TRACE(programs);
    const Tensor x = Tensor::iota({100}, DType::f32, GetParam()),
                 y = Tensor::full({100}, -77, DType::f32, GetParam()),
                 sums = Tensor::full({programs}, -77, DType::f32, GetParam());
    share(stream(), x, programs, y, sums);
    const auto out = y.to_doubles(), total = sums.to_doubles();
    std::vector<double> want(static_cast<std::size_t>(programs));
    for (std::size_t i = 0; i < 100; ++i) {
      ASSERT_EQ(out[i], 2.0 * static_cast<double>(i));
      want[i / 16 % want.size()] += static_cast<double>(i);
    }
    EXPECT_EQ(total, want);
  }
  if (GetParam().kind != DeviceKind::cpu) return;  // the simulator runs until its limit
  const Tensor x = Tensor::iota({100}, DType::f32, GetParam()),
               y = Tensor::zeros({100}, DType::f32, GetParam()),
               sums = Tensor::zeros({1}, DType::f32, GetParam());
  const auto stuck = kernel("stuck", [](In<f32, 1> x, Scalar<i32> by, InOut<f32, 1> y) {
    for (auto p : grid(GridSpace({1}), 1))
      for (auto i : steps(p.first(), x.dim(0), 16, by)) y(i) = x(i);
  });
  EXPECT_THROW(stuck(stream(), x, 0, y), ProgramError);
}

/// A tensor that the lambda captured is written, read again, and must not be an argument, too.
TEST_P(Accesses, CapturedTensorsAreWritten) {
  Tensor state = Tensor::iota({70}, DType::f32, GetParam());
  const auto step = kernel("step", [&state](In<f32, 1> x) {
    const auto s = view_out<f32, 1>(state);
    for (auto i : grid(s, 32)) s(i) = s(i) * 2.0f + x(i);
  });
  const Tensor x = Tensor::full({70}, 3, DType::f32, GetParam());
  step(stream(), x);
  step(stream(), x);
  const auto once = state.to_doubles();
  for (std::size_t i = 0; i < 70; ++i) ASSERT_EQ(once[i], 4.0 * static_cast<double>(i) + 9) << i;
  // Another tensor in its place, of another size, is read at the launch.
  state = Tensor::full({50}, 1, DType::f32, GetParam());
  step(stream(), Tensor::full({50}, 3, DType::f32, GetParam()));
  EXPECT_EQ(state.to_doubles(), std::vector<double>(50, 5));
  EXPECT_THROW(step(stream(), state), CompileError);
}

/// Indices of 64 bits whose lower halves name an element: they are outside, as others that no
/// tensor of the call has room for do.
TEST_P(Accesses, IndicesBeyond32Bits) {
  constexpr std::int64_t kFar = std::int64_t{1} << 32;
  const std::vector<i64> wide{1, -1, 16, kFar + 2, INT64_MIN, INT64_MAX, 3 - kFar, 5};
  const Tensor ids = Tensor::from(wide, GetParam()), x = Tensor::iota({16}, DType::f32, GetParam());
  const auto read = kernel("read", [](In<f32, 1> x, In<i64, 1> ids, Out<f32, 1> y, int block) {
    for (auto i : grid(y, block)) y(i) = x(ids(i)) + 1.0f;
  });
  for (const int block : {1, 8}) {
    const Tensor y = Tensor::zeros({8}, DType::f32, GetParam());
    read(stream(), x, ids, y, block);
    EXPECT_EQ(y.to_doubles(), (std::vector<double>{2, 1, 1, 1, 1, 1, 1, 6})) << block;
  }

  const auto write = kernel("write", [](In<i64, 1> ids, InOut<f32, 1> stored, InOut<f32, 1> added) {
    for (auto i : grid(ids, 8)) {
      stored(ids(i)) = full<f32>(7, 8);
      atomic_add(added(ids(i)), full<f32>(7, 8));
    }
  });
  const Tensor stored = Tensor::zeros({16}, DType::f32, GetParam()), added = stored.clone();
  write(stream(), ids, stored, added);
  std::vector<double> inside(16, 0);
  inside[1] = inside[5] = 7;
  EXPECT_EQ(stored.to_doubles(), inside);
  EXPECT_EQ(added.to_doubles(), inside);
}

/// Ends of 64 bits: beyond the tensor is beyond it, however far.
TEST_P(Accesses, EndsBeyond32Bits) {
  const auto sums = kernel("sums", [](In<f32, 1> x, Scalar<i64> end, Out<f32, 1> y) {
    for (auto p : grid(y, 2)) {
      const Tile cropped = sum(crop(x(slice(0, 16)), axis(0), 0, end)),
                 until = sum(x(slice(0, 16).until(end)));
      y(p) = where(p.indices() == 0, cropped, until);
    }
  });
  const Tensor x = Tensor::full({16}, 1, DType::f32, GetParam()),
               y = Tensor::zeros({2}, DType::f32, GetParam());
  for (const i64 end : {i64{5}, (i64{1} << 32) + 5, i64{INT64_MAX}, i64{INT64_MIN}}) {
    sums(stream(), x, end, y);
    const double want = end < 0 ? 0 : end == 5 ? 5 : 16;
    EXPECT_EQ(y.to_doubles(), std::vector<double>(2, want)) << end;
  }
}

/// Sums of 4 elements of x[i] = 1 + i that begin at `first`; those outside are absent.
double sum_of_box(i64 first) {
  double sum = 0;
  for (i64 i = 0; i < 16; ++i)
    if (first <= i && i - 4 < first) sum += static_cast<double>(1 + i);
  return sum;
}

/// Boxes that begin at 64 bits: no element of one beyond indices is there, and one that begins in
/// front of the tensor has its later elements.
TEST_P(Accesses, BoxesBeyond32Bits) {
  constexpr i64 kFar = i64{1} << 32;
  const std::vector<i64> firsts{
      5, 14, -3, -8, kFar + 5, 5 - kFar, INT32_MAX, INT32_MIN, INT64_MAX - 4, INT64_MIN};
  const auto read = kernel("read", [](In<f32, 1> x, Scalar<i64> first, Out<f32, 1> y) {
    for (auto p : grid(y, 4)) {
      const Tile n = p.indices();
      const Tile whole = sum(x(slice(first, 4))), shifted = sum(x(slice(0, 4).shifted(first))),
                 part = sum(x(slice(0, 16).slice(first, 4))),
                 cropped = sum(crop(full<f32>(1, 4), axis(0), first, 16));
      y(p) = where(n == 0, whole, where(n == 1, shifted, where(n == 2, part, cropped)));
    }
  });
  const auto write =
      kernel("write", [](Scalar<i64> first, InOut<f32, 1> stored, InOut<f32, 1> added) {
        for ([[maybe_unused]] auto p : grid(GridSpace({1}), 1)) {
          stored(slice(first, 4)) = full<f32>(1, 4);
          atomic_add(added(slice(0, 4).shifted(first)), full<f32>(1, 4));
        }
      });
  std::vector<float> elements(16);
  std::iota(elements.begin(), elements.end(), 1.0f);
  const Tensor x = Tensor::from(elements, {16}, GetParam());
  for (const i64 first : firsts) {
    SCOPED_TRACE(first);
    double inside = 0;
    std::vector<double> marks(16, 0);
    for (i64 i = 0; i < 16; ++i) {
      marks[static_cast<std::size_t>(i)] = first <= i && i - 4 < first;
      inside += marks[static_cast<std::size_t>(i)];
    }
    const Tensor y = Tensor::zeros({4}, DType::f32, GetParam());
    read(stream(), x, first, y);
    const double sum = sum_of_box(first);
    EXPECT_EQ(y.to_doubles(), (std::vector<double>{sum, sum, sum, inside}));
    const Tensor stored = Tensor::zeros({16}, DType::f32, GetParam()), added = stored.clone();
    write(stream(), first, stored, added);
    EXPECT_EQ(stored.to_doubles(), marks);
    EXPECT_EQ(added.to_doubles(), marks);
  }
}

/// Casts to narrower integers, and sums of these, wrap around: what is known of the wide ones says
/// nothing of where they lie.
TEST_P(Accesses, NarrowIndices) {
  constexpr std::int64_t kCount = 300;
  const auto read = kernel("read", [](In<f32, 1> x, Out<f32, 2> y) {
    for (auto i : grid(cols(y), 1)) {
      const Tile n = cast<i8>(i.first()), next = n + 100, low = cast<i8>(i.first() / 4) + 100;
      y(0, i) = x(n) + 0.5f;
      assume(next < x.dim(0));
      y(1, i) = x(next) + 0.5f;
      assume(low < x.dim(0));
      y(2, i) = x(low) + 0.5f;
      y(3, i) = x(cast<i8>(i.first() * 4) * 2) + 0.5f;
    }
  });
  const Tensor x = Tensor::iota({kCount}, DType::f32, GetParam()),
               y = Tensor::zeros({4, kCount}, DType::f32, GetParam());
  read(stream(), x, y);
  const auto value = [](int i) {
    const auto n = static_cast<std::int8_t>(i);
    return n < 0 ? 0.5 : n + 0.5;
  };
  std::vector<double> want(4 * kCount);
  for (int i = 0; i < kCount; ++i) {
    want[static_cast<std::size_t>(i)] = value(i);
    want[static_cast<std::size_t>(kCount + i)] = value(i + 100);
    want[static_cast<std::size_t>(2 * kCount + i)] = value(i / 4 + 100);
    want[static_cast<std::size_t>(3 * kCount + i)] = value(i * 8);
  }
  EXPECT_EQ(y.to_doubles(), want);
}

}  // namespace
}  // namespace tegula::accesses_test
