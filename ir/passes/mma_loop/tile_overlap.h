#pragma once
// Of a persistent kernel whose products come in pairs, the second a step late (late_product.cpp):
// the last product of a tile, and what is computed and stored of its sums, beside the first product
// of the next tile.
#include <optional>
#include <vector>

#include "ir/clone_op.h"
#include "ir/passes/mma_loop/product_loop.h"

namespace tegula::ir {

class TileOverlap {
 public:
  /// `second` is the late product, `sum` its sum's place among the loop's carries. None where the
  /// loop is not the tile's only one, may have no step, or what follows it cannot come later.
  static std::optional<TileOverlap> of(ProductLoop& l, OpId second, std::size_t sum);

  /// The tile loop carries what is left of a tile; the loop's first values come behind those of the
  /// tile before. In front of the first copies.
  void enter();
  /// Of the tile before: whether there is one, and what its last product is of. Without one, the
  /// product is of zeros and this tile's first values, and nobody looks at it.
  Value exists() const { return exists_; }
  Value sum() const { return sum_; }
  Value weights() const { return weights_; }
  Value adds() const { return adds_; }
  RingPosition values_at() const { return at_; }
  /// What the tile before has left to do with its sums.
  void finish_before(Builder& b, Value sums);
  /// Behind the product loop, which yields the last product's weights and whether that adds to the
  /// sums there are: what is left of the last tile comes behind the tile loop.
  void leave(Value weights, Value adds);
  /// The tile loop's yields, behind those of the rings.
  void close();

 private:
  TileOverlap(ProductLoop& l, OpId second, std::size_t sum);

  bool collect();
  bool meets_others() const;
  bool is_of_tile(Value v) const;
  bool is_invariant(Value v) const;
  void add_outside(Value v);
  /// One more value that the tile loop carries; what it is behind that loop.
  Value carried(Value init);
  Value behind_tiles(Value arg) const;
  Value again(Builder& b, Value v, ValueMap& map) const;
  void write(Builder& b, ValueMap map) const;

  ProductLoop& l_;
  Kernel& k_;
  OpId second_, tiles_;
  std::size_t c_;
  std::size_t own_results_;       ///< of the loop, before rings add theirs
  std::vector<OpId> rest_;        ///< what follows the loop and needs its results
  std::vector<Value> from_tile_;  ///< what it needs of the tile
  std::vector<Value> yields_;     ///< further ones of the tile loop
  ValueMap before_;               ///< values of this tile to those of the tile before
  Value exists_, sum_, weights_, adds_;
  RingPosition at_;
};

}  // namespace tegula::ir
