#pragma once
#include <memory>
#include <utility>

#include "tegula/kernels/fused_matmul.h"

/// Two products of one A whose results meet in an epilogue: gated units.
namespace tegula {
namespace detail {

/// C = epilogue(A G, A U).
template <class T, class O, class Fn, class... Extra>
struct GatedMatmul {
  Fn epilogue;
  void operator()(In<T, 2> A, In<T, 2> G, In<T, 2> U, Out<O, 2> C, Extra... extra) const {
    const MatmulVariant v = tuned<MatmulVariant>();
    for (auto [m, n] :
         grid(C, v.bm, v.bn, l2_group(8), multicast(v.multicast), alternate(v.alternate))) {
      v.wait_for_copies();
      Tile gate = zeros<SumOf<T>>(v.bm, v.bn), up = zeros<SumOf<T>>(v.bm, v.bn);
      for (auto k : steps(A.cols(), v.bk).stages(v.stages)) {
        const Tile a = A(m, k);
        gate = dot(a, G(k, n), gate);
        up = dot(a, U(k, n), up);
      }
      C(m, n) = epilogue(gate, up, m, n, extra...);
    }
  }
};

}  // namespace detail

/// C = epilogue(A G, A U), one pass over A: the two halves of a gated unit (SwiGLU; Shazeer 2020).
/// A [m, k], G and U [k, n] of T, C [m, n] of O; `Fn` is a lambda (Tile gate, Tile up, Index m,
/// Index n, further..).
template <class T, class O, class Fn>
class FusedGatedMatmul {
  using Body = typename detail::FurtherParams<decltype(&Fn::operator()),
                                              4>::template Append<detail::GatedMatmul, T, O, Fn>;

 public:
  explicit FusedGatedMatmul(Fn epilogue)
      : kernels_(std::make_shared<detail::ConfiguredMatmul<Body>>("matmul_gated",
                                                                  Body{std::move(epilogue)})) {}

  template <class... Host>
  void operator()(const Stream& stream, const Tensor& A, const Tensor& G, const Tensor& U,
                  const Tensor& C, const Host&... further) const {
    run(gated_matmul_config(detail::matmul_problem(A, G, C, {})), stream, A, G, U, C, further...);
  }
  /// The same with a configuration given, whose bn is that of each half.
  template <class... Host>
  void run(const MatmulConfig& config, const Stream& stream, const Tensor& A, const Tensor& G,
           const Tensor& U, const Tensor& C, const Host&... further) const {
    detail::check_matmul(A, G, C);
    detail::check_matmul(A, U, C);
    const PackedTensors m(stream, {detail::matmul_operand(A, -1, {}, config.direct),
                                   detail::matmul_operand(G, -2, {}, config.direct),
                                   detail::matmul_operand(U, -2, {}, config.direct)});
    kernels_->of({config, {}, 1, m.has_copies()})(stream, m[0], m[1], m[2], C, further...);
  }

 private:
  std::shared_ptr<detail::ConfiguredMatmul<Body>> kernels_;
};

template <class T, class O, class Fn>
FusedGatedMatmul<T, O, Fn> gated_matmul(Fn epilogue) {
  return FusedGatedMatmul<T, O, Fn>(std::move(epilogue));
}

}  // namespace tegula
