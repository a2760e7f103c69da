#pragma once
// Integers that vary evenly along the dimensions of a tile: positions, and sums of them.
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"

namespace tegula::ir {

/// start + sum of plus - sum of minus + sum over dimensions of factor * index. Sums wrap, so that
/// their order does not matter.
struct AffineIndex {
  Ints factor;  ///< factor of each dimension of the tile; none for a scalar
  std::int64_t start = 0;
  std::vector<Value> plus, minus;  ///< scalars

  /// Varies along this dimension alone, by one each; nothing if along none, or otherwise.
  std::optional<std::size_t> single_dim() const;
  bool is_uniform() const;
};

/// The first element, a scalar of `dtype`; `get` maps each scalar of the index to a value.
Value first_of(Builder& b, const AffineIndex& at, DType dtype,
               const std::function<Value(Value)>& get);

/// Finds them, each value once.
class AffineIndices {
 public:
  explicit AffineIndices(const Kernel& k) : k_(k) {}
  /// Nothing for what is no such integer.
  const std::optional<AffineIndex>& of(Value v);

 private:
  std::optional<AffineIndex> find(Value v);
  std::optional<AffineIndex> sum(const OpData& d);
  std::optional<AffineIndex> reshaped(const OpData& d);

  const Kernel& k_;
  std::unordered_map<Value, std::optional<AffineIndex>> known_;
};

}  // namespace tegula::ir
