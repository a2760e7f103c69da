#pragma once
// Programs that write memory and read or overwrite it again, with what they leave there.
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dsl/instance.h"
#include "dsl/launcher.h"
#include "tegula/tegula.h"

namespace tegula::test {

/// A kernel, its arguments, and the expected contents of one of them after a call.
struct MemoryProgram {
  std::string name;
  int barriers = 0;  ///< barriers that the pass memory_order places
  std::vector<Tensor> args;
  std::vector<bool> is_pointer;
  std::size_t result = 0;
  std::vector<double> want;
  std::function<std::shared_ptr<const runtime::CompiledKernel>(const Stream&)> call;
  int programs = 1;
  int calls = 1;                            ///< after which the argument holds that
  std::vector<std::uint64_t> scalars = {};  ///< bits of the arguments after the tensors
  std::vector<std::pair<std::size_t, std::vector<double>>> more_results = {};
};

template <class K, std::size_t... I>
MemoryProgram memory_program(std::string name, int barriers, const K& kernel,
                             std::vector<Tensor> args, std::vector<bool> is_pointer,
                             std::size_t result, std::vector<double> want,
                             std::index_sequence<I...>) {
  MemoryProgram p{std::move(name), barriers, std::move(args), std::move(is_pointer), result,
                  std::move(want), {}};
  p.call = [kernel, list = p.args](const Stream& stream) {
    kernel(stream, list[I]...);
    return kernel.instance().launcher.latest();
  };
  return p;
}
/// `result` is the argument that is compared; pointers are the arguments of type Ptr.
template <std::size_t N, class K>
MemoryProgram memory_program(std::string name, int barriers, const K& kernel,
                             std::vector<Tensor> args, std::size_t result, std::vector<double> want,
                             std::vector<bool> is_pointer = {}) {
  is_pointer.resize(N);
  return memory_program(std::move(name), barriers, kernel, std::move(args), std::move(is_pointer),
                        result, std::move(want), std::make_index_sequence<N>());
}

inline constexpr int kMany = 8192;

inline std::vector<double> numbers(int count, const std::function<double(int)>& of) {
  std::vector<double> list;
  for (int i = 0; i < count; ++i) list.push_back(of(i));
  return list;
}
inline Tensor iota(Device d, std::initializer_list<std::int64_t> shape, DType t = DType::f32) {
  return Tensor::iota(Dims(shape), t, d);
}
inline Tensor filled(Device d, std::initializer_list<std::int64_t> shape, double v = 0,
                     DType t = DType::f32) {
  return Tensor::full(Dims(shape), v, t, d);
}

/// One program of the grid.
template <class Body>
void once(const Body& body) {
  for ([[maybe_unused]] auto p : grid({1}, 1)) body();
}

// ---- in place
inline MemoryProgram reversed(Device d) {
  const auto k = kernel("reversed", [](InOut<f32, 1> y) {
    once([&] {
      const Tile v = y((kMany - 1) - arange(kMany));
      y(arange(kMany)) = v;
    });
  });
  return memory_program<1>("reversed", 1, k, {iota(d, {kMany})}, 0,
                           numbers(kMany, [](int i) { return kMany - 1 - i; }));
}
/// The author's barriers are where the compiler's would be, and in branches and loops.
inline MemoryProgram with_barriers(Device d) {
  const auto k = kernel("with_barriers", [](InOut<f32, 1> y, Ptr<i32> ends) {
    once([&] {
      for (auto t : steps(3, 1)) {
        const Tile v = y((kMany - 1) - arange(kMany));
        barrier();
        y(arange(kMany)) = v;
        if_(t.indices() < 2, [&] { barrier(); }, [&] { barrier(); });
      }
      atomic_add(ends, 1, {}, MemoryOrder::release);
    });
  });
  return memory_program<2>("with_barriers", 0, k, {iota(d, {kMany}), filled(d, {1}, 0, DType::i32)},
                           0, numbers(kMany, [](int i) { return kMany - 1 - i; }), {false, true});
}
inline MemoryProgram shifted(Device d) {
  const auto k = kernel("shifted", [](InOut<f32, 1> y) {
    once([&] {
      const auto c = slice(0, kMany);
      const Tile v = fill_absent(y(c.shifted(3000)), 0);
      y(c) = v;
    });
  });
  return memory_program<1>("shifted", 1, k, {iota(d, {kMany})}, 0,
                           numbers(kMany, [](int i) { return i + 3000 < kMany ? i + 3000 : 0; }));
}
inline MemoryProgram sorted(Device d) {
  constexpr int kCount = 512;
  const auto k = kernel("sorted", [](InOut<f32, 1> y) {
    once([&] {
      for (auto t : steps(kCount, 1)) {
        const auto i = arange(kCount);
        const auto p = where((i + cast<i32>(t.first())) % 2 == 0, i + 1, i - 1);
        const auto q = where(p >= 0 && p < kCount, p, i);
        const Tile a = y(i), b = y(q);
        y(i) = where(q > i, min(a, b), max(a, b));
      }
    });
  });
  const Tensor y = iota(d, {kCount}).flip(0).contiguous();
  return memory_program<1>("sorted", 2, k, {y}, 0, numbers(kCount, [](int i) { return i; }));
}

// ---- through a scratch
inline MemoryProgram by_pointer(Device d) {
  const auto k = kernel("by_pointer", [](Ptr<f32> s, In<f32, 1> x, Out<f32, 1> z) {
    once([&] {
      const auto i = arange(kMany);
      store(s + i, x(slice(0, kMany)));
      z(slice(0, kMany)) = load(s + ((kMany - 1) - i));
    });
  });
  return memory_program<3>("by_pointer", 1, k,
                           {filled(d, {kMany}), iota(d, {kMany}), filled(d, {kMany})}, 2,
                           numbers(kMany, [](int i) { return kMany - 1 - i; }), {true});
}
inline MemoryProgram transposed(Device d) {
  const auto k = kernel("transposed", [](Ptr<f32> s, In<f32, 2> x, Out<f32, 2> z) {
    once([&] {
      const auto r = arange(64).expand(1), c = arange(64).expand(0);
      store(s + (r * 64 + c), x(slice(0, 64), slice(0, 64)));
      z(slice(0, 64), slice(0, 64)) = load(s + (c * 64 + r));
    });
  });
  return memory_program<3>("transposed", 1, k,
                           {filled(d, {64, 64}), iota(d, {64, 64}), filled(d, {64, 64})}, 2,
                           numbers(4096, [](int i) { return i % 64 * 64 + i / 64; }), {true});
}
inline MemoryProgram prefix(Device d) {
  const auto k = kernel("prefix", [](In<f32, 1> x, InOut<f32, 1> y) {
    once([&] {
      const auto i = slice(0, 1024);
      y(i) = x(i);
      for (int off = 1; off < 1024; off *= 2) {
        const Tile v = y(i) + fill_absent(y(i.shifted(-off)), 0);
        y(i) = v;
      }
    });
  });
  return memory_program<2>("prefix", 20, k, {filled(d, {1024}, 1), filled(d, {1024})}, 1,
                           numbers(1024, [](int i) { return i + 1; }));
}

// ---- loops
inline MemoryProgram recurrence_shifted(Device d) {
  const auto k = kernel("recurrence_shifted", [](InOut<f32, 2> y) {
    once([&] {
      for (auto t : steps(1, y.rows(), 1)) {
        const auto c = slice(0, 4096);
        y(t, c) = y(t, c) + fill_absent(y(t.shifted(-1), c.shifted(-1)), 0);
      }
    });
  });
  return memory_program<1>(
      "recurrence_shifted", 1, k, {filled(d, {9, 4096}, 1)}, 0,
      numbers(9 * 4096, [](int i) { return std::min(i / 4096 + 1, i % 4096 + 1); }));
}
inline MemoryProgram stored_before_a_loop(Device d) {
  const auto k = kernel("stored_before_a_loop", [](InOut<f32, 1> s, InOut<f32, 1> z) {
    once([&] {
      const auto c = slice(0, 4096);
      s(c) = z(c) + 1;
      for (auto t : steps(5, 1)) z(c) += fill_absent(s(c.shifted(t.first() + 1)), 0);
    });
  });
  return memory_program<2>("stored_before_a_loop", 1, k, {filled(d, {4096}), filled(d, {4096})}, 1,
                           numbers(4096, [](int i) { return std::min(5, 4095 - i); }));
}
inline MemoryProgram nested_loops(Device d) {
  const auto k = kernel("nested_loops", [](InOut<f32, 1> s, Out<f32, 1> z) {
    once([&] {
      const auto c = slice(0, 2048);
      Tile sum = zeros<f32>(2048);
      for (auto t : steps(3, 1)) {
        s(c) = full<f32>(1, 2048) * cast<f32>(t.first() + 1);
        for (auto u : steps(2, 1)) sum += fill_absent(s(c.shifted(u.first() + 1)), 0);
      }
      z(c) = sum;
    });
  });
  return memory_program<2>("nested_loops", 2, k, {filled(d, {2048}), filled(d, {2048})}, 1,
                           numbers(2048, [](int i) { return 6 * std::min(2, 2047 - i); }));
}
inline MemoryProgram no_step(Device d) {
  const auto k = kernel("no_step", [](InOut<f32, 1> s, InOut<i32, 1> n, Out<f32, 1> z) {
    once([&] {
      const auto c = slice(0, 4096);
      s(c) = full<f32>(2, 4096);
      for (auto t : steps(n(0), 1)) s(c.shifted(t.first())) = full<f32>(1, 4096);
      z(c) = fill_absent(s(c.shifted(1)), 0);
    });
  });
  return memory_program<3>("no_step", -1, k,
                           {filled(d, {4096}), filled(d, {1}, 0, DType::i32), filled(d, {4096})}, 2,
                           numbers(4096, [](int i) { return i == 4095 ? 0 : 2; }));
}

// ---- branches
inline MemoryProgram stored_in_a_branch(Device d) {
  const auto k = kernel("stored_in_a_branch", [](In<i32, 1> n, InOut<f32, 1> s, Out<f32, 1> z) {
    once([&] {
      const auto c = slice(0, 4096);
      if_(n(0) > 0, [&] { s(c) = full<f32>(3, 4096); });
      z(c) = fill_absent(s(c.shifted(1)), 0);
    });
  });
  return memory_program<3>("stored_in_a_branch", 1, k,
                           {filled(d, {1}, 1, DType::i32), filled(d, {4096}), filled(d, {4096})}, 2,
                           numbers(4096, [](int i) { return i == 4095 ? 0 : 3; }));
}
inline MemoryProgram read_in_a_branch(Device d) {
  const auto k = kernel("read_in_a_branch", [](In<i32, 1> n, InOut<f32, 1> s, Out<f32, 1> z) {
    once([&] {
      const auto c = slice(0, 4096);
      Tile v = zeros<f32>(4096);
      if_(n(0) > 0, [&] { v = fill_absent(s(c.shifted(1)), 0); });
      s(c) = full<f32>(3, 4096);
      z(c) = v;
    });
  });
  return memory_program<3>("read_in_a_branch", 1, k,
                           {filled(d, {1}, 1, DType::i32), iota(d, {4096}), filled(d, {4096})}, 2,
                           numbers(4096, [](int i) { return i == 4095 ? 0 : i + 1; }));
}

// ---- one thread and many
inline MemoryProgram scalar_out_and_in(Device d) {
  const auto k = kernel("scalar_out_and_in", [](InOut<f32, 1> s, In<f32, 1> x, Out<f32, 1> z) {
    once([&] {
      const auto c = slice(0, 4096);
      s(0) = x(7);
      z(c) = x(c) + s(0);
    });
  });
  return memory_program<3>("scalar_out_and_in", 1, k,
                           {filled(d, {1}), iota(d, {4096}), filled(d, {4096})}, 2,
                           numbers(4096, [](int i) { return i + 7; }));
}
inline MemoryProgram row_sums_out_and_in(Device d) {
  const auto k = kernel("row_sums_out_and_in", [](In<f32, 2> x, InOut<f32, 1> s, Out<f32, 2> z) {
    once([&] {
      const auto r = slice(0, 64), c = slice(0, 256);
      const Tile t = x(r, c);
      s(r) = sum(t, axis(1));
      z(r, c) = t + s(r).expand(1);
    });
  });
  return memory_program<3>("row_sums_out_and_in", 1, k,
                           {filled(d, {64, 256}, 1), filled(d, {64}), filled(d, {64, 256})}, 2,
                           numbers(64 * 256, [](int) { return 257; }));
}

// ---- scatters and atomics
inline Tensor quarter(Device d) {  // 0 0 0 0 1 1 1 1 ..
  const auto list = numbers(4096, [](int i) { return i / 4; });
  std::vector<i32> ints(list.begin(), list.end());
  return Tensor::from(ints, Dims{4096}, d);
}
inline MemoryProgram scatter_and_load(Device d) {
  const auto k = kernel("scatter_and_load", [](In<i32, 1> at, Ptr<f32> s, Out<f32, 1> z) {
    once([&] {
      const auto c = slice(0, 4096);
      const Tile q = s + at(c) % 1024;
      store(q, cast<f32>(at(c) * 0 + 5));
      z(c) = load(q);
    });
  });
  return memory_program<3>("scatter_and_load", 1, k,
                           {iota(d, {4096}, DType::i32), filled(d, {1024}), filled(d, {4096})}, 2,
                           numbers(4096, [](int) { return 5; }), {false, true});
}
inline MemoryProgram scatter_and_box(Device d) {
  const auto k = kernel("scatter_and_box", [](In<i32, 1> at, InOut<f32, 1> s, Out<f32, 1> z) {
    once([&] {
      const auto c = slice(0, 4096);
      s(4095 - at(c)) = cast<f32>(at(c));
      z(c) = s(c);
    });
  });
  return memory_program<3>("scatter_and_box", 1, k,
                           {quarter(d), filled(d, {4096}), filled(d, {4096})}, 2,
                           numbers(4096, [](int i) { return i >= 3072 ? 4095 - i : 0; }));
}
inline MemoryProgram box_and_scatter(Device d) {
  const auto k = kernel("box_and_scatter", [](In<i32, 1> at, InOut<f32, 1> s) {
    once([&] {
      const auto c = slice(0, 4096);
      s(c) = full<f32>(-1, 4096);
      s(4095 - at(c)) = cast<f32>(at(c));
    });
  });
  return memory_program<2>("box_and_scatter", 1, k, {quarter(d), filled(d, {4096})}, 1,
                           numbers(4096, [](int i) { return i >= 3072 ? 4095 - i : -1; }));
}
inline MemoryProgram histogram(Device d) {
  const auto k = kernel("histogram", [](In<i32, 1> at, InOut<i32, 1> h, Out<i32, 1> z) {
    once([&] {
      atomic_add(h(at(slice(0, 4096)) % 64), 1);
      z(slice(0, 64)) = h(slice(0, 64));
    });
  });
  return memory_program<3>(
      "histogram", 1, k,
      {quarter(d), filled(d, {64}, 0, DType::i32), filled(d, {64}, 0, DType::i32)}, 2,
      numbers(64, [](int) { return 64; }));
}
inline MemoryProgram old_values(Device d) {
  const auto k = kernel("old_values", [](In<i32, 1> at, Ptr<i32> h, Out<i32, 1> z) {
    once([&] {
      const Tile q = h + at(slice(0, 4096)) % 64;
      atomic_add(q, 1);
      const Tile old = atomic_add(q, 1);
      z(0) = sum(old, axis(0));
    });
  });
  return memory_program<3>(
      "old_values", 1, k,
      {quarter(d), filled(d, {64}, 0, DType::i32), filled(d, {1}, 0, DType::i32)}, 2,
      {64 * (64 * 64 + 64 * 63 / 2)}, {false, true});
}
inline MemoryProgram words_of_one_thread(Device d) {
  const auto k = kernel("words_of_one_thread", [](Ptr<i32> w) {
    once([&] {
      atomic_or(w, 6);
      atomic_xchg(w, 1);
      atomic_or(w, 8);
    });
  });
  return memory_program<1>("words_of_one_thread", 0, k, {filled(d, {1}, 0, DType::i32)}, 0, {9},
                           {true});
}

// ---- products
inline MemoryProgram product_of_own_scratch(Device d) {
  const auto k =
      kernel("product_of_own_scratch", [](In<bf16, 2> x, InOut<bf16, 2> s, Out<f32, 2> z) {
        once([&] {
          const auto r = slice(0, 64);
          for (auto c : steps(256, 64)) s(r, c) = x(r, c);
          Tile acc = zeros<f32>(64, 64);
          for (auto c : steps(256, 64)) acc = dot(s(r, c), s(r, c).T(), acc);
          z(r, r) = acc;
        });
      });
  return memory_program<3>("product_of_own_scratch", -1, k,
                           {filled(d, {64, 256}, 1, DType::bf16),
                            filled(d, {64, 256}, 0, DType::bf16), filled(d, {64, 64})},
                           2, numbers(4096, [](int) { return 256; }));
}
inline MemoryProgram product_and_read(Device d) {
  const auto k =
      kernel("product_and_read", [](In<bf16, 2> a, In<bf16, 2> b, InOut<f32, 2> c, Out<f32, 2> z) {
        for (auto [m, n] : grid(c, 128, 128)) {
          Tile acc = zeros<f32>(128, 128);
          for (auto s : steps(a.cols(), 64)) acc = dot(a(m, s), b(s, n), acc);
          c(m, n) = acc;
          z(m, n) = fill_absent(c(m.shifted(1), n), 0) + fill_absent(c(m, n.shifted(1)), 0);
        }
      });
  return memory_program<4>(
      "product_and_read", -1, k,
      {filled(d, {128, 256}, 1, DType::bf16), filled(d, {256, 128}, 1, DType::bf16),
       filled(d, {128, 128}), filled(d, {128, 128})},
      3, numbers(128 * 128, [](int i) { return 256 * ((i / 128 < 127) + (i % 128 < 127)); }));
}
inline MemoryProgram product_stored_again(Device d) {
  const auto k = kernel("product_stored_again", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 128, 128))
      for (auto t : steps(3, 1)) {
        Tile acc = zeros<f32>(128, 128);
        for (auto s : steps(a.cols(), 64)) acc = dot(a(m, s), b(s, n), acc);
        c(m, n) = acc * cast<f32>(t.first());
      }
  });
  return memory_program<3>("product_stored_again", 0, k,
                           {filled(d, {128, 256}, 1, DType::bf16),
                            filled(d, {256, 128}, 1, DType::bf16), filled(d, {128, 128})},
                           2, numbers(128 * 128, [](int) { return 512; }));
}

// ---- near misses: each thread accesses only its own elements
inline MemoryProgram own_elements(Device d) {
  const auto k = kernel("own_elements", [](In<f32, 1> x, InOut<f32, 1> y, Out<f32, 1> z) {
    for (auto i : grid(x, 1024)) {
      y(i) = x(i);
      z(i) = y(i) + 1;
    }
  });
  return memory_program<3>("own_elements", 0, k,
                           {iota(d, {4096}), filled(d, {4096}), filled(d, {4096})}, 2,
                           numbers(4096, [](int i) { return i + 1; }));
}
inline MemoryProgram own_rows(Device d) {
  const auto k = kernel("own_rows", [](InOut<f32, 2> y) {
    once([&] {
      for (auto t : steps(1, y.rows(), 1)) {
        const auto c = slice(0, 4096);
        y(t, c) = y(t, c) + y(t.shifted(-1), c);
      }
    });
  });
  return memory_program<1>("own_rows", 0, k, {filled(d, {5, 4096}, 1)}, 0,
                           numbers(5 * 4096, [](int i) { return i / 4096 + 1; }));
}
inline MemoryProgram own_product(Device d) {
  const auto k = kernel("own_product", [](In<bf16, 2> a, In<bf16, 2> b, InOut<f32, 2> c) {
    for (auto [m, n] : grid(c, 128, 128)) {
      Tile acc = zeros<f32>(128, 128);
      for (auto s : steps(a.cols(), 64)) acc = dot(a(m, s), b(s, n), acc);
      c(m, n) += acc;
    }
  });
  return memory_program<3>("own_product", 0, k,
                           {filled(d, {128, 256}, 1, DType::bf16),
                            filled(d, {256, 256}, 1, DType::bf16), filled(d, {128, 256}, 1)},
                           2, numbers(128 * 256, [](int) { return 257; }));
}

using MakeProgram = MemoryProgram (*)(Device);
inline constexpr MakeProgram kMemoryPrograms[] = {reversed,
                                                  with_barriers,
                                                  shifted,
                                                  sorted,
                                                  by_pointer,
                                                  transposed,
                                                  prefix,
                                                  recurrence_shifted,
                                                  nested_loops,
                                                  stored_before_a_loop,
                                                  no_step,
                                                  read_in_a_branch,
                                                  stored_in_a_branch,
                                                  scalar_out_and_in,
                                                  histogram,
                                                  row_sums_out_and_in,
                                                  scatter_and_load,
                                                  scatter_and_box,
                                                  box_and_scatter,
                                                  old_values,
                                                  product_and_read,
                                                  words_of_one_thread,
                                                  own_elements,
                                                  own_rows,
                                                  product_of_own_scratch,
                                                  own_product,
                                                  product_stored_again};

}  // namespace tegula::test
