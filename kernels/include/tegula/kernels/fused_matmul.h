#pragma once
#include <array>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "tegula/control.h"
#include "tegula/kernel.h"
#include "tegula/kernels/matmul.h"
#include "tegula/math.h"
#include "tegula/tile_ops.h"
#include "tegula/view.h"

/// Matrix products whose epilogue is a lambda: DSL code on the tile of sums, before it is stored.
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

/// A lambda's parameters behind the first `Skip` of them.
template <class Call, int Skip>
struct FurtherParams;
template <class C, class R, class... P>
struct FurtherParams<R (C::*)(P...) const, 0> {
  template <template <class...> class Body, class... Before>
  using Append = Body<Before..., std::remove_cvref_t<P>...>;
};
template <class C, class R, class First, class... P, int Skip>
  requires(Skip > 0)
struct FurtherParams<R (C::*)(First, P...) const, Skip>
    : FurtherParams<R (C::*)(P...) const, Skip - 1> {};

template <class T>
inline constexpr bool kIsF8 = std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;

/// Values of tune() for a MatmulConfig.
struct MatmulTile {
  int bm, bn, bk, stages;
  bool swapped, promoted, tf32, multicast;

  static MatmulTile tuned();
  static Tuning of(const MatmulConfig& config, const MatmulOptions& options);
};

/// Sums of the products of A's rows and B's columns over steps [first, last) of k. `a(k)` and
/// `b(k)` are their tiles of one step.
template <class T, class LoadA, class LoadB>
Tile matmul_sums(const MatmulTile& t, const Tile& first, const Tile& last, LoadA a, LoadB b) {
  const Precision precision = t.tf32 ? Precision::tf32 : Precision::ieee;
  const auto product = [&](const auto& k, const Arg& acc) {
    return t.swapped ? dot(b(k).T(), a(k).T(), acc, precision) : dot(a(k), b(k), acc, precision);
  };
  Tile acc = t.swapped ? zeros<SumOf<T>>(t.bn, t.bm) : zeros<SumOf<T>>(t.bm, t.bn);
  for (auto k : steps(first, last, t.bk).stages(t.stages))
    acc = kIsF8<T> && t.promoted ? acc + product(k, {}) : product(k, acc);
  return t.swapped ? acc.T() : acc;
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
    for (auto [m, n] : grid(C, t.bm, t.bn, l2_group(8), multicast(t.multicast)))
      C(m, n) = epilogue(matmul_sums<T>(
                             t, Tile(0), A.cols(), [&](auto k) { return A(m, k); },
                             [&](auto k) { return B(k, n); }),
                         m, n, extra...);
  }
};

/// C[b] = epilogue(A[b] B[b]).
template <class T, class O, class Fn, class... Extra>
struct BatchedMatmul {
  Fn epilogue;
  void operator()(In<T, 3> A, In<T, 3> B, Out<O, 3> C, Extra... extra) const {
    const MatmulTile t = MatmulTile::tuned();
    for (auto [b, m, n] : grid(C, 1, t.bm, t.bn, multicast(t.multicast)))
      C(b, m, n) = epilogue(matmul_sums<T>(
                                t, Tile(0), A.dim(2), [&](auto k) { return A(b, m, k); },
                                [&](auto k) { return B(b, k, n); }),
                            m, n, extra...);
  }
};

/// C = epilogue(A G, A U).
template <class T, class O, class Fn, class... Extra>
struct GatedMatmul {
  Fn epilogue;
  void operator()(In<T, 2> A, In<T, 2> G, In<T, 2> U, Out<O, 2> C, Extra... extra) const {
    const MatmulTile t = MatmulTile::tuned();
    for (auto [m, n] : grid(C, t.bm, t.bn, l2_group(8), multicast(t.multicast))) {
      Tile gate = zeros<SumOf<T>>(t.bm, t.bn), up = zeros<SumOf<T>>(t.bm, t.bn);
      for (auto k : steps(A.cols(), t.bk).stages(t.stages)) {
        const Tile a = A(m, k);
        gate = dot(a, G(k, n), gate);
        up = dot(a, U(k, n), up);
      }
      C(m, n) = epilogue(gate, up, m, n, extra...);
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

/// One kernel for each configuration it was asked for, made once.
template <class Body>
class Configured {
  using KernelType = decltype(kernel("", std::declval<Body>()));

 public:
  Configured(const char* name, Body body, const MatmulOptions& options)
      : base_(kernel(name, std::move(body))), options_(options) {}

  const KernelType& of(const MatmulConfig& config) {
    const std::lock_guard lock(mutex_);
    const auto found = made_.find(config);
    if (found != made_.end()) return found->second;
    return made_.try_emplace(config, base_.with(MatmulTile::of(config, options_))).first->second;
  }

 private:
  KernelType base_;
  MatmulOptions options_;
  std::mutex mutex_;
  std::map<MatmulConfig, KernelType> made_;
};

/// Throw CompileError unless shapes fit.
void check_matmul(const Tensor& A, const Tensor& B, const Tensor& C);
MatmulProblem matmul_problem(const Tensor& A, const Tensor& B, const Tensor& C,
                             const MatmulOptions& options);

struct MatmulOperand {
  const Tensor& tensor;
  int k_dim;  ///< -1 of A, -2 of B
};

/// What a product reads and where it leaves partial sums, in memory of the stream: operands that
/// TMA or the tensor cores do not take as they lie are copied first.
class MatmulMemory {
 public:
  /// The operands, at most three, outlive it.
  MatmulMemory(const Stream& stream, std::initializer_list<MatmulOperand> operands,
               const MatmulOptions& options, const Dims& parts_shape = {}, DType sums = DType::f32);
  MatmulMemory(const MatmulMemory&) = delete;
  MatmulMemory& operator=(const MatmulMemory&) = delete;
  /// An operand or its copy.
  const Tensor& operator[](std::size_t i) const { return *of_[i]; }
  const Tensor& parts() const { return parts_; }

 private:
  std::array<const Tensor*, 3> of_{};
  std::vector<Tensor> copies_;
  Tensor parts_;
};

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
    const bool is_divided = A.rank() == 2 && config.splits > 1,
               by_memory = is_divided && !config.clustered;
    const detail::MatmulMemory m(stream, {{A, -1}, {B, -2}}, kernels_->options,
                                 by_memory ? Dims{config.splits, C.size(0), C.size(1)} : Dims{},
                                 dtype_of<detail::SumOf<T>>);
    const Tensor &a = m[0], &b = m[1];
    if (A.rank() == 3) return kernels_->batched.of(config)(stream, a, b, C, further...);
    if (!is_divided) return kernels_->whole.of(config)(stream, a, b, C, further...);
    if (config.clustered) return kernels_->clustered.of(config)(stream, a, b, C, further...);
    kernels_->partial.of(config)(stream, a, b, m.parts());
    kernels_->sum(stream, m.parts(), C, further...);
  }
  /// What was compiled of this configuration for operands without batches, and why: plan, remarks.
  std::string explain(const MatmulConfig& config) const {
    if (config.splits <= 1) return kernels_->whole.of(config).explain();
    return config.clustered ? kernels_->clustered.of(config).explain()
                            : kernels_->partial.of(config).explain();
  }

 private:
  struct Kernels {
    Kernels(Fn fn, const MatmulOptions& o)
        : options(o),
          whole("matmul", {fn}, o),
          batched("matmul_batched", {fn}, o),
          clustered("matmul_clustered", {fn}, o),
          partial("matmul_partial", {}, o),
          sum(kernel("matmul_sum", Of<detail::SumOfParts>{fn})) {}
    MatmulOptions options;
    detail::Configured<Of<detail::WholeMatmul>> whole;
    detail::Configured<Of<detail::BatchedMatmul>> batched;
    detail::Configured<Of<detail::ClusteredMatmul>> clustered;
    detail::Configured<detail::PartialMatmul<T>> partial;
    decltype(kernel("", std::declval<Of<detail::SumOfParts>>())) sum;
  };
  std::shared_ptr<Kernels> kernels_;
};

template <class T, class O, class Fn>
FusedMatmul<T, O, Fn> fused_matmul(Fn epilogue, MatmulOptions options = {}) {
  return FusedMatmul<T, O, Fn>(std::move(epilogue), options);
}

/// C = epilogue(A G, A U), one pass over A: the two halves of a gated unit (SwiGLU; Shazeer 2020).
/// A [m, k], G and U [k, n] of T, C [m, n] of O; `Fn` is a lambda (Tile gate, Tile up, Index m,
/// Index n, further..).
template <class T, class O, class Fn>
class FusedGatedMatmul {
  using Body = typename detail::FurtherParams<decltype(&Fn::operator()),
                                              4>::template Append<detail::GatedMatmul, T, O, Fn>;

 public:
  explicit FusedGatedMatmul(Fn epilogue)
      : kernels_(std::make_shared<detail::Configured<Body>>(
            "matmul_gated", Body{std::move(epilogue)}, MatmulOptions{})) {}

  template <class... Host>
  void operator()(const Stream& stream, const Tensor& A, const Tensor& G, const Tensor& U,
                  const Tensor& C, const Host&... further) const {
    run(config(A, G, C), stream, A, G, U, C, further...);
  }
  /// The same with a configuration given, whose bn is that of each half.
  template <class... Host>
  void run(const MatmulConfig& config, const Stream& stream, const Tensor& A, const Tensor& G,
           const Tensor& U, const Tensor& C, const Host&... further) const {
    detail::check_matmul(A, G, C);
    detail::check_matmul(A, U, C);
    const detail::MatmulMemory m(stream, {{A, -1}, {G, -2}, {U, -2}}, {});
    kernels_->of(config)(stream, m[0], m[1], m[2], C, further...);
  }

 private:
  /// That of the product with both halves side by side.
  static MatmulConfig config(const Tensor& A, const Tensor& G, const Tensor& C) {
    MatmulProblem both = detail::matmul_problem(A, G, C, {});
    both.b_k_major = false;  // half of an odd width may be none that wgmma has
    both.n *= 2;
    both.whole = true;
    MatmulConfig c = matmul_config(both);
    c.bn /= 2;
    return c;
  }
  std::shared_ptr<detail::Configured<Body>> kernels_;
};

template <class T, class O, class Fn>
FusedGatedMatmul<T, O, Fn> gated_matmul(Fn epilogue) {
  return FusedGatedMatmul<T, O, Fn>(std::move(epilogue));
}

}  // namespace tegula
