// Linear algebra over GF(2); see gf2.h.
#include "ir/layout/gf2.h"

#include <algorithm>
#include <bit>

namespace tegula::ir {
namespace {

int leading_bit(BitVector v) { return 63 - std::countl_zero(v); }

BitBasis joined(std::span<const BitVector> a, std::span<const BitVector> b) {
  BitBasis all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace

Echelon::Reduced Echelon::reduce(BitVector v) const {
  BitVector combination = 0;
  while (v != 0) {
    const auto b = static_cast<std::size_t>(leading_bit(v));
    if (rows_[b] == 0) break;
    v ^= rows_[b];
    combination ^= combinations_[b];
  }
  return {v, combination};
}

bool Echelon::add(BitVector v) {
  const auto [rest, combination] = reduce(v);
  const BitVector self = unit_vector(added_++);
  if (rest == 0) {
    relations_.push_back(combination ^ self);
    return false;
  }
  const auto b = static_cast<std::size_t>(leading_bit(rest));
  rows_[b] = rest;
  combinations_[b] = combination ^ self;
  pivots_ |= self;
  ++rank_;
  return true;
}

std::optional<BitVector> Echelon::solve(BitVector v) const {
  const auto [rest, combination] = reduce(v);
  if (rest != 0) return std::nullopt;
  return combination;
}

BitMatrix BitMatrix::identity(int n) {
  BitMatrix m(n, n);
  for (int i = 0; i < n; ++i) m.set_column(i, unit_vector(i));
  return m;
}

BitMatrix BitMatrix::from_columns(std::span<const BitVector> columns, int outputs) {
  BitMatrix m(static_cast<int>(columns.size()), outputs);
  for (int i = 0; i < m.inputs(); ++i) m.set_column(i, columns[static_cast<std::size_t>(i)]);
  return m;
}

BitVector BitMatrix::operator()(BitVector x) const {
  BitVector y = 0;
  for (; x != 0; x &= x - 1) y ^= columns_[static_cast<std::size_t>(std::countr_zero(x))];
  return y;
}

BitBasis BitMatrix::image() const {
  const BitVector pivots = Echelon(columns()).pivots();
  BitBasis out;
  for (int i = 0; i < inputs_; ++i)
    if (pivots >> i & 1) out.push_back(column(i));
  return out;
}

std::optional<BitMatrix> BitMatrix::right_inverse() const {
  const Echelon echelon(columns());
  BitMatrix inverse(outputs_, inputs_);
  for (int i = 0; i < outputs_; ++i) {
    const auto x = echelon.solve(unit_vector(i));
    if (!x) return std::nullopt;
    inverse.set_column(i, *x);
  }
  return inverse;
}

BitMatrix operator*(const BitMatrix& a, const BitMatrix& b) {
  BitMatrix product(b.inputs(), a.outputs());
  for (int i = 0; i < b.inputs(); ++i) product.set_column(i, a(b.column(i)));
  return product;
}

BitBasis intersection(std::span<const BitVector> a, std::span<const BitVector> b) {
  const BitBasis independent_a = extension({}, a);
  const BitBasis independent_b = extension({}, b);
  const BitMatrix from_a = BitMatrix::from_columns(independent_a, 64);
  const BitVector mask_a =
      independent_a.size() == 64 ? ~BitVector{0} : unit_vector(from_a.inputs()) - 1;
  BitBasis out;
  // Relations between both bases; the part of a relation that comes from `a` is also in span(b).
  const BitBasis relations = Echelon(joined(independent_a, independent_b)).relations();
  for (BitVector relation : relations) out.push_back(from_a(relation & mask_a));
  return out;
}

BitBasis complement(std::span<const BitVector> a, int dimension) {
  BitBasis units;
  for (int i = 0; i < dimension; ++i) units.push_back(unit_vector(i));
  return extension(a, units);
}

BitBasis extension(std::span<const BitVector> a, std::span<const BitVector> from) {
  Echelon echelon(a);
  BitBasis out;
  for (BitVector v : from)
    if (echelon.add(v)) out.push_back(v);
  return out;
}

BitBasis common_complement(std::span<const BitVector> a, std::span<const BitVector> b,
                           int dimension) {
  const BitBasis common = intersection(a, b);
  const BitBasis only_a = extension(common, a);
  const BitBasis only_b = extension(common, b);
  BitBasis out;
  for (std::size_t i = 0; i < std::min(only_a.size(), only_b.size()); ++i)
    out.push_back(only_a[i] ^ only_b[i]);
  const BitBasis outside = complement(joined(a, b), dimension);
  out.insert(out.end(), outside.begin(), outside.end());
  return out;
}

}  // namespace tegula::ir
