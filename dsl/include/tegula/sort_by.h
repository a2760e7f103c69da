#pragma once
#include <array>
#include <cstddef>

#include "tegula/order.h"
#include "tegula/shape_ops.h"

namespace tegula {

/// Returns the payloads in the order in which `sort` puts the keys along an axis: stable, in either
/// direction. Payloads have the keys' shape and any types. Elements whose keys are absent come last
/// and stay absent. Throws CompileError for keys without an order and for other shapes.
template <std::size_t N>
std::array<Tile, N> sort_by(const Arg& keys, const std::array<Tile, N>& payloads, Axis axis = -1,
                            Direction direction = Direction::ascending) {
  const Tile from = argsort(keys, axis, direction);
  std::array<Tile, N> sorted;
  for (std::size_t i = 0; i < N; ++i) sorted[i] = gather(payloads[i], from, axis);
  return sorted;
}
inline Tile sort_by(const Arg& keys, const Tile& payload, Axis axis = -1,
                    Direction direction = Direction::ascending) {
  return sort_by(keys, std::array{payload}, axis, direction)[0];
}

}  // namespace tegula
