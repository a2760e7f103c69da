#pragma once
#include <memory>
#include <string>

#include "tegula/kernels/fused_matmul.h"

/// Two GEMMs on one A with a common epilogue: gated units.
namespace tegula {
namespace detail {

/// Mainloop of A's rows `m` with the columns `n` of G into one accumulator, with those of U into
/// another.
template <class T, class ViewA, class ViewB>
void gated_mainloop(const MatmulTraits& v, const ViewA& A, const ViewB& G, const ViewB& U,
                    const Index& m, const Index& n, const LoopRange& all, Tile& gate, Tile& up) {
  for (auto k : all.stages(v.stages)) {
    const Tile a = A(m, k);
    gate = mma_accumulate<T>(v.options, a, G(k, n), gate);
    up = mma_accumulate<T>(v.options, a, U(k, n), up);
  }
}

/// C = epilogue(A G, A U).
template <class T, class O, class Fn, class... Extra>
struct GatedMatmul {
  Fn epilogue;
  void operator()(In<T, 2> A, In<T, 2> G, In<T, 2> U, Out<O, 2> C, Extra... extra) const {
    const MatmulTraits v = tuned<MatmulTraits>();
    for (auto [m, n] :
         grid(C, v.bm, v.bn, group_m(v.group_m), multicast(v.multicasts()), pingpong(v.pingpong))) {
      v.wait_for_repack();
      Tile gate = zeros<Accumulator<T>>(v.bm, v.bn), up = zeros<Accumulator<T>>(v.bm, v.bn);
      gated_mainloop<T>(v, A, G, U, m, n, steps(A.cols(), v.bk), gate, up);
      C(m, n) = call_with(epilogue, std::tie(gate, up), Index(Tile(0), 1), m, n, extra...);
    }
  }
};

/// C[b] = epilogue(A[b] G[b], A[b] U[b]).
template <class T, class O, class Fn, class... Extra>
struct BatchedGatedMatmul {
  Fn epilogue;
  void operator()(In<T, 3> A, In<T, 3> G, In<T, 3> U, Out<O, 3> C, Extra... extra) const {
    const MatmulTraits v = tuned<MatmulTraits>();
    for (auto [b, m, n] : grid(C, 1, v.bm, v.bn, multicast(v.multicasts()), pingpong(v.pingpong))) {
      v.wait_for_repack();
      Tile gate = zeros<Accumulator<T>>(v.bm, v.bn), up = zeros<Accumulator<T>>(v.bm, v.bn);
      gated_mainloop<T>(v, A[b], G[b], U[b], m, n, steps(A.dim(2), v.bk), gate, up);
      C(b, m, n) = call_with(epilogue, std::tie(gate, up), b, m, n, extra...);
    }
  }
};

}  // namespace detail

/// C = epilogue(A G, A U), one pass over A: the two halves of a gated unit (SwiGLU; Shazeer 2020).
/// A [m, k], G and U [k, n] of T, C [m, n] of O, or all with a batch dimension in front; `Fn` is a
/// lambda (Tile gate, Tile up, Index m, Index n, trailing..), or with an Index b in front of m, a
/// batch's entry (0 of matrices). `split`, `parts`, `swap_ab` of a configuration are ignored.
template <class T, class O, class Fn>
class FusedGatedMatmul {
  template <template <class...> class Body>
  using Of = detail::ConfiguredMatmul<
      typename detail::TrailingAfter<Index, Fn, 2>::template Append<Body, T, O, Fn>>;

 public:
  explicit FusedGatedMatmul(Fn epilogue, MatmulOptions options = {}, Loc at = {})
      : kernels_(new Kernels{std::move(epilogue)}), options_(options), made_at_(at) {}

  template <class... Host>
  void operator()(const Stream& stream, const Tensor& A, const Tensor& G, const Tensor& U,
                  const Tensor& C, const Host&... trailing) const {
    MatmulProblem problem = detail::matmul_problem(A, G, C, options_, 0, made_at_);
    problem.gates = 2;
    run(choose_matmul(problem, A.device()), stream, A, G, U, C, trailing...);
  }
  /// The same with a configuration given, whose bn is that of each half.
  template <class... Host>
  void run(const MatmulConfig& config, const Stream& stream, const Tensor& A, const Tensor& G,
           const Tensor& U, const Tensor& C, const Host&... trailing) const {
    detail::check_matmul(A, G, C, made_at_), detail::check_matmul(A, U, C, made_at_);
    const auto operand = [&](const Tensor& tensor, int k_dim) {
      return detail::matmul_operand(tensor, k_dim, options_, config.operands);
    };
    const RepackedOperands m(stream, {operand(A, -1), operand(G, -2), operand(U, -2)});
    const detail::MatmulTraits v{config, options_, 1, m.is_repacked()};
    if (A.rank() == 3) return kernels_->batched.of(v)(stream, m[0], m[1], m[2], C, trailing...);
    kernels_->whole.of(v)(stream, m[0], m[1], m[2], C, trailing...);
  }
  /// Report on the kernel compiled for matrices: plan, remarks.
  std::string explain() const {
    return kernels_->whole.explain([](const auto&) { return true; });
  }

 private:
  struct Kernels {
    Fn epilogue;
    Of<detail::GatedMatmul> whole{"matmul_gated", {epilogue}};
    Of<detail::BatchedGatedMatmul> batched{"matmul_gated_batched", {epilogue}};
  };
  std::shared_ptr<Kernels> kernels_;
  MatmulOptions options_;
  Loc made_at_;
};

template <class T, class O, class Fn>
FusedGatedMatmul<T, O, Fn> gated_matmul(Fn epilogue, MatmulOptions options = {},
                                        Loc at = std::source_location::current()) {
  return FusedGatedMatmul<T, O, Fn>(std::move(epilogue), options, at);
}

}  // namespace tegula
