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
    const MatmulTile t = MatmulTile::tuned();
    for (auto [m, n] :
         grid(C, t.bm, t.bn, l2_group(8), multicast(t.multicast), alternate(t.alternate))) {
      t.wait_for_copies();
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
      : kernels_(std::make_shared<detail::ConfiguredMatmul<Body>>(
            "matmul_gated", Body{std::move(epilogue)}, detail::MatmulTile::tuning({}))) {}

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
    const PackedTensors m(stream, {detail::matmul_operand(A, -1, {}, config.direct),
                                   detail::matmul_operand(G, -2, {}, config.direct),
                                   detail::matmul_operand(U, -2, {}, config.direct)});
    kernels_->of({config, m.has_copies()})(stream, m[0], m[1], m[2], C, further...);
  }

 private:
  /// That of the product with both halves side by side.
  static MatmulConfig config(const Tensor& A, const Tensor& G, const Tensor& C) {
    MatmulProblem both = detail::matmul_problem(A, G, C, {});
    both.b_k_major = false;  // half of an odd width may be none that wgmma has
    both.n *= 2;
    both.whole = true;
    MatmulConfig c = matmul_config(both);
    // Half as high rather than half as wide: blocks of its results take fewer registers.
    if (c.alternate) c.bm = 64, c.bn = 256, c.multicast = false;
    c.bn /= 2;
    return c;
  }
  std::shared_ptr<detail::ConfiguredMatmul<Body>> kernels_;
};

template <class T, class O, class Fn>
FusedGatedMatmul<T, O, Fn> gated_matmul(Fn epilogue) {
  return FusedGatedMatmul<T, O, Fn>(std::move(epilogue));
}

}  // namespace tegula
