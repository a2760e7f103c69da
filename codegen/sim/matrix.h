#pragma once
// Elements, fragments and shared-memory descriptors of the matrix units.
//
// Arithmetic: the products of one instruction (one k step) and the incoming accumulator are summed
// exactly (in double) and rounded once to the accumulator's type. The hardware rounds less exactly;
// integer data agree bit for bit.
#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/eval/cell.h"
#include "tegula/dtype.h"

namespace tegula::sim {

/// Interpretation of operands named by attrs a_type and b_type.
struct MatrixElem {
  int bytes = 0;
  bool integer = false;
  /// Decodes `count` consecutive elements.
  void (*decode)(const std::uint8_t* from, int count, double* to) = nullptr;
};
/// Throws InternalError if the name is not a matrix element type.
const MatrixElem& matrix_elem(std::string_view name);

/// Fields of a wgmma matrix descriptor, in bytes.
struct Descriptor {
  std::uint32_t address = 0, lbo = 0, sbo = 0, base_offset = 0;
  int swizzle = 0;

  static Descriptor decode(std::uint64_t bits);
  /// Returns the descriptor advanced by `bytes`, one k step.
  Descriptor advanced(std::int64_t bytes) const;
  /// Shared address of the 16 bytes that hold, K-major: k bytes [16 * chunk, +16) of row `mn`;
  /// MN-major: mn bytes [16 * chunk, +16) of row `k`. PTX ISA "Strides", CuTe's canonical layouts.
  std::uint32_t k_major(std::uint32_t mn, std::uint32_t chunk) const;
  std::uint32_t mn_major(std::uint32_t k, std::uint32_t chunk) const;

 private:
  std::uint32_t swizzled(std::uint32_t a) const;
};

std::uint64_t encode_descriptor(std::uint32_t address, std::int64_t lbo, std::int64_t sbo,
                                std::int64_t swizzle);

/// One operand of one instruction: `rows` rows (of M or N) with `depth` values along k.
struct Operand {
  int rows = 0, depth = 0;
  std::vector<double> value;         ///< [k][row], so that the inner loop runs along rows of B
  std::vector<std::uint8_t> poison;  ///< by row

  void reset(int r, int d) {
    rows = r;
    depth = d;
    value.assign(static_cast<std::size_t>(r * d), 0);
    poison.assign(static_cast<std::size_t>(r), 0);
  }
  double& at(int row, int k) { return value[static_cast<std::size_t>(k * rows + row)]; }
};

/// Reads the registers of a fragment: `regs` points to 32 cells of 32 bits per register. Register j
/// holds row g + 8 * (j & 1) for A (16 rows) or g for B (8 rows), and k = e * t + h + 4 * e * (j >>
/// 1 for A, j for B), with e elements per register.
void read_a_fragment(const ir::Cell* regs, const std::uint32_t* poison, int count,
                     const MatrixElem& elem, Operand& out);
void read_b_fragment(const ir::Cell* regs, const std::uint32_t* poison, int count,
                     const MatrixElem& elem, Operand& out);

/// acc (+)= a b for 16 rows of a and b.rows columns. Register r of lane 4g + t holds row g + 8 *
/// ((r >> 1) & 1), column 8 * (r >> 2) + 2t + (r & 1).
void multiply_accumulate(Operand& a, Operand& b, DType acc_type, bool keep, ir::Cell* acc,
                         std::uint32_t* poison);

}  // namespace tegula::sim
