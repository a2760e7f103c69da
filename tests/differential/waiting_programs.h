#pragma once
// Programs that wait for one another by loads, stores, compare and swap, and what is made of these.
#include <algorithm>
#include <limits>

#include "tegula/look_back.h"
#include "tests/differential/memory_programs.h"

namespace tegula::test {

/// Programs pass in the order of their tickets, each with what the one before has left.
inline MemoryProgram turnstile(Device d) {
  constexpr int kTurns = 48, kColumns = 512;
  const auto k = kernel("turnstile", [](InOut<i32, 2> y, Ptr<u32> counters) {
    for ([[maybe_unused]] auto r : grid(GridSpace({kTurns}), 1)) {
      const Tile turn = ticket(counters, kTurns);
      const Turnstile pass(counters + 1);
      pass.enter(turn);
      const Index row = slice(0, 1), columns = slice(0, kColumns);
      y(row, columns) = y(row, columns) * 3 + turn;
      pass.leave(turn, kTurns);
    }
  });
  std::int64_t last = 0;
  for (int call = 0; call < 2; ++call)
    for (int i = 0; i < kTurns; ++i) last = static_cast<std::int32_t>(last * 3 + i);
  auto p = memory_program<2>(
      "turnstile", 2, k, {filled(d, {1, kColumns}, 0, DType::i32), filled(d, {2}, 0, DType::u32)},
      0, numbers(kColumns, [&](int) { return static_cast<double>(last); }), {false, true});
  p.programs = kTurns;
  p.calls = 2;
  return p;
}

/// Every second program waits until the one before has written a row in two parts.
inline MemoryProgram semaphore(Device d) {
  constexpr int kPairs = 10, kColumns = 1024;
  const auto k = kernel("semaphore", [](InOut<f32, 2> y, Ptr<i32> counters, Out<f32, 2> z) {
    for (auto r : grid(GridSpace({2 * kPairs}), 1)) {
      const Tile pair = cast<i32>(r.first()) / 2;
      const Index row = slice(pair, 1), first = slice(0, kColumns / 2),
                  second = slice(kColumns / 2, kColumns / 2);
      const Semaphore written(counters + pair);
      if_(
          r.first() % 2 == 0,
          [&] {
            y(row, first) = 1;
            written.signal();
            y(row, second) = 2;
            written.signal(2);
          },
          [&] {
            written.wait(3);
            z(row, slice(0, kColumns)) = y(row, (kColumns - 1) - arange(kColumns));
          });
    }
  });
  auto p = memory_program<3>(
      "semaphore", 3, k,
      {filled(d, {kPairs, kColumns}), filled(d, {kPairs}, 0, DType::i32),
       filled(d, {kPairs, kColumns})},
      2, numbers(kPairs * kColumns, [](int i) { return i % kColumns < kColumns / 2 ? 2 : 1; }),
      {false, true});
  p.programs = 2 * kPairs;
  return p;
}

/// Programs wait for later ones: few enough to be resident.
inline MemoryProgram backwards(Device d) {
  constexpr int kPrograms = 12;
  const auto k = kernel("backwards", [](InOut<i32, 1> y, Ptr<i64> flags) {
    for (auto i : grid(y, 1)) {
      const Tile n = cast<i32>(i.first());
      if_(n < kPrograms - 1, [&] {
        wait_until(flags + (n + 1), 7, Until::equal);
        y(i) = y(slice(n + 1, 1)) * 2 + n;
      });
      atomic_store(flags + n, 7);
    }
  });
  std::vector<double> want(kPrograms, 1);
  for (int n = kPrograms - 2; n >= 0; --n)
    want[static_cast<std::size_t>(n)] = want[static_cast<std::size_t>(n) + 1] * 2 + n;
  auto p = memory_program<2>(
      "backwards", -1, k,
      {filled(d, {kPrograms}, 1, DType::i32), filled(d, {kPrograms}, 0, DType::i64)}, 0, want,
      {false, true});
  p.programs = kPrograms;
  return p;
}

/// A lock by compare and swap, which an atomic load watches.
inline MemoryProgram cas_lock(Device d) {
  constexpr int kPrograms = 40, kColumns = 2048;
  const auto k = kernel("cas_lock", [](InOut<f32, 2> y, Ptr<u32> lock) {
    for ([[maybe_unused]] auto r : grid(GridSpace({kPrograms}), 1)) {
      while_([&] { return atomic_cas(lock, 0, 1, {}, MemoryOrder::acquire) != 0; },
             [&] { wait_until(lock, 0, Until::equal); });
      const Index row = slice(0, 1), columns = slice(0, kColumns);
      y(row, columns) = y(row, columns) + 1;
      atomic_store(lock, 0);
    }
  });
  auto p = memory_program<2>("cas_lock", -1, k,
                             {filled(d, {1, kColumns}), filled(d, {1}, 0, DType::u32)}, 0,
                             numbers(kColumns, [](int) { return kPrograms; }), {false, true});
  p.programs = kPrograms;
  return p;
}

constexpr int kScanBlock = 256, kScanTiles = 40;

/// A scan over the whole device in one pass.
inline MemoryProgram device_scan(Device d) {
  constexpr int kElements = kScanBlock * kScanTiles - 100;
  const auto k =
      kernel("device_scan", [](In<i32, 1> x, Out<i32, 1> y, Ptr<u64> words, Ptr<u32> counter) {
        for ([[maybe_unused]] auto i : grid(x, kScanBlock)) {
          const Tile number = ticket(counter, cdiv(x.dim(0), kScanBlock));
          const Index own = slice(number * kScanBlock, kScanBlock);
          const Tile v = x(own);
          const auto plus = [](const Tile& a, const Tile& b) { return a + b; };
          const Tile before = LookBack<i32>(words).before(number, sum(v, axis(0)), 0, plus);
          y(own) = before + cumsum(v, axis(0));
        }
      });
  auto p = memory_program<4>(
      "device_scan", -1, k,
      {iota(d, {kElements}, DType::i32), filled(d, {kElements}, 0, DType::i32),
       filled(d, {kScanTiles}, 0, DType::u64), filled(d, {1}, 0, DType::u32)},
      1, numbers(kElements, [](int i) { return i * (i + 1.0) / 2; }), {false, false, true, true});
  p.programs = kScanTiles;
  return p;
}

/// Largest element before a tile, of each of 16 columns.
inline MemoryProgram column_maximum(Device d) {
  constexpr int kColumns = 16, kTiles = 24, kRows = 8;
  const auto k = kernel("column_maximum", [](In<f32, 2> x, Out<f32, 2> y, Ptr<u64> words) {
    for (auto r : grid(rows(x), kRows)) {
      const Tile number = cast<i32>(r.first()) / kRows, v = x(r, all);
      const auto larger = [](const Tile& a, const Tile& b) { return max(a, b); };
      const Tile before = LookBack<f32>(words).before(number, max(v, axis(0)), -inf, larger);
      y(slice(number, 1), all) = before;
    }
  });
  std::vector<double> x, want;
  std::vector<double> top(kColumns, -std::numeric_limits<double>::infinity());
  std::uint32_t state = 7;
  for (int r = 0; r < kRows * kTiles; ++r) {
    if (r % kRows == 0) want.insert(want.end(), top.begin(), top.end());
    for (int c = 0; c < kColumns; ++c) {
      state = state * 1664525u + 1013904223u;
      x.push_back(static_cast<double>(state >> 20) - 2000);
      top[static_cast<std::size_t>(c)] = std::max(top[static_cast<std::size_t>(c)], x.back());
    }
  }
  std::vector<f32> given(x.begin(), x.end());
  auto p = memory_program<3>(
      "column_maximum", -1, k,
      {Tensor::from(given, {kRows * kTiles, kColumns}, d), filled(d, {kTiles, kColumns}),
       filled(d, {kTiles * kColumns}, 0, DType::u64)},
      1, want, {false, false, true});
  p.programs = kTiles;
  return p;
}

/// Values and a flag, both handed over by atomics alone.
inline MemoryProgram handed_by_tiles(Device d) {
  constexpr int kSize = 300;
  const auto k = kernel("handed_by_tiles", [](Ptr<f32> data, Ptr<u32> flag, Out<f32, 1> y) {
    for (auto i : grid(GridSpace({2}), 1)) {
      const Tile at = arange(kSize);
      if_(
          i.first() == 0,
          [&] {
            atomic_store(data + at, cast<f32>(at) * 2, at < kSize - 1, MemoryOrder::relaxed);
            atomic_store(flag, 1);
          },
          [&] {
            while_([&] { return atomic_load(flag) == 0; }, [&] {});
            const Tile reversed = (kSize - 1) - at;
            const Tile v = atomic_load(data + reversed, {}, MemoryOrder::relaxed);
            y(slice(0, kSize)) = v;
          });
    }
  });
  auto p = memory_program<3>(
      "handed_by_tiles", -1, k,
      {filled(d, {kSize}, 5), filled(d, {1}, 0, DType::u32), filled(d, {kSize})}, 2,
      numbers(kSize, [](int i) { return i == 0 ? 5 : 2.0 * (kSize - 1 - i); }), {true, true});
  p.programs = 2;
  return p;
}

inline constexpr MakeProgram kWaitingPrograms[] = {
    turnstile, semaphore, backwards, cas_lock, device_scan, column_maximum, handed_by_tiles};

}  // namespace tegula::test
