// The values of indices(), first(), dim() and steps have one type, whatever the sizes of the
// tensors: the same kernels are traced, and the same are refused, in 32 and in 64 bits.
#include <gtest/gtest.h>

#include "run_on_host.h"

namespace tegula::index_types_test {
namespace {

constexpr std::int64_t kSmall = 1000, kLarge = std::int64_t{1} << 22;

/// A tensor that is only looked at.
Tensor shaped(const Dims& shape, DType dtype) {
  return Tensor::borrow(reinterpret_cast<void*>(0x7f0000000000), shape, dtype, test::kHost);
}

/// The text of tracing for rows of 4096 elements, with places left out: "" where it is traced.
template <class F>
std::string said(const F& body, std::int64_t rows) {
  const auto k = kernel("k", [body](In<f32, 2> x, Out<i64, 1> y) {
    for (auto r : grid(y, 1)) y(r) = body(x, r);
  });
  try {
    const Trace t = k.trace(shaped({rows, 4096}, DType::f32), shaped({rows}, DType::i64));
    // The text no longer distinguishes the types.
    const ir::Kernel& traced = t.kernel();
    ir::walk(traced, traced.body(), [&](ir::OpId op) {
      if (traced[op].opcode != ir::Opcode::Cast) return;
      EXPECT_NE(traced.type(traced[op].operands[0]), traced.type(traced[op].results[0]));
    });
  } catch (const CompileError& e) {
    return e.diagnostic().code + " " + e.diagnostic().message;
  }
  return "";
}

template <class F>
void expect_at_all_sizes(const F& body, const std::string& message) {
  EXPECT_EQ(said(body, kSmall), message);
  EXPECT_EQ(said(body, kLarge), message);
}

/// The place of the largest element of a row, block by block; `place` makes it of an index.
template <class Start, class Place>
auto argmax_stream(Start start, Place place) {
  return [=](const In<f32, 2>& x, const Index& r) {
    Tile best = full<f32>(-inf), at = start();
    for (auto c : steps(x.cols(), 1024)) {
      const auto [m, i] = max_and_argmax(x(r, c), 0);
      at = where(m > best, place(i, c), at);
      best = max(best, m);
    }
    return at;
  };
}

TEST(IndexTypes, ACarryDoesNotTurnAnIntegerIntoAnIndex) {
  expect_at_all_sizes(argmax_stream([] { return full<i32>(0); },
                                    [](const Tile& i, const Index& c) { return i + c.first(); }),
                      "T0303 a loop changes a variable from i32 to index");
  expect_at_all_sizes(
      argmax_stream([] { return full<i32>(0); },
                    [](const Tile& i, const Index& c) { return cast<i32>(c.first()) + i; }),
      "");
  expect_at_all_sizes(
      argmax_stream([] { return full<i64>(0); },
                    [](const Tile& i, const Index& c) { return cast<i64>(i) + c.first(); }),
      "");
  expect_at_all_sizes(argmax_stream([] { return slice(0, 1).first(); },
                                    [](const Tile& i, const Index& c) { return i + c.first(); }),
                      "");
}

TEST(IndexTypes, OtherSources) {
  const auto counted = [](auto by) {
    return [by](const In<f32, 2>& x, const Index& r) {
      Tile n = full<i32>(0);
      for (auto c : steps(x.cols(), 1024)) n = n + by(x, r, c);
      return n;
    };
  };
  const std::string refused = "T0303 a loop changes a variable from i32 to index";
  expect_at_all_sizes(counted([](auto& x, auto&, auto&) { return x.rows(); }), refused);
  expect_at_all_sizes(counted([](auto& x, auto&, auto&) { return x.stride(0); }), refused);
  expect_at_all_sizes(counted([](auto&, auto& r, auto&) { return r.first(); }), refused);
  expect_at_all_sizes(counted([](auto&, auto&, auto& c) { return sum(c.indices()); }), refused);
  expect_at_all_sizes(counted([](auto&, auto&, auto& c) { return max(c.first() * 2, 7); }),
                      refused);
  expect_at_all_sizes(
      counted([](auto&, auto&, auto&) { return slice(arange(4).dim(0), 4).first(); }), refused);
  expect_at_all_sizes(counted([](auto& x, auto&, auto&) { return cast<i32>(x.rows()); }), "");
  expect_at_all_sizes(
      counted([](auto& x, auto&, auto& c) { return where(c.first() < x.cols(), 1, 0); }), "");
}

TEST(IndexTypes, BranchesAndSlicesOfIntegers) {
  expect_at_all_sizes(
      [](const In<f32, 2>&, const Index& r) {
        Tile at = full<i32>(3);
        if_(r.first() > 7, [&] { at = r.first(); });
        return at;
      },
      "T0306 the branches of if_ give one variable different types, index and i32");
  expect_at_all_sizes(
      [](const In<f32, 2>&, const Index& r) {
        Tile at = r.first();
        if_(r.first() > 7, [&] { at = at * 2 + 1; });
        return at;
      },
      "");
  // The number that a slice begins at stays what it is.
  expect_at_all_sizes(
      [](const In<f32, 2>& x, const Index& r) {
        Tile k = full<i32>(0), total = full<f32>(0);
        for (auto c : steps(x.cols(), 1024)) {
          total = total + sum(x(r, slice(k, 64))) + cast<f32>(c.first());
          k = k + 64;
        }
        return cast<i64>(total) + k;
      },
      "");
  expect_at_all_sizes(
      [](const In<f32, 2>& x, const Index&) {
        Tile k = full<i32>(0);
        for (auto c : steps(x.cols(), 1024)) k = slice(k, 64).first() + cast<i32>(c.first());
        return k;
      },
      "T0303 a loop changes a variable from i32 to index");
}

}  // namespace
}  // namespace tegula::index_types_test
