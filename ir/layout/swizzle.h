#pragma once
// Synthesizes swizzles for one writer and one reader.

#include "ir/layout/bank_conflicts.h"
#include "ir/layout/shared_layout.h"

namespace tegula::ir {

/// Instructions that transfer the registers of a distributed layout.
enum class AccessForm : std::uint8_t {
  Vector,            ///< ld/st.shared of consecutive registers
  Matrix,            ///< ldmatrix, stmatrix
  MatrixTransposed,  ///< the same with .trans
};

struct ExchangeOptions {
  int max_vector_bytes = 16;
  bool stmatrix = true;  ///< sm_90 and later
  bool ldmatrix = true;
  int reads = 1;  ///< number of reads of every element per write
};

/// A transfer of a tile through shared memory.
struct SharedExchange {
  SharedLayout layout;
  AccessForm write = AccessForm::Vector;
  AccessForm read = AccessForm::Vector;
  BankUse write_use;
  BankUse read_use;
  int reads = 1;
  int cost() const {
    return write_use.wavefronts + write_use.instructions +
           reads * (read_use.wavefronts + read_use.instructions);
  }
};

/// Returns the cheapest exchange found. Offset bits are divided into vector bits (which one lane,
/// or one row of a matrix, covers), bank bits and segment bits. Two locations conflict if they
/// differ only in segments, so the segments are chosen from a common complement of the elements
/// that the writer and the reader access in one phase. Such a complement exists, so the only
/// remaining conflicts are those of vectors that the other side scatters.
Result<SharedExchange> synthesize_exchange(const LinearLayout& writer, const LinearLayout& reader,
                                           int element_bytes, const ExchangeOptions& options = {});

}  // namespace tegula::ir
