#pragma once
// Bounds that a condition on the elements of a tile implies for their positions. Reads only.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "ir/analysis/affine_index.h"
#include "ir/analysis/facts.h"

namespace tegula::ir {

/// Sum of scalars by their factors, of an index along one dimension by its own, and a constant.
/// Extents of views are one scalar wherever they are asked for.
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

  /// Whether element i along `dim` has limit - offset - i > 0 if the i1 tile `condition` is `when`.
  bool is_below(Value condition, bool when, int dim, Value offset, Value limit, OpId at);
  /// offset + i >= 0.
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
