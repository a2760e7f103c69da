#pragma once
// Linear algebra over GF(2) on machine words: a vector is a 64-bit word, addition is XOR.
// Everything the layouts ask for (rank, solving, kernels, common complements) is answered from one
// incremental echelon form, so the answers agree with each other.

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

/// Row-echelon form built one vector at a time. Each kept vector remembers which of the added
/// vectors it is the sum of; only vectors that were independent when added ("pivots") ever appear
/// in such a sum, which is what makes solutions canonical.
class Echelon {
 public:
  Echelon() = default;
  explicit Echelon(std::span<const BitVector> vectors) {
    for (BitVector v : vectors) add(v);
  }
  /// Adds the next vector; true if it was independent of the earlier ones.
  bool add(BitVector v);
  bool contains(BitVector v) const { return reduce(v).rest == 0; }
  /// Mask of added vectors (pivots only) whose sum is `v`.
  std::optional<BitVector> solve(BitVector v) const;
  int rank() const { return rank_; }
  /// Mask of the added vectors that were independent of their predecessors.
  BitVector pivots() const { return pivots_; }
  /// One mask of added vectors with sum zero for each dependent vector added.
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
  /// Basis of the inputs that map to zero.
  BitBasis kernel() const { return Echelon(columns()).relations(); }
  /// Independent columns: a basis of the image.
  BitBasis image() const;
  /// R with (*this) * R = identity; dependent inputs are never used. Needs a surjective map.
  std::optional<BitMatrix> right_inverse() const;

  /// First `b`, then `a`.
  friend BitMatrix operator*(const BitMatrix& a, const BitMatrix& b);
  friend bool operator==(const BitMatrix&, const BitMatrix&) = default;

 private:
  std::array<BitVector, 64> columns_{};
  int inputs_ = 0;
  int outputs_ = 0;
};

/// Basis of span(a) ∩ span(b).
BitBasis intersection(std::span<const BitVector> a, std::span<const BitVector> b);
/// Unit vectors (lowest first) that extend `a` to a basis of the first `dimension` bits.
BitBasis complement(std::span<const BitVector> a, int dimension);
/// Vectors of `from` (in order) that are independent of `a` and of each other.
BitBasis extension(std::span<const BitVector> a, std::span<const BitVector> from);
/// A largest subspace that meets neither span(a) nor span(b) except in zero. It has the dimension
/// dimension - max(dim a, dim b): wherever one of them leaves room, so does the other after adding
/// a vector of each to form a diagonal.
BitBasis common_complement(std::span<const BitVector> a, std::span<const BitVector> b,
                           int dimension);

}  // namespace tegula::ir
