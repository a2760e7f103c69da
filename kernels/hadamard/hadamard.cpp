// Fast Walsh-Hadamard transform: log2(n) butterfly stages on rows in a program's registers.
#include "tegula/kernels/hadamard.h"

#include <bit>

#include "kernels/float_types.h"
#include "kernels/row_tiles.h"
#include "tegula/call_plan.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Replaces elements i and i + stride by their sum and difference, each computed by one fma with
/// the other element, which is in another register, lane or warp of the program.
Tile butterfly(const Tile& x, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  const Tile pairs = x.reshape({rows, columns / (2 * stride), 2, stride});
  const Tile sign = where(arange(2) == 1, -1.0f, 1.0f).expand(1);
  return fma(pairs, sign, flip(pairs, 2)).reshape({rows, columns});
}

template <class T>
auto hadamard_kernel() {
  return kernel("hadamard", [](In<T, 2> x, Out<T, 2> y, Scalar<f32> scale, int tile_rows) {
    const int columns = x.static_dim(1);
    const Index row = slice(0, columns);
    for (auto r : grid(rows(y), tile_rows)) {
      const Tile loaded = fill_absent(cast<f32>(x.with(kReadOnce)(r, row)), 0);
      Tile v = loaded.reshape({tile_rows, columns});
      for (int stride = 1; stride < columns; stride *= 2)
        v = butterfly(v, tile_rows, columns, stride);
      v = v * scale;
      y(r, row) = tile_rows == 1 ? v.reshape({columns}) : v;
    }
  });
}

template <class T>
struct HadamardKernels {
  decltype(hadamard_kernel<T>()) kernel = hadamard_kernel<T>();
  decltype(hadamard_kernel<T>()) of_four_warps = hadamard_kernel<T>().with_plan({.num_warps = 4});
  CallPlans plans;
};

}  // namespace

void hadamard(const Stream& stream, const Tensor& x, const Tensor& y, float scale, Loc at) {
  const detail::CallPlace here(at);
  require_rank("hadamard", "x", x, 2);
  require_tensor("hadamard", "y", y, x.dtype(), x.shape());
  const std::int64_t columns = x.size(1);
  if (columns < 2 || columns > kMaxHeldColumns ||
      !std::has_single_bit(static_cast<std::uint64_t>(columns)))
    throw_argument_error(ErrorId::kernel_argument, "hadamard", "x", x.str(),
                         "rows of a power of two from 2 to 32768");
  for_float("hadamard", x.dtype(), [&]<class T>(T) {
    // Leaked: destructors of static objects may call.
    static const auto* const k = new HadamardKernels<T>;
    k->plans.call(stream, tensor_args(x, y), PlanOptions{std::bit_cast<std::int32_t>(scale)},
                  [&](PlanBuilder& plan) {
                    const RowConfig c = choose_rows(
                        {x.size(0), columns, RowKernel::hadamard, x.dtype()}, plan.device());
                    // A warp holds at most 1024 elements of a row. For rows that eight warps would
                    // share, four warps with 2048 elements each exchange less through shared
                    // memory: 9 % less time on an H100.
                    plan.launch(columns == 8192 ? k->of_four_warps : k->kernel, plan.argument(0),
                                plan.argument(1), scale, c.tile_rows);
                  });
  });
}

}  // namespace tegula::kernels
