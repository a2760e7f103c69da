// Matching operands up to a permutation of the contraction index: see contraction.h.
#include "ir/layout/contraction.h"

#include <algorithm>

namespace tegula::ir {
namespace {

/// Collects which logical index each slot must mean; consistent as long as `ok`.
class PermutationBuilder {
 public:
  /// Adds slot -> logical; false if it contradicts what is known.
  bool add(int slot, int logical) {
    const auto known = slots_.solve(static_cast<BitVector>(slot));
    if (known) return image(*known) == static_cast<BitVector>(logical);
    slots_.add(static_cast<BitVector>(slot));
    logical_.push_back(static_cast<BitVector>(logical));
    return true;
  }
  std::optional<BitMatrix> build(int bits) const {
    BitMatrix m(bits, bits);
    for (int b = 0; b < bits; ++b) {
      const auto known = slots_.solve(BitVector{1} << b);
      if (!known) return std::nullopt;
      m.set_column(b, image(*known));
    }
    return m.is_injective() ? std::optional(m) : std::nullopt;
  }

 private:
  BitVector image(BitVector combination) const {
    return BitMatrix::from_columns(logical_, 64)(combination);
  }
  Echelon slots_;  // independent ones only, so that positions agree with logical_
  BitBasis logical_;
};

Dims without(Dims index, int dim) {
  index[dim] = 0;
  return index;
}

bool is_zero(const Dims& index) {
  return std::all_of(index.begin(), index.end(), [](int v) { return v == 0; });
}

/// For each register bit of `want` the first unused one of `have` that moves the other dimensions
/// alike.
std::optional<std::vector<int>> match_register_bits(const LinearLayout& have,
                                                    const LinearLayout& want, int k_dim) {
  std::vector<int> out;
  for (int w = 0; w < want.in_bits(HwDim::Register); ++w) {
    const Dims basis = want.basis(HwDim::Register, w);
    int found = -1;
    for (int h = 0; h < have.in_bits(HwDim::Register) && found < 0; ++h)
      if (without(have.basis(HwDim::Register, h), k_dim) == without(basis, k_dim) &&
          std::find(out.begin(), out.end(), h) == out.end())
        found = h;
    if (found < 0) return std::nullopt;
    out.push_back(found);
  }
  return out;
}

std::vector<int> registers_of_bits(const LinearLayout& have, const std::vector<int>& bits) {
  std::vector<int> out;
  const int low = 1 << bits.size();
  for (int r = 0; r < have.registers(); ++r) {
    int source = r / low * low;
    for (std::size_t b = 0; b < bits.size(); ++b)
      if (r >> b & 1) source |= 1 << bits[b];
    out.push_back(source);
  }
  return out;
}

}  // namespace

int ContractionMatch::logical(int slot) const {
  const int bits = permutation.inputs();
  return (slot >> bits << bits) |
         static_cast<int>(permutation(static_cast<BitVector>(slot & ((1 << bits) - 1))));
}

Result<ContractionMatch> match_contraction(const LinearLayout& have, const LinearLayout& want,
                                           int k_dim) {
  using LayoutRefusal = Result<ContractionMatch>;
  if (have.shape() != want.shape() || have.cover() != want.cover())
    return LayoutRefusal::refused("the tiles differ");
  if (!std::equal(have.repeats().begin(), have.repeats().end(), want.repeats().begin(),
                  want.repeats().end()))
    return LayoutRefusal::refused("the repeats differ");
  for (HwDim in : kIns)
    if (have.in_bits(in) != want.in_bits(in))
      return LayoutRefusal::refused("the numbers of threads or registers differ");
  const auto bits = match_register_bits(have, want, k_dim);
  if (!bits) return LayoutRefusal::refused("a thread holds other rows");
  PermutationBuilder builder;
  for (HwDim in : kIns)
    for (int b = 0; b < want.in_bits(in); ++b) {
      const Dims slot = want.basis(in, b);
      const Dims logical =
          have.basis(in, in == HwDim::Register ? (*bits)[static_cast<std::size_t>(b)] : b);
      if (without(slot, k_dim) != without(logical, k_dim))
        return LayoutRefusal::refused("a thread holds other rows");
      if (is_zero(slot) != is_zero(logical) || !builder.add(slot[k_dim], logical[k_dim]))
        return LayoutRefusal::refused(
            "no permutation of the contraction index maps one to the other");
    }
  const auto permutation = builder.build(want.bits(k_dim));
  if (!permutation)
    return LayoutRefusal::refused("no permutation of the contraction index maps one to the other");
  return ContractionMatch{*permutation, registers_of_bits(have, *bits)};
}

}  // namespace tegula::ir
