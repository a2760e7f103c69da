// Registers that spill: the chosen number of warps, the estimate of live tiles, the warning.
#include <gmock/gmock.h>

#include "ir/passes/schedule/live_tiles.h"
#include "tests/assemble/assembled.h"

namespace tegula::spills_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Spills : public test::Assembled {};

std::vector<std::string> spills_of(const Artefact& a) {
  std::vector<std::string> found;
  for (const Warning& w : a.warnings())
    if (w.code == "T1501") found.push_back(w.str());
  return found;
}

int warps_of(const Artefact& a) {
  const std::string text = a.explain(), field = "num_warps=";
  return std::stoi(text.substr(text.find(field) + field.size()));
}

/// Compiles for these arguments without a handler's noise, by default and with a number of warps.
template <class K, class... A>
void expect_other_warps(const K& k, int spilling, const A&... args) {
  const WarningHandler before = set_warning_handler([](const Warning&) {});
  const Artefact chosen = k.compile("sm_90a", args...);
  EXPECT_THAT(spills_of(chosen), IsEmpty());
  EXPECT_GT(warps_of(chosen), spilling);
  const Artefact given = k.with_plan({.num_warps = spilling}).compile("sm_90a", args...);
  EXPECT_EQ(warps_of(given), spilling);
  EXPECT_THAT(spills_of(given), ElementsAre(HasSubstr("does not spill")));
  EXPECT_THAT(spills_of(given), ElementsAre(HasSubstr("with_plan({.num_warps = ")));
  set_warning_handler(before);
}

/// Cholesky factors of 16 x 16 matrices, unrolled: the tile form has less pressure than the code.
TEST_F(Spills, Cholesky) {
  const auto factor = kernel("cholesky", [](In<f32, 3> A, Out<f32, 3> L) {
    for (auto b : grid({L.dim(0)}, 8)) {
      const Index s = slice(0, 16);
      Tile a = A(b, s, s), o = zeros<f32>(8, 16, 16);
      const Tile i = arange(16)(none, all);
      for (int j = 0; j < 16; ++j) {
        const Tile col = a(all, all, j),
                   l = where(i >= j, col / sqrt(col(all, j))(all, none), 0.0f);
        o = insert(o, 2, j, l);
        a = a - l(all, all, none) * l(all, none, all);
      }
      L(b, s, s) = o;
    }
  });
  const auto matrices = spec<f32>(4096, 16, 16);
  expect_other_warps(factor, 2, matrices, matrices);
}

/// Attention of 32 queries whose accumulator alone takes the registers of two warps.
TEST_F(Spills, WideValues) {
  const auto wide =
      kernel("wide_values", [](In<bf16, 3> Q, In<bf16, 3> K, In<bf16, 3> V, Out<bf16, 3> O) {
        const Index d = slice(0, 64), dv = slice(0, 512);
        for (auto [b, m] : grid({O.dim(0), O.dim(1)}, 1, 32)) {
          const Tile q = fill_absent(Q(b, m, d), 0);
          Tile top = full<f32>(-inf, 32), total = zeros<f32>(32), acc = zeros<f32>(32, 512);
          for (auto n : steps(K.dim(1), 32)) {
            const Tile s = dot(q, fill_absent(K(b, n, d), 0).T());
            const Tile next = max(top, max(s, axis(1))), keep = exp(top - next),
                       p = exp(s - next(all, none));
            total = total * keep + sum(p, 1);
            acc = dot(cast<bf16>(p), V(b, n, dv), acc * keep(all, none));
            top = next;
          }
          O(b, m, dv) = acc / total(all, none);
        }
      });
  const auto keys = spec<bf16>(8, 4096, 64), values = spec<bf16>(8, 4096, 512);
  expect_other_warps(wide, 2, keys, keys, values, values);
}

/// Five rows that are read again after sums of them.
TEST_F(Spills, ManyRows) {
  const auto rows5 = kernel("many_rows", [](In<f32, 2> a, In<f32, 2> b, In<f32, 2> c, In<f32, 2> d,
                                            In<f32, 2> e, Out<f32, 2> y) {
    const Index i = slice(0, 2048);
    for (auto r : grid(rows(y), 1)) {
      const Tile ta = a(r, i), tb = b(r, i), tc = c(r, i), td = d(r, i), te = e(r, i);
      const Tile s = sum(ta) + sum(tb * ta) + sum(tc * tb) + sum(td * tc) + sum(te * td);
      const Tile pa = exp(ta - s), pb = exp(tb * s), pc = exp(tc + s), pd = exp(td - 2 * s),
                 pe = exp(te * 3 * s);
      const Tile n = sum(pa * pb) + sum(pc * pd) + sum(pe);
      y(r, i) = pa / n + pb * n + pc - n + pd * pd * n + pe + ta * tb * tc * td * te;
    }
  });
  const auto row = spec<f32>(64, 2048);
  expect_other_warps(rows5, 2, row, row, row, row, row, row);
}

/// Gram-Schmidt of 16 columns, unrolled.
TEST_F(Spills, KernelsWithoutSpillsKeepTheirWarps) {
  const auto orthogonal = kernel("orthogonal", [](In<f32, 3> A, Out<f32, 3> Q) {
    const Index i = slice(0, 32), j = slice(0, 16);
    for (auto b : grid({Q.dim(0)}, 4)) {
      Tile a = A(b, i, j), o = zeros<f32>(4, 32, 16);
      for (int column = 0; column < 16; ++column) {
        const Tile c = a(all, all, column), q = c * rsqrt(sum(c * c, 1))(all, none);
        o = insert(o, 2, column, q);
        a = a - q(all, all, none) * sum(a * q(all, all, none), 1)(all, none, all);
      }
      Q(b, i, j) = o;
    }
  });
  const auto matrices = spec<f32>(64, 32, 16);
  const Artefact a = orthogonal.compile("sm_90a", matrices, matrices);
  EXPECT_THAT(spills_of(a), IsEmpty());
  EXPECT_EQ(warps_of(a), 2);
}

/// A chunk's keys, of which each thread multiplies whole rows, exceed the registers with any number
/// of warps, which the estimate tells as well.
TEST_F(Spills, NoNumberOfWarpsAvoidsThem) {
  const auto chunk = kernel("chunk", [](In<f32, 2> k, InOut<f32, 2> h) {
    for (auto n : grid(cols(h), 32)) {
      Tile state = h(slice(0, 128), n);
      for (auto t : steps(k.rows(), 16)) {
        const Tile kt = fill_absent(k(t, slice(0, 128)), 0), own = kt * 0.5f;
        const Tile u = dot(dot(own, own.T()), dot(own, state));
        state = state + dot(own.T(), u);
      }
      h(slice(0, 128), n) = state;
    }
  });
  const WarningHandler before = set_warning_handler([](const Warning&) {});
  const Artefact a = chunk.compile("sm_90a", spec<f32>(4096, 128), spec<f32>(128, 64));
  set_warning_handler(before);
  EXPECT_THAT(spills_of(a), ElementsAre(HasSubstr("no number of warps avoids it")));
  EXPECT_THAT(spills_of(a), ElementsAre(HasSubstr("spills_test.cpp:")));
  chunk(Tensor::zeros({16, 128}, DType::f32, Device::cpu()),
        Tensor::zeros({128, 64}, DType::f32, Device::cpu()));
  const ir::Kernel traced = ir::parse(chunk.dump("trace"), "chunk");
  for (const int warps : {1, 2, 4, 8, 16, 32})
    EXPECT_FALSE(ir::live_tiles_fit(traced, warps)) << warps;
}

/// Sorts of the longest lines.
TEST_F(Spills, LongSorts) {
  const auto sorts = [](const auto& x) { return sort(x); };
  const auto expect_quick = [&](auto type, int extent, const char* target) {
    using T = decltype(type);
    const auto k = kernel("long_sort", [&](In<T, 2> x, Out<T, 2> y) {
      for (auto r : grid(rows(y), 1)) y(r, slice(0, extent)) = sorts(x(r, slice(0, extent)));
    });
    const Artefact a = k.compile(target, spec<T>(4, extent), spec<T>(4, extent));
    EXPECT_THAT(spills_of(a), IsEmpty()) << extent << " for " << target;
    EXPECT_LT(a.ptx().size(), 200'000u) << "the network is in loops";
  };
  for (const char* target : {"sm_80", "sm_90a"}) {
    expect_quick(f32(), 32768, target);
    expect_quick(i64(), 16384, target);
  }
  const auto long_of_64_bits = kernel("too_long", [](In<i64, 1> x, Out<i64, 1> y) {
    for (auto r : grid(y, 32768)) y(r) = sort(x(r));
  });
  try {
    (void)long_of_64_bits.compile("sm_80", spec<i64>(32768), spec<i64>(32768));
    ADD_FAILURE();
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("T1014"));
    EXPECT_THAT(e.what(), HasSubstr("16384, which fit the shared memory of sm_80"));
  }
}

}  // namespace
}  // namespace tegula::spills_test
