#pragma once
// What a matrix product takes on a Hopper GPU: waves of tiles, each bound by tensor cores, by bytes
// from L2 or by the memory's latency, and all by its bandwidth.
#include <cstdint>
#include <span>

namespace tegula::autotune {

/// A product of m x k and k x n, as far as its time depends on it.
struct Product {
  std::int64_t m, n, k;
  int operand_bytes;
  /// Rows of both operands begin at multiples of 128 bytes, the lines of the L2.
  bool whole_lines;
  /// A warpgroup holds the sums of 128 x 128 by itself.
  bool may_alternate = true;
};

/// Of the result; a step along k is what one instruction takes of a row, 32 bytes, times 4.
struct ProductTile {
  static constexpr int kStepBytes = 128;
  int bm, bn;
  bool swapped = false;
  /// The tile as the tensor cores have it.
  int rows() const { return swapped ? bn : bm; }
  int columns() const { return swapped ? bm : bn; }
  int bytes_of_step() const { return (bm + bn) * kStepBytes; }
};

/// How a product is computed: steps under way, and k divided among CTAs, whose sums a second kernel
/// adds or, in a cluster, they themselves.
struct ProductWay {
  ProductTile tile{0, 0};
  int stages = 0, splits = 1;
  bool clustered = false;
  /// Two warpgroups take a CTA's tiles in turn: the end of one lies beside the next.
  bool alternate = false;
};

/// Estimated cycles on `sms` multiprocessors.
double product_cycles(const Product& product, const ProductWay& way, int sms);

/// The way with the least of them, of all depths of rings that differ and up to `max_splits` parts
/// of k.
ProductWay best_way(const Product& product, std::span<const ProductTile> tiles, int max_splits,
                    int sms);

}  // namespace tegula::autotune
