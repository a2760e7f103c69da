#pragma once
// Programs that hand memory to one another by atomic operations, and programs of one CTA that have
// scratch of their own.
#include "tests/differential/memory_programs.h"

namespace tegula::test {

// ---- handed from program to program
/// Triton's backward of layer norm: rows add to one of several sums, which a lock guards. Each
/// thread meets its own elements of the sum; the release alone has a barrier.
inline MemoryProgram lock(Device d) {
  const auto k = kernel("lock", [](In<f32, 2> x, InOut<f32, 2> dw, Ptr<i32> locks) {
    for (auto r : grid(rows(x), 1)) {
      const Tile g = x(r, all);
      const Tile group = r.indices() % dw.rows();
      while_([&] { return atomic_xchg(locks + group, 1, {}, MemoryOrder::acquire) == 1; }, [&] {});
      dw(group, all) += g;
      atomic_xchg(locks + group, 0, {}, MemoryOrder::release);
    }
  });
  auto p = memory_program<3>(
      "lock", 1, k, {filled(d, {64, 8192}, 1), filled(d, {4, 8192}), filled(d, {4}, 0, DType::i32)},
      1, numbers(4 * 8192, [](int) { return 3 * 16; }), {false, false, true});
  p.programs = 64;
  p.calls = 3;
  return p;
}

/// Decoupled look-back: a program publishes its sum, then adds up those before it until one knows
/// the total. Thread 0 publishes the sum that it alone has stored. All threads have read when the
/// total is published, and another program may overwrite what they read: one barrier.
inline MemoryProgram look_back(Device d) {
  constexpr int kBlock = 4096, kBlocks = 12;
  const auto k = kernel(
      "look_back", [](In<f32, 1> x, Ptr<f32> sums, Ptr<f32> totals, Ptr<i32> flags, Out<f32, 1> y) {
        for (auto i : grid(x, kBlock)) {
          const Tile own = sum(x(i), axis(0)), number = cast<i32>(i.first()) / kBlock;
          store(sums + number, own);
          atomic_xchg(flags + number, 1, {}, MemoryOrder::release);
          Tile before = full<f32>(0), at = number - 1;
          while_([&] { return at >= 0; },
                 [&] {
                   while_([&] { return atomic_or(flags + at, 0, {}, MemoryOrder::acquire) == 0; },
                          [&] {});
                   if_(
                       atomic_or(flags + at, 0, {}, MemoryOrder::acquire) == 2,
                       [&] {
                         before += load(totals + at);
                         at = full<i32>(-1);
                       },
                       [&] {
                         before += load(sums + at);
                         at = at - 1;
                       });
                 });
          store(totals + number, before + own);
          atomic_xchg(flags + number, 2, {}, MemoryOrder::release);
          y(i) = x(i) + before;
        }
      });
  auto p = memory_program<5>(
      "look_back", 1, k,
      {filled(d, {kBlocks * kBlock}, 1), filled(d, {kBlocks}), filled(d, {kBlocks}),
       filled(d, {kBlocks}, 0, DType::i32), filled(d, {kBlocks * kBlock})},
      4, numbers(kBlocks * kBlock, [](int i) { return 1 + i / kBlock * kBlock; }),
      {false, true, true, true});
  p.programs = kBlocks;
  return p;
}

/// A program takes the next row there is, and adds to it the one above, which the program before it
/// has stored.
inline MemoryProgram ticket_and_flag(Device d) {
  constexpr int kRows = 32, kColumns = 2048;
  const auto k =
      kernel("ticket_and_flag", [](In<f32, 2> x, InOut<f32, 2> y, Ptr<i32> ticket, Ptr<i32> flags) {
        for ([[maybe_unused]] auto r : grid(rows(x), 1)) {
          const Tile row = atomic_add(ticket, 1);
          const auto c = slice(0, kColumns);
          Tile v = fill_absent(x(row, c), 0);
          if_(row > 0, [&] {
            while_([&] { return atomic_or(flags + (row - 1), 0, {}, MemoryOrder::acquire) == 0; },
                   [&] {});
            v = v + fill_absent(y(row - 1, c), 0);
          });
          y(row, c) = v;
          atomic_xchg(flags + row, 1, {}, MemoryOrder::release);
        }
      });
  auto p = memory_program<4>("ticket_and_flag", 1, k,
                             {filled(d, {kRows, kColumns}, 1), filled(d, {kRows, kColumns}),
                              filled(d, {1}, 0, DType::i32), filled(d, {kRows}, 0, DType::i32)},
                             1, numbers(kRows * kColumns, [](int i) { return i / kColumns + 1; }),
                             {false, false, true, true});
  p.programs = kRows;
  return p;
}

/// The last program of a group adds up the rows of the group, the last group their sums.
inline MemoryProgram arriver_chain(Device d) {
  constexpr int kGroups = 4, kRows = 5, kColumns = 2048;
  const auto k = kernel("arriver_chain", [](In<f32, 2> x, InOut<f32, 2> parts, InOut<f32, 2> sums,
                                            Ptr<u32> counters, InOut<f32, 1> z) {
    for (auto r : grid(rows(x), 1)) {
      const auto c = slice(0, kColumns);
      const Tile group = r.indices() / kRows;
      parts(r, c) = x(r, c) * 2;
      if_(arrive_and_test_last(counters + group, kRows), [&] {
        Tile all_rows = zeros<f32>(kColumns);
        for (auto j : steps(kRows, 1))
          all_rows += fill_absent(parts(group * kRows + cast<i32>(j.first()), c), 0);
        sums(group, c) = all_rows;
        if_(arrive_and_test_last(counters + kGroups, kGroups), [&] {
          Tile total = zeros<f32>(kColumns);
          for (auto j : steps(kGroups, 1)) total += fill_absent(sums(j, c), 0);
          z(c) += total;
        });
      });
    }
  });
  auto p =
      memory_program<5>("arriver_chain", 0, k,
                        {filled(d, {kGroups * kRows, kColumns}, 1),
                         filled(d, {kGroups * kRows, kColumns}), filled(d, {kGroups, kColumns}),
                         filled(d, {kGroups + 1}, 0, DType::u32), filled(d, {kColumns})},
                        4, numbers(kColumns, [](int) { return 2 * 2 * kGroups * kRows; }),
                        {false, false, false, true});
  p.programs = kGroups * kRows;
  p.calls = 2;
  return p;
}

// ---- scratch of a program that shares its CTA with others
inline constexpr int kSquareTile = 128, kSquareTiles = 4;

/// Each tile of the matmul is stored and loaded transposed.
inline auto product_through_memory(const char* name) {
  return kernel(name, [=](In<bf16, 2> a, In<bf16, 2> b, InOut<f32, 2> s, Out<f32, 2> z) {
    for (auto [m, n] : grid(z, kSquareTile, kSquareTile)) {
      Tile acc = zeros<f32>(kSquareTile, kSquareTile);
      for (auto k : steps(a.cols(), 64)) acc = dot(a(m, k), b(k, n), acc);
      s(m, n) = acc * cast<f32>(arange(kSquareTile) % 8).expand(1);
      z(m, n) = s(m, n).T();
    }
  });
}
template <class K>
MemoryProgram through_memory(const char* name, const K& k, Device d) {
  constexpr int kExtent = kSquareTile * kSquareTiles;
  return memory_program<4>(
      name, 1, k,
      {filled(d, {kExtent, 64}, 1, DType::bf16), filled(d, {64, kExtent}, 1, DType::bf16),
       filled(d, {kExtent, kExtent}), filled(d, {kExtent, kExtent})},
      3, numbers(kExtent * kExtent, [](int i) { return 64 * (i % kExtent % 8); }));
}
inline MemoryProgram persistent_scratch(Device d) {
  const auto k = product_through_memory("persistent_scratch").with_plan({.persistent = true});
  return through_memory("persistent_scratch", k, d);
}
inline MemoryProgram pingpong_scratch(Device d) {
  const auto k = product_through_memory("pingpong_scratch").prefer({.pingpong = true});
  return through_memory("pingpong_scratch", k, d);
}

inline constexpr MakeProgram kProgramsBetween[] = {
    lock, look_back, ticket_and_flag, arriver_chain, persistent_scratch, pingpong_scratch};

}  // namespace tegula::test
