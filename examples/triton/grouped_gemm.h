#pragma once
// Triton's tutorial 08, grouped GEMM: GEMMs of many shapes in one launch. Addresses and shapes are
// in device memory. A fixed number of programs shares the tiles of all GEMMs.
#include <tegula/tegula.h>

namespace tegula::tutorials {

/// addresses [GEMMs, 3] of A, B and C, which are row-major f16 and aligned to 16 bytes; shapes
/// [GEMMs, 3]: m, n / 8 and k / 8. The caller passes two programs per SM.
inline auto grouped_gemm() {
  return kernel("grouped_gemm", [](In<i64, 2> addresses, In<i32, 2> shapes, int programs) {
    for (auto p : grid(GridSpace({programs}), 1)) {
      Tile tile = cast<i32>(p.first()), first = full<i32>(0);
      for (auto g : steps(shapes.rows(), 1)) {
        const Tile m = shapes(g, 0), n = 8 * shapes(g, 1), k = 8 * shapes(g, 2);
        const auto A = view<f16, 2>(as_pointer<f16>(addresses(g, 0)), {m, k}, {k, 1}, aligned(16));
        const auto B = view<f16, 2>(as_pointer<f16>(addresses(g, 1)), {k, n}, {n, 1}, aligned(16));
        const auto C = view<f16, 2>(as_pointer<f16>(addresses(g, 2)), {m, n}, {n, 1}, aligned(16));
        const Tile columns = cdiv(n, 128), end = first + cdiv(m, 128) * columns;
        while_([&] { return tile < end; },
               [&] {
                 const Index r = slice((tile - first) / columns * 128, 128),
                             c = slice((tile - first) % columns * 128, 128);
                 Tile acc = zeros<f32>(128, 128);
                 for (auto s : steps(k, 64)) acc = dot(A(r, s), B(s, c), acc);
                 C(r, c) = acc;
                 tile = tile + programs;
               });
        first = end;
      }
    }
  });
}

}  // namespace tegula::tutorials
