#pragma once
#include <tuple>

#include "tegula/configured_kernel.h"
#include "tegula/control.h"
#include "tegula/kernels/matmul.h"
#include "tegula/stream_k.h"
#include "tegula/tile_ops.h"
#include "tegula/tiles.h"
#include "tegula/view.h"

/// GEMM kernels around an epilogue: data-parallel, batched, split-K in three ways.
namespace tegula::detail {

/// Compile-time variant of a GEMM kernel.
struct MatmulTraits : MatmulConfig {
  MatmulOptions options;
  /// CTAs of a cluster that divides k.
  int programs = 1;
  /// The previous kernel on the stream repacks its operands, and may not have ended.
  bool after_repack = false;

  /// Before anything is read or written, results that an earlier kernel may still read among it.
  void wait_for_repack() const {
    if (after_repack) grid_dependency_wait();
  }
  /// The accumulator with A's rows along its rows.
  Tile undo_swap_ab(const Tile& acc) const { return swap_ab ? acc.T() : acc; }
  friend auto operator<=>(const MatmulTraits&, const MatmulTraits&) = default;
};

/// acc + a b of operands of T.
template <class T>
Tile mma_accumulate(const MatmulOptions& options, const Arg& a, const Arg& b, const Tile& acc) {
  const Precision precision = options.tf32 ? Precision::tf32 : Precision::ieee;
  const bool is_f8 = size_bytes(dtype_of<T>) == 1 && dtype_of<Accumulator<T>> == DType::f32;
  return is_f8 && options.fp32_promotion ? acc + dot(a, b, {}, precision)
                                         : dot(a, b, acc, precision);
}

/// Mainloop of A's rows `m` and B's columns `n` over some k-iterations. The accumulator is as the
/// tensor cores have it: with swap A/B, A's rows lie along its columns.
template <class T, class ViewA, class ViewB>
Tile mainloop(const MatmulTraits& v, const ViewA& A, const ViewB& B, const Index& m, const Index& n,
              const LoopRange& some) {
  Tile acc = v.swap_ab ? zeros<Accumulator<T>>(v.bn, v.bm) : zeros<Accumulator<T>>(v.bm, v.bn);
  for (auto k : some.stages(v.stages))
    acc = v.swap_ab ? mma_accumulate<T>(v.options, B(k, n).T(), A(m, k).T(), acc)
                    : mma_accumulate<T>(v.options, A(m, k), B(k, n), acc);
  return acc;
}

/// C = epilogue(A B). The programs of a cluster take a slice of k each, then one of the tile.
template <class T, class O, class Fn, class... Extra>
struct DataParallelMatmul {
  Fn epilogue;
  MatmulTraits config{};
  PlanPatch plan() const { return config.plan(); }
  void operator()(In<T, 2> A, In<T, 2> B, Out<O, 2> C, Extra... extra) const {
    const MatmulTraits& v = config;
    for (auto [m, n] : grid(C, v.bm, v.bn, group_m(v.group_m), cluster(v.programs))) {
      v.wait_for_repack();
      const auto mine = steps(A.cols(), v.bk).chunk(cluster_rank(), v.programs);
      const Tile acc = v.undo_swap_ab(mainloop<T>(v, A, B, m, n, mine));
      const Tile sum = cluster_reduce_scatter(acc, v.swap_ab ? 1 : 0);  // along the MMA's rows
      const Index rows = v.swap_ab ? m : cluster_slice(m), cols = v.swap_ab ? cluster_slice(n) : n;
      C(rows, cols) = call_with(epilogue, std::tie(sum), Index(Tile(0), 1), rows, cols, extra...);
    }
  }
};

/// C[b] = epilogue(A[b] B[b]).
template <class T, class O, class Fn, class... Extra>
struct BatchedMatmul {
  Fn epilogue;
  MatmulTraits config{};
  PlanPatch plan() const { return config.plan(); }
  void operator()(In<T, 3> A, In<T, 3> B, Out<O, 3> C, Extra... extra) const {
    const MatmulTraits& v = config;
    for (auto [b, m, n] : grid(C, 1, v.bm, v.bn)) {
      v.wait_for_repack();
      const Tile sum = v.undo_swap_ab(mainloop<T>(v, A[b], B[b], m, n, steps(A.dim(2), v.bk)));
      C(b, m, n) = call_with(epilogue, std::tie(sum), b, m, n, extra...);
    }
  }
};

/// P[s] = the partial accumulator of A B over the k-iterations from s * ceil(steps / parts) on.
template <class T>
struct SplitKMatmul {
  MatmulTraits config{};
  void operator()(In<T, 2> A, In<T, 2> B, Out<Accumulator<T>, 3> P) const {
    const MatmulTraits& v = config;
    for (auto [s, m, n] : grid(P, 1, v.bm, v.bn)) {
      grid_launch_dependents();
      v.wait_for_repack();
      const auto part = steps(A.cols(), v.bk).chunk(s.first(), P.dim(0));
      P(s, m, n) = v.undo_swap_ab(mainloop<T>(v, A, B, m, n, part));
    }
  }
};

/// C = epilogue(sum of all P[s]).
template <class T, class O, class Fn, class... Extra>
struct SplitKReduction {
  Fn epilogue;
  void operator()(In<Accumulator<T>, 3> P, Out<O, 2> C, Extra... extra) const {
    for (auto [m, n] : grid(C, 4, 256)) {
      grid_dependency_wait();
      Tile sum = zeros<Accumulator<T>>(4, 256);
      for (auto s : steps(P.dim(0), 1)) sum = sum + P(s, m, n);
      C(m, n) = call_with(epilogue, std::tie(sum), Index(Tile(0), 1), m, n, extra...);
    }
  }
};

/// C[b] = epilogue(A[b] B[b]) by stream-K: k-iterations, one at least, are divided evenly.
template <class T, class O, class Fn, class... Extra>
struct StreamKMatmul {
  Fn epilogue;
  MatmulTraits config{};
  void operator()(In<T, 3> A, In<T, 3> B, Out<O, 3> C, InOut<Accumulator<T>, 3> workspace,
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
        Tile sum = mainloop<T>(v, A[b], B[b], m, n, s.range());
        if_(fixup(sum, s, workspace, arrivals), [&] {
          C(b, m, n) =
              call_with(epilogue, std::forward_as_tuple(v.undo_swap_ab(sum)), b, m, n, extra...);
        });
      }
    }
  }
};

}  // namespace tegula::detail
