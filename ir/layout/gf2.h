#pragma once
// Linear algebra over GF(2) on machine words: a vector is a 64-bit word, addition is XOR. Rank,
// solutions, kernels and common complements are all computed from one incremental echelon form, so
// the results are consistent with each other.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tegula::ir {

using BitVector = std::uint64_t;
using BitBasis = std::vector<BitVector>;

inline constexpr BitVector unit_vector(int bit) { return BitVector{1} << bit; }

/// Row-echelon form built one vector at a time. Each stored vector records the set of added vectors
/// whose sum it is. Only vectors that were independent when added ("pivots") appear in such a sum,
/// which makes solutions canonical.
class Echelon {
 public:
  Echelon() = default;
  explicit Echelon(std::span<const BitVector> vectors) {
    for (BitVector v : vectors) add(v);
  }
  /// Adds the next vector; returns true if it was independent of the earlier ones.
  bool add(BitVector v);
  bool contains(BitVector v) const { return reduce(v).rest == 0; }
  /// Returns the mask of added vectors (pivots only) whose sum is `v`, or nothing if there is none.
  std::optional<BitVector> solve(BitVector v) const;
  int rank() const { return rank_; }
  /// Returns the mask of the added vectors that were independent of their predecessors.
  BitVector pivots() const { return pivots_; }
  /// Returns one mask of added vectors with sum zero for each dependent vector added.
  const BitBasis& relations() const& { return relations_; }
  BitBasis relations() && { return std::move(relations_); }

 private:
  struct Reduced {
    BitVector rest;
    BitVector combination;
  };
  Reduced reduce(BitVector v) const;

  std::array<BitVector, 64> rows_{};  // rows_[b] has leading bit b
  std::array<BitVector, 64> combinations_{};
  BitBasis relations_;
  BitVector pivots_ = 0;
  int added_ = 0;
  int rank_ = 0;
};

/// A linear map given by its columns: column i is the image of input bit i.
class BitMatrix {
 public:
  BitMatrix(int inputs, int outputs) : inputs_(inputs), outputs_(outputs) {}
  static BitMatrix identity(int n);
  static BitMatrix from_columns(std::span<const BitVector> columns, int outputs);

  int inputs() const { return inputs_; }
  int outputs() const { return outputs_; }
  BitVector column(int i) const { return columns_.at(static_cast<std::size_t>(i)); }
  void set_column(int i, BitVector v) { columns_.at(static_cast<std::size_t>(i)) = v; }
  std::span<const BitVector> columns() const {
    return {columns_.data(), static_cast<std::size_t>(inputs_)};
  }

  BitVector operator()(BitVector x) const;
  int rank() const { return Echelon(columns()).rank(); }
  bool is_injective() const { return rank() == inputs_; }
  bool is_surjective() const { return rank() == outputs_; }
  /// Returns a basis of the inputs that map to zero.
  BitBasis kernel() const { return Echelon(columns()).relations(); }
  /// Returns the independent columns, a basis of the image.
  BitBasis image() const;
  /// Returns R with (*this) * R = identity, or nothing if the map is not surjective. R never uses
  /// dependent inputs.
  std::optional<BitMatrix> right_inverse() const;

  /// Applies `b` first, then `a`.
  friend BitMatrix operator*(const BitMatrix& a, const BitMatrix& b);
  friend bool operator==(const BitMatrix&, const BitMatrix&) = default;

 private:
  std::array<BitVector, 64> columns_{};
  int inputs_ = 0;
  int outputs_ = 0;
};

/// Returns a basis of span(a) ∩ span(b).
BitBasis intersection(std::span<const BitVector> a, std::span<const BitVector> b);
/// Returns unit vectors (lowest first) that extend `a` to a basis of the first `dimension` bits.
BitBasis complement(std::span<const BitVector> a, int dimension);
/// Returns the vectors of `from` (in order) that are independent of `a` and of each other.
BitBasis extension(std::span<const BitVector> a, std::span<const BitVector> from);
/// Returns a basis of a largest subspace that intersects span(a) and span(b) only in zero. Its
/// dimension is dimension - max(dim a, dim b): if only one of them leaves room, the sum of a vector
/// of each (a diagonal) extends the complement.
BitBasis common_complement(std::span<const BitVector> a, std::span<const BitVector> b,
                           int dimension);

}  // namespace tegula::ir
