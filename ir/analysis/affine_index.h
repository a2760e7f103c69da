#pragma once
// Finds integers that are affine in the indices of a tile, such as positions and sums of positions.
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"

namespace tegula::ir {

/// start + sum of plus - sum of minus + sum over dimensions of factor * index. Sums wrap, so their
/// order does not matter.
struct AffineIndex {
  Ints factor;  ///< factor of each dimension of the tile; none for a scalar
  std::int64_t start = 0;
  std::vector<Value> plus, minus;  ///< scalars

  /// Returns the only dimension along which the value varies, if its factor there is 1; otherwise
  /// nothing.
  std::optional<std::size_t> single_dim() const;
  bool is_uniform() const;
};

/// Returns the first element as a scalar of `dtype`. `get` maps each scalar of the index to a
/// value.
Value first_of(Builder& b, const AffineIndex& at, DType dtype,
               const std::function<Value(Value)>& get);

/// Finds affine indices and caches the result for each value.
class AffineIndices {
 public:
  explicit AffineIndices(const Kernel& k) : k_(k) {}
  /// Returns nothing if the value is not an affine index.
  const std::optional<AffineIndex>& of(Value v);

 private:
  std::optional<AffineIndex> find(Value v);
  std::optional<AffineIndex> sum(const OpData& d);
  std::optional<AffineIndex> reshaped(const OpData& d);

  const Kernel& k_;
  std::unordered_map<Value, std::optional<AffineIndex>> known_;
};

}  // namespace tegula::ir
