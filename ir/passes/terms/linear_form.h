#pragma once
// Tiles [m, n] as factor * tile + terms, where factor and terms are scalars or vary along one
// dimension only: computing with those costs m or n operations, not m * n.
#include <array>
#include <optional>
#include <span>

#include "ir/builder.h"

namespace tegula::ir {

/// A scalar (axis -1), or a tile of rank 1 that lies along dimension `axis` of a wider one.
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
  /// The value is no more than its tile.
  bool is_tile() const { return tile && !factor && !has_terms(); }
  /// Ops of each element that write it out.
  int cost() const {
    const int lines = (term(0) ? 1 : 0) + (term(1) ? 1 : 0);
    const int sums = lines > 0 ? lines : term(-1) ? 1 : 0;  // scalars join a line
    return !tile ? sums - 1 : factor && sums == 0 ? 1 : sums;
  }
};

/// Computes with forms; ops go where `before` says. Results are nothing where a form cannot hold
/// them.
class LinearForms {
 public:
  explicit LinearForms(Kernel& k) : k_(k), b_(k) {}

  /// Tiles that have something narrower than they are: two dimensions, both of more than 1.
  static bool has_broadcast_dims(Type t);
  void before(OpId op) {
    b_.before(op);
    b_.loc = k_[op].loc;
  }
  Builder& builder() { return b_; }

  /// The axis of a value that is narrow: a scalar, or a repeated scalar, row or column.
  std::optional<int> narrow_axis(Value v) const;
  /// The form of a value: a row or column term if it is a broadcast, else a tile.
  LinearForm of(Value v);
  /// The one narrow value that a form without tile is; none where there are two or more.
  std::optional<RowOrColTerm> narrow(const LinearForm& f);

  std::optional<LinearForm> sum(const LinearForm& x, const LinearForm& y);
  LinearForm negated(const LinearForm& x);
  std::optional<LinearForm> product(const LinearForm& x, const LinearForm& y);
  std::optional<LinearForm> quotient(const LinearForm& x, const LinearForm& y);
  /// Converts an integer form to floats. A sum of positions is split by dimension, so that each
  /// term's rounding error is small relative to the sum.
  std::optional<LinearForm> cast(const LinearForm& x, DType to);
  /// The form with an MMA whose accumulator begins with the terms of `axis` instead of zeros;
  /// nothing if it has no such MMA, the terms are no ramp, or the factor no scalar. The factor must
  /// not be 0.
  std::optional<LinearForm> with_accumulator_init(const LinearForm& f, int axis);
  /// An elementwise op (with its attributes) on narrow operands.
  std::optional<RowOrColTerm> elementwise(OpId like, std::span<const RowOrColTerm> operands);

  /// The form as a tile of `type`.
  Value emit(const LinearForm& f, Type type);
  /// factor * x + terms, where x is what a fold left of the tile along the other dimension.
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
