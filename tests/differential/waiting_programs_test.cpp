// Programs that wait for one another: right on every device, whichever thread comes first.
#include "tests/differential/waiting_programs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/eval/eval.h"
#include "runtime/launch_args.h"
#include "tests/differential/devices.h"
#include "tests/placed_barriers.h"

namespace tegula::waiting_programs_test {
namespace {

class WaitingPrograms : public testing::TestWithParam<std::tuple<Device, std::size_t>> {};
INSTANTIATE_TEST_SUITE_P(
    Devices, WaitingPrograms,
    testing::Combine(testing::ValuesIn(test::devices()),
                     testing::Range(std::size_t{0}, std::size(test::kWaitingPrograms))),
    [](const auto& info) {
      return test::name_of(std::get<0>(info.param)) + "_" +
             test::kWaitingPrograms[std::get<1>(info.param)](Device::cpu()).name;
    });

TEST_P(WaitingPrograms, ReceiveTheAwaitedValues) {
  const auto& [device, i] = GetParam();
  const test::MemoryProgram p = test::kWaitingPrograms[i](device);
  for (int call = 0; call < p.calls; ++call) p.call(Stream(device));
  EXPECT_EQ(p.args[p.result].to_doubles(), p.want);
}

TEST(WaitingPrograms, TakeNoMoreBarriersThanTheyMust) {
  for (const test::MakeProgram make : test::kWaitingPrograms) {
    const test::MemoryProgram p = make(Device::sim());
    if (p.barriers < 0) continue;
    EXPECT_EQ(test::placed_barriers(*p.call(Stream(Device::sim()))), p.barriers) << p.name;
  }
}

/// The interpreter begins programs in any order.
TEST(WaitingPrograms, BeginInAnyOrder) {
  for (const test::MakeProgram make : test::kWaitingPrograms)
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const test::MemoryProgram p = make(Device::cpu());
      const auto compiled = make(Device::cpu()).call(Stream(Device::cpu()));
      std::vector<runtime::LaunchArg> args;
      for (std::size_t i = 0; i < p.args.size(); ++i)
        args.push_back(
            {&p.args[i], p.is_pointer[i] ? reinterpret_cast<std::uint64_t>(p.args[i].data()) : 0});
      ir::EvalOptions options;
      options.shuffle_seed = seed;
      for (int call = 0; call < p.calls; ++call) {
        const auto report =
            ir::evaluate(compiled->tile, runtime::eval_args(compiled->tile, args), options);
        EXPECT_TRUE(report.clean()) << p.name << ": " << report.str();
      }
      EXPECT_EQ(p.args[p.result].to_doubles(), p.want) << p.name << ", seed " << seed;
    }
}

class Together : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Together, testing::ValuesIn(test::devices()), test::device_name);

/// A set of numbers in memory, which programs fill by compare and swap, each with 64 at a time.
TEST_P(Together, AHashTable) {
  constexpr int kSlots = 1024, kPrograms = 10, kKeys = 64;
  const auto insert = kernel("insert", [](Ptr<u32> table, Ptr<u32> found) {
    for (auto r : grid(GridSpace({kPrograms}), 1)) {
      // Every key twice, and by two programs.
      const Tile key =
          cast<u32>((r.first() / 2) * kKeys + arange(kKeys) / 2) * 2654435761u % 100003u + 1;
      Tile slot = key % kSlots, is_done = key == 0;
      while_([&] { return any(is_done == false, axis(0)); },
             [&] {
               const Tile old = atomic_cas(table + slot, 0, key, is_done == false);
               const Tile held = where(is_done, key, old);
               const Tile is_new = (is_done == false) & (held == 0);
               atomic_add(found, 1, is_new);
               is_done = is_done | is_new | (held == key);
               slot = where(is_done, slot, (slot + 1) % kSlots);
             });
    }
  });
  const Device d = GetParam();
  const Tensor table = Tensor::zeros({kSlots}, DType::u32, d),
               found = Tensor::zeros({1}, DType::u32, d);
  insert(table, found);
  std::vector<double> want;
  for (std::uint32_t k = 0; k < kPrograms / 2; ++k)
    for (std::uint32_t j = 0; j < kKeys / 2; ++j)
      want.push_back((k * kKeys + j) * 2654435761u % 100003u + 1);
  std::ranges::sort(want);
  std::vector<double> got = table.to_doubles();
  std::erase(got, 0);
  std::ranges::sort(got);
  EXPECT_EQ(got, want);
  EXPECT_EQ(found.to_doubles()[0], static_cast<double>(want.size()));
}

template <class T>
void swap_in_one_step(Device d) {
  const auto swap = kernel("swap", [](Ptr<T> data, Ptr<T> old) {
    for ([[maybe_unused]] auto r : grid(GridSpace({1}), 1)) {
      const Tile at = arange(8);
      store(old + at, atomic_cas(data + at, cast<T>(at % 2), cast<T>(at + 10)));
    }
  });
  const Tensor data = Tensor::zeros({8}, dtype_of<T>, d),
               old = Tensor::full({8}, 3, dtype_of<T>, d);
  swap(data, old);
  EXPECT_EQ(data.to_doubles(), (std::vector<double>{10, 0, 12, 0, 14, 0, 16, 0}));
  EXPECT_EQ(old.to_doubles(), std::vector<double>(8, 0));
}

TEST_P(Together, CompareAndSwapOfEveryWidth) {
  swap_in_one_step<i16>(GetParam());
  swap_in_one_step<bf16>(GetParam());
  swap_in_one_step<f32>(GetParam());
  swap_in_one_step<u32>(GetParam());
  swap_in_one_step<i64>(GetParam());
  swap_in_one_step<f64>(GetParam());
}

TEST_P(Together, Timers) {
  const auto time = kernel("time", [](Out<u64, 2> y) {
    for (auto r : grid(rows(y), 1)) {
      const Tile first = sm_clock(), now = global_timer();
      y(r, slice(0, 1)) = cast<u64>(sm_id());
      y(r, slice(1, 1)) = sm_clock() - first;
      y(r, slice(2, 1)) = global_timer() - now;
    }
  });
  const Tensor y = Tensor::empty({6, 3}, DType::u64, GetParam());
  time(y);
  const auto v = y.to_doubles();
  for (std::size_t r = 0; r < 6; ++r) {
    EXPECT_LT(v[3 * r], 256) << "an SM";
    EXPECT_GT(v[3 * r + 1], 0) << "cycles";
    EXPECT_LT(v[3 * r + 1], 1e9) << "cycles";
    EXPECT_LT(v[3 * r + 2], 1e9) << "nanoseconds";
  }
}

/// GPUs execute the PTX, the other devices its model.
TEST_P(Together, PtxWithAModel) {
  const auto mixed = kernel("mixed", [](In<u32, 1> x, Out<u32, 1> y) {
    for (auto i : grid(x, 64))
      y(i) = ptx<u32>(
          "mad.lo.u32 $0, $1, $2, $1;", "=r,r,r",
          [](const Tile& a, const Tile& b) { return a * b + a; }, x(i), cast<u32>(i.indices()));
  });
  const Tensor x = Tensor::iota({100}, DType::u32, GetParam()),
               y = Tensor::empty({100}, DType::u32, GetParam());
  mixed(x, y);
  EXPECT_EQ(y.to_doubles(), test::numbers(100, [](int i) { return i * (i + 1.0); }));
}

/// The error that `call` ends with.
template <class Call>
Diagnostic error_of(const Call& call) {
  try {
    call();
  } catch (const ProgramError& e) {
    return e.diagnostic();
  }
  return {};
}

/// A wait that nothing ends is an error with its line.
TEST(Deadlocks, AreFound) {
  const auto ring = kernel("ring", [](InOut<i32, 1> z, Ptr<i32> flags) {
                      for (auto i : grid(z, 1)) {
                        const Tile n = cast<i32>(i.first());
                        wait_until(flags + (n + 1) % 3, n + 5);
                        z(i) = 1;
                        atomic_store(flags + n, 7);
                      }
                    }).named("z", "flags");
  const auto lock =
      kernel("lock", [](InOut<i32, 1> z, Ptr<i32> word) {
        for (auto i : grid(z, 1)) {
          while_([&] { return atomic_cas(word, 0, 1, {}, MemoryOrder::acquire) != 0; }, [&] {});
          z(i) = 1;
        }
      }).named("z", "word");
  for (const Device d : {Device::cpu(), Device::sim()}) {
    const auto words = [&] { return Tensor::zeros({3}, DType::i32, d); };
    const Diagnostic waits = error_of([&] { ring(words(), words()); }),
                     spins = error_of([&] { lock(words(), words()); });
    EXPECT_EQ(waits.code, "T1308") << waits.message;
    EXPECT_EQ(spins.code, d.kind == DeviceKind::cpu ? "T1307" : "T1308") << spins.message;
    for (const Diagnostic& e : {waits, spins})
      EXPECT_TRUE(std::string_view(e.loc.file).ends_with("waiting_programs_test.cpp")) << e.message;
    EXPECT_NE(spins.message.find("word[0]"), std::string::npos) << spins.message;
  }
  EXPECT_EQ(error_of([&] {
              const Tensor t = Tensor::zeros({3}, DType::i32, Device::cpu());
              ring(t, Tensor::zeros({3}, DType::i32, Device::cpu()));
            }).message,
            "kernel ring on cpu: deadlock: wait_until waits until flags[1] is at least 5; it is 0, "
            "and no program changes it (program 0, 0, 0)");
}

}  // namespace
}  // namespace tegula::waiting_programs_test
