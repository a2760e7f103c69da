#pragma once
// Tiles [m, n] as factor * tile + terms, where factor and terms are scalars or vary along one
// dimension only. Computing with these costs m or n operations instead of m * n.
#include <array>
#include <optional>
#include <span>

#include "ir/builder.h"

namespace tegula::ir {

/// A scalar (axis -1), or a tile of rank 1 along dimension `axis` of a wider one.
struct RowOrColTerm {
  Value value;
  int axis = -1;
  explicit operator bool() const { return static_cast<bool>(value); }
  friend bool operator==(const RowOrColTerm&, const RowOrColTerm&) = default;
};

struct LinearForm {
  Value tile;                         ///< none: there are only terms
  RowOrColTerm factor;                ///< factor of the tile; none: 1
  std::array<RowOrColTerm, 3> terms;  ///< term of an axis at axis + 1; none: 0

  RowOrColTerm& term(int axis) { return terms[static_cast<std::size_t>(axis + 1)]; }
  const RowOrColTerm& term(int axis) const { return terms[static_cast<std::size_t>(axis + 1)]; }
  bool has_terms() const { return terms[0] || terms[1] || terms[2]; }
  /// Returns true if the form is only its tile.
  bool is_tile() const { return tile && !factor && !has_terms(); }
  /// Returns the number of ops per element that write the form out.
  int cost() const {
    const int lines = (term(0) ? 1 : 0) + (term(1) ? 1 : 0);
    const int sums = lines > 0 ? lines : term(-1) ? 1 : 0;  // scalars join a line
    return !tile ? sums - 1 : factor && sums == 0 ? 1 : sums;
  }
};

/// Arithmetic on forms. Ops are inserted at the point set by `before`. A result is nothing if no
/// form can represent it.
class LinearForms {
 public:
  explicit LinearForms(Kernel& k) : k_(k), b_(k) {}

  /// Returns true for tiles that may be broadcasts of something narrower: two dimensions with
  /// extents greater than 1.
  static bool has_broadcast_dims(Type t);
  void before(OpId op) {
    b_.before(op);
    b_.loc = k_[op].loc;
  }
  Builder& builder() { return b_; }

  /// Returns the axis of a narrow value: a scalar, or a repeated scalar, row or column.
  std::optional<int> narrow_axis(Value v) const;
  /// Returns the form of a value: a row or column term if it is a broadcast, else a tile.
  LinearForm of(Value v);
  /// Returns a form without tile as a single narrow value; nothing if it has two or more.
  std::optional<RowOrColTerm> narrow(const LinearForm& f);

  std::optional<LinearForm> sum(const LinearForm& x, const LinearForm& y);
  LinearForm negated(const LinearForm& x);
  std::optional<LinearForm> product(const LinearForm& x, const LinearForm& y);
  std::optional<LinearForm> quotient(const LinearForm& x, const LinearForm& y);
  /// Converts an integer form to floats. A sum of positions is split by dimension, so that each
  /// term's rounding error is small relative to the sum.
  std::optional<LinearForm> cast(const LinearForm& x, DType to);
  /// Returns the form with an MMA whose accumulator starts as the terms of `axis` instead of zeros;
  /// nothing if its tile is not such an MMA, the terms are not a ramp, or the factor is not a
  /// scalar. The factor must not be 0.
  std::optional<LinearForm> with_accumulator_init(const LinearForm& f, int axis);
  /// Applies an elementwise op (with its attributes) to narrow operands.
  std::optional<RowOrColTerm> elementwise(OpId like, std::span<const RowOrColTerm> operands);

  /// Returns the form as a tile of `type`.
  Value emit(const LinearForm& f, Type type);
  /// Returns factor * x + terms, where x is the reduction of the tile along the other dimension.
  Value emit_folded(Value x, const LinearForm& f);

 private:
  bool may_be_absent_along(Value v, int dim) const;
  std::optional<RowOrColTerm> repeated_scalar(Value v);
  RowOrColTerm squeeze(Value v, int axis);
  RowOrColTerm to_float(const RowOrColTerm& n);
  std::optional<RowOrColTerm> narrow_of(Value v);
  RowOrColTerm add(const RowOrColTerm& x, const RowOrColTerm& y);
  RowOrColTerm mul(const RowOrColTerm& x, const RowOrColTerm& y);
  RowOrColTerm neg(const RowOrColTerm& x);
  RowOrColTerm one(Type t);
  LinearForm with_scalar_merged(LinearForm f);
  LinearForm merged_with_axis_of(const LinearForm& f, const LinearForm& other);
  Value repeated(const RowOrColTerm& n, Type type);
  std::optional<LinearForm> sum_of_fulls(const LinearForm& x, const LinearForm& y);

  Kernel& k_;
  Builder b_;
};

}  // namespace tegula::ir
