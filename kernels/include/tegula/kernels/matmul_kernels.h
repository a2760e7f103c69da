#pragma once
#include <tuple>

#include "tegula/configured.h"
#include "tegula/control.h"
#include "tegula/even_steps.h"
#include "tegula/kernels/matmul.h"
#include "tegula/tile_ops.h"
#include "tegula/tiles.h"
#include "tegula/view.h"

/// GEMM kernels around an epilogue: data-parallel, batched, split-K in three ways.
namespace tegula::detail {

/// Compile-time variant of a GEMM kernel.
struct MatmulVariant : MatmulConfig {
  MatmulOptions options;
  /// CTAs of a cluster that divides k.
  int programs = 1;
  /// The previous kernel on the stream repacks its operands, and may not have ended.
  bool after_copies = false;

  template <class Variant, class Visit>
  static void each_value(Variant& v, const Visit& visit) {
    MatmulConfig::each_value(v, visit);
    visit("CLUSTER", v.programs, {1, 2, 4, 8});
    visit("PROMOTED", v.options.promoted, {0, 1});
    visit("TF32", v.options.tf32, {0, 1});
    visit("AFTER_COPIES", v.after_copies, {0, 1});
  }
  /// Before anything is read or written, results that an earlier kernel may still read among it.
  void wait_for_copies() const {
    if (after_copies) wait_for_previous_kernels();
  }
  /// The accumulator with A's rows along its rows.
  Tile turned(const Tile& sums) const { return swapped ? sums.T() : sums; }
  friend auto operator<=>(const MatmulVariant&, const MatmulVariant&) = default;
};

template <class Body>
using ConfiguredMatmul = Configured<Body, MatmulVariant>;

/// acc + a b of operands of T.
template <class T>
Tile add_product(const MatmulOptions& options, const Arg& a, const Arg& b, const Tile& acc) {
  const Precision precision = options.tf32 ? Precision::tf32 : Precision::ieee;
  const bool is_f8 = size_bytes(dtype_of<T>) == 1 && dtype_of<SumOf<T>> == DType::f32;
  return is_f8 && options.promoted ? acc + dot(a, b, {}, precision) : dot(a, b, acc, precision);
}

/// Mainloop of A's rows `m` and B's columns `n` over some k-iterations. The accumulator is as the
/// tensor cores have it: with swap A/B, A's rows lie along its columns.
template <class T, class ViewA, class ViewB>
Tile matmul_sums(const MatmulVariant& v, const ViewA& A, const ViewB& B, const Index& m,
                 const Index& n, const StepRange& some) {
  Tile acc = v.swapped ? zeros<SumOf<T>>(v.bn, v.bm) : zeros<SumOf<T>>(v.bm, v.bn);
  for (auto k : some.stages(v.stages))
    acc = v.swapped ? add_product<T>(v.options, B(k, n).T(), A(m, k).T(), acc)
                    : add_product<T>(v.options, A(m, k), B(k, n), acc);
  return acc;
}

/// C = epilogue(A B). The programs of a cluster take a slice of k each, and then a slice of the
/// tile.
template <class T, class O, class Fn, class... Extra>
struct WholeMatmul {
  Fn epilogue;
  void operator()(In<T, 2> A, In<T, 2> B, Out<O, 2> C, Extra... extra) const {
    const MatmulVariant v = tuned<MatmulVariant>();
    for (auto [m, n] : grid(C, v.bm, v.bn, l2_group(v.group_m), tma_store(v.tma_store),
                            cluster(v.programs), multicast(v.multicast), alternate(v.alternate))) {
      v.wait_for_copies();
      const auto mine = steps(A.cols(), v.bk).part(cluster_rank(), v.programs);
      const Tile sums = v.turned(matmul_sums<T>(v, A, B, m, n, mine));
      const Tile sum = cluster_sum(sums, v.swapped ? 1 : 0);  // cut along the tensor cores' rows
      const Index rows = v.swapped ? m : cluster_share(m), cols = v.swapped ? cluster_share(n) : n;
      C(rows, cols) = call_with(epilogue, std::tie(sum), Index(Tile(0), 1), rows, cols, extra...);
    }
  }
};

/// C[b] = epilogue(A[b] B[b]).
template <class T, class O, class Fn, class... Extra>
struct BatchedMatmul {
  Fn epilogue;
  void operator()(In<T, 3> A, In<T, 3> B, Out<O, 3> C, Extra... extra) const {
    const MatmulVariant v = tuned<MatmulVariant>();
    for (auto [b, m, n] : grid(C, 1, v.bm, v.bn, multicast(v.multicast), alternate(v.alternate),
                               tma_store(v.tma_store))) {
      v.wait_for_copies();
      const Tile sum = v.turned(matmul_sums<T>(v, A[b], B[b], m, n, steps(A.dim(2), v.bk)));
      C(b, m, n) = call_with(epilogue, std::tie(sum), b, m, n, extra...);
    }
  }
};

/// P[s] = the partial accumulator of A B over the k-iterations from s * ceil(steps / splits) on.
template <class T>
struct PartialMatmul {
  void operator()(In<T, 2> A, In<T, 2> B, Out<SumOf<T>, 3> P) const {
    const MatmulVariant v = tuned<MatmulVariant>();
    for (auto [s, m, n] : grid(P, 1, v.bm, v.bn)) {
      let_next_kernel_start();
      v.wait_for_copies();
      const auto part = steps(A.cols(), v.bk).part(s.first(), P.dim(0));
      P(s, m, n) = v.turned(matmul_sums<T>(v, A, B, m, n, part));
    }
  }
};

/// C = epilogue(sum of all P[s]).
template <class T, class O, class Fn, class... Extra>
struct SumOfParts {
  Fn epilogue;
  void operator()(In<SumOf<T>, 3> P, Out<O, 2> C, Extra... extra) const {
    for (auto [m, n] : grid(C, 4, 256)) {
      wait_for_previous_kernels();
      Tile sum = zeros<SumOf<T>>(4, 256);
      for (auto s : steps(P.dim(0), 1)) sum = sum + P(s, m, n);
      C(m, n) = call_with(epilogue, std::tie(sum), Index(Tile(0), 1), m, n, extra...);
    }
  }
};

/// C[b] = epilogue(A[b] B[b]) with at least one k-iteration, stream-K: the k-iterations of all
/// tiles are divided evenly.
template <class T, class O, class Fn, class... Extra>
struct StreamedMatmul {
  Fn epilogue;
  void operator()(In<T, 3> A, In<T, 3> B, Out<O, 3> C, InOut<SumOf<T>, 3> sums, Ptr<u32> arrivals,
                  Scalar<i32> programs, Extra... extra) const {
    const MatmulVariant v = tuned<MatmulVariant>();
    sums.fixed(1), sums.fixed(2);
    for (auto p : grid(Space(programs), 1)) {
      v.wait_for_copies();
      const auto tiles = tiles_of(C, 1, v.bm, v.bn, l2_group(v.group_m));
      const EvenSteps mine(p, programs, tiles.count(), A.dim(2), v.bk);
      for (auto i : steps(mine.count(), 1)) {
        const TileSteps s = mine.at(i);
        const auto [b, m, n] = tiles.at(s.tile);
        Tile sum = matmul_sums<T>(v, A[b], B[b], m, n, s.range());
        if_(add_neighbours(sum, s, sums, arrivals), [&] {
          C(b, m, n) = call_with(epilogue, std::forward_as_tuple(v.turned(sum)), b, m, n, extra...);
        });
      }
    }
  }
};

}  // namespace tegula::detail
