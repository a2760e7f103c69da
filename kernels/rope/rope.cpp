// Rotary position embedding: each program rotates some heads of some tokens.
#include <algorithm>
#include <bit>

#include "kernels/float_types.h"
#include "kernels/rope/rotation.h"
#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Returns the tile with its last dimension split into pairs of neighbours.
Tile in_pairs(const Tile& t) {
  const auto s = t.shape();
  const std::int64_t half = s.back() / 2;
  if (s.size() == 1) return t.reshape({half, 2});
  return s.size() == 2 ? t.reshape({s[0], half, 2}) : t.reshape({s[0], s[1], half, 2});
}

/// Returns the tile with its last two dimensions merged.
Tile without_pairs(const Tile& t) {
  const auto s = t.shape();
  if (s.size() == 2) return t.reshape({2 * s[0]});
  return s.size() == 3 ? t.reshape({s[0], 2 * s[1]}) : t.reshape({s[0], s[1], 2 * s[2]});
}

}  // namespace

RotatedPair neighbours(const Tile& t) {
  const Tile pairs = in_pairs(t), is_first = arange(2) == 0;
  return {sum(where(is_first, pairs, 0.0f), -1), sum(where(is_first, 0.0f, pairs), -1)};
}
Tile interleave(const RotatedPair& p) {
  return without_pairs(where(arange(2) == 0, p.first.expand(-1), p.second.expand(-1)));
}

void check_rope_tables(const char* caller, const RopeTables& tables, std::int64_t tokens,
                       std::int64_t dim, bool any_rows) {
  require_rank(caller, "cos", tables.cos, 2);
  require_tensor(caller, "cos", tables.cos, DType::f32, tables.cos.shape());
  require_tensor(caller, "sin", tables.sin, DType::f32, tables.cos.shape());
  require_optional(caller, "positions", tables.positions, DType::i32, {tokens});
  const std::int64_t half = tables.cos.size(1);
  if (half > 1 && 2 * half <= dim &&
      (any_rows || tables.positions.defined() || tables.cos.size(0) >= tokens))
    return;
  throw_argument_error(ErrorId::kernel_argument, caller, "cos", tables.cos.str(),
                       "a row for each token, or positions, of 2 to half of the head dim columns");
}

namespace {

template <class T>
auto rope_kernel() {
  return kernel(
      "rope", [](In<T, 3> x, RopeTableViews tables, std::optional<In<i32, 1>> positions,
                 Out<T, 3> y, RopePairs pairs, bool is_backward, int tile_tokens, int tile_heads) {
        const int half = tables.cos.static_dim(1), dim = x.static_dim(2);
        for (auto [t, h] : grid({y.dim(0), y.dim(1)}, tile_tokens, tile_heads)) {
          std::optional<Tile> given;
          if (positions) given = (*positions)(t);
          Angles angles = tables.of(t, given, slice(0, half), tile_heads > 1);
          if (is_backward) angles.sin = -angles.sin;
          rotate_columns(
              pairs, half, dim, angles, [&](const Index& columns) { return x(t, h, columns); },
              [&](const Index& columns, const Tile& rotated) { y(t, h, columns) = rotated; });
        }
      });
}

void check_rope(const char* name, const Tensor& x, const RopeTables& tables, const Tensor& y,
                bool is_backward) {
  require_rank(name, is_backward ? "dy" : "x", x, 3);
  require_tensor(name, is_backward ? "dx" : "y", y, x.dtype(), x.shape());
  check_rope_tables(name, tables, x.size(0), x.size(2), false);
}

/// Uses tiles of about 4096 elements. With positions, a program has one token and loads whole rows.
void rotate(const char* name, const Stream& stream, RopePairs pairs, const Tensor& x,
            const RopeTables& tables, const Tensor& y, bool is_backward) {
  constexpr std::int64_t kElements = 4096;
  check_rope(name, x, tables, y, is_backward);
  const auto rows = static_cast<std::uint64_t>(std::max<std::int64_t>(kElements / x.size(2), 1));
  const auto heads =
      std::min(std::bit_floor(rows),
               std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(x.size(1), 1))));
  const std::uint64_t tokens = tables.positions.defined() ? 1 : std::bit_floor(rows) / heads;
  for_float(name, x.dtype(), [&]<class T>(T) {
    static const auto* const kernel = new auto(rope_kernel<T>());  // never destroyed
    (*kernel)(stream, x, tables.cos, tables.sin, tables.positions, y, pairs, is_backward,
              static_cast<int>(tokens), static_cast<int>(heads));
  });
}

}  // namespace

void rope(const Stream& stream, RopePairs pairs, const Tensor& x, const RopeTables& tables,
          const Tensor& y, Loc at) {
  const detail::CallPlace here(at);
  rotate("rope", stream, pairs, x, tables, y, false);
}

void rope_backward(const Stream& stream, RopePairs pairs, const Tensor& dy,
                   const RopeTables& tables, const Tensor& dx, Loc at) {
  const detail::CallPlace here(at);
  rotate("rope_backward", stream, pairs, dy, tables, dx, true);
}

}  // namespace tegula::kernels
