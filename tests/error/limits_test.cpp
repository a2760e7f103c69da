// Kernel lambdas that do not end, or that throw: each ends in a CompileError with the kernel's name
// and a line of the lambda, and the kernel can be called again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/env.h"
#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"

namespace tegula::limits_test {
namespace {

using namespace kernels;
using ::testing::HasSubstr;

Tensor numbers(Device d = Device::cpu()) { return Tensor::iota({8}, DType::f32, d); }
Tensor result(Device d = Device::cpu()) { return Tensor::empty({8}, DType::f32, d); }

Diagnostic error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const CompileError& e) {
    return e.diagnostic();
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  return {};
}

/// The error has the code, the kernel's name and a line of this file.
Diagnostic expect_error(const char* code, const std::function<void()>& f, const char* name = "k") {
  Diagnostic d = error_of(f);
  EXPECT_EQ(d.code, code);
  EXPECT_THAT(d.message, HasSubstr(std::string("kernel ") + name));
  EXPECT_THAT(d.hint, ::testing::Not(::testing::IsEmpty()));
  EXPECT_THAT(d.loc.file, HasSubstr("limits_test.cpp"));
  return d;
}

/// Traces a kernel that applies `f` to a tile.
template <class F>
void trace(const F& f) {
  kernel("k", [&f](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 8)) z(i) = f(x(i));
  }).trace(numbers(), result());
}

volatile bool is_done = false;

Tile endless(const Tile& t) { return is_done ? t : endless(t + 1.0f) * 2.0f; }

/// Copies its argument, and records nothing.
Tile idle(Tile t) { return is_done ? t : idle(t); }

TEST(Recursion, EndsWithTheLine) {
  for (const Device d : {Device::cpu(), Device::sim()})
    expect_error("T1019", [&] {
      kernel("k", [](In<f32, 1> x, Out<f32, 1> z) {
        for (auto i : grid(z, 8)) z(i) = endless(x(i));
      })(numbers(d), result(d));
    });
  expect_error("T1019", [] { trace(endless); });
  expect_error("T1019", [] { trace(idle); });
  expect_error("T1019", [] { trace([](const Tile& t) { return map(endless, t); }); });
  expect_error("T1019", [] {
    trace([](const Tile& t) {
      return t + reduce(t, 0, [](Tile a, Tile b) { return endless(a + b); });
    });
  });
  expect_error("T1019", [] {
    trace([](const Tile& t) { return scan(t, 0, [](Tile a, Tile b) { return endless(a + b); }); });
  });
}

/// Through regions, which are left in order.
void nested(Tile& t) {
  if_(sum(t) > 0.0f, [&] { nested(t); });
}

TEST(Recursion, ThroughBranches) {
  expect_error("T1019", [] {
    trace([](Tile t) {
      nested(t);
      return t;
    });
  });
}

TEST(Recursion, FiniteRecursionIsNotAnError) {
  const std::function<Tile(Tile, int)> f = [&](Tile t, int n) {
    return n == 0 ? t : f(t + 1.0f, n - 1);
  };
  const auto k = kernel("k", [&f](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 8)) z(i) = f(x(i), 1000);
  });
  const Tensor z = result();
  k(numbers(), z);
  EXPECT_EQ(z.to_vector<float>()[3], 1003);
}

/// Runs `f` on a thread with a stack of so many bytes.
void on_small_stack(std::size_t bytes, const std::function<void()>& f) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread;
  const auto run = [](void* f) -> void* {
    (*static_cast<const std::function<void()>*>(f))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&f)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(Recursion, OnThreadsWithSmallStacks) {
  for (const std::size_t bytes : {std::size_t{256} << 10, std::size_t{512} << 10})
    on_small_stack(bytes, [] {
      expect_error("T1019", [] { trace(endless); });
      trace([](const Tile& t) { return t + 1.0f; });
    });
}

TEST(Loop, AMillionOperationsEndsWithTheCount) {
  const Diagnostic d = expect_error("T1018", [] {
    trace([](Tile t) {
      while (!is_done) t = t + t;
      return t;
    });
  });
  EXPECT_THAT(d.message, HasSubstr("1000000 operations"));
}

/// A body is recorded twice, which does not halve the limit.
TEST(Loop, ManyOperationsAreNotAnError) {
  trace([](Tile t) {
    for (int i = 0; i < 60'000; ++i) t = t + t;
    return t;
  });
}

/// Returns the seconds of this thread for a first call on `cpu` whose lambda repeats `f`.
template <class F>
double seconds_of_call(int rounds, const F& f) {
  Env env_without_cache = env();
  env_without_cache.cache = "off";
  const EnvOverride scope(env_without_cache);
  const auto k = kernel("k", [&f, rounds](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 8)) {
      Tile t = x(i);
      for (int r = 0; r < rounds; ++r) t = f(t);
      z(i) = t;
    }
  });
  const auto now = [] {
    timespec at{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
  };
  const double begin = now();
  k(numbers(), result());
  return now() - begin;
}

/// Time that grew with the square of the rounds would be 16 times as long.
TEST(Loop, IsCompiledInLinearTime) {
  constexpr int kRounds = 1200;
  const auto f = [](const Tile& t) { return reshape(reshape(t, {2, 4}) + 1.0f, {8}); };
  const double few = seconds_of_call(kRounds, f);
  double many = seconds_of_call(4 * kRounds, f);
  if (many >= 8 * few) many = std::min(many, seconds_of_call(4 * kRounds + 1, f));
  EXPECT_LT(many, 8 * few) << few << " s, " << many << " s";
}

/// Time that doubles with each loop would not end.
TEST(Loop, SixtyNestedRegionsAreCompiled) {
  enum Kind { kSteps, kSteppedStores, kWhile, kIf, kKinds };
  const std::function<void(int, int, Tile&, const std::function<void()>&)> nest =
      [&](int kind, int depth, Tile& t, const std::function<void()>& store) {
        if (depth == 0) {
          t = t + 1.0f;
          return store();
        }
        const auto inner = [&] { nest(kind, depth - 1, t, store); };
        if (kind <= kSteppedStores)
          for ([[maybe_unused]] auto j : steps(8, 8)) inner();
        Tile n = full<i32>(0);
        if (kind == kWhile) while_([&] { return n < 1; }, [&] { n += 1, inner(); });
        if (kind == kIf) if_(n < 1, inner);
      };
  for (int kind = 0; kind < kKinds; ++kind) {
    const auto k = kernel("k", [&](In<f32, 1> x, InOut<f32, 1> z) {
      for (auto i : grid(z, 8)) {
        Tile t = x(i);
        nest(kind, 60, t, [&] {
          if (kind == kSteppedStores) z(i) = z(i) + 1.0f;
        });
        z(i) = z(i) + t;
      }
    });
    const Tensor z = Tensor::zeros({8}, DType::f32, Device::cpu());
    k(numbers(), z);
    EXPECT_EQ(z.to_vector<float>()[3], kind == kSteppedStores ? 5 : 4) << kind;
  }
}

/// A mask and a score function are called in a kernel of the library.
void masked_by(const std::function<Tile(Tile)>& f, bool is_score) {
  const Tensor t = Tensor::zeros({1, 1, 16, 16}, DType::bf16, Device::cpu());
  const Attention attend =
      is_score ? attention({.score = [f](Tile s, Tile, Tile, Tile, Tile) { return f(s); }})
               : attention({.mask = [f](Tile, Tile, Tile q, Tile kv) { return f(q) <= kv; }});
  attend(t, t, t, t);
}

TEST(Recursion, InMasksAndScores) {
  for (const bool is_score : {false, true})
    expect_error(
        "T1019", [&] { masked_by([](Tile t) { return idle(t); }, is_score); }, "attention");
}

// ---- exceptions ---------------------------------------------------------------------------------
TEST(Thrown, ObjectsOtherThanStdException) {
  expect_error("T1021", [] { trace([](Tile) -> Tile { throw 42; }); });
  expect_error("T1021", [] {
    trace([](Tile t) {
      for (auto j : steps(8, 4)) {
        t += 1.0f;
        throw "text";
      }
      return t;
    });
  });
  expect_error("T1021", [] {
    trace([](const Tile& t) { return map([](Tile) -> Tile { throw nullptr; }, t); });
  });
}

TEST(Thrown, InMasksAndScores) {
  for (const bool is_score : {false, true})
    expect_error(
        "T1021", [&] { masked_by([](Tile) -> Tile { throw 42; }, is_score); }, "attention");
}

TEST(Thrown, StdExceptionsKeepTheirText) {
  const Diagnostic d =
      error_of([] { trace([](Tile) -> Tile { throw std::runtime_error("no luck"); }); });
  EXPECT_EQ(d.code, "T0305");
  EXPECT_THAT(d.message, HasSubstr("no luck"));
}

}  // namespace
}  // namespace tegula::limits_test
