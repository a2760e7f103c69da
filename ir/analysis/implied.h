#pragma once
// Derives bounds of positions from a condition on the elements of a tile. Does not modify the
// kernel.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "ir/analysis/affine_index.h"
#include "ir/analysis/facts.h"

namespace tegula::ir {

/// Sum of scalars times their factors, of the index along each dimension times its factor, and of a
/// constant. All ViewDim ops of one view dimension are the same scalar.
struct Positions {
  using Key = std::pair<std::uint32_t, int>;
  std::map<Key, std::int64_t> terms;
  std::map<int, std::int64_t> index;
  std::int64_t constant = 0;

  void add(const Positions& other, std::int64_t factor);
};

class Implications {
 public:
  Implications(const Kernel& k, const Facts& facts) : k_(k), facts_(facts), indices_(k) {}

  /// Returns true if limit - offset - i > 0 for each element i along `dim` at which the i1 tile
  /// `condition` equals `when`.
  bool is_below(Value condition, bool when, int dim, Value offset, Value limit, OpId at);
  /// Returns true if offset + i >= 0 for each element i at which `condition` equals `when`.
  bool is_not_negative(Value condition, bool when, int dim, Value offset, OpId at);

 private:
  bool implies(Value condition, bool when, const Positions& wanted, OpId at, int depth);
  bool compares(const OpData& cmp, bool when, const Positions& wanted, OpId at);
  bool follows(const Positions& known, const Positions& wanted, OpId at) const;
  void add_scalar(Positions& to, Value v, std::int64_t factor, int depth = 0) const;
  std::optional<Positions> positions(Value v);

  const Kernel& k_;
  const Facts& facts_;
  AffineIndices indices_;
};

}  // namespace tegula::ir
