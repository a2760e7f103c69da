// Faults that `cpu` and `sim` find while a program runs: a ProgramError, thrown once, with a code,
// the kernel's line and the argument's element.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test::findings_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Findings : public testing::TestWithParam<Device> {
 protected:
  Device device() const { return GetParam(); }
  Tensor f32s(const Dims& shape) const { return Tensor::full(shape, 1, DType::f32, device()); }
  Tensor i32s(const Dims& shape, double value) const {
    return Tensor::full(shape, value, DType::i32, device());
  }
  bool on_cpu() const { return device().kind == DeviceKind::cpu; }
};
INSTANTIATE_TEST_SUITE_P(Devices, Findings, testing::Values(Device::cpu(), Device::sim()),
                         device_name);

struct Found {
  std::string code, text, place;
};

/// Returns the findings of the call; "" if there are none.
Found found_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const ProgramError& e) {
    const Diagnostic& d = e.diagnostic();
    return {d.code, d.message + (d.hint.empty() ? "" : "\nhint: " + d.hint),
            d.loc.known() ? std::string(d.loc.file) : ""};
  }
  return {};
}

// ---- loops that do not end ----------------------------------------------------------------------

TEST_P(Findings, AWaitForAWordThatNeverChanges) {
  const auto k = kernel("waits", [](Ptr<i32> flag, Out<f32, 1> z) {
                   for (auto i : grid(z, 1)) {
                     while_([&] { return atomic_add(flag, 0) == 0; }, [&] {});
                     z(i) = 1.0f;
                   }
                 }).named("flag", "z");
  const auto f = found_by([&] { k(i32s({1}, 0), f32s({4})); });
  EXPECT_EQ(f.code, on_cpu() ? "T1307" : "T1308") << f.text;
  EXPECT_THAT(f.text, AllOf(HasSubstr("kernel waits on "), HasSubstr("flag[0]")));
  EXPECT_THAT(f.place, HasSubstr("findings_test.cpp"));
  EXPECT_THAT(f.text, Not(HasSubstr("findings_test.cpp:1:")));
  EXPECT_EQ(found_by([&] { k(i32s({1}, 7), f32s({4})); }).text, "");
}

TEST_P(Findings, AnEndlessLoop) {
  Env few = env();
  few.loop_limit = 100'000;
  const EnvOverride with(few);
  const auto counts = [](int step) {
    return kernel("counts", [step](Out<i32, 1> z) {
      for (auto i : grid(z, 1)) {
        Tile n = full<i32>(0);
        while_([&] { return n < 10; }, [&] { n = n + step; });
        z(i) = n;
      }
    });
  };
  EXPECT_EQ(found_by([&] { counts(1)(i32s({2}, 0)); }).text, "");
  const auto stays = found_by([&] { counts(0)(i32s({2}, 0)); });
  EXPECT_THAT(stays.text, HasSubstr("nothing that "));
  const auto grows = found_by([&] { counts(-1)(i32s({2}, 0)); });
  EXPECT_EQ(grows.code, "T1307");
  EXPECT_THAT(grows.text, HasSubstr("TEGULA_LOOP_LIMIT"));
  if (!on_cpu()) return;  // sim limits the instructions of a CTA
  const auto nested = [](int extent) {
    return kernel("nested", [extent](Out<i32, 1> z) {
      for (auto i : grid(z, 1)) {
        Tile n = full<i32>(0);
        for ([[maybe_unused]] auto a : steps(extent, 1))
          for ([[maybe_unused]] auto b : steps(extent, 1))
            for ([[maybe_unused]] auto c : steps(extent, 1)) n += 1;
        z(i) = n;
      }
    });
  };
  EXPECT_EQ(found_by([&] { nested(20)(i32s({2}, 0)); }).text, "");
  EXPECT_EQ(found_by([&] { nested(50)(i32s({2}, 0)); }).code, "T1307");
}

/// Loops whose condition depends on a counter in memory: the program's memory, or that through
/// which warps agree on a condition.
TEST_P(Findings, LoopsThatCountThroughMemoryEnd) {
  const auto seldom = kernel("seldom", [](Ptr<i32> word, Out<i32, 1> z) {
    for (auto i : grid(z, 1)) {
      Tile n = full<i32>(0);
      while_([&] { return atomic_add(word, 0) < 3; },
             [&] {
               if_(n % 400 == 399, [&] { atomic_add(word, 1); });
               n += 1;
             });
      z(i) = n;
    }
  });
  const auto nested = kernel("nested", [](Ptr<i32> word, Out<i32, 1> z) {
    for (auto i : grid(z, 1)) {
      Tile n = full<i32>(0);
      while_([&] { return atomic_add(word, 0) < 3; },
             [&] {
               for (auto j : steps(n % 400 / 399, 1)) atomic_add(word, j.first() + 1);
               n += 1;
             });
      z(i) = n;
    }
  });
  for (const auto& k : {seldom, nested}) {
    const Tensor z = i32s({1}, 0);
    k(i32s({1}, 0), z);
    EXPECT_EQ(z.to_doubles()[0], 1200);
  }
  const auto together = kernel("together", [](In<i32, 1> x, Out<i32, 1> z) {
    for (auto i : grid(x, 256)) {
      Tile n = x(i);
      while_([&] { return max(n, axis(0)) < 1300; }, [&] { n = where(n > 1, n + 1, n); });
      z(i) = n;
    }
  });
  std::vector<i32> in(256, 1);
  in[200] = 2;
  const Tensor z = i32s({256}, 0);
  together.prefer({.num_warps = 8})(Tensor::from(in, device()), z);
  EXPECT_EQ(z.to_vector<i32>()[200], 1300);
}

/// The same loops without a change that their condition depends on.
TEST_P(Findings, LoopsThatCountOnlyForThemselvesDoNotEnd) {
  const auto lock = kernel("lock", [](Ptr<i32> word, Out<i32, 1> z) {
    for (auto i : grid(z, 1)) {
      Tile n = full<i32>(0);
      while_([&] { return atomic_xchg(word, 1) == 1; }, [&] { n += 1; });
      z(i) = n;
    }
  });
  const auto f = found_by([&] { lock(i32s({1}, 1), i32s({1}, 0)); });
  EXPECT_EQ(f.code, on_cpu() ? "T1307" : "T1308") << f.text;
  const auto together = kernel("together", [](In<i32, 1> x, Out<i32, 1> z) {
    for (auto i : grid(x, 256)) {
      const Tile t = x(i);
      Tile n = full<i32>(0);
      while_([&] { return max(t, axis(0)) < 10; }, [&] { n += 1; });
      z(i) = t + n;
    }
  });
  const auto one_warp = kernel("one_warp", [](In<i32, 1> x, Out<i32, 1> z) {
    for (auto i : grid(x, 256))
      z(i) = map(
          [](Tile t) {
            Tile n = full<i32>(0);
            while_([&] { return n < t; }, [&] { n = n + 0; });
            return n;
          },
          x(i));
  });
  std::vector<i32> in(256, 0);
  in[200] = 2;
  for (const auto& k : {together, one_warp}) {
    const auto stays =
        found_by([&] { k.prefer({.num_warps = 8})(Tensor::from(in, device()), i32s({256}, 0)); });
    EXPECT_THAT(stays.text, HasSubstr("nothing that "));
  }
}

// ---- what other programs do ---------------------------------------------------------------------

/// Triton's lock of layer norm's backward, with rows that one warp has.
TEST_P(Findings, ALockOrdersGuardedAccesses) {
  const auto sums = [](MemoryOrder give_back) {
    return kernel("lock", [give_back](In<f32, 2> x, InOut<f32, 2> dw, Ptr<i32> locks) {
      for (auto r : grid(rows(x), 1)) {
        const Tile g = x(r, all);
        const Tile group = r.indices() % dw.rows();
        while_([&] { return atomic_xchg(locks + group, 1, {}, MemoryOrder::acquire) == 1; },
               [&] {});
        dw(group, all) += g;
        atomic_xchg(locks + group, 0, {}, give_back);
      }
    });
  };
  const auto run = [&](MemoryOrder give_back) {
    const Tensor dw = Tensor::zeros({4, 1}, DType::f32, device());
    sums(give_back)(f32s({64, 1}), dw, i32s({4}, 0));
    EXPECT_EQ(dw.to_doubles(), std::vector<double>(4, 16.0));
  };
  EXPECT_EQ(found_by([&] { run(MemoryOrder::release); }).text, "");
  EXPECT_EQ(found_by([&] { run(MemoryOrder::relaxed); }).code, "T1301");
}

/// Each program adds to the value that the previous one has published.
TEST_P(Findings, AFlagOrdersALookBack) {
  const auto sums = [](MemoryOrder publish) {
    return kernel(
        "look_back", [publish](In<i32, 1> x, Ptr<i32> totals, Ptr<i32> flags, Out<i32, 1> y) {
          for (auto i : grid(x, 1)) {
            Tile before = full<i32>(0);
            const Tile at = cast<i32>(i.first());
            if_(at > 0, [&] {
              while_([&] { return atomic_or(flags + (at - 1), 0, {}, MemoryOrder::acquire) == 0; },
                     [&] {});
              before = load(totals + (at - 1));
            });
            const Tile now = before + x(i);
            store(totals + at, now);
            atomic_xchg(flags + at, 1, {}, publish);
            y(i) = now;
          }
        });
  };
  const auto run = [&](MemoryOrder publish) {
    const Tensor y = i32s({40}, 0);
    sums(publish)(i32s({40}, 2), i32s({40}, 0), i32s({40}, 0), y);
    EXPECT_EQ(y.to_doubles()[39], 80);
  };
  EXPECT_EQ(found_by([&] { run(MemoryOrder::release); }).text, "");
  EXPECT_EQ(found_by([&] { run(MemoryOrder::relaxed); }).code, "T1301");
}

TEST_P(Findings, AReadOfAnotherProgramsWrite) {
  const auto k = kernel("neighbours", [](InOut<f32, 1> y) {
                   for (auto i : grid(y, 64)) y(i) = fill_absent(y(i.shifted(64)), 0) + 1.0f;
                 }).named("y");
  const auto f = found_by([&] { k(f32s({256})); });
  EXPECT_EQ(f.code, "T1301") << f.text;
  EXPECT_THAT(f.text, HasSubstr("y["));
}

// ---- elements read outside their view -----------------------------------------------------------

/// Rows of a table selected by ids; one program has no id.
TEST_P(Findings, AnElementReadOutsideItsViewThatDecides) {
  const auto reads = [&](const std::function<Tile(const Tile&, const In<i32, 1>&)>& row,
                         std::int64_t ids) {
    const auto k = kernel("reads", [row](In<f32, 2> x, In<i32, 1> ids, Out<f32, 2> y) {
                     for (auto r : grid(rows(y), 1))
                       y(r, all) = x(row(cast<i32>(r.indices()), ids), all);
                   }).named("x", "ids", "y");
    return found_by([&] { k(f32s({4, 32}), i32s({ids}, 1), f32s({6, 32})); });
  };
  const auto plain = [](const Tile& r, const In<i32, 1>& ids) { return ids(r); };
  const Found f = reads(plain, 5);
  EXPECT_EQ(f.code, "T1314") << f.text;
  EXPECT_THAT(f.text, AllOf(HasSubstr("an element of ids is read outside of it"),
                            HasSubstr("an index at "), HasSubstr("findings_test.cpp")));
  EXPECT_THAT(f.place, HasSubstr("findings_test.cpp"));
  EXPECT_EQ(reads(plain, 6).text, "");
  const auto filled = [](const Tile& r, const In<i32, 1>& ids) { return fill_absent(ids(r), 2); };
  EXPECT_EQ(reads(filled, 5).text, "");
  const auto chosen = [](const Tile& r, const In<i32, 1>& ids) {
    return where(r < ids.dim(0), ids(r), 3);
  };
  EXPECT_EQ(reads(chosen, 5).text, "");
  const auto chosen_wrongly = [](const Tile& r, const In<i32, 1>& ids) {
    return where(r <= ids.dim(0), ids(r), 3);
  };
  EXPECT_EQ(reads(chosen_wrongly, 5).code, "T1314");
}

/// As a bound, a condition, the end of a crop and an address; only if the use is reached.
TEST_P(Findings, AnElementReadOutsideItsViewAsABoundOrACondition) {
  const auto reads = [&](int use, std::int64_t ends) {
    const auto k = kernel("reads", [use](In<i32, 1> ends, Ptr<f32> x, Out<f32, 1> y) {
                     for (auto r : grid(y, 1)) {
                       const Tile at = cast<i32>(r.indices()), n = ends(at);
                       Tile sum = full<f32>(0);
                       if (use == 0)
                         for (auto i : steps(n, 1))
                           sum = sum + 1.0f + 0.0f * cast<f32>(i.indices());
                       if (use == 1) if_(n > 0, [&] { sum = sum + 1.0f; });
                       if (use == 2) sum = load(x + n);
                       if (use == 3) if_(at < ends.dim(0) && n > 0, [&] { sum = load(x + n); });
                       if (use == 4) if_(at < ends.dim(0), [&] { sum = load(x + n); });
                       if (use == 5) sum = cast<f32>(n);
                       y(r) = sum;
                     }
                   }).named("ends", "x", "y");
    return found_by([&] { k(i32s({ends}, 1), f32s({4}), f32s({6})); });
  };
  for (int use = 0; use < 6; ++use) {
    SCOPED_TRACE(use);
    EXPECT_EQ(reads(use, 5).code, use < 3 ? "T1314" : "");
    EXPECT_EQ(reads(use, 6).text, "");
  }
}

// ---- independent steps --------------------------------------------------------------------------

TEST_P(Findings, StepsThatAreNotIndependent) {
  const auto run = [&](int distance) {
    const auto k = kernel("steps", [distance](InOut<f32, 1> y) {
                     for (auto p : grid({1}, 1))
                       for (auto t : steps(4, 1).independent()) {
                         const Tile at = arange(256) + cast<i32>(t.indices()) * distance;
                         y(at) = y(255 - arange(256) + cast<i32>(t.indices()) * distance) + 1.0f;
                       }
                   }).named("y");
    return found_by([&] { k(f32s({1280})); });
  };
  EXPECT_EQ(run(256).text, "");
  const Found f = run(128);
  EXPECT_EQ(f.code, "T1309") << f.text;
  EXPECT_THAT(f.text, HasSubstr("y["));
  EXPECT_THAT(f.place, HasSubstr("findings_test.cpp"));
}

// ---- assumptions --------------------------------------------------------------------------------

/// A masked-off element does not affect a condition that the mask decides.
TEST_P(Findings, AnElementThatAMaskHides) {
  const auto positive = kernel("positive", [](Ptr<f32> p, Out<bool, 2> y, Scalar<i32> n) {
    for (auto i : grid(cols(y), 64)) {
      const Tile there = i.indices() < n, above = load(p + i.indices(), there) > 0.0f;
      y(0, i) = there && above;
      y(1, i) = !there || above;
    }
  });
  const Tensor y = Tensor::empty({2, 64}, DType::i1, device());
  EXPECT_EQ(found_by([&] { positive(f32s({40}), y, 40); }).code, "");
  std::vector<double> want(128, 1);
  std::fill(want.begin() + 40, want.begin() + 64, 0);
  EXPECT_EQ(y.to_doubles(), want);
}

/// Elements that pad a tile to the machine's extents are undefined and unused.
TEST_P(Findings, PaddingOfAnIndex) {
  const auto chosen = kernel("chosen", [](In<i32, 2> x, InOut<i32, 1> y) {
    for (auto r : grid({1}, 1)) {
      (void)r;
      const Tile t = x(slice(0, 3), slice(26, 36)).expand(0);
      const Tile from = where(t < arange(108).reshape({1, 3, 36}), -2, t);
      y(slice(0, 108)) = gather(t, (from & 0x7fffffff) % 3, 1).reshape({108});
    }
  });
  const Tensor y = i32s({108}, -7);
  EXPECT_EQ(found_by([&] { chosen(i32s({4, 27}, 5), y); }).code, "");
  std::vector<double> want(108, -7);
  want[0] = want[36] = want[72] = 5;
  EXPECT_EQ(y.to_doubles(), want);
}

/// Addresses are checked where the mask holds; those that it hides, or that pad a tile, are not.
TEST_P(Findings, AddressesThatAMaskHides) {
  const auto followed =
      kernel("followed", [](Ptr<i32> next, Ptr<i32> p, Ptr<i32> q, Scalar<i32> n) {
        for (auto i : grid({32}, 32)) {
          const Tile there = i.indices() < n, at = load(next + i.indices(), there);
          store(q + at, load(p + at, there), there);
        }
      });
  const Tensor q = i32s({16}, -7);
  EXPECT_EQ(found_by([&] { followed(i32s({16}, 3), i32s({16}, 5), q, 16); }).text, "");
  EXPECT_EQ(q.to_doubles()[3], 5);
  const auto sorted = kernel("sorted", [](In<i32, 1> x, Ptr<i32> p) {
    for (auto i : grid({1}, 1)) {
      (void)i;
      Tile keys = x(slice(0, 14));
      for (int shift = 0; shift < 8; shift += 4) {
        const Tile digit = (keys >> shift) & 15;
        const Ranks r = key_ranks(digit, 16);
        store(p + (r.ranks + gather(cumsum(r.counts, 0, {.exclusive = true}), digit, 0)), keys);
        keys = load(p + arange(14));
      }
    }
  });
  EXPECT_EQ(found_by([&] { sorted(i32s({14}, 0x31), i32s({14}, 0)); }).text, "");
}

TEST_P(Findings, AFalseAssumption) {
  const auto of_scalar = kernel("of_scalar", [](Out<i32, 1> z, Scalar<i32> n) {
    for (auto i : grid(z, 32)) {
      assume(n < 10);
      z(i) = n;
    }
  });
  EXPECT_EQ(found_by([&] { of_scalar(i32s({100}, 0), 9); }).text, "");
  const auto scalar = found_by([&] { of_scalar(i32s({100}, 0), 50); });
  EXPECT_EQ(scalar.code, "T1305");
  EXPECT_THAT(scalar.text, HasSubstr("assumption does not hold: 50 < 10"));
  const auto of_two = kernel("of_two", [](Out<i32, 1> z, Scalar<i32> n) {
    for (auto i : grid(z, 32)) {
      assume(n < 10 && n >= 3);
      z(i) = n;
    }
  });
  EXPECT_THAT(found_by([&] { of_two(i32s({100}, 0), 2); }).text, HasSubstr("2 >= 3"));
  const auto of_tile = kernel("of_tile", [](In<i32, 1> x, Out<i32, 1> z) {
    for (auto i : grid(z, 32)) {
      const Tile v = x(i);
      assume(v > 4);
      z(i) = v;
    }
  });
  // The end of a segment implies nothing about later elements.
  EXPECT_EQ(found_by([&] { of_tile(i32s({100}, 5), i32s({100}, 0)); }).text, "");
  const auto f = found_by([&] { of_tile(i32s({100}, 4), i32s({100}, 0)); });
  EXPECT_EQ(f.code, "T1305");
  EXPECT_THAT(f.text, HasSubstr("4 > 4"));
  EXPECT_THAT(f.place, HasSubstr("findings_test.cpp"));
}

TEST_P(Findings, AnAssumptionOfARowThatWarpsShare) {
  const auto k = kernel("of_rows", [](In<f32, 2> x, Out<f32, 1> z) {
    for (auto r : grid(z, 4)) {
      const Tile v = x(r, all);
      assume(v > 0.0f);
      const Tile s = sum(v, axis(1));
      assume(s > 0.0f);
      z(r) = s;
    }
  });
  EXPECT_EQ(found_by([&] { k(f32s({6, 100}), f32s({6})); }).text, "");
  EXPECT_EQ(found_by([&] { k(Tensor::zeros({6, 100}, DType::f32, device()), f32s({6})); }).code,
            "T1305");
}

// ---- divisions by zero --------------------------------------------------------------------------

TEST_P(Findings, AQuotientByZero) {
  const auto k = kernel("quotients", [](In<i32, 1> x, Out<i32, 2> z, Scalar<i32> n) {
    for (auto i : grid(cols(z), 32)) {
      z(0, i) = 10 / x(i);
      z(1, i) = x(i) % n;
      z(2, i) = where(x(i) != 0, 10 / x(i), 0);
    }
  });
  std::vector<i32> x(40, 3);
  const auto run = [&](int n) {
    return found_by(
        [&] { k(Tensor::from(x, device()), Tensor::empty({3, 40}, DType::i32, device()), n); });
  };
  EXPECT_EQ(run(7).text, "");
  const auto remainder = run(0);
  x[33] = 0;
  for (const Found& f : {remainder, run(7)}) {
    EXPECT_EQ(f.code, "T1304") << f.text;
    EXPECT_THAT(f.text, HasSubstr("integer division by zero"));
    EXPECT_THAT(f.place, HasSubstr("findings_test.cpp"));
  }
}

// ---- elements that no program stores ------------------------------------------------------------

TEST_P(Findings, AnElementThatNoProgramStored) {
  const auto add = kernel("add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
                     for (auto i : grid(z, 32)) z(i) = x(i) + y(i);
                   }).named("x", "y", "z");
  EXPECT_EQ(found_by([&] { add(f32s({100}), f32s({100}), f32s({100})); }).text, "");
  const auto f = found_by([&] { add(f32s({100}), f32s({90}), f32s({100})); });
  EXPECT_EQ(f.code, "T1306");
  EXPECT_THAT(f.text, AllOf(HasSubstr("10 of 100 elements of z"), HasSubstr("first z[90]"),
                            HasSubstr("leaves out z["), HasSubstr(".partial()")));
  EXPECT_THAT(f.place, HasSubstr("findings_test.cpp"));
  EXPECT_THAT(f.text, AllOf(HasSubstr("y at "), HasSubstr("which is [90]")));
}

TEST_P(Findings, APartialOutMayKeepElements) {
  const auto add = kernel("add", [](In<f32, 1> x, Out<f32, 1> z) {
    z.partial();
    for (auto i : grid(z, 32)) z(i) = x(i);
  });
  const Tensor z = f32s({100});
  EXPECT_EQ(found_by([&] { add(Tensor::zeros({90}, DType::f32, device()), z); }).text, "");
  EXPECT_EQ(z.to_doubles()[89], 0);
  EXPECT_EQ(z.to_doubles()[90], 1);
  const auto in_place = kernel("add", [](In<f32, 1> x, InOut<f32, 1> y) {
    for (auto i : grid(y, 32)) y(i) += x(i);
  });
  EXPECT_EQ(found_by([&] { in_place(f32s({90}), z); }).text, "");
}

TEST_P(Findings, AMissingRowOfATable) {
  const auto rows_of = kernel("embedding", [](In<f32, 2> t, In<i32, 1> ids, Out<f32, 2> y) {
    for (auto [r, c] : grid(y, 1, 64)) y(r, c) = t(ids(r), c);
  });
  EXPECT_EQ(found_by([&] { rows_of(f32s({10, 64}), i32s({4}, 9), f32s({4, 64})); }).text, "");
  EXPECT_EQ(found_by([&] { rows_of(f32s({10, 64}), i32s({4}, 12), f32s({4, 64})); }).code, "T1306");
}

}  // namespace
}  // namespace tegula::test::findings_test
