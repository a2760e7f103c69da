#pragma once
// Feeding registers to a dot as they are, by renaming its contraction index.

#include <vector>

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// A dot may sum over its contraction index in any order, as long as both operands agree. So
/// registers laid out as `have` can be passed where the instruction expects `want`: slot k of the
/// instruction then holds logical index logical(k), and the other operand must be permuted likewise
/// (fp8 P.V needs no shuffle this way).
struct ContractionMatch {
  BitMatrix permutation{0, 0};  ///< slot bits -> logical bits; digits keep their place
  std::vector<int> registers;   ///< register of `have` for each register of `want`

  int logical(int slot) const;
  bool is_identity() const { return permutation == BitMatrix::identity(permutation.inputs()); }
};

/// Refused if a thread of `have` does not hold the other dimensions' elements that `want` asks of
/// it.
Result<ContractionMatch> match_contraction(const LinearLayout& have, const LinearLayout& want,
                                           int k_dim);

}  // namespace tegula::ir
