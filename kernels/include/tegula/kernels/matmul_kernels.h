#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tegula/configured_kernel.h"
#include "tegula/control.h"
#include "tegula/kernels/matmul.h"
#include "tegula/memory.h"
#include "tegula/stream_k.h"
#include "tegula/tile_ops.h"
#include "tegula/tiles.h"
#include "tegula/trailing_params.h"
#include "tegula/view.h"

/// GEMM kernels with an epilogue: data-parallel, batched, and three kinds of split-K.
namespace tegula::kernels::detail {

/// Compile-time variant of a GEMM kernel.
struct MatmulTraits : MatmulConfig {
  MatmulOptions options;
  /// CTAs of a cluster that splits k.
  int programs = 1;
  /// The previous kernel on the stream repacks operands and may still be running.
  bool after_repack = false;

  /// Call this before any access to memory, as earlier kernels may still read the results' memory.
  void wait_for_repack() const {
    if (after_repack) grid_dependency_wait();
  }
  /// Returns the accumulator with its rows along A's rows.
  Tile undo_swap_ab(const Tile& acc) const { return swap_ab ? acc.T() : acc; }
  friend auto operator<=>(const MatmulTraits&, const MatmulTraits&) = default;
};

/// Returns acc + a b for operands of type T.
template <class T>
Tile mma_accumulate(const MatmulOptions& options, const Arg& a, const Arg& b, const Tile& acc) {
  const Precision precision = options.tf32 ? Precision::tf32 : Precision::ieee;
  const bool is_f8 = size_bytes(dtype_of<T>) == 1 && dtype_of<Accumulator<T>> == DType::f32;
  return is_f8 && options.fp32_promotion ? acc + dot(a, b, {}, precision)
                                         : dot(a, b, acc, precision);
}

/// Result type of a GEMM that accumulates into C: C += epilogue(A B) for a C of type O, with one
/// atomic addition per element.
template <class O>
struct AddedTo {};

template <class O, int Rank>
struct ResultView : std::type_identity<Out<O, Rank>> {};
template <class O, int Rank>
struct ResultView<AddedTo<O>, Rank> : std::type_identity<InOut<O, Rank>> {};
template <class O, int Rank>
using Result = typename ResultView<O, Rank>::type;

template <class O, int Rank, class... At>
void store_result(const Arg& value, const Out<O, Rank>& C, const At&... at) {
  C(at...) = value;
}
template <class O, int Rank, class... At>
void store_result(const Arg& value, const InOut<O, Rank>& C, const At&... at) {
  atomic_add(C(at...), value);
}

/// One index per accumulator parameter of an epilogue; all accumulators are GEMMs with the same A.
template <class Fn>
using Products = std::make_index_sequence<run_end<Tile>(&Fn::operator(), 0)>;

template <class P, std::size_t>
using Repeated = P;

/// k-iterations of a mainloop: those of `range`, moved by `first`.
struct Iterations {
  tegula::detail::LoopRange range;
  std::optional<Tile> first = {};

  Iterations(const tegula::detail::LoopRange& all) : range(all) {}  // NOLINT: implicit
  Iterations(const tegula::detail::LoopRange& all, const Tile& from) : range(all), first(from) {}

  Index at(const Index& k) const { return first ? k.shifted(*first) : k; }
};

/// Returns part `number` of `parts` of the iterations over k. All parts have equal numbers of them,
/// as tiles that multicast must; those beyond the end of k add zeros.
inline Iterations equal_part(const Tile& k, int bk, const Tile& number, const Tile& parts) {
  const Tile extent = ((k + (bk - 1)) / bk + (parts - 1)) / parts * bk;
  return {steps(extent, bk), number * extent};
}

/// Mainloop over some k-iterations of A's rows `m` and columns `n` of each B. Accumulators have the
/// shape of the MMA's tiles: with swap A/B, A's rows are their columns.
template <class T, class ViewA, class... ViewB>
std::array<Tile, sizeof...(ViewB)> mainloop(const MatmulTraits& v, const Index& m, const Index& n,
                                            const Iterations& some, const ViewA& A,
                                            const ViewB&... B) {
  constexpr bool kSharesA = sizeof...(ViewB) > 1;
  const auto accumulator = [&](const auto& /*b*/) {
    return v.swap_ab ? zeros<Accumulator<T>>(v.bn, v.bm) : zeros<Accumulator<T>>(v.bm, v.bn);
  };
  std::array<Tile, sizeof...(ViewB)> sums{accumulator(B)...};
  for (auto i : some.range.stages(v.stages)) {
    const Index k = some.at(i);
    const Tile shared = kSharesA ? A(m, k) : Tile();
    const auto a = [&]() -> Tile { return kSharesA ? shared : A(m, k); };
    const auto add = [&](const auto& b, Tile& acc) {
      acc = v.swap_ab ? mma_accumulate<T>(v.options, b(k, n).T(), a().T(), acc)
                      : mma_accumulate<T>(v.options, a(), b(k, n), acc);
    };
    std::size_t product = 0;
    (add(B, sums[product++]), ...);
  }
  return sums;
}

/// C = epilogue(A B), or epilogue(A B.., one for each `I`). Each CTA of a cluster computes a slice
/// of k, then the epilogue of a slice of the tile.
template <class Indices, class T, class O, class Fn, class... Extra>
struct DataParallelMatmuls;
template <std::size_t... I, class T, class O, class Fn, class... Extra>
struct DataParallelMatmuls<std::index_sequence<I...>, T, O, Fn, Extra...> {
  Fn epilogue;
  MatmulTraits config{};
  PlanPatch plan() const { return config.plan(); }
  void operator()(In<T, 2> A, Repeated<In<T, 2>, I>... B, Result<O, 2> C, Extra... extra) const {
    const MatmulTraits& v = config;
    for (auto [m, n] : grid(C, v.bm, v.bn, group_m(v.group_m), cluster(v.programs))) {
      v.wait_for_repack();
      const auto mine = steps(A.cols(), v.bk).chunk(cluster_rank(), v.programs);
      auto sums = mainloop<T>(v, m, n, mine, A, B...);
      for (Tile& sum : sums)  // along the MMA's rows
        sum = cluster_reduce_scatter(v.undo_swap_ab(sum), v.swap_ab ? 1 : 0);
      const Index rows = v.swap_ab ? m : cluster_slice(m), cols = v.swap_ab ? cluster_slice(n) : n;
      const auto accs = std::tuple_cat(sums);
      store_result(call_with(epilogue, accs, Index(Tile(0), 1), rows, cols, extra...), C, rows,
                   cols);
    }
  }
};
template <class T, class O, class Fn, class... Extra>
using DataParallelMatmul = DataParallelMatmuls<Products<Fn>, T, O, Fn, Extra...>;

/// C[b] = epilogue(A[b] B[b]), or epilogue(A[b] B[b]..).
template <class Indices, class T, class O, class Fn, class... Extra>
struct BatchedMatmuls;
template <std::size_t... I, class T, class O, class Fn, class... Extra>
struct BatchedMatmuls<std::index_sequence<I...>, T, O, Fn, Extra...> {
  Fn epilogue;
  MatmulTraits config{};
  PlanPatch plan() const { return config.plan(); }
  void operator()(In<T, 3> A, Repeated<In<T, 3>, I>... B, Result<O, 3> C, Extra... extra) const {
    const MatmulTraits& v = config;
    for (auto [b, m, n] : grid(C, 1, v.bm, v.bn)) {
      v.wait_for_repack();
      auto sums = mainloop<T>(v, m, n, steps(A.dim(2), v.bk), A[b], B[b]...);
      for (Tile& sum : sums) sum = v.undo_swap_ab(sum);
      store_result(call_with(epilogue, std::tuple_cat(sums), b, m, n, extra...), C, b, m, n);
    }
  }
};
template <class T, class O, class Fn, class... Extra>
using BatchedMatmul = BatchedMatmuls<Products<Fn>, T, O, Fn, Extra...>;

/// P[s] = partial accumulator of A B over slice s of k, of ceil(steps / parts) k-iterations.
template <class T>
struct SplitKMatmul {
  MatmulTraits config{};
  PlanPatch plan() const { return config.plan(); }
  void operator()(In<T, 2> A, In<T, 2> B, Out<Accumulator<T>, 3> P) const {
    const MatmulTraits& v = config;
    for (auto [s, m, n] : grid(P, 1, v.bm, v.bn)) {
      grid_launch_dependents();
      v.wait_for_repack();
      const Iterations part = equal_part(A.cols(), v.bk, s.first(), P.dim(0));
      P(s, m, n) = v.undo_swap_ab(mainloop<T>(v, m, n, part, A, B)[0]);
    }
  }
};

/// C = epilogue(sum of all P[s]).
template <class T, class O, class Fn, class... Extra>
struct SplitKReduction {
  Fn epilogue;
  void operator()(In<Accumulator<T>, 3> P, Result<O, 2> C, Extra... extra) const {
    constexpr int kAtOnce = 4;  // loads in flight, as each takes a latency of the L2
    for (auto [m, n] : grid(C, 4, 256)) {
      grid_dependency_wait();
      Tile sum = zeros<Accumulator<T>>(4, 256);
      for (auto s : steps(P.dim(0), kAtOnce))
        for (int i = 0; i < kAtOnce; ++i) sum = sum + fill_absent(P(s.slice(i, 1), m, n), 0);
      store_result(call_with(epilogue, std::tie(sum), Index(Tile(0), 1), m, n, extra...), C, m, n);
    }
  }
};

/// C[b] = epilogue(A[b] B[b]) by stream-K: k-iterations (at least one) are divided evenly.
template <class T, class O, class Fn, class... Extra>
struct StreamKMatmul {
  Fn epilogue;
  MatmulTraits config{};
  void operator()(In<T, 3> A, In<T, 3> B, Result<O, 3> C, InOut<Accumulator<T>, 3> workspace,
                  Ptr<u32> arrivals, Scalar<i32> programs, Extra... extra) const {
    const MatmulTraits& v = config;
    workspace.static_dim(1), workspace.static_dim(2);
    for (auto p : grid(GridSpace(programs), 1)) {
      v.wait_for_repack();
      const auto tiles = tiles_of(C, 1, v.bm, v.bn, group_m(v.group_m));
      const StreamKScheduler mine(p, programs, tiles.count(), A.dim(2), v.bk);
      for (auto i : steps(mine.count(), 1)) {
        const StreamKWork s = mine.at(i);
        const auto [b, m, n] = tiles.at(s.tile);
        Tile sum = mainloop<T>(v, m, n, s.range(), A[b], B[b])[0];
        if_(fixup(sum, s, workspace, arrivals), [&] {
          const Tile acc = v.undo_swap_ab(sum);
          store_result(call_with(epilogue, std::tie(acc), b, m, n, extra...), C, b, m, n);
        });
      }
    }
  }
};

}  // namespace tegula::kernels::detail
