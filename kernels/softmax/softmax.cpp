// Softmax: a program, or the CTAs of a cluster together, hold rows in registers; longer rows are
// read twice, the first time for their maximum and sum.
#include "tegula/kernels/softmax.h"

#include "kernels/cluster_rows.h"
#include "kernels/float_types.h"
#include "kernels/online_exponentials.h"
#include "kernels/row_tiles.h"
#include "tegula/call_plan.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

constexpr int kSoftmaxStep = 8192;

template <class T>
auto softmax_of_held_rows() {
  return kernel("softmax", [](In<T, 2> x, Out<T, 2> y, int tile_rows) {
    for (auto r : grid(rows(y), tile_rows)) {
      const Tile v = cast<f32>(x.with(kReadOnce)(r, all));
      const Tile e = exp_above(v, along_row(max(v, axis(-1))));
      y(r, all) = e * along_row(rcp(sum(e, -1)));
    }
  });
}

/// Columns per CTA of a cluster, and CTAs per row.
struct ClusterShape {
  int columns, ctas;

  /// Returns the columns of this CTA.
  Index part() const { return slice(cluster_rank() * columns, columns); }
};

template <class T>
auto softmax_of_cluster_rows() {
  return kernel("softmax_cluster", [](In<T, 2> x, Out<T, 2> y, ClusterShape shape) {
    for (auto r : grid(rows(y), 1, cluster(shape.ctas))) {
      const Tile v = x.with(kReadOnce)(r, shape.part()), top = cast<f32>(max(v));
      const Tile e = exp_above(cast<f32>(v), finite_reference(top));
      const RowExponentials row = merge_in_cluster({top, sum(e)});
      y(r, shape.part()) = e * (exp_above(top, row.top) * rcp(row.total));
    }
  });
}

template <class T>
auto softmax_in_two_passes() {
  return kernel("softmax_two_pass", [](In<T, 2> x, Out<T, 2> y) {
    for (auto r : grid(rows(y), 1)) {
      OnlineExponentials exponentials(kSoftmaxStep);
      for (auto c : steps(x.cols(), kSoftmaxStep))
        exponentials.add(fill_absent(cast<f32>(x(r, c)), -inf));
      const auto [top, total] = exponentials.of_row();
      const Tile scale = rcp(total);
      for (auto c : steps(x.cols(), kSoftmaxStep))
        y(r, c) = exp_above(cast<f32>(x(r, c)), top) * scale;
    }
  });
}

template <class T>
auto backward_of_held_rows() {
  return kernel("softmax_backward", [](In<T, 2> y, In<T, 2> dy, Out<T, 2> dx, int tile_rows) {
    for (auto r : grid(rows(dx), tile_rows)) {
      const Tile p = cast<f32>(y.with(kReadOnce)(r, all)),
                 g = cast<f32>(dy.with(kReadOnce)(r, all));
      dx(r, all) = p * (g - along_row(sum(p * g, -1)));
    }
  });
}

template <class T>
auto backward_of_cluster_rows() {
  return kernel("softmax_backward_cluster",
                [](In<T, 2> y, In<T, 2> dy, Out<T, 2> dx, ClusterShape shape) {
                  for (auto r : grid(rows(dx), 1, cluster(shape.ctas))) {
                    const Tile p = cast<f32>(y.with(kReadOnce)(r, shape.part())),
                               g = cast<f32>(dy.with(kReadOnce)(r, shape.part()));
                    dx(r, shape.part()) = p * (g - cluster_sum(sum(p * g)));
                  }
                });
}

template <class T>
auto backward_in_two_passes() {
  return kernel("softmax_backward_two_pass", [](In<T, 2> y, In<T, 2> dy, Out<T, 2> dx) {
    for (auto r : grid(rows(dx), 1)) {
      Tile dot = zeros<f32>(kSoftmaxStep);
      for (auto c : steps(dx.cols(), kSoftmaxStep)) dot += cast<f32>(y(r, c)) * cast<f32>(dy(r, c));
      const Tile total = sum(dot);
      for (auto c : steps(dx.cols(), kSoftmaxStep))
        dx(r, c) = cast<f32>(y(r, c)) * (cast<f32>(dy(r, c)) - total);
    }
  });
}

/// Three CTAs share an SM, with 64 exponentials per thread: some load while one waits for its
/// cluster. Recomputing the exponentials, 16 warps, and two or four CTAs were 4 to 40 % slower
/// (H100, docs/experiments/2026-11-26-cross-warp-exchanges.md).
constexpr PlanPatch kClusterCtas{.num_warps = 8, .min_ctas_per_sm = 3};
/// Number of CTAs that keep rows of 16-bit or 32-bit elements in registers.
template <class T>
constexpr PlanPatch kBackwardCtasOfSm{.min_ctas_per_sm = sizeof(T) == 2 ? 2 : 1};

template <class T>
struct SoftmaxKernels {
  decltype(softmax_of_held_rows<T>()) held = softmax_of_held_rows<T>();
  decltype(softmax_of_cluster_rows<T>()) cluster =
      softmax_of_cluster_rows<T>().with_plan(kClusterCtas);
  decltype(softmax_in_two_passes<T>()) two_pass = softmax_in_two_passes<T>();
  decltype(backward_of_held_rows<T>()) held_backward = backward_of_held_rows<T>();
  decltype(backward_of_cluster_rows<T>()) cluster_backward =
      backward_of_cluster_rows<T>().with_plan(kBackwardCtasOfSm<T>);
  decltype(backward_in_two_passes<T>()) two_pass_backward = backward_in_two_passes<T>();
  CallPlans plans, backward_plans;
};

template <class T>
const SoftmaxKernels<T>& softmax_kernels() {
  static const auto* const all = new SoftmaxKernels<T>;  // leaked: static destructors may call
  return *all;
}

RowConfig choose(const PlanBuilder& plan, RowKernel kernel) {
  const Tensor& x = plan.tensor(plan.argument(0));
  return choose_rows({x.size(0), x.size(1), kernel, x.dtype(), static_cast<int>(plan.size())},
                     plan.device());
}

}  // namespace

void softmax(const Stream& stream, const Tensor& x, const Tensor& y, Loc at) {
  const detail::CallPlace here(at);
  for_float("softmax", x.dtype(), [&]<class T>(T) {
    const SoftmaxKernels<T>& k = softmax_kernels<T>();
    k.plans.call(stream, tensor_args(x, y), {}, [&](PlanBuilder& plan) {
      require_rank("softmax", "x", x, 2);
      require_tensor("softmax", "y", y, x.dtype(), x.shape());
      const RowConfig c = choose(plan, RowKernel::softmax);
      const PlanSlot in = plan.argument(0), out = plan.argument(1);
      if (c.method == RowMethod::held)
        plan.launch(k.held, in, out, c.tile_rows);
      else if (c.method == RowMethod::cluster)
        plan.launch(k.cluster, in, out, c.columns_of_cta, c.ctas);
      else
        plan.launch(k.two_pass, in, out);
    });
  });
}

void softmax_backward(const Stream& stream, const Tensor& y, const Tensor& dy, const Tensor& dx,
                      Loc at) {
  const detail::CallPlace here(at);
  for_float("softmax_backward", y.dtype(), [&]<class T>(T) {
    const SoftmaxKernels<T>& k = softmax_kernels<T>();
    k.backward_plans.call(stream, tensor_args(y, dy, dx), {}, [&](PlanBuilder& plan) {
      require_rank("softmax_backward", "y", y, 2);
      require_tensor("softmax_backward", "dy", dy, y.dtype(), y.shape());
      require_tensor("softmax_backward", "dx", dx, y.dtype(), y.shape());
      const RowConfig c = choose(plan, RowKernel::softmax_backward);
      const PlanSlot p = plan.argument(0), g = plan.argument(1), out = plan.argument(2);
      if (c.method == RowMethod::held)
        plan.launch(k.held_backward, p, g, out, c.tile_rows);
      else if (c.method == RowMethod::cluster)
        plan.launch(k.cluster_backward, p, g, out, c.columns_of_cta, c.ctas);
      else
        plan.launch(k.two_pass_backward, p, g, out);
    });
  });
}

}  // namespace tegula::kernels
