#pragma once
// Random masks as users write them, of comparisons that are linear in the positions.
#include <cstdint>
#include <functional>
#include <random>
#include <utility>

#include "tegula/kernels/masks.h"

namespace tegula::test {
using namespace kernels;

using Seen = std::function<bool(std::int64_t q, std::int64_t kv)>;

/// Something of the shape of masks people write, with the same as a function.
inline std::pair<Mask, Seen> random_mask(std::mt19937& random, int depth) {
  const auto number = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  const int c = number(-40, 40), n = number(1, 30), choice = number(0, depth > 0 ? 9 : 5);
  if (choice == 0)
    return {[=](Tile, Tile, Tile q, Tile kv) { return q + c >= kv; },
            [=](auto q, auto kv) { return q + c >= kv; }};
  if (choice == 1)
    return {[=](Tile, Tile, Tile q, Tile kv) { return 3 * q - kv < c; },
            [=](auto q, auto kv) { return 3 * q - kv < c; }};
  if (choice == 2)
    return {[=](Tile, Tile, Tile, Tile kv) { return kv > c; },
            [=](auto, auto kv) { return kv > c; }};
  if (choice == 3)
    return {[=](Tile, Tile, Tile q, Tile kv) { return q / n + c / 8 == kv / n; },
            [=](auto q, auto kv) { return q / n + c / 8 == kv / n; }};
  if (choice == 4)
    return {[=](Tile, Tile, Tile q, Tile) { return q <= c; }, [=](auto q, auto) { return q <= c; }};
  if (choice == 5)
    return {[=](Tile, Tile, Tile q, Tile kv) { return (kv + c) / n <= (q - c) / n + c / 8; },
            [=](auto q, auto kv) { return (kv + c) / n <= (q - c) / n + c / 8; }};
  const auto [a, seen_a] = random_mask(random, depth - 1);
  const auto [b, seen_b] = random_mask(random, depth - 1);
  if (choice == 6) return {masks::not_(a), [=](auto q, auto kv) { return !seen_a(q, kv); }};
  if (choice == 7)
    return {masks::or_(a, b), [=](auto q, auto kv) { return seen_a(q, kv) || seen_b(q, kv); }};
  return {masks::and_(a, b), [=](auto q, auto kv) { return seen_a(q, kv) && seen_b(q, kv); }};
}

}  // namespace tegula::test
