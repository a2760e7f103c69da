#pragma once
// Finds integers and pointers that are affine in the indices of a tile, such as positions and sums
// of positions.
#include <functional>
#include <optional>
#include <unordered_map>

#include "ir/analysis/affine.h"
#include "ir/builder.h"

namespace tegula::ir {

using ScalarSum = Affine<Value, 16>;

/// Returns the sum with the definitions of its scalars expanded as far as they are sums, constant
/// multiples and casts that keep every number. Sums are assumed not to wrap, as indices do not. The
/// symbol of a view's first address is the view.
ScalarSum expanded(const Kernel& k, const ScalarSum& sum);
inline ScalarSum expanded(const Kernel& k, Value v) { return expanded(k, ScalarSum::symbol(v)); }

/// Returns a - b, where scalars that equal ops compute are one symbol; nothing if it overflows or
/// has too many symbols.
std::optional<ScalarSum> difference(const Kernel& k, const ScalarSum& a, const ScalarSum& b);

/// Returns the largest known divisor of the sum, or 0 if it is 0.
std::int64_t divisor_of(const Kernel& k, const ScalarSum& sum);

/// start + sum over dimensions of factor * index.
struct AffineIndex {
  Ints factor;  ///< factor of each dimension of the tile; none for a scalar
  ScalarSum start;

  /// Returns the only dimension along which the value varies, if its factor there is 1; otherwise
  /// nothing.
  std::optional<std::size_t> single_dim() const;
  bool is_uniform() const;
};

std::optional<AffineIndex> difference(const Kernel& k, const AffineIndex& a, const AffineIndex& b);

/// Returns the first element as a scalar of `dtype`. `get` maps each scalar of the index to a
/// value. Sums wrap, so their order does not matter.
Value first_of(Builder& b, const AffineIndex& index, DType dtype,
               const std::function<Value(Value)>& get);

/// Finds affine indices and caches the result for each value.
class AffineIndices {
 public:
  explicit AffineIndices(const Kernel& k) : k_(k) {}
  /// Returns nothing if the value is not an affine index. A scalar that is not a constant is one
  /// symbol.
  const std::optional<AffineIndex>& of(Value v);

 private:
  std::optional<AffineIndex> find(Value v);
  std::optional<AffineIndex> sum(const OpData& d);
  std::optional<AffineIndex> reshaped(const OpData& d);

  const Kernel& k_;
  std::unordered_map<Value, std::optional<AffineIndex>> known_;
};

}  // namespace tegula::ir
