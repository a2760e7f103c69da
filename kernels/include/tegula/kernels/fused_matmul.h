#pragma once
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "tegula/configured.h"
#include "tegula/control.h"
#include "tegula/further_params.h"
#include "tegula/kernel.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/even_steps.h"
#include "tegula/kernels/matmul.h"
#include "tegula/math.h"
#include "tegula/tile_ops.h"
#include "tegula/view.h"

/// Matrix products whose epilogue is a lambda: DSL code on the tile of sums, before it is stored.
/// Of two products at once: tegula/kernels/gated_matmul.h.
/// What the lambda needs beside the sums are its further parameters, and arguments of every call:
///
///     auto dense = fused_matmul<bf16, bf16>(
///         [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
///           return max(acc + expand(cast<f32>(bias(n)), 0), 0.0f) + residual(m, n);
///         });
///     dense(stream, A, B, C, bias, residual);
namespace tegula {
namespace detail {

template <class T>
using SumOf = std::conditional_t<std::is_integral_v<T>, i32, f32>;

template <class T>
inline constexpr bool kIsF8 = std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;

/// What a product's kernel is compiled for.
struct MatmulVariant {
  MatmulConfig config;
  /// The kernel before it on the stream copies its operands, and may not have ended.
  bool after_copies = false;
  friend auto operator<=>(const MatmulVariant&, const MatmulVariant&) = default;
};

/// Values of tune() for a MatmulVariant.
struct MatmulTile {
  int bm, bn, bk, stages;
  bool swapped, promoted, tf32, multicast, alternate, after_copies;

  static MatmulTile tuned();
  static std::function<Tuning(const MatmulVariant&)> tuning(const MatmulOptions& options);
  /// Before anything is read or written, results that an earlier kernel may still read among it.
  void wait_for_copies() const {
    if (after_copies) wait_for_previous_kernels();
  }
};

template <class Body>
using ConfiguredMatmul = Configured<Body, MatmulVariant>;

template <class Body>
bool has_variant(const ConfiguredMatmul<Body>& kernels, const MatmulConfig& config) {
  return kernels.find({config, false}) || kernels.find({config, true});
}

/// What was compiled of a configuration: for operands as they lay, for copies, or for both.
template <class Body>
std::string explain_variants(const ConfiguredMatmul<Body>& kernels, const MatmulConfig& config) {
  std::string text;
  for (const bool after_copies : {false, true})
    if (const auto* k = kernels.find({config, after_copies})) text += k->explain();
  return text.empty() ? kernels.base().explain() : text;
}

/// Sums of the products of A's rows and B's columns over steps [first, last) of k, as the tensor
/// cores have them: if swapped, A's rows lie along the tile's columns. `a(k)` and `b(k)` are the
/// tiles of one step.
template <class T, class LoadA, class LoadB>
Tile core_sums(const MatmulTile& t, const Tile& first, const Tile& last, LoadA a, LoadB b) {
  const Precision precision = t.tf32 ? Precision::tf32 : Precision::ieee;
  const auto product = [&](const auto& k, const Arg& acc) {
    return t.swapped ? dot(b(k).T(), a(k).T(), acc, precision) : dot(a(k), b(k), acc, precision);
  };
  Tile acc = t.swapped ? zeros<SumOf<T>>(t.bn, t.bm) : zeros<SumOf<T>>(t.bm, t.bn);
  for (auto k : steps(first, last, t.bk).stages(t.stages))
    acc = kIsF8<T> && t.promoted ? acc + product(k, {}) : product(k, acc);
  return acc;
}

/// The same, A's rows along the tile's rows.
template <class T, class LoadA, class LoadB>
Tile matmul_sums(const MatmulTile& t, const Tile& first, const Tile& last, LoadA a, LoadB b) {
  const Tile sums = core_sums<T>(t, first, last, a, b);
  return t.swapped ? sums.T() : sums;
}

/// Of the steps of k, those of part `number` of `parts`.
struct PartOfK {
  Tile first, last;
  PartOfK(const MatmulTile& t, const Tile& k, const Tile& number, const Tile& parts) {
    const Tile all_steps = (k + (t.bk - 1)) / t.bk;
    const Tile part = (all_steps + (parts - 1)) / parts * t.bk;
    first = number * part;
    last = min(first + part, k);
  }
};

/// C = epilogue(A B).
template <class T, class O, class Fn, class... Extra>
struct WholeMatmul {
  Fn epilogue;
  void operator()(In<T, 2> A, In<T, 2> B, Out<O, 2> C, Extra... extra) const {
    const MatmulTile t = MatmulTile::tuned();
    for (auto [m, n] :
         grid(C, t.bm, t.bn, l2_group(8), multicast(t.multicast), alternate(t.alternate))) {
      t.wait_for_copies();
      C(m, n) = epilogue(matmul_sums<T>(
                             t, Tile(0), A.cols(), [&](auto k) { return A(m, k); },
                             [&](auto k) { return B(k, n); }),
                         m, n, extra...);
    }
  }
};

/// C[b] = epilogue(A[b] B[b]).
template <class T, class O, class Fn, class... Extra>
struct BatchedMatmul {
  Fn epilogue;
  void operator()(In<T, 3> A, In<T, 3> B, Out<O, 3> C, Extra... extra) const {
    const MatmulTile t = MatmulTile::tuned();
    for (auto [b, m, n] : grid(C, 1, t.bm, t.bn, multicast(t.multicast), alternate(t.alternate))) {
      t.wait_for_copies();
      C(b, m, n) = epilogue(matmul_sums<T>(
                                t, Tile(0), A.dim(2), [&](auto k) { return A(b, m, k); },
                                [&](auto k) { return B(b, k, n); }),
                            m, n, extra...);
    }
  }
};

/// P[s] = the part of A B that steps s * ceil(steps / splits) .. give.
template <class T>
struct PartialMatmul {
  void operator()(In<T, 2> A, In<T, 2> B, Out<SumOf<T>, 3> P) const {
    const MatmulTile t = MatmulTile::tuned();
    for (auto [s, m, n] : grid(P, 1, t.bm, t.bn)) {
      let_next_kernel_start();
      t.wait_for_copies();
      const PartOfK part(t, A.cols(), s.first(), P.dim(0));
      P(s, m, n) = matmul_sums<T>(
          t, part.first, part.last, [&](auto k) { return A(m, k); },
          [&](auto k) { return B(k, n); });
    }
  }
};

/// C = epilogue(A B), where the programs of a cluster take a part of k each, and then of the tile.
template <class T, class O, class Fn, class... Extra>
struct ClusteredMatmul {
  Fn epilogue;
  void operator()(In<T, 2> A, In<T, 2> B, Out<O, 2> C, Extra... extra) const {
    const MatmulTile t = MatmulTile::tuned();
    const int programs = tune("CLUSTER", {1, 2, 4, 8});
    for (auto [m, n] : grid(C, t.bm, t.bn, l2_group(8), cluster(programs))) {
      t.wait_for_copies();
      const PartOfK part(t, A.cols(), cluster_rank(), programs);
      const Tile sums = matmul_sums<T>(
          t, part.first, part.last, [&](auto k) { return A(m, k); },
          [&](auto k) { return B(k, n); });
      // What is divided are the tensor cores' rows.
      const Tile sum = cluster_sum(sums, t.swapped ? 1 : 0);
      const Index rows = t.swapped ? m : cluster_share(m), cols = t.swapped ? cluster_share(n) : n;
      C(rows, cols) = epilogue(sum, rows, cols, extra...);
    }
  }
};

/// Tiles of batches of matrices, as `grid(C, 1, bm, bn, l2_group(8))` has them.
class MatmulTiles {
 public:
  MatmulTiles(const View& C, const MatmulTile& t)
      : c_(C),
        t_(t),
        down_(blocks(C.dim(1), t.bm)),
        across_(blocks(C.dim(2), t.bn)),
        batches_(cast<i32>(C.dim(0))) {}
  Tile count() const { return batches_ * down_ * across_; }
  /// Batch, rows, columns.
  std::array<Index, 3> at(const Tile& tile) const {
    constexpr int kGroup = 8;
    const Tile plane = down_ * across_, in_plane = tile % plane, group = across_ * kGroup,
               first_row = in_plane / group * kGroup, in_group = in_plane % group,
               rows = min(down_ - first_row, kGroup);
    const std::array at{slice(tile / plane, 1), block(first_row + in_group % rows, t_.bm),
                        block(in_group / rows, t_.bn)};
    for (int d = 0; d < 3; ++d) assume(at[static_cast<std::size_t>(d)].first() < c_.dim(d));
    return at;
  }
  static Tile blocks(const Tile& extent, int block) {
    return cast<i32>((extent + (block - 1)) / block);
  }
  /// Element `number` * size of a dimension, which 32 bits may not hold.
  static Index block(const Tile& number, int size) {
    return slice(slice(number, 1).first() * size, size);
  }

 private:
  const View& c_;
  MatmulTile t_;
  Tile down_, across_, batches_;
};

/// C[b] = epilogue(A[b] B[b]) of one step at least, the steps of all tiles dealt evenly.
template <class T, class O, class Fn, class... Extra>
struct StreamedMatmul {
  Fn epilogue;
  void operator()(In<T, 3> A, In<T, 3> B, Out<O, 3> C, InOut<SumOf<T>, 3> sums, Ptr<u32> arrivals,
                  Scalar<i32> programs, Extra... extra) const {
    const MatmulTile t = MatmulTile::tuned();
    sums.fixed(1), sums.fixed(2);
    for (auto p : grid(Space(programs), 1)) {
      t.wait_for_copies();
      const MatmulTiles tiles(C, t);
      const EvenSteps mine(cast<i32>(p.first()), programs, tiles.count(),
                           MatmulTiles::blocks(A.dim(2), t.bk));
      for (auto i : steps(mine.count(), 1)) {
        const TileSteps s = mine.at(cast<i32>(i.first()));
        const auto [b, m, n] = tiles.at(s.tile);
        const Tile first = MatmulTiles::block(s.first, t.bk).first(),
                   last = MatmulTiles::block(s.last, t.bk).first();
        assume(first < last);
        Tile sum = core_sums<T>(
            t, first, last, [&](auto k) { return A(b, m, k); }, [&](auto k) { return B(b, k, n); });
        if_(add_neighbours(sum, s, sums, arrivals),
            [&] { C(b, m, n) = epilogue(t.swapped ? sum.T() : sum, m, n, extra...); });
      }
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
      C(m, n) = epilogue(sum, m, n, extra...);
    }
  }
};

/// What the programs of a streamed product leave for each other, for the length of a call.
class StreamedMemory {
 public:
  StreamedMemory(const MatmulConfig& config, const Stream& stream);
  /// Shape of the sums.
  Dims sums() const;
  /// Counters of the stream, or of the launch that a graph records.
  const Tensor& arrivals() const { return arrivals_; }

 private:
  const MatmulConfig& config_;
  Tensor arrivals_;
};

/// A matrix as a batch of one.
Tensor as_batches(const Tensor& t);

/// Throw CompileError unless shapes fit.
void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C);
MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options);

/// How a product reads a tensor whose dimension k is `k_dim`, -1 of A, -2 of B: operands that TMA
/// or the tensor cores do not take as they lie are copied first; those of 16 bits, where it reads
/// them `direct`ly, are not.
PackedOperand matmul_operand(const Tensor& tensor, int k_dim, const MatmulOptions& options,
                             bool direct = false);

}  // namespace detail

/// C = epilogue(A B): A [m, k] and B [k, n] of T, C [m, n] of O (see `matmul` for what goes
/// together; all with a batch dimension in front, if A has one), any strides. `Fn` is a lambda
/// (Tile acc, Index m, Index n, further..) whose parameter types are written out: `acc` holds the
/// sums at rows m and columns n, and what it returns is rounded to O. Copies share what was
/// compiled. Calls throw CompileError for shapes that do not fit.
template <class T, class O, class Fn>
class FusedMatmul {
  template <template <class...> class Body>
  using Of =
      typename detail::FurtherParams<decltype(&Fn::operator()), 3>::template Append<Body, T, O, Fn>;

 public:
  explicit FusedMatmul(Fn epilogue, MatmulOptions options = {})
      : kernels_(std::make_shared<Kernels>(std::move(epilogue), options)) {}

  template <class... Host>
  void operator()(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
                  const Host&... further) const {
    run(matmul_config(detail::matmul_problem(A, B, C, kernels_->options)), stream, A, B, C,
        further...);
  }
  /// The same with a configuration given.
  template <class... Host>
  void run(const MatmulConfig& config, const Stream& stream, const Tensor& A, const Tensor& B,
           const Tensor& C, const Host&... further) const {
    detail::check_matmul(A, B, C);
    if (config.streamed > 0 && A.size(-1) > 0)
      return stream_steps(config, stream, A, B, C, further...);
    const bool is_divided = A.rank() == 2 && config.splits > 1,
               by_memory = is_divided && !config.clustered;
    const MatmulOptions& o = kernels_->options;
    const PackedTensors m(stream,
                          {detail::matmul_operand(A, -1, o, config.direct),
                           detail::matmul_operand(B, -2, o, config.direct)},
                          by_memory ? Dims{config.splits, C.size(0), C.size(1)} : Dims{},
                          dtype_of<detail::SumOf<T>>);
    const Tensor &a = m[0], &b = m[1];
    const detail::MatmulVariant v{config, m.has_copies()};
    if (A.rank() == 3) return kernels_->batched.of(v)(stream, a, b, C, further...);
    if (!is_divided) return kernels_->whole.of(v)(stream, a, b, C, further...);
    if (config.clustered) return kernels_->clustered.of(v)(stream, a, b, C, further...);
    kernels_->partial.of(v)(stream, a, b, m.further());
    kernels_->sum(stream, m.further(), C, further...);
  }
  /// What was compiled of this configuration for operands without batches, and why: plan, remarks.
  std::string explain(const MatmulConfig& config) const {
    if (detail::has_variant(kernels_->streamed, config))
      return detail::explain_variants(kernels_->streamed, config);
    if (config.splits <= 1) return detail::explain_variants(kernels_->whole, config);
    return config.clustered ? detail::explain_variants(kernels_->clustered, config)
                            : detail::explain_variants(kernels_->partial, config);
  }

 private:
  template <class... Host>
  void stream_steps(const MatmulConfig& config, const Stream& stream, const Tensor& A,
                    const Tensor& B, const Tensor& C, const Host&... further) const {
    const MatmulOptions& o = kernels_->options;
    const detail::StreamedMemory memory(config, stream);
    const PackedTensors m(stream,
                          {detail::matmul_operand(A, -1, o, config.direct),
                           detail::matmul_operand(B, -2, o, config.direct)},
                          memory.sums(), dtype_of<detail::SumOf<T>>);
    kernels_->streamed.of({config, m.has_copies()})(
        stream, detail::as_batches(m[0]), detail::as_batches(m[1]), detail::as_batches(C),
        m.further(), memory.arrivals(), config.streamed, further...);
  }

  struct Kernels {
    Kernels(Fn fn, const MatmulOptions& o)
        : options(o),
          whole("matmul", {fn}, detail::MatmulTile::tuning(o)),
          batched("matmul_batched", {fn}, detail::MatmulTile::tuning(o)),
          clustered("matmul_clustered", {fn}, detail::MatmulTile::tuning(o)),
          streamed("matmul_streamed", {fn}, detail::MatmulTile::tuning(o)),
          partial("matmul_partial", {}, detail::MatmulTile::tuning(o)),
          sum(kernel("matmul_sum", Of<detail::SumOfParts>{fn})) {}
    MatmulOptions options;
    detail::ConfiguredMatmul<Of<detail::WholeMatmul>> whole;
    detail::ConfiguredMatmul<Of<detail::BatchedMatmul>> batched;
    detail::ConfiguredMatmul<Of<detail::ClusteredMatmul>> clustered;
    detail::ConfiguredMatmul<Of<detail::StreamedMatmul>> streamed;
    detail::ConfiguredMatmul<detail::PartialMatmul<T>> partial;
    decltype(kernel("", std::declval<Of<detail::SumOfParts>>())) sum;
  };
  std::shared_ptr<Kernels> kernels_;
};

template <class T, class O, class Fn>
FusedMatmul<T, O, Fn> fused_matmul(Fn epilogue, MatmulOptions options = {}) {
  return FusedMatmul<T, O, Fn>(std::move(epilogue), options);
}

}  // namespace tegula
