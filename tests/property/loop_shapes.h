#pragma once
// Twelve shapes of loops with dots, and a tile that is stored twice, on small integers: each is
// exact whatever the order of its sums.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/sim/simulator.h"
#include "dsl/instance.h"
#include "dsl/launcher.h"
#include "runtime/launch_args.h"
#include "runtime/make_recipe.h"
#include "tegula/tegula.h"

namespace tegula::test {

/// A kernel of two programs whose loop runs for as many iterations as its tensors say.
struct LoopShape {
  std::string name;
  std::function<std::vector<Tensor>(Device, int iterations)> args;
  std::function<void(const Stream&, const std::vector<Tensor>&)> call;
  std::function<ir::Kernel()> traced;  ///< as the last call left it
  std::size_t results = 1;             ///< the last arguments

  /// Results of the interpreter.
  std::vector<std::vector<double>> wanted(int iterations) const {
    const std::vector<Tensor> a = args(Device::cpu(), iterations);
    call(Stream(Device::cpu()), a);
    return results_of(a);
  }
  /// How a run in the simulator is wrong: a finding's name, or that values are; empty: it is not.
  std::string fault(const ir::Kernel& tile, const ir::Kernel& simt, int iterations,
                    const std::vector<std::vector<double>>& want, std::uint64_t seed) const {
    const std::vector<Tensor> a = args(Device::sim(), iterations);
    std::vector<runtime::LaunchArg> launched;
    sim::SimOptions options;
    options.seed = seed;
    options.loop_limit = 20'000;
    for (const Tensor& t : a) {
      launched.push_back({&t});
      const auto r = t.byte_range();
      options.ranges.push_back(
          {reinterpret_cast<const void*>(r.begin), reinterpret_cast<const void*>(r.end)});
    }
    std::vector<codegen::TensorMap> maps;
    const auto recipe = runtime::make_recipe(tile, simt);
    const int programs = simt.info.persistent ? 1 : 2;
    const auto report =
        sim::simulate(simt, {programs, 1, 1}, runtime::sim_args(recipe, launched, maps), options);
    if (!report.findings.empty()) return std::string(sim::name(report.findings.front().kind));
    return results_of(a) == want ? "" : "wrong values";
  }

 private:
  std::vector<std::vector<double>> results_of(const std::vector<Tensor>& a) const {
    std::vector<std::vector<double>> found;
    for (std::size_t i = a.size() - results; i < a.size(); ++i) found.push_back(a[i].to_doubles());
    return found;
  }
};

template <class K, std::size_t... I>
LoopShape loop_shape(std::string name, const K& kernel, std::size_t results,
                     std::function<std::vector<Tensor>(Device, int)> args,
                     std::index_sequence<I...>) {
  return {std::move(name), std::move(args),
          [kernel](const Stream& s, const std::vector<Tensor>& a) { kernel(s, a[I]...); },
          [kernel] { return ir::clone(kernel.instance().launcher.latest()->tile); }, results};
}
template <std::size_t N, class K>
LoopShape loop_shape(std::string name, const K& kernel, std::size_t results,
                     std::function<std::vector<Tensor>(Device, int)> args) {
  return loop_shape(std::move(name), kernel, results, std::move(args),
                    std::make_index_sequence<N>());
}

inline Tensor small(Device d, std::initializer_list<std::int64_t> shape, std::uint64_t seed) {
  return Tensor::integers(Dims(shape), DType::bf16, -1, 2, seed, d);
}
inline Tensor sums(Device d, std::initializer_list<std::int64_t> shape) {
  return Tensor::zeros(Dims(shape), DType::f32, d);
}
inline Tile clamped(const Tile& t) { return min(max(t, -2.0f), 2.0f); }

/// A block of rows and columns of 64, and as much along the loop.
inline constexpr int kSide = 64;

// ---- loops along k
inline LoopShape one_dot() {
  return loop_shape<3>("one dot",
                       kernel("one_dot",
                              [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
                                for (auto [m, n] : grid(C, kSide, kSide)) {
                                  auto acc = zeros<f32>(kSide, kSide);
                                  for (auto k : steps(A.cols(), kSide))
                                    acc = dot(A(m, k), B(k, n), acc);
                                  C(m, n) = acc;
                                }
                              }),
                       1, [](Device d, int n) {
                         return std::vector{small(d, {2 * kSide, kSide * n}, 1),
                                            small(d, {kSide * n, kSide}, 2),
                                            sums(d, {2 * kSide, kSide})};
                       });
}

/// Tiles of two warpgroups, each stored in bf16 and f32.
inline LoopShape stored_twice() {
  return loop_shape<4>("stored twice",
                       kernel("stored_twice",
                              [](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C, Out<f32, 2> D) {
                                for (auto [m, n] : grid(C, 2 * kSide, kSide)) {
                                  auto acc = zeros<f32>(2 * kSide, kSide);
                                  for (auto k : steps(A.cols(), kSide))
                                    acc = dot(A(m, k), B(k, n), acc);
                                  C(m, n) = acc;
                                  D(m, n) = acc;
                                }
                              }),
                       2, [](Device d, int n) {
                         return std::vector{small(d, {4 * kSide, kSide * n}, 1),
                                            small(d, {kSide * n, kSide}, 2),
                                            Tensor::zeros({4 * kSide, kSide}, DType::bf16, d),
                                            sums(d, {4 * kSide, kSide})};
                       });
}

inline LoopShape gated() {
  return loop_shape<4>(
      "gated",
      kernel("gated",
             [](In<bf16, 2> A, In<bf16, 2> B, In<bf16, 2> G, Out<f32, 2> C) {
               for (auto [m, n] : grid(C, kSide, kSide)) {
                 auto acc = zeros<f32>(kSide, kSide), gate = zeros<f32>(kSide, kSide);
                 for (auto k : steps(A.cols(), kSide)) {
                   const Tile a = A(m, k);
                   acc = dot(a, B(k, n), acc);
                   gate = dot(a, G(k, n), gate);
                 }
                 C(m, n) = acc * clamped(gate);
               }
             }),
      1, [](Device d, int n) {
        return std::vector{small(d, {2 * kSide, kSide * n}, 1), small(d, {kSide * n, kSide}, 2),
                           small(d, {kSide * n, kSide}, 3), sums(d, {2 * kSide, kSide})};
      });
}

inline LoopShape two_loops() {
  return loop_shape<5>(
      "two loops",
      kernel("two_loops",
             [](In<bf16, 2> A, In<bf16, 2> B, In<bf16, 2> D, In<bf16, 2> E, Out<f32, 2> C) {
               for (auto [m, n] : grid(C, kSide, kSide)) {
                 auto acc = zeros<f32>(kSide, kSide);
                 for (auto k : steps(A.cols(), kSide)) acc = dot(A(m, k), B(k, n), acc);
                 for (auto k : steps(D.cols(), kSide)) acc = dot(D(m, k), E(k, n), acc);
                 C(m, n) = acc;
               }
             }),
      1, [](Device d, int n) {
        return std::vector{small(d, {2 * kSide, kSide * n}, 1), small(d, {kSide * n, kSide}, 2),
                           small(d, {2 * kSide, 2 * kSide}, 3), small(d, {2 * kSide, kSide}, 4),
                           sums(d, {2 * kSide, kSide})};
      });
}

inline LoopShape under_if() {
  return loop_shape<4>("under if",
                       kernel("under_if",
                              [](In<bf16, 2> A, In<bf16, 2> B, In<i32, 1> runs, Out<f32, 2> C) {
                                for (auto [m, n] : grid(C, kSide, kSide)) {
                                  auto acc = zeros<f32>(kSide, kSide);
                                  if_(runs(m.first() / kSide) > 0, [&] {
                                    for (auto k : steps(A.cols(), kSide))
                                      acc = dot(A(m, k), B(k, n), acc);
                                  });
                                  C(m, n) = acc;
                                }
                              }),
                       1, [](Device d, int n) {
                         return std::vector{
                             small(d, {2 * kSide, kSide * n}, 1), small(d, {kSide * n, kSide}, 2),
                             Tensor::iota({2}, DType::i32, d), sums(d, {2 * kSide, kSide})};
                       });
}

inline LoopShape gathered() {
  return loop_shape<4>("gathered rows",
                       kernel("gathered",
                              [](In<bf16, 2> A, In<bf16, 2> B, In<i32, 1> rows, Out<f32, 2> C) {
                                for (auto [m, n] : grid(C, kSide, kSide)) {
                                  auto acc = zeros<f32>(kSide, kSide);
                                  const Tile from = rows(m);
                                  for (auto k : steps(A.cols(), kSide))
                                    acc = dot(A(from, k), B(k, n), acc);
                                  C(m, n) = acc;
                                }
                              }),
                       1, [](Device d, int n) {
                         return std::vector{small(d, {40, kSide * n}, 1),
                                            small(d, {kSide * n, kSide}, 2),
                                            Tensor::integers({2 * kSide}, DType::i32, 0, 40, 3, d),
                                            sums(d, {2 * kSide, kSide})};
                       });
}

// ---- loops along keys

/// Queries, keys and values of 64 columns; `step` is an iteration.
template <class Step>
LoopShape along_keys(const std::string& name, const Step& step) {
  return loop_shape<4>(name,
                       kernel("along_keys",
                              [=](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, Out<f32, 2> O) {
                                for (auto [m, n] : grid(O, kSide, kSide)) {
                                  const Tile q = Q(m, slice(0, kSide));
                                  Tile o = zeros<f32>(kSide, kSide);
                                  for (auto t : steps(K.rows(), kSide)) {
                                    const Tile k = K(t, slice(0, kSide));
                                    step(q, k, V, t, n, o);
                                  }
                                  O(m, n) = o;
                                }
                              }),
                       1, [](Device d, int n) {
                         return std::vector{
                             small(d, {2 * kSide, kSide}, 1), small(d, {kSide * n, kSide}, 2),
                             small(d, {kSide * n, kSide}, 3), sums(d, {2 * kSide, kSide})};
                       });
}

inline LoopShape back_to_back() {
  return along_keys("back to back", [](const Tile& q, const Tile& k, const In<bf16, 2>& V,
                                       const Index& t, const Index& n, Tile& o) {
    o = dot(cast<bf16>(clamped(dot(q, k.T()))), V(t, n), o);
  });
}
/// The sum so far changes its sign by rows, as a softmax rescales it.
inline LoopShape rescaled() {
  return along_keys("rescaled", [](const Tile& q, const Tile& k, const In<bf16, 2>& V,
                                   const Index& t, const Index& n, Tile& o) {
    const Tile s = dot(q, k.T());
    o = o * expand(where(max(s, axis(1)) > 3.0f, -1.0f, 1.0f), 1);
    o = dot(cast<bf16>(clamped(s)), V(t, n), o);
  });
}
inline LoopShape two_views() {
  return along_keys("two views of one load",
                    [](const Tile& q, const Tile& k, const In<bf16, 2>&, const Index&, const Index&,
                       Tile& o) { o = dot(cast<bf16>(clamped(dot(q, k.T()))), k, o); });
}
inline LoopShape three_in_a_row() {
  return along_keys("three in a row", [](const Tile& q, const Tile& k, const In<bf16, 2>& V,
                                         const Index& t, const Index& n, Tile& o) {
    const Tile s = cast<bf16>(clamped(dot(q, k.T())));
    o = dot(cast<bf16>(clamped(dot(s, V(t, n)))), k.T(), o);
  });
}

// ---- other graphs
inline LoopShape stationary() {
  return loop_shape<3>("stationary B",
                       kernel("stationary",
                              [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
                                for (auto n : grid(cols(C), kSide)) {
                                  const Tile b = B(slice(0, kSide), n);
                                  for (auto m : steps(A.rows(), kSide))
                                    C(m, n) = dot(A(m, slice(0, kSide)), b);
                                }
                              }),
                       1, [](Device d, int n) {
                         return std::vector{small(d, {kSide * n, kSide}, 1),
                                            small(d, {kSide, 2 * kSide}, 2),
                                            sums(d, {kSide * n, 2 * kSide})};
                       });
}

inline LoopShape linear_attention() {
  return loop_shape<4>(
      "linear attention",
      kernel("chunks",
             [](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, Out<f32, 2> O) {
               for (auto n : grid(cols(O), kSide)) {
                 Tile state = zeros<f32>(kSide, kSide);
                 for (auto t : steps(Q.rows(), kSide)) {
                   const Tile q = Q(t, slice(0, kSide)), k = K(t, slice(0, kSide)), v = V(t, n);
                   const Tile s = cast<bf16>(clamped(dot(q, k.T())));
                   O(t, n) = dot(s, v, dot(q, cast<bf16>(clamped(state))));
                   state = dot(k.T(), v, state);
                 }
               }
             }),
      1, [](Device d, int n) {
        return std::vector{small(d, {kSide * n, kSide}, 1), small(d, {kSide * n, kSide}, 2),
                           small(d, {kSide * n, 2 * kSide}, 3), sums(d, {kSide * n, 2 * kSide})};
      });
}

inline LoopShape five_products() {
  return loop_shape<7>("five products",
                       kernel("five_products",
                              [](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, In<bf16, 2> G,
                                 InOut<f32, 2> dQ, Out<f32, 2> dK, Out<f32, 2> dV) {
                                for (auto n : grid(rows(dK), kSide)) {
                                  const Tile k = K(n, slice(0, kSide)), v = V(n, slice(0, kSide));
                                  Tile dk = zeros<f32>(kSide, kSide), dv = zeros<f32>(kSide, kSide);
                                  for (auto m : steps(Q.rows(), kSide)) {
                                    const Tile q = Q(m, slice(0, kSide)), g = G(m, slice(0, kSide));
                                    const Tile p = clamped(dot(k, q.T()));
                                    dv = dot(cast<bf16>(p), g, dv);
                                    const Tile ds = cast<bf16>(p * clamped(dot(v, g.T())));
                                    dk = dot(ds, q, dk);
                                    atomic_add(dQ(m, slice(0, kSide)), dot(ds.T(), k));
                                  }
                                  dK(n, slice(0, kSide)) = dk;
                                  dV(n, slice(0, kSide)) = dv;
                                }
                              }),
                       3, [](Device d, int n) {
                         const auto loaded = [&](int rows, std::uint64_t seed) {
                           return small(d, {rows, kSide}, seed);
                         };
                         return std::vector{
                             loaded(kSide * n, 1),        loaded(2 * kSide, 2),
                             loaded(2 * kSide, 3),        loaded(kSide * n, 4),
                             sums(d, {kSide * n, kSide}), sums(d, {2 * kSide, kSide}),
                             sums(d, {2 * kSide, kSide})};
                       });
}

inline std::vector<LoopShape> loop_shapes() {
  return {one_dot(),        gated(),        two_loops(),        under_if(),
          gathered(),       back_to_back(), rescaled(),         two_views(),
          three_in_a_row(), stationary(),   linear_attention(), five_products()};
}

}  // namespace tegula::test
