#pragma once
// Maps registers of a thread to elements of a matrix instruction's operands, as mma.sync and wgmma
// share them.
#include <map>
#include <utility>
#include <vector>

#include "codegen/lower/lowering.h"
#include "ir/layout/linear_layout.h"

namespace tegula::codegen {

/// Maps each element of thread 0 to its register; other threads hold theirs in the same registers.
class RegisterOf {
 public:
  explicit RegisterOf(const ir::LinearLayout& layout);
  /// Throws InternalError if thread 0 does not hold the element.
  int operator()(int row, int col) const;
  /// Returns the distinct row tiles (dim 0) or column tiles of the given extent in which thread 0
  /// holds elements.
  std::vector<int> tiles(int dim, int extent) const;

 private:
  std::map<std::pair<int, int>, int> at_;
};

/// Position of the fragments of one instruction in thread 0 (lane 0): PTX ISA, "Matrix Fragments
/// for mma.m16n8k8", k16 and k32.
struct Fragment {
  explicit constexpr Fragment(int element_bits)
      : k(256 / element_bits), per_word(32 / element_bits), k_second(128 / element_bits) {}
  int k;         ///< k of the instruction
  int per_word;  ///< elements of a 32-bit register
  int k_second;  ///< k of the second half of the registers
};

/// Return the registers in the order of the instruction's fragments, tile by tile.
std::vector<std::int64_t> a_order(const RegisterOf& register_of, const std::vector<int>& rows,
                                  const std::vector<int>& ks, Fragment f);
std::vector<std::int64_t> b_order(const RegisterOf& register_of, const std::vector<int>& cols,
                                  const std::vector<int>& ks, Fragment f);
std::vector<std::int64_t> acc_order(const RegisterOf& register_of, const std::vector<int>& rows,
                                    const std::vector<int>& cols);

/// Returns the fragment's registers as 32-bit words.
ir::Value words(Lowering& l, ir::Value fragment);
/// Returns a whole tile in the layout of operand A, as 32-bit words.
ir::Value a_fragments(Lowering& l, ir::Value machine_tile);

}  // namespace tegula::codegen
