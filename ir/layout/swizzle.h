#pragma once
// Swizzles made to measure for one writer and one reader.

#include "ir/layout/bank_conflicts.h"
#include "ir/layout/shared_layout.h"

namespace tegula::ir {

/// How the registers of a distributed layout travel.
enum class AccessForm : std::uint8_t {
  Vector,            ///< ld/st.shared of consecutive registers
  Matrix,            ///< ldmatrix, stmatrix
  MatrixTransposed,  ///< the same with .trans
};

struct ExchangeOptions {
  int max_vector_bytes = 16;
  bool stmatrix = true;  ///< sm_90 and later
  bool ldmatrix = true;
  int reads = 1;  ///< reads of every element for each write
};

/// A tile handed over through shared memory.
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

/// The cheapest exchange found. Offset bits are divided into vector bits (what one lane, or one row
/// of a matrix, covers), bank bits and segment bits. Two places collide when they differ by
/// segments only, so the segments are taken from a common complement of what writer and reader
/// access in one phase; such a complement exists, so the only conflicts left are those of vectors
/// that the other side scatters.
Result<SharedExchange> synthesize_exchange(const LinearLayout& writer, const LinearLayout& reader,
                                           int element_bytes, const ExchangeOptions& options = {});

}  // namespace tegula::ir
