#pragma once
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

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
  MatmulTraits config{};
  PlanPatch plan() const { return config.plan(); }
  void operator()(In<T, 2> A, In<T, 2> G, In<T, 2> U, Out<O, 2> C, Extra... extra) const {
    const MatmulTraits& v = config;
    for (auto [m, n] : grid(C, v.bm, v.bn, group_m(v.group_m))) {
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
  MatmulTraits config{};
  PlanPatch plan() const { return config.plan(); }
  void operator()(In<T, 3> A, In<T, 3> G, In<T, 3> U, Out<O, 3> C, Extra... extra) const {
    const MatmulTraits& v = config;
    for (auto [b, m, n] : grid(C, 1, v.bm, v.bn)) {
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
  using Of = ConfiguredKernel<
      typename detail::TrailingAfter<Index, Fn, 2>::template Append<Body, T, O, Fn>>;

 public:
  explicit FusedGatedMatmul(Fn epilogue, MatmulOptions options = {})
      : kernels_(new Kernels(std::move(epilogue))), options_(options) {}

  /// A, G, U, C and what the lambda takes.
  template <class... Args>
  void operator()(const detail::StreamAt& stream, const Args&... args) const {
    call(nullptr, stream, args...);
  }
  /// The same with a configuration given, whose bn is that of each half.
  template <class... Args>
  void run(const MatmulConfig& config, const detail::StreamAt& stream, const Args&... args) const {
    call(&config, stream, args...);
  }
  /// Report on the kernel compiled for matrices: plan, remarks.
  std::string explain(Loc at = std::source_location::current()) const {
    const detail::CallPlace here(at);
    return kernels_->whole.explain([](const auto&) { return true; });
  }

 private:
  struct Kernels {
    explicit Kernels(Fn fn) : epilogue(std::move(fn)) {}
    Fn epilogue;
    Of<detail::GatedMatmul> whole{"matmul_gated", {epilogue}};
    Of<detail::BatchedGatedMatmul> batched{"matmul_gated_batched", {epilogue}};
    CallPlans plans;
  };
  template <class... Args>
  void call(const MatmulConfig* given, const detail::StreamAt& stream, const Args&... args) const {
    const detail::CallPlace here(stream.at);
    kernels_->plans.call(stream.stream, decltype(kernels_->whole.of({}))::pack(args...),
                         detail::matmul_key(options_, given),
                         [&](PlanBuilder& plan) { build(plan, given); });
  }
  void build(PlanBuilder& plan, const MatmulConfig* given) const {
    const PlanSlot a = plan.argument(0), g = plan.argument(1), u = plan.argument(2);
    const Tensor &A = plan.tensor(a), &G = plan.tensor(g), &U = plan.tensor(u),
                 &C = plan.tensor(plan.argument(3));
    detail::check_matmul(A, G, C), detail::check_matmul(A, U, C);
    MatmulProblem problem = detail::matmul_problem(A, G, C, options_);
    problem.gates = 2;
    const MatmulConfig config = given ? *given : choose_matmul(problem, A.device(), "gated_matmul");
    const auto of = [&](PlanSlot slot, int k_dim) -> OperandSlot {
      return {slot, detail::matmul_operand(plan.tensor(slot), k_dim, options_, config.operands)};
    };
    const auto m = repack(plan, {of(a, -1), of(g, -2), of(u, -2)});
    const detail::MatmulTraits v{config, options_, 1, m != std::vector{a, g, u}};
    const auto launch = [&](auto& made) { plan.launch_with_rest(made.of(v), 3, m[0], m[1], m[2]); };
    A.rank() == 3 ? launch(kernels_->batched) : launch(kernels_->whole);
  }
  std::shared_ptr<Kernels> kernels_;
  MatmulOptions options_;
};

template <class T, class O, class Fn>
FusedGatedMatmul<T, O, Fn> gated_matmul(Fn epilogue, MatmulOptions options = {}) {
  return FusedGatedMatmul<T, O, Fn>(std::move(epilogue), options);
}

}  // namespace tegula
