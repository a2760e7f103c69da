// Calls: what compiles, what only launches, and what is refused.
#include <gmock/gmock.h>

#include <thread>

#include "run_on_host.h"
#include "support/env.h"

namespace tegula::launch_test {
namespace {

using test::empty;
using test::host;
using test::kHost;
using testing::ElementsAre;
using testing::HasSubstr;

auto scaled_add() {
  return kernel("scaled_add", [](In<f32, 1> x, InOut<f32, 1> y, Scalar<f32> a) {
    for (auto i : grid(y, 64)) y(i) += a * x(i);
  });
}

std::size_t compiled(const auto& k) { return k.instance().launcher.compiled(); }

TEST(Launch, RunsOnCpuAndOnSim) {
  const auto k = scaled_add();
  for (Device d : {Device::cpu(), Device::sim()}) {
    const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, d),
                 y = Tensor::from(std::vector<float>{10, 20, 30}, d);
    k(x, y, 2.0f);
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(12, 24, 36)) << d.str();
    k(Stream(d), x, y, 1.0f);
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(13, 26, 39)) << d.str();
  }
}

TEST(Launch, OneClassOfArgumentsCompilesOnce) {
  const auto k = scaled_add();
  const auto call = [&](std::int64_t n) {
    k(Tensor::zeros({n}, DType::f32, kHost), Tensor::zeros({n}, DType::f32, kHost), 1.0f);
  };
  call(64);
  call(128);  // another multiple of 16
  EXPECT_EQ(compiled(k), 1u);
  call(65);  // not a multiple of 2
  EXPECT_EQ(compiled(k), 2u);
  call(67);
  EXPECT_EQ(compiled(k), 2u);
  const auto copy = k;  // copies share
  copy(host({1}), host({1}), 1.0f);
  EXPECT_EQ(compiled(k), 2u);
}

TEST(Launch, ExplainNamesTheChangedPartOfTheKey) {
  // A unique name: a kernel that another test has compiled would be reused.
  const auto k = kernel("explained", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 64)) y(i) = x(i);
  });
  k(empty({64}), empty({64}));
  k(empty({65}), empty({65}));
  EXPECT_THAT(k.explain(), HasSubstr("compiled: first call\n"));
  EXPECT_THAT(
      k.explain(),
      HasSubstr(
          "compiled: 'arg0 in f32 align 16 [1n by 1]' was 'arg0 in f32 align 16 [16n by 1]'"));
  EXPECT_THAT(k.dump("key"), HasSubstr("kernel explained\n"));
  EXPECT_THAT(k.dump("trace"), HasSubstr("load_view %arg0"));
}

TEST(Launch, ConstantsAreFrozenAndScalarsAreNot) {
  const auto k = kernel("shift", [](In<i32, 1> x, Out<i32, 1> z, Scalar<i32> a, int b) {
    for (auto i : grid(z, 16)) z(i) = x(i) + a + b;
  });
  const Tensor x = Tensor::iota({3}, DType::i32, kHost), z = empty({3}, DType::i32);
  k(x, z, 10, 100);
  EXPECT_THAT(z.to_vector<i32>(), ElementsAre(110, 111, 112));
  k(x, z, 20, 100);
  EXPECT_THAT(z.to_vector<i32>(), ElementsAre(120, 121, 122));
  EXPECT_EQ(compiled(k), 1u);
  k(x, z, 20, 200);
  EXPECT_THAT(z.to_vector<i32>(), ElementsAre(220, 221, 222));
  EXPECT_EQ(compiled(k), 2u);
}

TEST(Launch, OptionalTensorsAreLeftOutOrGiven) {
  const auto k = kernel("maybe", [](In<f32, 1> x, std::optional<In<f32, 1>> bias, Out<f32, 1> z,
                                    std::optional<Out<f32, 1>> twice) {
    for (auto i : grid(z, 16)) {
      const Tile sum = bias ? x(i) + (*bias)(i) : x(i);
      z(i) = sum;
      if (twice) (*twice)(i) = sum * 2.0f;
    }
  });
  for (Device d : {Device::cpu(), Device::sim()}) {
    const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, d),
                 bias = Tensor::from(std::vector<float>{10, 20, 30}, d);
    const Tensor z = Tensor::empty({3}, DType::f32, d), twice = Tensor::empty({3}, DType::f32, d);
    k(x, {}, z, {});
    EXPECT_THAT(z.to_vector<float>(), ElementsAre(1, 2, 3)) << d.str();
    k(x, bias, z, twice);
    EXPECT_THAT(z.to_vector<float>(), ElementsAre(11, 22, 33)) << d.str();
    EXPECT_THAT(twice.to_vector<float>(), ElementsAre(22, 44, 66)) << d.str();
    k(x, {}, z, twice);
    EXPECT_THAT(twice.to_vector<float>(), ElementsAre(2, 4, 6)) << d.str();
  }
  EXPECT_EQ(compiled(k), 6u);
  EXPECT_THAT(k.dump("key"), HasSubstr("arg1 in f32 align 1 absent"));
  const Tensor x = host({1});
  EXPECT_THROW(k(x, Tensor::zeros({1, 1}, DType::f32, kHost), x, {}), CompileError);
}

TEST(Launch, AnyExtentIsCompiledOnce) {
  const auto k = kernel("do_not_specialize", [](In<f32, 1> x, Out<f32, 1> z) {
    x.do_not_specialize(0);
    z.do_not_specialize(-1);
    for (auto i : grid(z, 64)) z(i) = x(i) + 1.0f;
  });
  for (const std::int64_t n : {64, 65, 66, 68, 1}) {
    const Tensor z = empty({n});
    k(Tensor::zeros({n}, DType::f32, kHost), z);
    EXPECT_EQ(z.to_doubles(), std::vector<double>(static_cast<std::size_t>(n), 1));
  }
  EXPECT_EQ(compiled(k), 1u);
}

TEST(Launch, AnyStrideIsCompiledOnce) {
  const auto k = kernel("do_not_specialize_stride", [](In<f32, 2> x, Out<f32, 2> z) {
    for (const View* v : std::initializer_list<const View*>{&x, &z}) {
      v->do_not_specialize(1);
      v->do_not_specialize_stride(0);
    }
    for (auto [m, n] : grid(z, 2, 64)) z(m, n) = x(m, n) + 1.0f;
  });
  for (const std::int64_t n : {64, 65, 66, 68, 7}) {
    const Tensor z = Tensor::zeros({3, n}, DType::f32, kHost);
    k(Tensor::zeros({3, n}, DType::f32, kHost), z);
    EXPECT_EQ(z.to_doubles(), std::vector<double>(static_cast<std::size_t>(3 * n), 1));
  }
  EXPECT_EQ(compiled(k), 1u);
  // Whether it is 1 still counts.
  k(Tensor::zeros({64, 3}, DType::f32, kHost).transpose(0, 1),
    Tensor::zeros({3, 64}, DType::f32, kHost));
  EXPECT_EQ(compiled(k), 2u);
}

TEST(Launch, CapturedScalarsAndTensorsAreReadAtEachLaunch) {
  Scalar<f32> offset = 1.0f;
  Tensor table = host({5, 6, 7});
  const auto k = kernel("lookup", [offset, &table](In<i32, 1> at, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = view<f32, 1>(table)(at(i)) + offset;
  });
  const Tensor at = Tensor::from(std::vector<i32>{2, 0, 1, 1}, kHost), z = empty({4});
  k(at, z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(8, 6, 7, 7));
  offset.set(100.0f);
  k(at, z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(107, 105, 106, 106));
  table = host({1, 2, 3});  // captured by reference: the variable is read again
  k(at, z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(103, 101, 102, 102));
  EXPECT_EQ(compiled(k), 1u);
}

TEST(Launch, FixedAndWholeDimensionsSpecialise) {
  const auto sums = kernel("sums", [](In<f32, 2> x, Out<f32, 1> z) {
    for (auto i : grid(z, 1)) z(i) = sum(x(i, all));
  });
  const auto call = [&](std::int64_t n) {
    const Tensor x = Tensor::full({2, n}, 1, DType::f32, kHost), z = empty({2});
    sums(x, z);
    EXPECT_THAT(z.to_vector<float>(), ElementsAre(n, n));
  };
  call(48);
  call(50);  // the bucket of 64 holds both, but 50 has another divisor
  EXPECT_EQ(compiled(sums), 2u);
  call(34);
  EXPECT_EQ(compiled(sums), 2u);
  call(64);  // fills its bucket: no guards
  EXPECT_EQ(compiled(sums), 3u);
  call(80);
  EXPECT_EQ(compiled(sums), 4u);
  call(112);
  EXPECT_EQ(compiled(sums), 4u);
  const auto exact = kernel("exact", [](In<f32, 1> x, Out<f32, 1> z) {
    const int n = x.static_dim(0);
    for (auto i : grid(z, 16)) z(i) = full<f32>(n, 16);
  });
  for (std::int64_t n : {16, 32, 48}) {
    const Tensor z = empty({1});
    exact(empty({n}), z);
    EXPECT_THAT(z.to_vector<float>(), ElementsAre(n));
  }
  EXPECT_EQ(compiled(exact), 3u);
}

TEST(Launch, AnEqualKernelCompilesNothing) {
  const auto make = [](int by) {
    return kernel("scale", [by](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 32)) z(i) = x(i) * by;
    });
  };
  const Tensor x = host({1, 2}), z = empty({2});
  const auto first = make(3), same = make(3), other = make(4);
  first(x, z);
  same(x, z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(3, 6));
  other(x, z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(4, 8));
  EXPECT_EQ(first.instance().launcher.latest(), same.instance().launcher.latest());
  EXPECT_NE(first.instance().launcher.latest(), other.instance().launcher.latest());
  EXPECT_THAT(same.explain(), HasSubstr("reused: first call"));
  EXPECT_EQ(first.instance().identity(), same.instance().identity());
  EXPECT_NE(first.instance().identity(), other.instance().identity());
}

TEST(Launch, ClosuresThatMayHoldAnAddressAreOnlyEqualToThemselves) {
  const auto make = [](const float& by) {
    return kernel("scale", [&by](In<f32, 1> x, Out<f32, 1> z) {
      for (auto i : grid(z, 32)) z(i) = x(i) * by;
    });
  };
  float by = 3;
  const auto first = make(by);
  by = 4;
  const auto second = make(by);
  EXPECT_NE(first.instance().identity(), second.instance().identity());
  const Tensor x = host({1}), z = empty({1});
  second(x, z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(4));
}

TEST(Launch, TuningIsPartOfTheKernel) {
  const auto k = kernel("blocks", [](Out<i32, 1> z) {
    const int b = tune("B", {1, 2, 4}, 2);
    for (auto i : grid(z, b)) z(i) = full<i32>(tune("B", {1, 2, 4}, 2), b);
  });
  const Tensor z = empty({5}, DType::i32);
  k(z);
  EXPECT_THAT(z.to_vector<i32>(), ElementsAre(2, 2, 2, 2, 2));
  k.with({{"B", 4}})(z);
  EXPECT_THAT(z.to_vector<i32>(), ElementsAre(4, 4, 4, 4, 4));
  ASSERT_EQ(k.trace(z).result().tunables.size(), 1u);
  EXPECT_EQ(k.trace(z).result().tunables[0].name, "B");
  EXPECT_THAT(k.trace(z).result().tunables[0].set, ElementsAre(1, 2, 4));
}

TEST(Launch, AnOutTensorMustNotOverlapUnlessAllowed) {
  const auto twice = kernel("twice", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = x(i) * 2;
  });
  const Tensor x = host({1, 2, 3, 4});
  EXPECT_THROW(twice(x.slice(0, 0, 3), x.slice(0, 1, 4)), CompileError);
  EXPECT_NO_THROW(twice(x.slice(0, 0, 2), x.slice(0, 2, 4)));
  EXPECT_NO_THROW(twice.may_alias()(x, x));
}

TEST(Launch, AWrittenTensorMustNotOverlapUnlessAllowed) {
  const auto add = kernel("add", [](In<f32, 1> x, InOut<f32, 1> y) {
    for (auto i : grid(y, 16)) y(i) += x(i);
  });
  const Tensor x = host({1, 2, 3, 4});
  EXPECT_THROW(add(x, x), CompileError);
  EXPECT_THROW(add(x.slice(0, 0, 3), x.slice(0, 1, 4)), CompileError);
  EXPECT_NO_THROW(add.may_alias()(x, x));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(2, 4, 6, 8));
  // Columns of one matrix have no element in common.
  const Tensor matrix = Tensor::full({4, 8}, 1, DType::f32, kHost);
  EXPECT_NO_THROW(add(matrix.slice(1, 0, 1).select(1, 0), matrix.slice(1, 5, 6).select(1, 0)));
  EXPECT_EQ(matrix.to_doubles()[5], 2);
}

TEST(Launch, AnAddressThatIsWrittenOverlapsNothing) {
  const auto copy = kernel("copy", [](In<f32, 1> x, Ptr<f32> y) {
    for (auto i : grid(x, 4)) store(y + arange(4), x(i));
  });
  const auto sum = kernel("sum", [](Ptr<f32> x, Ptr<f32> y, Out<f32, 1> z) {
    for (auto i : grid(z, 4)) z(i) = load(x + arange(4)) + load(y + arange(4));
  });
  const Tensor x = host({1, 2, 3, 4}), z = empty({4});
  EXPECT_THROW(copy(x, x), CompileError);
  EXPECT_NO_THROW(copy(x, z));
  EXPECT_NO_THROW(sum(x, x, z));
  EXPECT_THROW(sum(x, z, z), CompileError);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(2, 4, 6, 8));
}

/// An element that another argument writes is read again, not hoisted out of the loop.
TEST(Launch, KernelsThatMayAliasAreCompiledForIt) {
  const auto twice = kernel("twice", [](In<f32, 1> x, InOut<f32, 1> y) {
    for ([[maybe_unused]] auto p : grid({1}, 1))
      for ([[maybe_unused]] auto t : steps(3, 1)) y(0) = x(0) * 2;
  });
  for (Device d : {Device::cpu(), Device::sim()}) {
    const Tensor x = Tensor::full({1}, 1, DType::f32, d);
    twice(Tensor::full({1}, 1, DType::f32, d), Tensor::full({1}, 1, DType::f32, d));
    EXPECT_THROW(twice(x, x), CompileError);
    twice.may_alias()(x, x);
    EXPECT_EQ(x.to_doubles()[0], 8) << d.str();
  }
}

TEST(Launch, ThreadsShareOneCompilation) {
  const auto k = kernel("threads", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 32)) z(i) = x(i) + 41;
  });
  std::vector<std::thread> threads;
  std::vector<Tensor> results;
  for (int t = 0; t < 8; ++t) results.push_back(empty({16}));
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) k(Tensor::full({16}, t, DType::f32, kHost), results[t]);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(compiled(k), 1u);
  for (int t = 0; t < 8; ++t)
    EXPECT_EQ(results[t].to_vector<float>()[7], 41.0f + static_cast<float>(t));
}

TEST(Launch, NamesAppearInTheIrAndTieExtentsTogether) {
  const auto k = kernel("named", [](In<f32, 2> a, int, In<f32, 2> b, Out<f32, 2> c) {
                   for (auto [m, n] : grid(c, 16, 16)) {
                     auto acc = zeros<f32>(16, 16);
                     for (auto k : steps(a.cols(), 16)) acc = dot(a(m, k), b(k, n), acc);
                     c(m, n) = acc;
                   }
                 }).named("A[M, K]", "unused", "B[K, N]", "C[M, N]");
  const Tensor a = Tensor::full({3, 5}, 1, DType::f32, kHost),
               b = Tensor::full({5, 2}, 2, DType::f32, kHost), c = empty({3, 2});
  k(a, 0, b, c);
  EXPECT_THAT(c.to_vector<float>(), ElementsAre(10, 10, 10, 10, 10, 10));
  EXPECT_THAT(k.dump("trace"), HasSubstr("%C: view<?x?xf32, out"));
  EXPECT_THROW(k(a, 0, empty({4, 2}), c), CompileError);
}

TEST(Launch, AFunctionIsAKernelToo) {
  void (*body)(In<f32, 1>, Out<f32, 1>) = [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = -x(i);
  };
  const Tensor z = empty({2});
  kernel("negate", body)(host({1, 2}), z);
  EXPECT_THAT(z.to_vector<float>(), ElementsAre(-1, -2));
}

}  // namespace
}  // namespace tegula::launch_test
